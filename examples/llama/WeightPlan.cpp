//===- WeightPlan.cpp -----------------------------------------------------===//
#include "WeightPlan.h"

#include "Error.h"
#include "StoredWeight.h"
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
    placed.columns = spec.columns();
    placed.rows = spec.elements() / placed.columns;
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
    return add(std::move(matrix));
  }
  size_t add(PlannedMatrix matrix) {
    const WeightBytes bytes = matrix.bytes();
    matrix.data = take(bytes.data);
    matrix.scales = take(bytes.scales);
    matrix.zeros = take(bytes.zeros);
    made.matrices.push_back(std::move(matrix));
    return made.matrices.size() - 1;
  }
  size_t addVector(const WeightSpec &spec, WeightType type = WeightType::Bf16) {
    WeightFormat format;
    format.type = type;
    return add({whole(spec)}, spec.shape.front(), 1, format);
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
  /// The gate and up projections of an MLP, or of all experts.
  size_t addGateUp(const std::vector<MlpSpecs> &mlps) {
    std::vector<WeightSpec> specs;
    for (const MlpSpecs &mlp : mlps)
      specs.insert(specs.end(), {mlp.gate, mlp.up});
    std::vector<PlacedTensor> parts = stackedRows(specs);
    const WeightFormat format = formatOf(specs);
    if (format.type != WeightType::E4m3Blocks)
      for (size_t i = 1; i < parts.size(); i += 2) {
        parts[i].targetRow = parts[i - 1].targetRow + 1;
        parts[i - 1].rowStep = parts[i].rowStep = 2;
      }
    return addGroups(std::move(parts), mlps.size(), format);
  }
  /// The down projections likewise.
  size_t addDown(const std::vector<MlpSpecs> &mlps) {
    std::vector<WeightSpec> specs;
    std::vector<PlacedTensor> parts;
    for (const MlpSpecs &mlp : mlps) {
      specs.push_back(mlp.down);
      PlacedTensor part = ownColumns(mlp.down);
      part.targetRow = static_cast<int64_t>(parts.size()) * part.rows;
      parts.push_back(std::move(part));
    }
    return addGroups(std::move(parts), mlps.size(), formatOf(specs));
  }
  size_t addGroups(std::vector<PlacedTensor> parts, size_t groups,
                   const WeightFormat &format) {
    PlannedMatrix matrix;
    matrix.columns = parts[0].columns;
    for (const PlacedTensor &part : parts)
      matrix.rows += part.rows;
    matrix.groups = static_cast<int64_t>(groups);
    matrix.format = format;
    matrix.parts = std::move(parts);
    requireWholeBlocks(matrix, matrix.parts[0].spec);
    return add(std::move(matrix));
  }
  /// Blocks of scales, or of packed rows, are of one expert.
  static void requireWholeBlocks(const PlannedMatrix &matrix,
                                 const WeightSpec &spec) {
    const int64_t side = rowsOfBlock(matrix.format.type),
                  rows = matrix.rows / matrix.groups;
    if (matrix.groups > 1 && rows % side != 0)
      throw Error(moduleOf(spec.name) + ": experts of " + std::to_string(rows) +
                  " rows cannot be " + nameOf(matrix.format.type) +
                  ", whose blocks have " + std::to_string(side));
  }
  size_t addRouter(const WeightSpec &spec) {
    if (openWeight(model, source, spec)->format().type != WeightType::Bf16)
      throw Error(moduleOf(spec.name) +
                  " is quantised, which is not supported of a router");
    return add({whole(spec)}, spec.shape.front(), spec.columns());
  }
  /// Matrices [k, n] of all experts: as they are, or quantised rows [n, k].
  size_t addFused(const WeightSpec &spec) {
    const WeightFormat format = fusedFormat(model, source, spec);
    if (format.type == WeightType::Bf16)
      return addWhole(spec, true);
    PlannedMatrix matrix;
    PlacedTensor placed;
    placed.spec = spec;
    matrix.columns = placed.columns = spec.shape[1];
    matrix.rows = placed.rows = spec.elements() / matrix.columns;
    matrix.groups = spec.shape[0];
    matrix.format = format;
    matrix.parts = {placed};
    requireWholeBlocks(matrix, spec);
    return add(std::move(matrix));
  }
  /// A tensor of all experts, as it is.
  size_t addWhole(const WeightSpec &spec, bool isTransposed) {
    PlannedMatrix matrix;
    matrix.parts = {whole(spec)};
    matrix.rows = matrix.parts[0].rows;
    matrix.columns = matrix.parts[0].columns;
    matrix.groups = isTransposed ? spec.shape.front() : 1;
    matrix.isTransposed = isTransposed;
    return add(std::move(matrix));
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
    if (model.outputBias)
      layer.outputBias = addVector(specs.outputBias);
    if (model.hasSinks)
      layer.sinks = addVector(specs.sinks, WeightType::Fp32);
    layer.postNorm = addVector(specs.postNorm);
    if (model.hasExperts(index))
      layer.router = addRouter(specs.router);
    if (specs.fused) {
      planFused(specs, layer);
      return layer;
    }
    layer.gateUp = addGateUp(specs.mlps);
    layer.down = addDown(specs.mlps);
    return layer;
  }

  void planFused(const LayerSpecs &specs, PlannedLayer &layer) {
    const FusedSpecs &fused = *specs.fused;
    layer.routerBias = addVector(specs.routerBias, WeightType::Fp32);
    layer.gateUp = addFused(fused.gateUp);
    layer.gateUpBias = addWhole(fused.gateUpBias, false);
    layer.down = addFused(fused.down);
    layer.downBias = addWhole(fused.downBias, false);
  }

  const ModelConfig &model;
  const ModelConfig own;
  const WeightSource &source;
  const Shard shard;
  WeightPlan made;
};

} // namespace

WeightBytes PlannedMatrix::bytes() const {
  WeightBytes bytes = bytesOf(format, rows / groups, columns);
  for (uint64_t *part : {&bytes.data, &bytes.scales, &bytes.zeros})
    *part *= static_cast<uint64_t>(groups);
  return bytes;
}

std::vector<size_t> WeightPlan::productsOf(const PlannedLayer &layer) {
  std::vector<size_t> products = {layer.qkv, layer.output, layer.gateUp,
                                  layer.down};
  if (layer.router != PlannedLayer::kNone)
    products.push_back(layer.router);
  return products;
}

bool WeightPlan::hasProductOf(WeightType type) const {
  for (const PlannedLayer &layer : layers)
    for (const size_t product : productsOf(layer))
      if (matrices[product].format.type == type)
        return true;
  return false;
}

bool WeightPlan::hasPacked() const {
  return std::any_of(
      matrices.begin(), matrices.end(),
      [](const PlannedMatrix &matrix) { return isPacked(matrix.format.type); });
}

WeightPlan planWeights(const ModelConfig &model, const WeightSource &source,
                       const Shard &shard) {
  if (source.checkpoint)
    requireWeights(model, *source.checkpoint);
  return Planner(model, source, shard).plan();
}

} // namespace llama
