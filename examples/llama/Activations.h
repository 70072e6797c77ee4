//===- Activations.h - what passes between the calls of a step ------------===//
#ifndef KILN_EXAMPLES_LLAMA_ACTIVATIONS_H
#define KILN_EXAMPLES_LLAMA_ACTIVATIONS_H

#include "Gpu.h"
#include "ModelConfig.h"
#include "Pass.h"

namespace llama {

/// Owns the memory. Matrices are bf16 and have a row for each token of a step,
/// or, the last three, for each sequence.
struct Activations {
  Activations(const Gpu &gpu, const ModelConfig &model,
              const TransformerRoom &room);

  DeviceMemory hidden, normed;
  DeviceMemory heads; ///< q, k and v of a token
  DeviceMemory attended, inner;
  DeviceMemory lastRows; ///< of normed
  DeviceMemory logits;   ///< fp32
  DeviceMemory chosen;   ///< int32
  DeviceMemory table;    ///< of rotary angles, fp32 [positions][rotaryDim]
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_ACTIVATIONS_H
