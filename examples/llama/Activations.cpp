//===- Activations.cpp ----------------------------------------------------===//
#include "Activations.h"

#include "MemoryNeeds.h"
#include "RopeTable.h"

#include <algorithm>
#include <vector>

namespace llama {

static constexpr uint64_t kBf16 = 2; // bytes

Activations::Activations(const Gpu &gpu, const ModelConfig &model,
                         const WeightPlan &plan, int64_t ranks,
                         bool gathersLogits, const TransformerRoom &room) {
  auto make = [&](int64_t rows, int64_t columns, uint64_t element = kBf16) {
    DeviceMemory memory(gpu,
                        static_cast<uint64_t>(rows) *
                            static_cast<uint64_t>(columns) * element,
                        MemoryUse::Activations);
    memory.zero();
    return memory;
  };
  const int64_t tokens = room.step.tokens, sequences = room.step.sequences;
  hidden = make(tokens, model.hiddenSize);
  normed = make(tokens, model.hiddenSize);
  heads = make(tokens, model.qRows() + 2 * model.kvRows());
  attended = make(tokens, model.qRows());
  inner = make(tokens, innerRow(model));
  const bool hasBlocks = plan.hasProductOf(WeightType::E4m3Blocks);
  if (hasBlocks)
    gateUp = make(tokens, 2 * innerRow(model));
  if (hasBlocks || plan.hasProductOf(WeightType::E4m3Rows)) {
    const auto scalesOf = [&](int64_t columns) {
      return rowScales(hasBlocks, columns);
    };
    quantAttended = make(tokens, model.qRows(), 1);
    quantInner = make(tokens, innerRow(model), 1);
    normedScales = make(tokens, scalesOf(model.hiddenSize), sizeof(float));
    attendedScales = make(tokens, scalesOf(model.qRows()), sizeof(float));
    innerScales =
        make(tokens, innerScaleCount(model, hasBlocks), sizeof(float));
    if (model.experts.count > 0)
      quantNormed = make(tokens, model.hiddenSize, 1);
  }
  lastRows = make(sequences, model.hiddenSize);
  logits = make(sequences, model.vocabSize, sizeof(float));
  const int64_t ofRank = model.lmHeadRows();
  if (ofRank != model.vocabSize) {
    ownLogits = make(sequences, gathersLogits ? ofRank : model.vocabSize,
                     sizeof(float));
    if (gathersLogits)
      gatheredLogits = make(ranks * sequences, ofRank, sizeof(float));
  }
  chosen = make(sequences, 1, sizeof(int32_t));
  const std::vector<float> angles = ropeTable(model, room.positions);
  table = make(room.positions, model.rotaryDim, sizeof(float));
  table.upload(angles.data(), angles.size() * sizeof(float));
  if (const ExpertConfig &experts = model.experts; experts.count > 0) {
    const int64_t choices = tokens * experts.perToken;
    routing.logits = make(tokens, experts.count, sizeof(float));
    routing.index = make(choices, 1, sizeof(int32_t));
    routing.ends = make(experts.count, 1, sizeof(int32_t));
    routing.weights = make(choices, 1, sizeof(float));
    routing.results = make(choices, model.hiddenSize);
  }
}

bool readsQuantized(const Linear &weight) {
  return activationOf(weight.format.type) != ActivationType::Bf16;
}

Activation Activations::normedFor(const Linear &next) const {
  // One of all experts does not read what the norm writes.
  const bool isOfExperts = next.isOfExperts && readsQuantized(next);
  const DeviceMemory &x = isOfExperts ? quantNormed : normed;
  return {x.address(), activationOf(next.format.type), normedScales.address()};
}

Activation Activations::attendedFor(const Linear &next) const {
  const DeviceMemory &x = readsQuantized(next) ? quantAttended : attended;
  return {x.address(), activationOf(next.format.type),
          attendedScales.address()};
}

Activation Activations::innerFor(const Linear &next) const {
  const DeviceMemory &x = readsQuantized(next) ? quantInner : inner;
  return {x.address(), activationOf(next.format.type), innerScales.address()};
}

} // namespace llama
