//===- WeightNames.cpp - the tensors of a model ---------------------------===//
#include "WeightNames.h"

#include "Error.h"
#include "StoredWeight.h"

#include <set>
#include <utility>

namespace llama {

namespace {

constexpr const char *kEmbedding = "model.embed_tokens.weight";
constexpr const char *kHead = "lm_head.weight";
constexpr size_t kMostFaultsShown = 10;

void addLayer(const ModelConfig &model, int64_t layer,
              std::vector<WeightSpec> &specs) {
  LayerSpecs all = layerSpecs(model, layer);
  const auto add = [&](WeightSpec &spec) { specs.push_back(std::move(spec)); };
  const auto projection = [&](WeightSpec &weight, WeightSpec &bias,
                              bool hasBias) {
    add(weight);
    if (hasBias)
      add(bias);
  };
  add(all.inputNorm);
  projection(all.q, all.qBias, model.qkvBias);
  projection(all.k, all.kBias, model.qkvBias);
  projection(all.v, all.vBias, model.qkvBias);
  if (model.qkNorm) {
    add(all.qNorm);
    add(all.kNorm);
  }
  projection(all.output, all.outputBias, model.outputBias);
  if (model.hasSinks)
    add(all.sinks);
  add(all.postNorm);
  if (model.hasExperts(layer))
    projection(all.router, all.routerBias, model.experts.hasBias);
  for (MlpSpecs &mlp : all.mlps)
    for (WeightSpec *spec : {&mlp.gate, &mlp.up, &mlp.down})
      add(*spec);
  if (FusedSpecs *fused = all.fused ? &*all.fused : nullptr)
    for (WeightSpec *spec :
         {&fused->gateUp, &fused->gateUpBias, &fused->down, &fused->downBias})
      add(*spec);
}

bool endsWith(const std::string &text, std::string_view end) {
  return text.size() > end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// Tensors beside quantised weights, which StoredWeight.h reads where the
/// engine needs them.
bool isOfQuantization(const std::string &name) {
  for (const char *end :
       {".weight_scale", ".weight_scale_inv", ".input_scale", ".output_scale",
        ".weight_packed", ".weight_zero_point", ".weight_shape",
        ".weight_g_idx", ".qweight", ".qzeros", ".scales", ".g_idx", "_blocks",
        "_scales", ".k_scale", ".v_scale", ".q_scale", ".kv_scale",
        ".prob_scale"})
    if (endsWith(name, end))
      return true;
  return false;
}

bool isIgnored(const ModelConfig &model, const std::string &name) {
  return (name == kHead && model.tieEmbeddings) ||
         endsWith(name, ".rotary_emb.inv_freq") ||
         (model.quantization.method != QuantMethod::None &&
          isOfQuantization(name));
}

/// AutoGPTQ writes a bias for every module that it quantises: zeros where the
/// class has none. Another one would change the results.
bool isZeroBias(const ModelConfig &model, const Checkpoint &checkpoint,
                const std::string &name, const Tensor &tensor) {
  if (model.quantization.method != QuantMethod::Gptq ||
      !endsWith(name, ".bias") || !isFloat(tensor.dtype) ||
      !checkpoint.has(moduleOf(name) + ".qweight"))
    return false;
  for (int64_t i = 0; i < tensor.elements(); ++i)
    if (elementOf(tensor.dtype, tensor.data, i) != 0)
      return false;
  return true;
}

} // namespace

int64_t WeightSpec::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape)
    product *= size;
  return product;
}

int64_t WeightSpec::columns() const {
  return shape.size() > 1 ? shape.back() : 1;
}

std::string moduleOf(const std::string &name) {
  return name.substr(0, name.rfind('.'));
}

std::string layerTensor(int64_t layer, const std::string &name) {
  return "model.layers." + std::to_string(layer) + "." + name;
}

std::string layerWeight(int64_t layer, const std::string &part) {
  return layerTensor(layer, part + ".weight");
}

std::string ExpertParts::of(int64_t index, const char *part) const {
  return std::string(experts) + "." + std::to_string(index) + "." + part;
}

ExpertParts expertParts(Architecture architecture) {
  if (architecture == Architecture::Mixtral)
    return {"block_sparse_moe.gate", "block_sparse_moe.experts", "w1", "w3",
            "w2"};
  if (architecture == Architecture::GptOss)
    return {"mlp.router", "mlp.experts", nullptr, nullptr, nullptr};
  return {"mlp.gate", "mlp.experts", "gate_proj", "up_proj", "down_proj"};
}

