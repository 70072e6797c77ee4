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
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const auto matrix = [&](const char *part, int64_t n, int64_t k) {
    specs.push_back({layerWeight(layer, part), {n, k}, WeightKind::Matrix});
  };
  const auto norm = [&](const char *part, int64_t n) {
    specs.push_back({layerWeight(layer, part), {n}, WeightKind::Norm});
  };
  const auto projection = [&](const std::string &part, int64_t n) {
    matrix(part.c_str(), n, model.hiddenSize);
    if (model.qkvBias)
      specs.push_back({prefix + part + ".bias", {n}, WeightKind::Bias});
  };
  norm("input_layernorm", model.hiddenSize);
  projection("self_attn.q_proj", model.qRows());
  projection("self_attn.k_proj", model.kvRows());
  projection("self_attn.v_proj", model.kvRows());
  if (model.qkNorm) {
    norm("self_attn.q_norm", model.headDim);
    norm("self_attn.k_norm", model.headDim);
  }
  matrix("self_attn.o_proj", model.hiddenSize, model.qRows());
  norm("post_attention_layernorm", model.hiddenSize);
  matrix("mlp.gate_proj", model.intermediateSize, model.hiddenSize);
  matrix("mlp.up_proj", model.intermediateSize, model.hiddenSize);
  matrix("mlp.down_proj", model.hiddenSize, model.intermediateSize);
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

std::vector<WeightSpec> weightSpecs(const ModelConfig &model) {
  std::vector<WeightSpec> specs;
  specs.push_back(
      {kEmbedding, {model.vocabSize, model.hiddenSize}, WeightKind::Matrix});
  for (int64_t layer = 0; layer < model.layers; ++layer)
    addLayer(model, layer, specs);
  specs.push_back({"model.norm.weight", {model.hiddenSize}, WeightKind::Norm});
  if (!model.tieEmbeddings)
    specs.push_back(
        {kHead, {model.vocabSize, model.hiddenSize}, WeightKind::Matrix});
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
