//===- WeightSource.h - where weights come from ---------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_WEIGHTSOURCE_H
#define KILN_EXAMPLES_LLAMA_WEIGHTSOURCE_H

#include "WeightFormat.h"

#include <cstdint>
#include <optional>

namespace llama {

class Checkpoint;

/// A checkpoint, or a seed, and the types that the weights get.
struct WeightSource {
  const Checkpoint *checkpoint = nullptr; ///< null: random weights
  uint64_t seed = 0;
  /// The type that weights of layers' products get. Nothing: they stay as a
  /// checkpoint has them.
  std::optional<WeightType> weights;
  bool hasE4m3Head = false; ///< lm_head becomes E4m3Packed.
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_WEIGHTSOURCE_H
