//===- DeviceWeights.cpp --------------------------------------------------===//
#include "DeviceWeights.h"

#include <utility>

namespace llama {

namespace {

/// The addresses of a plan whose first byte is at \p base.
class Addresses {
public:
  Addresses(const WeightPlan &plan, DeviceAddress base)
      : plan(plan), base(base) {}

  DeviceAddress vector(size_t index) const {
    return index == PlannedLayer::kNone ? 0 : base + plan.matrices[index].data;
  }
  Linear linear(size_t index) const {
    if (index == PlannedLayer::kNone)
      return {};
    const PlannedMatrix &matrix = plan.matrices[index];
    Linear linear;
    linear.rows = matrix.rows;
    linear.columns = matrix.columns;
    linear.groups = matrix.groups;
    linear.isTransposed = matrix.isTransposed;
    linear.format = matrix.format;
    linear.data = base + matrix.data;
    const WeightBytes bytes = matrix.bytes();
    linear.scales = bytes.scales ? base + matrix.scales : 0;
    linear.zeros = bytes.zeros ? base + matrix.zeros : 0;
    return linear;
  }
  LayerWeights layer(const PlannedLayer &planned) const {
    LayerWeights layer;
    layer.inputNorm = vector(planned.inputNorm);
    layer.qkv = linear(planned.qkv);
    layer.qkvBias = vector(planned.qkvBias);
    layer.qNorm = vector(planned.qNorm);
    layer.kNorm = vector(planned.kNorm);
    layer.output = linear(planned.output);
    layer.outputBias = vector(planned.outputBias);
    layer.postNorm = vector(planned.postNorm);
    layer.sinks = vector(planned.sinks);
    layer.router = linear(planned.router);
    layer.routerBias = vector(planned.routerBias);
    layer.gateUpBias = vector(planned.gateUpBias);
    layer.downBias = vector(planned.downBias);
    layer.gateUp = linear(planned.gateUp);
    layer.down = linear(planned.down);
    for (Linear *weight : {&layer.gateUp, &layer.down})
      weight->isOfExperts = layer.hasExperts();
    return layer;
  }

private:
  const WeightPlan &plan;
  DeviceAddress base;
};

} // namespace

DeviceWeights::DeviceWeights(const Gpu &gpu, WeightPlan plan,
                             WeightFiller &filler, const Progress &progress)
    : planned(std::move(plan)), memory(gpu, planned.bytes, MemoryUse::Weights) {
  const Addresses addresses(planned, memory.address());
  embed = addresses.vector(planned.embedding);
  norm = addresses.vector(planned.lastNorm);
  lmHead = addresses.linear(planned.head);
  for (const PlannedLayer &layer : planned.layers)
    layers.push_back(addresses.layer(layer));

  const auto all = static_cast<int64_t>(planned.matrices.size());
  for (int64_t i = 0; i < all; ++i) {
    filler.fill(planned.matrices[static_cast<size_t>(i)], memory.address());
    if (progress)
      progress(i + 1, all);
  }
  gpu.synchronize();
}

} // namespace llama
