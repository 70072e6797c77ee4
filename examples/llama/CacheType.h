//===- CacheType.h - how keys and values are stored -----------------------===//
#ifndef KILN_EXAMPLES_LLAMA_CACHETYPE_H
#define KILN_EXAMPLES_LLAMA_CACHETYPE_H

#include "ModelConfig.h"

#include <cstdint>
#include <vector>

namespace llama {

class Checkpoint;

enum class CacheType : uint8_t {
  Bf16,
  E4m3 ///< with one scale for the keys of a layer, and one for its values
};

/// Bytes of an element.
constexpr int64_t bytesOf(CacheType type) {
  return type == CacheType::E4m3 ? 1 : 2;
}

/// [layers][2]: the scales of keys and values that \p checkpoint has (k_scale
/// and v_scale, or kv_scale), 1 where it has none or is null. Throws Error for
/// a scale that is not a positive number.
std::vector<float> cacheScales(const ModelConfig &model,
                               const Checkpoint *checkpoint);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_CACHETYPE_H