/// The MLPs of a layer: one, or one of each expert.
static std::vector<MlpSpecs> mlpSpecs(const ModelConfig &model, int64_t layer) {
  const auto mlp = [&](const std::string &gate, const std::string &up,
                       const std::string &down, int64_t inner) {
    const int64_t hidden = model.hiddenSize;
    const auto matrix = [&](const std::string &part, int64_t n, int64_t k) {
      return WeightSpec{layerWeight(layer, part), {n, k}, WeightKind::Matrix};
    };
    return MlpSpecs{matrix(gate, inner, hidden), matrix(up, inner, hidden),
                    matrix(down, hidden, inner)};
  };
  if (!model.hasExperts(layer))
    return {mlp("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
                model.intermediateSize)};
  const ExpertParts parts = expertParts(model.architecture);
  std::vector<MlpSpecs> mlps;
  for (int64_t i = 0; i < model.experts.count; ++i)
    mlps.push_back(mlp(parts.of(i, parts.gate), parts.of(i, parts.up),
                       parts.of(i, parts.down), model.experts.innerSize));
  return mlps;
}

static FusedSpecs fusedSpecs(const ModelConfig &model, int64_t layer) {
  const auto spec = [&](const std::string &part, std::vector<int64_t> shape,
                        WeightKind kind) {
    return WeightSpec{layerTensor(layer, "mlp.experts." + part),
                      std::move(shape), kind};
  };
  const int64_t count = model.experts.count, hidden = model.hiddenSize,
                inner = model.experts.innerSize;
  return {spec("gate_up_proj", {count, hidden, 2 * inner}, WeightKind::Matrix),
          spec("gate_up_proj_bias", {count, 2 * inner}, WeightKind::Bias),
          spec("down_proj", {count, inner, hidden}, WeightKind::Matrix),
          spec("down_proj_bias", {count, hidden}, WeightKind::Bias)};
}

LayerSpecs layerSpecs(const ModelConfig &model, int64_t layer) {
  const auto matrix = [&](const char *part, int64_t n, int64_t k) {
    return WeightSpec{layerWeight(layer, part), {n, k}, WeightKind::Matrix};
  };
  const auto norm = [&](const char *part, int64_t n) {
    return WeightSpec{layerWeight(layer, part), {n}, WeightKind::Norm};
  };
  const auto bias = [&](const std::string &part, int64_t n) {
    return WeightSpec{
        layerTensor(layer, part + ".bias"), {n}, WeightKind::Bias};
  };
  const int64_t hidden = model.hiddenSize;
  const int64_t q = model.qRows(), kv = model.kvRows();
  LayerSpecs specs;
  specs.inputNorm = norm("input_layernorm", hidden);
  specs.q = matrix("self_attn.q_proj", q, hidden);
  specs.k = matrix("self_attn.k_proj", kv, hidden);
  specs.v = matrix("self_attn.v_proj", kv, hidden);
  specs.qBias = bias("self_attn.q_proj", q);
  specs.kBias = bias("self_attn.k_proj", kv);
  specs.vBias = bias("self_attn.v_proj", kv);
  specs.qNorm = norm("self_attn.q_norm", model.headDim);
  specs.kNorm = norm("self_attn.k_norm", model.headDim);
  specs.output = matrix("self_attn.o_proj", hidden, q);
  specs.outputBias = bias("self_attn.o_proj", hidden);
  specs.postNorm = norm("post_attention_layernorm", hidden);
  specs.router = matrix(expertParts(model.architecture).router,
                        model.experts.count, hidden);
  specs.routerBias =
      bias(expertParts(model.architecture).router, model.experts.count);
  specs.sinks = {
      layerTensor(layer, "self_attn.sinks"), {model.heads}, WeightKind::Bias};
  if (model.architecture == Architecture::GptOss)
    specs.fused = fusedSpecs(model, layer);
  else
    specs.mlps = mlpSpecs(model, layer);
  return specs;
}

WeightSpec embeddingSpec(const ModelConfig &model) {
  return {
      kEmbedding, {model.vocabSize, model.hiddenSize}, WeightKind::Embedding};
}

WeightSpec lastNormSpec(const ModelConfig &model) {
  return {"model.norm.weight", {model.hiddenSize}, WeightKind::Norm};
}

WeightSpec headSpec(const ModelConfig &model) {
  return {kHead, {model.vocabSize, model.hiddenSize}, WeightKind::Matrix};
}

