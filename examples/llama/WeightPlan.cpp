//===- WeightPlan.cpp -----------------------------------------------------===//
#include "WeightPlan.h"

#include <utility>

namespace llama {

namespace {

constexpr uint64_t kAlignment = 256;

/// Appends matrices to a plan.
class Planner {
public:
  explicit Planner(const ModelConfig &model) : model(model) {}

  WeightPlan plan() {
    const int64_t hidden = model.hiddenSize;
    const WeightSpec embedding = embeddingSpec(model);
    made.embedding = add({whole(embedding)}, model.vocabSize, hidden);
    for (int64_t i = 0; i < model.layers; ++i)
      made.layers.push_back(planLayer(i));
    made.lastNorm = addVector({lastNormSpec(model)});
    made.head = made.embedding;
    if (!model.tieEmbeddings)
      made.head = add({whole(headSpec(model))}, model.vocabSize, hidden);
    return std::move(made);
  }

private:
  static PlacedTensor whole(const WeightSpec &spec, int64_t targetRow = 0,
                            int64_t rowStep = 1) {
    PlacedTensor placed;
    placed.spec = spec;
    placed.rows = spec.shape.front();
    placed.columns = placed.width();
    placed.targetRow = targetRow;
    placed.rowStep = rowStep;
    return placed;
  }
  /// One behind the other.
  static std::vector<PlacedTensor>
  stacked(const std::vector<WeightSpec> &specs) {
    std::vector<PlacedTensor> parts;
    int64_t row = 0;
    for (const WeightSpec &spec : specs) {
      parts.push_back(whole(spec, row));
      row += spec.shape.front();
    }
    return parts;
  }

  size_t add(std::vector<PlacedTensor> parts, int64_t rows, int64_t columns) {
    PlannedMatrix matrix;
    matrix.rows = rows;
    matrix.columns = columns;
    matrix.parts = std::move(parts);
    const WeightBytes bytes = bytesOf(matrix.format, rows, columns);
    matrix.data = take(bytes.data);
    matrix.scales = take(bytes.scales);
    matrix.zeros = take(bytes.zeros);
    made.matrices.push_back(std::move(matrix));
    return made.matrices.size() - 1;
  }
  size_t addVector(const std::vector<WeightSpec> &specs) {
    int64_t elements = 0;
    for (const WeightSpec &spec : specs)
      elements += spec.shape.front();
    return add(stacked(specs), elements, 1);
  }
  uint64_t take(uint64_t bytes) {
    const uint64_t at = made.bytes;
    made.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }

  PlannedLayer planLayer(int64_t index) {
    const LayerSpecs specs = layerSpecs(model, index);
    const int64_t hidden = model.hiddenSize, inner = model.intermediateSize;
    PlannedLayer layer;
    layer.inputNorm = addVector({specs.inputNorm});
    layer.qkv = add(stacked({specs.q, specs.k, specs.v}),
                    model.qRows() + 2 * model.kvRows(), hidden);
    if (model.qkvBias)
      layer.qkvBias = addVector({specs.qBias, specs.kBias, specs.vBias});
    if (model.qkNorm) {
      layer.qNorm = addVector({specs.qNorm});
      layer.kNorm = addVector({specs.kNorm});
    }
    layer.output = add({whole(specs.output)}, hidden, model.qRows());
    layer.postNorm = addVector({specs.postNorm});
    layer.gateUp = add({whole(specs.gate, 0, 2), whole(specs.up, 1, 2)},
                       2 * inner, hidden);
    layer.down = add({whole(specs.down)}, hidden, inner);
    return layer;
  }

  const ModelConfig &model;
  WeightPlan made;
};

} // namespace

WeightPlan planWeights(const ModelConfig &model) {
  return Planner(model).plan();
}

} // namespace llama
