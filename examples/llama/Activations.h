//===- Activations.h - what passes between the calls of a step ------------===//
#ifndef KILN_EXAMPLES_LLAMA_ACTIVATIONS_H
#define KILN_EXAMPLES_LLAMA_ACTIVATIONS_H

#include "Gpu.h"
#include "Linear.h"
#include "ModelConfig.h"
#include "Pass.h"
#include "WeightPlan.h"

namespace llama {

/// Owns the memory. Matrices have a row for each token of a step, or, from
/// lastRows on, for each sequence, and are bf16 until a comment says else.
/// Memory that no product of \p plan needs is not there.
struct Activations {
  /// \p model: the part of one of \p ranks, which either gather their logits or
  /// sum them.
  Activations(const Gpu &gpu, const ModelConfig &model, const WeightPlan &plan,
              int64_t ranks, bool gathersLogits, const TransformerRoom &room);

  DeviceMemory hidden;
  /// bf16, or e4m3 with scales. On several GPUs also the partial sums, which
  /// the next norm reads.
  DeviceMemory normed;
  DeviceMemory heads; ///< q, k and v of a token
  DeviceMemory attended;
  DeviceMemory inner;  ///< between gate and up, and down
  DeviceMemory gateUp; ///< gate, then up, of a token
  /// e4m3. That of normed is for experts, whose router reads bf16.
  DeviceMemory quantNormed, quantAttended, quantInner;
  DeviceMemory normedScales, attendedScales, innerScales; ///< fp32
  DeviceMemory lastRows;                                  ///< of normed
  DeviceMemory logits;                                    ///< fp32
  /// fp32 of this rank's tokens: alone, or where logits are summed, among zeros
  /// for the others'. None if the head has all tokens.
  DeviceMemory ownLogits;
  /// fp32 of all ranks, one behind the other, where logits are gathered.
  DeviceMemory gatheredLogits;
  DeviceMemory chosen; ///< int32
  DeviceMemory table;  ///< of rotary angles, fp32 [positions][rotaryDim]

  /// Rows of layers with experts. A choice is a token and one of its experts.
  struct Routing {
    DeviceMemory logits;  ///< fp32 [tokens][experts]
    DeviceMemory index;   ///< int32 [choices]: the choice of each sorted row
    DeviceMemory ends;    ///< int32 [experts]: the row behind those of each
    DeviceMemory weights; ///< fp32 [choices]
    DeviceMemory results; ///< [choices][hidden]
  };
  Routing routing;

  /// The rows that products with \p next read.
  Activation normedFor(const Linear &next) const;
  Activation attendedFor(const Linear &next) const;
  Activation innerFor(const Linear &next) const;
};

/// Whether products with \p weight read e4m3 activations.
bool readsQuantized(const Linear &weight);

/// \p call, a builder over rows, writes \p y. It may begin before the kernel
/// ahead has ended.
template <class Call> void writeTo(const Activation &y, Call &call) {
  call.y(reinterpret_cast<void *>(y.address)).dependent();
  auto *scales = reinterpret_cast<void *>(y.scales);
  if (y.type == ActivationType::E4m3Rows)
    call.quantized(KILN_E4M3, scales);
  else if (y.type == ActivationType::E4m3Blocks)
    call.blockQuantized(KILN_E4M3, scales);
}

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_ACTIVATIONS_H
