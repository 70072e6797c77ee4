//===- DeviceWeights.cpp --------------------------------------------------===//
#include "DeviceWeights.h"

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
    const PlannedMatrix &matrix = plan.matrices[index];
    Linear linear;
    linear.rows = matrix.rows;
    linear.columns = matrix.columns;
    linear.format = matrix.format;
    linear.data = base + matrix.data;
    const WeightBytes bytes =
        bytesOf(matrix.format, matrix.rows, matrix.columns);
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
    layer.postNorm = vector(planned.postNorm);
    layer.gateUp = linear(planned.gateUp);
    layer.down = linear(planned.down);
    return layer;
  }

private:
  const WeightPlan &plan;
  DeviceAddress base;
};

} // namespace

static WeightPlan planFor(const ModelConfig &model,
                          const WeightSource &source) {
  if (source.checkpoint)
    requireWeights(model, *source.checkpoint);
  return planWeights(model);
}

DeviceWeights::DeviceWeights(const Gpu &gpu, const ModelConfig &model,
                             const WeightSource &source,
                             const Progress &progress)
    : DeviceWeights(gpu, planFor(model, source), source, progress) {}

DeviceWeights::DeviceWeights(const Gpu &gpu, const WeightPlan &plan,
                             const WeightSource &source,
                             const Progress &progress)
    : memory(gpu, plan.bytes, MemoryUse::Weights) {
  const Addresses addresses(plan, memory.address());
  embed = addresses.vector(plan.embedding);
  norm = addresses.vector(plan.lastNorm);
  lmHead = addresses.linear(plan.head);
  for (const PlannedLayer &layer : plan.layers)
    layers.push_back(addresses.layer(layer));

  WeightFiller filler(gpu, source);
  const auto all = static_cast<int64_t>(plan.matrices.size());
  for (int64_t i = 0; i < all; ++i) {
    filler.fill(plan.matrices[static_cast<size_t>(i)], memory.address());
    if (progress)
      progress(i + 1, all);
  }
  gpu.synchronize();
}

} // namespace llama
