//===- WeightNames.cpp - the tensors of a model ---------------------------===//
#include "WeightNames.h"

#include "Error.h"

#include <set>
#include <utility>

namespace llama {

namespace {

constexpr const char *kEmbedding = "model.embed_tokens.weight";
constexpr const char *kHead = "lm_head.weight";
constexpr size_t kMostFaultsShown = 10;

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (const int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

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

bool isIgnored(const ModelConfig &model, const std::string &name) {
  const std::string_view frequencies = ".rotary_emb.inv_freq";
  return (name == kHead && model.tieEmbeddings) ||
         (name.size() > frequencies.size() &&
          name.compare(name.size() - frequencies.size(), frequencies.size(),
                       frequencies) == 0);
}

} // namespace

int64_t WeightSpec::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape)
    product *= size;
  return product;
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
  return {kEmbedding, {model.vocabSize, model.hiddenSize}, WeightKind::Matrix};
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
    const auto found = checkpoint.tensors().find(spec.name);
    if (found == checkpoint.tensors().end()) {
      faults.push_back(spec.name + " is missing");
      continue;
    }
    const Tensor &tensor = found->second;
    if (tensor.shape != spec.shape)
      faults.push_back(spec.name + " has the shape " + shapeText(tensor.shape) +
                       ", expected " + shapeText(spec.shape));
    if (tensor.dtype != DType::BF16 && tensor.dtype != DType::F16 &&
        tensor.dtype != DType::F32)
      faults.push_back(spec.name + " has the type " +
                       std::string(nameOf(tensor.dtype)) +
                       ", expected BF16, F16 or F32");
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
