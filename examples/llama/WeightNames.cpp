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
  const auto projection = [&](WeightSpec &weight, WeightSpec &bias) {
    add(weight);
    if (model.qkvBias)
      add(bias);
  };
  add(all.inputNorm);
  projection(all.q, all.qBias);
  projection(all.k, all.kBias);
  projection(all.v, all.vBias);
  if (model.qkNorm) {
    add(all.qNorm);
    add(all.kNorm);
  }
  for (WeightSpec *spec :
       {&all.output, &all.postNorm, &all.gate, &all.up, &all.down})
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
        ".weight_g_idx", ".qweight", ".qzeros", ".scales", ".g_idx", ".k_scale",
        ".v_scale", ".q_scale", ".kv_scale", ".prob_scale"})
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

std::string layerWeight(int64_t layer, const char *part) {
  return "model.layers." + std::to_string(layer) + "." + part + ".weight";
}

LayerSpecs layerSpecs(const ModelConfig &model, int64_t layer) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const auto matrix = [&](const char *part, int64_t n, int64_t k) {
    return WeightSpec{layerWeight(layer, part), {n, k}, WeightKind::Matrix};
  };
  const auto norm = [&](const char *part, int64_t n) {
    return WeightSpec{layerWeight(layer, part), {n}, WeightKind::Norm};
  };
  const auto bias = [&](const char *part, int64_t n) {
    return WeightSpec{prefix + part + ".bias", {n}, WeightKind::Bias};
  };
  const int64_t hidden = model.hiddenSize, inner = model.intermediateSize;
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
  specs.postNorm = norm("post_attention_layernorm", hidden);
  specs.gate = matrix("mlp.gate_proj", inner, hidden);
  specs.up = matrix("mlp.up_proj", inner, hidden);
  specs.down = matrix("mlp.down_proj", hidden, inner);
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
    if (!known.count(name) && !isIgnored(model, name))
      faults.push_back(name + " is not a tensor of this model");
  return faults;
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
