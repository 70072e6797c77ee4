//===- WeightPlan.cpp -----------------------------------------------------===//
#include "WeightPlan.h"

#include "Error.h"
#include "WeightChoice.h"

#include <algorithm>
#include <string>
#include <utility>

namespace llama {

namespace {

constexpr uint64_t kAlignment = 256;

/// Appends matrices to a plan.
class Planner {
public:
  Planner(const ModelConfig &model, const WeightSource &source,
          const Shard &shard)
      : model(model), own(partOf(model, shard.count)), source(source),
        shard(shard) {}

  WeightPlan plan() {
    const int64_t hidden = model.hiddenSize;
    const WeightSpec embedding = embeddingSpec(model);
    made.embedding = add({whole(embedding)}, model.vocabSize, hidden);
    for (int64_t i = 0; i < model.layers; ++i)
      made.layers.push_back(planLayer(i));
    made.lastNorm = addVector(lastNormSpec(model));
    const WeightSpec head = model.tieEmbeddings ? embedding : headSpec(model);
    const WeightFormat format = divisible(headFormat(model, source, head));
    made.head = made.embedding;
    if (own.lmHeadRows() != model.vocabSize)
      made.head = add({ownRows(head)}, own.lmHeadRows(), hidden, format);
    else if (!model.tieEmbeddings || format.type != WeightType::Bf16)
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
  /// The part of this shard: every `count`-th share of rows, or of columns.
  PlacedTensor ownRows(const WeightSpec &spec, int64_t targetRow = 0,
                       int64_t rowStep = 1) const {
    PlacedTensor placed = whole(spec, targetRow, rowStep);
    placed.rows /= shard.count;
    placed.firstRow = shard.rank * placed.rows;
    return placed;
  }
  PlacedTensor ownColumns(const WeightSpec &spec) const {
    PlacedTensor placed = whole(spec);
    placed.columns /= shard.count;
    placed.firstColumn = shard.rank * placed.columns;
    return placed;
  }
  /// One behind the other.
  std::vector<PlacedTensor>
  stackedRows(const std::vector<WeightSpec> &specs) const {
    std::vector<PlacedTensor> parts;
    int64_t row = 0;
    for (const WeightSpec &spec : specs) {
      parts.push_back(ownRows(spec, row));
      row += parts.back().rows;
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
  size_t addVector(const WeightSpec &spec) {
    return add({whole(spec)}, spec.shape.front(), 1);
  }
  /// Throws Error unless weights of \p format can be divided as they are.
  WeightFormat divisible(const WeightFormat &format) const {
    if (!shard.isWhole() && format.type != WeightType::Bf16)
      throw Error("--tp divides bf16 weights alone, and these are " +
                  std::string(nameOf(format.type)));
    return format;
  }
  /// The format of a product with the rows of \p specs.
  WeightFormat formatOf(const std::vector<WeightSpec> &specs) const {
    return divisible(layerFormat(model, source, specs));
  }
  /// A product with this shard's rows of \p specs, one behind the other.
  size_t addRows(const std::vector<WeightSpec> &specs,
                 const WeightFormat &format = {}) {
    std::vector<PlacedTensor> parts = stackedRows(specs);
    const int64_t rows = parts.back().targetRow + parts.back().rows;
    return add(std::move(parts), rows, specs[0].columns(), format);
  }
  /// A product with this shard's columns of \p spec.
  size_t addColumns(const WeightSpec &spec) {
    const PlacedTensor part = ownColumns(spec);
    return add({part}, part.rows, part.columns, formatOf({spec}));
  }
  size_t addGateUp(const WeightSpec &gate, const WeightSpec &up) {
    const WeightFormat format = formatOf({gate, up});
    if (format.type == WeightType::E4m3Blocks)
      return addRows({gate, up}, format);
    return add({ownRows(gate, 0, 2), ownRows(up, 1, 2)},
               2 * own.intermediateSize, gate.columns(), format);
  }
  uint64_t take(uint64_t bytes) {
    const uint64_t at = made.bytes;
    made.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }

  PlannedLayer planLayer(int64_t index) {
    const LayerSpecs specs = layerSpecs(model, index);
    PlannedLayer layer;
    layer.inputNorm = addVector(specs.inputNorm);
    layer.qkv = addRows({specs.q, specs.k, specs.v},
                        formatOf({specs.q, specs.k, specs.v}));
    if (model.qkvBias)
      layer.qkvBias = addRows({specs.qBias, specs.kBias, specs.vBias});
    if (model.qkNorm) {
      layer.qNorm = addVector(specs.qNorm);
      layer.kNorm = addVector(specs.kNorm);
    }
    layer.output = addColumns(specs.output);
    layer.postNorm = addVector(specs.postNorm);
    layer.gateUp = addGateUp(specs.gate, specs.up);
    layer.down = addColumns(specs.down);
    return layer;
  }

  const ModelConfig &model;
  const ModelConfig own;
  const WeightSource &source;
  const Shard shard;
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

WeightPlan planWeights(const ModelConfig &model, const WeightSource &source,
                       const Shard &shard) {
  if (source.checkpoint)
    requireWeights(model, *source.checkpoint);
  return Planner(model, source, shard).plan();
}

} // namespace llama
