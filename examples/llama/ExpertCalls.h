//===- ExpertCalls.h - the experts of a layer as calls of Kiln ------------===//
//
// In a layer with experts (MoE) five launches take the place of the products of
// an MLP: the router's product; kiln_route, which chooses experts and sorts all
// choices by expert; gate and up with SwiGLU, and down, each a grouped GEMM of
// all experts; kiln_combine, the sum over a token's choices with the residual
// add and, where the next product reads bf16, the RMSNorm behind it. The number
// of rows of an expert is in device memory, so a CUDA graph serves every
// routing. So is the number of tokens: a padded batch reads no expert that only
// its padding would choose.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_EXPERTCALLS_H
#define KILN_EXAMPLES_LLAMA_EXPERTCALLS_H

#include "Activations.h"
#include "DeviceWeights.h"
#include "ModelConfig.h"
#include "StepInputs.h"

#include <kiln/kiln.hpp>
#include <kiln/moe.hpp>

#include <cstdint>

namespace llama {

/// The calls over the memory of an engine. Each may begin before the one ahead
/// has ended.
class ExpertCalls {
public:
  ExpertCalls(const ModelConfig &model, const StepInputs &inputs,
              const Activations &memory)
      : model(model), inputs(inputs), memory(memory) {}

  kiln::Gemm router(int64_t tokens, const LayerWeights &layer) const;
  kiln::Route route(int64_t tokens, const LayerWeights &layer) const;
  /// Before gateUp(), where readsQuantized() says so of its weight: the router
  /// reads bf16.
  kiln::Quantize quantizedNormed(int64_t tokens,
                                 const LayerWeights &layer) const;
  kiln::Gemm gateUp(int64_t tokens, const LayerWeights &layer) const;
  kiln::Gemm down(int64_t tokens, const LayerWeights &layer) const;
  /// Adds the results to the hidden rows. With a \p normWeight the RMSNorm of
  /// the sums becomes the normed rows, in bf16.
  kiln::Combine combine(int64_t tokens, DeviceAddress normWeight) const;

private:
  kiln::Gemm grouped(const Linear &weight, int64_t tokens, const Activation &x,
                     const DeviceMemory &y) const;

  const ModelConfig &model;
  const StepInputs &inputs;
  const Activations &memory;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_EXPERTCALLS_H
