//===- Activations.cpp ----------------------------------------------------===//
#include "Activations.h"

#include "RopeTable.h"

#include <vector>

namespace llama {

static constexpr uint64_t kBf16 = 2; // bytes

Activations::Activations(const Gpu &gpu, const ModelConfig &model,
                         const WeightPlan &plan, int64_t ranks,
                         const TransformerRoom &room) {
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
  inner = make(tokens, model.intermediateSize);
  const bool hasBlocks = plan.hasProductOf(WeightType::E4m3Blocks);
  if (hasBlocks)
    gateUp = make(tokens, 2 * model.intermediateSize);
  if (hasBlocks || plan.hasProductOf(WeightType::E4m3Rows)) {
    const auto makeScales = [&](int64_t columns) {
      const int64_t count =
          hasBlocks ? (columns + kScaleBlock - 1) / kScaleBlock : 1;
      return make(tokens, count, sizeof(float));
    };
    quantAttended = make(tokens, model.qRows(), 1);
    quantInner = make(tokens, model.intermediateSize, 1);
    normedScales = makeScales(model.hiddenSize);
    attendedScales = makeScales(model.qRows());
    innerScales = makeScales(model.intermediateSize);
  }
  lastRows = make(sequences, model.hiddenSize);
  logits = make(sequences, model.vocabSize, sizeof(float));
  if (model.lmHeadRows() != model.vocabSize) {
    ownLogits = make(sequences, model.lmHeadRows(), sizeof(float));
    gatheredLogits = make(ranks * sequences, model.lmHeadRows(), sizeof(float));
  }
  chosen = make(sequences, 1, sizeof(int32_t));
  const std::vector<float> angles = ropeTable(model, room.positions);
  table = make(room.positions, model.rotaryDim, sizeof(float));
  table.upload(angles.data(), angles.size() * sizeof(float));
}

} // namespace llama
