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

/// [layers][2]: the scales of keys and values in a cache of \p type. They are 1
/// in bf16, and where \p checkpoint, which may be null, has none. Names differ
/// between tools: k_scale and v_scale of self_attn or of k_proj and v_proj;
/// output_scale of k_proj and v_proj (compressed-tensors, Quark); kv_scale.
/// Throws Error for a scale that is not a positive number.
std::vector<float> cacheScales(const ModelConfig &model, CacheType type,
                               const Checkpoint *checkpoint);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_CACHETYPE_H
