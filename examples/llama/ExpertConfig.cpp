//===- ExpertConfig.cpp ---------------------------------------------------===//
#include "ExpertConfig.h"

#include <algorithm>
#include <utility>

namespace llama {

namespace {

using Json = nlohmann::json;

constexpr int64_t kMostExpertInner = 1 << 20;

/// transformers 5 writes num_local_experts for every class; before it some had
/// num_experts. n_routed_experts is the key of other classes: it may agree, or
/// say that there are none.
const char *countKey(const ConfigReader &config) {
  const char *plain = "num_experts", *local = "num_local_experts",
             *routed = "n_routed_experts";
  const char *used = config.find(plain) ? plain : local;
  const Json *count = config.find(used);
  for (const char *other : {local, routed}) {
    const Json *value = config.find(other);
    if (!value || (other == routed && *value == 0))
      continue;
    if (!count)
      config.refuse(other, "which is not supported");
    if (*value != *count)
      config.refuse(used, "but " + std::string(other) + " is " + shown(*value));
  }
  return used;
}

/// A part that no supported class has may be told to be absent: there are no
/// shared experts, and one group of experts.
void refuseOthers(const ConfigReader &config) {
  for (const auto &[key, only] :
       {std::pair("shared_expert_intermediate_size", 0),
        std::pair("num_shared_experts", 0), std::pair("n_shared_experts", 0),
        std::pair("n_group", 1), std::pair("topk_group", 1)})
    if (config.find(key) && *config.find(key) != only)
      config.refuse(key, "only " + std::to_string(only) + " is supported");
}

/// Layers of Qwen3-MoE: every decoder_sparse_step-th one has experts, except
/// for those of mlp_only_layers (modeling_qwen3_moe.py).
std::vector<bool> sparseLayers(const ConfigReader &config, int64_t layers) {
  const int64_t step = config.integer("decoder_sparse_step", 1, INT32_MAX, 1);
  std::vector<bool> sparse;
  for (int64_t layer = 0; layer < layers; ++layer)
    sparse.push_back((layer + 1) % step == 0);
  const Json *dense = config.find("mlp_only_layers");
  if (!dense)
    return sparse;
  if (!dense->is_array())
    config.refuse("mlp_only_layers", "expected an array");
  for (const Json &layer : *dense) {
    if (!layer.is_number_integer() || layer < 0)
      config.refuse("mlp_only_layers", "expected numbers of layers");
    // Models with fewer layers than they were published with keep the list.
    if (layer < layers)
      sparse[layer.get<size_t>()] = false;
  }
  return sparse;
}

void readGptOss(const ConfigReader &config, ExpertConfig &experts) {
  experts.hasBias = true;
  experts.isClamped = true;
  for (const auto &[key, only] :
       {std::pair("swiglu_alpha", 1.702), std::pair("swiglu_limit", 7.0)})
    if (config.number(key, 0, 1e6).value_or(only) != only)
      config.refuse(key, "only " + Json(only).dump() + " is supported");
}

} // namespace

void readExperts(const ConfigReader &config, ModelConfig &model) {
  refuseOthers(config);
  ExpertConfig &experts = model.experts;
  const bool isQwen = model.architecture == Architecture::Qwen3Moe;
  const bool isGptOss = model.architecture == Architecture::GptOss;
  if (!isQwen && !isGptOss && model.architecture != Architecture::Mixtral) {
    countKey(config);
    for (const char *key : {"num_experts", "num_local_experts",
                            "num_experts_per_tok", "moe_intermediate_size"})
      if (config.find(key))
        config.refuse(key, "which is not supported");
    return;
  }
  // The defaults are those of transformers' configuration classes.
  const int64_t count = model.architecture == Architecture::Mixtral ? 8 : 128;
  const int64_t perToken = isQwen ? 8 : isGptOss ? 4 : 2;
  experts.count = config.integer(countKey(config), 1, kMostExperts, count);
  experts.perToken = config.integer("num_experts_per_tok", 1, kMostPerToken,
                                    std::min(perToken, experts.count));
  if (experts.perToken > experts.count)
    config.refuse("num_experts_per_tok",
                  "more than " + std::to_string(experts.count) + " experts");
  experts.innerSize =
      isQwen ? config.integer("moe_intermediate_size", 1, kMostExpertInner, 768)
             : model.intermediateSize;
  // Mixtral and gpt-oss have no key for it, and do.
  experts.normalizes = !isQwen || config.boolean("norm_topk_prob", false);
  experts.layers = isQwen ? sparseLayers(config, model.layers)
                          : std::vector<bool>(model.layers, true);
  if (isGptOss)
    readGptOss(config, experts);
}

} // namespace llama
