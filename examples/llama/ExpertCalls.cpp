//===- ExpertCalls.cpp ----------------------------------------------------===//
#include "ExpertCalls.h"

#include "ExpertConfig.h"
#include "PassCalls.h"

namespace llama {

static_assert(kMostExperts == KILN_ROUTE_MAX_EXPERTS &&
                  kMostPerToken == KILN_ROUTE_MAX_TOP_K,
              "the config's bounds are not kiln_route's");

static void *at(DeviceAddress address) {
  return reinterpret_cast<void *>(address);
}

/// In fp32: rounding the logits to bf16 makes ties, and other choices.
kiln::Gemm ExpertCalls::router(int64_t tokens,
                               const LayerWeights &layer) const {
  kiln::Gemm call = layer.router.product(tokens, memory.normedFor(layer.router),
                                         memory.routing.logits.address());
  return call.outputType(KILN_FP32);
}

kiln::Route ExpertCalls::route(int64_t tokens,
                               const LayerWeights &layer) const {
  const ExpertConfig &experts = model.experts;
  const Activations::Routing &routing = memory.routing;
  kiln::Route call(KILN_FP32, tokens, experts.count, experts.perToken);
  call.logits(routing.logits.at<void>()).renormalize(experts.normalizes);
  call.rows(routing.index.at<int32_t>(), routing.ends.at<int32_t>(),
            routing.weights.at<float>());
  call.tokenCount(inputs.device().count);
  if (layer.routerBias)
    call.logitBias(reinterpret_cast<const float *>(layer.routerBias));
  return call.dependent();
}

kiln::Quantize ExpertCalls::quantizedNormed(int64_t tokens,
                                            const LayerWeights &layer) const {
  kiln::Quantize call(KILN_BF16, KILN_E4M3, tokens, model.hiddenSize);
  call.x(memory.normed.at<void>());
  writeTo(memory.normedFor(layer.gateUp), call);
  return call;
}

/// The products of all choices, each with the weight of its expert.
kiln::Gemm ExpertCalls::grouped(const Linear &weight, int64_t tokens,
                                const Activation &x,
                                const DeviceMemory &y) const {
  kiln::Gemm call =
      weight.product(tokens * model.experts.perToken, x, y.address());
  return call.groupsByEnds(memory.routing.ends.at<int32_t>());
}

kiln::Gemm ExpertCalls::gateUp(int64_t tokens,
                               const LayerWeights &layer) const {
  const DeviceMemory &y = isStacked(layer) ? memory.gateUp : memory.inner;
  kiln::Gemm call =
      grouped(layer.gateUp, tokens, memory.normedFor(layer.gateUp), y);
  call.gatherRows(memory.routing.index.at<int32_t>(), model.experts.perToken);
  if (layer.gateUpBias)
    call.bias(at(layer.gateUpBias), layer.gateUp.outputs());
  if (isStacked(layer))
    return call;
  return model.experts.isClamped ? call.swiGluClamped() : call.swiGlu();
}

kiln::Gemm ExpertCalls::down(int64_t tokens, const LayerWeights &layer) const {
  kiln::Gemm call = grouped(layer.down, tokens, memory.innerFor(layer.down),
                            memory.routing.results);
  if (layer.downBias)
    call.bias(at(layer.downBias), layer.down.outputs());
  call.scatterRows(memory.routing.index.at<int32_t>());
  return call.rowWeights(memory.routing.weights.at<float>());
}

kiln::Combine ExpertCalls::combine(int64_t tokens,
                                   DeviceAddress normWeight) const {
  kiln::Combine call(KILN_BF16, tokens, model.hiddenSize,
                     model.experts.perToken);
  call.x(memory.routing.results.at<void>()).dependent();
  call.weights(memory.routing.weights.at<float>()); // padding has no rows of x
  void *hidden = memory.hidden.at<void>();
  if (!normWeight)
    return call.residual(hidden).y(hidden);
  call.residual(hidden, hidden).y(memory.normed.at<void>());
  call.norm(at(normWeight), model.rmsNormEps);
  call.get().norm_weight.flags = KILN_OPERAND_CONSTANT;
  return call;
}

} // namespace llama
