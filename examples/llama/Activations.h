//===- Activations.h - what passes between the calls of a step ------------===//
#ifndef KILN_EXAMPLES_LLAMA_ACTIVATIONS_H
#define KILN_EXAMPLES_LLAMA_ACTIVATIONS_H

#include "Gpu.h"
#include "ModelConfig.h"
#include "Pass.h"
#include "WeightPlan.h"

namespace llama {

/// Owns the memory. Matrices have a row for each token of a step, or, from
/// lastRows on, for each sequence, and are bf16 until a comment says else.
/// Memory that no product of \p plan needs is not there.
struct Activations {
  /// \p model: the part of one of \p ranks.
  Activations(const Gpu &gpu, const ModelConfig &model, const WeightPlan &plan,
              int64_t ranks, const TransformerRoom &room);

  DeviceMemory hidden;
  DeviceMemory normed; ///< bf16, or e4m3 with scales
  DeviceMemory heads;  ///< q, k and v of a token
  DeviceMemory attended, inner;
  DeviceMemory gateUp;                    ///< gate, then up, of a token
  DeviceMemory quantAttended, quantInner; ///< e4m3
  DeviceMemory normedScales, attendedScales, innerScales; ///< fp32
  DeviceMemory lastRows;                                  ///< of normed
  DeviceMemory logits;                                    ///< fp32
  /// fp32 of this rank's tokens, and of all ranks one behind the other; none if
  /// the head has all tokens.
  DeviceMemory ownLogits, gatheredLogits;
  DeviceMemory chosen; ///< int32
  DeviceMemory table;  ///< of rotary angles, fp32 [positions][rotaryDim]
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_ACTIVATIONS_H