std::vector<WeightSpec> weightSpecs(const ModelConfig &model) {
  std::vector<WeightSpec> specs = {embeddingSpec(model)};
  for (int64_t layer = 0; layer < model.layers; ++layer)
    addLayer(model, layer, specs);
  specs.push_back(lastNormSpec(model));
  if (!model.tieEmbeddings)
    specs.push_back(headSpec(model));
  return specs;
}

RandomScale randomScale(WeightKind kind) {
  switch (kind) {
  case WeightKind::Matrix:
  case WeightKind::Embedding:
    return randomScale(0.02, 0);
  case WeightKind::Norm:
    return randomScale(0.1, 1);
  case WeightKind::Bias:
    return randomScale(0.1, 0);
  }
  return {};
}

std::vector<std::string> checkWeights(const ModelConfig &model,
                                      const Checkpoint &checkpoint) {
  std::vector<std::string> faults;
  std::set<std::string> known;
  for (const WeightSpec &spec : weightSpecs(model)) {
    known.insert(spec.name);
    findStored(model, checkpoint, spec, faults);
  }
  for (const auto &[name, tensor] : checkpoint.tensors())
    if (!known.count(name) && !isIgnored(model, name) &&
        !isZeroBias(model, checkpoint, name, tensor))
      faults.push_back(name + " is not a tensor of this model");
  return faults;
}

namespace {

/// Rows [first, first + rows) of a tensor whose last extent is `columns`.
Tensor rowsOf(const Tensor &tensor, int64_t first, int64_t rows,
              int64_t columns) {
  const uint64_t rowBytes =
      static_cast<uint64_t>(columns) * bitsOf(tensor.dtype) / 8;
  return {tensor.dtype,
          {rows, columns},
          tensor.data + static_cast<uint64_t>(first) * rowBytes,
          static_cast<uint64_t>(rows) * rowBytes};
}

void requireShape(const Checkpoint &checkpoint, const std::string &name,
                  const std::vector<int64_t> &shape) {
  const Tensor &tensor = checkpoint.tensor(name);
  if (tensor.shape != shape)
    throw Error(checkpoint.path() + ": " + name + " has the shape " +
                shapeText(tensor.shape) + ", expected " + shapeText(shape));
}

/// Replaces `name`, which has a matrix of each expert, if it is there.
void splitTensor(const ModelConfig &model, int64_t layer,
                 const std::string &name, const std::vector<const char *> &to,
                 const std::vector<int64_t> &matrix, Checkpoint &checkpoint) {
  const ExpertConfig &experts = model.experts;
  const auto count = static_cast<int64_t>(to.size());
  const int64_t rows = matrix[0], columns = matrix[1];
  requireShape(checkpoint, name, {experts.count, count * rows, columns});
  const Tensor whole = checkpoint.take(name);
  const ExpertParts parts = expertParts(model.architecture);
  int64_t first = 0;
  for (int64_t expert = 0; expert < experts.count; ++expert)
    for (const char *part : to) {
      checkpoint.put(layerWeight(layer, parts.of(expert, part)),
                     rowsOf(whole, first, rows, columns));
      first += rows;
    }
}

} // namespace

void splitExperts(const ModelConfig &model, Checkpoint &checkpoint) {
  const ExpertParts parts = expertParts(model.architecture);
  if (!parts.gate)
    return;
  const int64_t inner = model.experts.innerSize, hidden = model.hiddenSize;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    if (!model.hasExperts(layer))
      continue;
    const std::string gateUp = layerTensor(layer, "mlp.experts.gate_up_proj"),
                      down = layerTensor(layer, "mlp.experts.down_proj"),
                      router = layerWeight(layer, "mlp.gate");
    if (checkpoint.has(gateUp))
      splitTensor(model, layer, gateUp, {parts.gate, parts.up}, {inner, hidden},
                  checkpoint);
    if (checkpoint.has(down))
      splitTensor(model, layer, down, {parts.down}, {hidden, inner},
                  checkpoint);
    if (checkpoint.has(router))
      checkpoint.put(layerWeight(layer, parts.router), checkpoint.take(router));
  }
}

void requireWeights(const ModelConfig &model, const Checkpoint &checkpoint) {
  const auto faults = checkWeights(model, checkpoint);
  if (faults.empty())
    return;
  std::string message = checkpoint.path() + ":";
  for (size_t i = 0; i < faults.size() && i < kMostFaultsShown; ++i)
    message += (i ? "; " : " ") + faults[i];
  if (faults.size() > kMostFaultsShown)
    message += "; and " + std::to_string(faults.size() - kMostFaultsShown) +
               " more faults";
  throw Error(message);
}

} // namespace llama
