//===- WeightPlan.cpp -----------------------------------------------------===//
#include "WeightPlan.h"

#include "WeightChoice.h"

#include <algorithm>
#include <utility>

namespace llama {

namespace {

constexpr uint64_t kAlignment = 256;

/// Appends matrices to a plan.
class Planner {
public:
  Planner(const ModelConfig &model, const WeightSource &source)
      : model(model), source(source) {}

  WeightPlan plan() {
    const int64_t hidden = model.hiddenSize;
    const WeightSpec embedding = embeddingSpec(model);
    made.embedding = add({whole(embedding)}, model.vocabSize, hidden);
    for (int64_t i = 0; i < model.layers; ++i)
      made.layers.push_back(planLayer(i));
    made.lastNorm = addVector({lastNormSpec(model)});
    const WeightSpec head = model.tieEmbeddings ? embedding : headSpec(model);
    const WeightFormat format = headFormat(model, source, head);
    made.head = made.embedding;
    if (!model.tieEmbeddings || format.type != WeightType::Bf16)
      made.head = add({whole(head)}, model.vocabSize, hidden, format);
    return std::move(made);
  }

private:
  static PlacedTensor whole(const WeightSpec &spec, int64_t targetRow = 0,
                            int64_t rowStep = 1) {
    PlacedTensor placed;
    placed.spec = spec;
    placed.rows = spec.shape.front();
    placed.columns = spec.columns();
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

  size_t add(std::vector<PlacedTensor> parts, int64_t rows, int64_t columns,
             const WeightFormat &format = {}) {
    PlannedMatrix matrix;
    matrix.format = format;
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
    return addProduct(specs, {});
  }
  size_t addProduct(const std::vector<WeightSpec> &specs,
                    const WeightFormat &format) {
    int64_t rows = 0;
    for (const WeightSpec &spec : specs)
      rows += spec.shape.front();
    return add(stacked(specs), rows, specs[0].columns(), format);
  }
  size_t addGateUp(const WeightSpec &gate, const WeightSpec &up) {
    const WeightFormat format = layerFormat(model, source, {gate, up});
    if (format.type == WeightType::E4m3Blocks)
      return addProduct({gate, up}, format);
    return add({whole(gate, 0, 2), whole(up, 1, 2)}, 2 * gate.shape.front(),
               gate.columns(), format);
  }
  uint64_t take(uint64_t bytes) {
    const uint64_t at = made.bytes;
    made.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }

  PlannedLayer planLayer(int64_t index) {
    const LayerSpecs specs = layerSpecs(model, index);
    PlannedLayer layer;
    layer.inputNorm = addVector({specs.inputNorm});
    const auto product = [&](const std::vector<WeightSpec> &parts) {
      return addProduct(parts, layerFormat(model, source, parts));
    };
    layer.qkv = product({specs.q, specs.k, specs.v});
    if (model.qkvBias)
      layer.qkvBias = addVector({specs.qBias, specs.kBias, specs.vBias});
    if (model.qkNorm) {
      layer.qNorm = addVector({specs.qNorm});
      layer.kNorm = addVector({specs.kNorm});
    }
    layer.output = product({specs.output});
    layer.postNorm = addVector({specs.postNorm});
    layer.gateUp = addGateUp(specs.gate, specs.up);
    layer.down = product({specs.down});
    return layer;
  }

  const ModelConfig &model;
  const WeightSource &source;
  WeightPlan made;
};

} // namespace

bool WeightPlan::hasProductOf(WeightType type) const {
  for (const PlannedLayer &layer : layers)
    for (const size_t product : productsOf(layer))
      if (matrices[product].format.type == type)
        return true;
  return false;
}

bool WeightPlan::hasPacked() const {
  return std::any_of(matrices.begin(), matrices.end(),
                     [](const PlannedMatrix &matrix) {
                       return matrix.format.type == WeightType::E4m3Packed ||
                              matrix.format.type == WeightType::Int4;
                     });
}

WeightPlan planWeights(const ModelConfig &model, const WeightSource &source) {
  if (source.checkpoint)
    requireWeights(model, *source.checkpoint);
  return Planner(model, source).plan();
}

} // namespace llama
