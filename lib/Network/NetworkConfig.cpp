//===- NetworkConfig.cpp - the shape of a language model ------------------===//
#include "Network/NetworkConfig.h"

#include "Network/ConfigKeys.h"
#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace kiln {

namespace {

// Bounds keep products of sizes far below 2^63. The largest published models
// have a quarter of each at most.
constexpr int64_t kMostHidden = 1 << 17;
constexpr int64_t kMostIntermediate = 1 << 20;
constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostHeads = 1024;
constexpr int64_t kMostHeadDim = 1024;
constexpr int64_t kMostVocab = 1 << 24;
constexpr int64_t kMostPositions = 1 << 28;
// The bounds of kiln_route.
constexpr int64_t kMostExperts = 1024;
constexpr int64_t kMostPerToken = 32;
/// Published files have up to 10 KB, with two lists of factors.
constexpr size_t kMostConfigBytes = 4 << 20;

struct KindName {
  NetworkKind kind;
  llvm::StringLiteral modelType, className;
};

constexpr KindName kKinds[] = {
    {NetworkKind::Llama, "llama", "LlamaForCausalLM"},
    {NetworkKind::Mistral, "mistral", "MistralForCausalLM"},
    {NetworkKind::Qwen2, "qwen2", "Qwen2ForCausalLM"},
    {NetworkKind::Qwen3, "qwen3", "Qwen3ForCausalLM"},
    {NetworkKind::Mixtral, "mixtral", "MixtralForCausalLM"},
    {NetworkKind::Qwen3Moe, "qwen3_moe", "Qwen3MoeForCausalLM"},
    {NetworkKind::GptOss, "gpt_oss", "GptOssForCausalLM"}};

} // namespace

/// The kind by model_type and architectures, of which one may be absent. A
/// classifier or an embedding model has the same model_type, but no head, so
/// the class counts where it is given.
static NetworkKind readKind(ConfigKeys &keys) {
  const llvm::StringRef modelType = keys.text("model_type");
  const llvm::StringRef className = keys.onlyText("architectures");
  for (const KindName &name : kKinds)
    if ((modelType.empty() || modelType == name.modelType) &&
        (className.empty() || className == name.className) &&
        !(modelType.empty() && className.empty()))
      return name.kind;
  std::string known;
  for (const KindName &name : kKinds)
    known += (known.empty() ? "" : ", ") + name.modelType.str();
  keys.refuse(modelType.empty() ? "architectures" : "model_type",
              "known are causal language models of " + known);
  return NetworkKind::Llama;
}

/// Keys that would change the problems. A part that no class here has may be
/// told to be absent: there are no shared experts, and one group of experts.
static void refuseOthers(ConfigKeys &keys) {
  for (const char *key : {"attn_logit_softcapping", "final_logit_softcapping",
                          "query_pre_attn_scalar", "no_rope_layers",
                          "dual_chunk_attention_config"})
    if (keys.find(key))
      keys.refuse(key, "which is not supported");
  for (const auto &[key, only] :
       {std::pair("n_group", 1), std::pair("topk_group", 1),
        std::pair("n_shared_experts", 0), std::pair("num_shared_experts", 0),
        std::pair("shared_expert_intermediate_size", 0)})
    if (const llvm::json::Value *value = keys.find(key);
        value && value->getAsInteger() != only)
      keys.refuse(key, fmt::format("only {} is supported", only));
  for (const char *key : {"use_mrope", "mlp_bias"})
    if (keys.boolean(key, false))
      keys.refuse(key, "which is not supported");
  const llvm::StringRef activation = keys.text("hidden_act");
  if (!activation.empty() && activation != "silu" && activation != "swish")
    keys.refuse("hidden_act", "only silu is supported");
}

static void readSizes(ConfigKeys &keys, NetworkConfig &config) {
  config.hiddenSize = keys.integer("hidden_size", 1, kMostHidden);
  config.layers = keys.integer("num_hidden_layers", 1, kMostLayers);
  config.heads = keys.integer("num_attention_heads", 1, kMostHeads);
  config.kvHeads =
      keys.integer("num_key_value_heads", 1, kMostHeads, config.heads);
  if (config.heads % config.kvHeads != 0)
    keys.refuse("num_key_value_heads",
                fmt::format("not a divisor of {} heads", config.heads));
  if (!keys.find("head_dim") && config.hiddenSize % config.heads != 0)
    keys.refuse("hidden_size",
                fmt::format("not a multiple of {} heads, and there is no "
                            "head_dim",
                            config.heads));
  config.headDim = keys.integer("head_dim", 2, kMostHeadDim,
                                config.hiddenSize / config.heads);
  config.vocabSize = keys.integer("vocab_size", 1, kMostVocab);
  config.maxPositions =
      keys.integer("max_position_embeddings", 1, kMostPositions);
  config.rmsNormEps = keys.number("rms_norm_eps", 0, 1);
}

/// The rotated part of a head: all of it, or a factor at either place where
/// transformers has written it.
static void readRotary(ConfigKeys &keys, NetworkConfig &config) {
  constexpr llvm::StringLiteral kKey = "partial_rotary_factor";
  double factor = keys.number(kKey, 0, 1, 1.0);
  for (const char *place : {"rope_parameters", "rope_scaling"})
    if (const llvm::json::Object *object = keys.object(place))
      factor = object->getNumber(kKey).value_or(factor);
  if (!(factor > 0 && factor <= 1)) {
    keys.refuse(kKey, fmt::format("and {} of a head would be rotated", factor));
    return;
  }
  config.rotaryDim =
      static_cast<int64_t>(static_cast<double>(config.headDim) * factor);
  if (config.rotaryDim < 2 || config.rotaryDim % 2 != 0)
    keys.refuse(kKey, fmt::format("and {} of {} elements of a head would be "
                                  "rotated, not an even number",
                                  config.rotaryDim, config.headDim));
}

/// Biases, and a SwiGLU with limits.
static void readGptOss(ConfigKeys &keys, NetworkExperts &experts) {
  experts.hasBias = true;
  experts.isClamped = true;
  for (const auto &[key, only] :
       {std::pair("swiglu_alpha", 1.702), std::pair("swiglu_limit", 7.0)})
    if (keys.number(key, 0, 1e6, only) != only)
      keys.refuse(key, fmt::format("only {} is supported", only));
}

/// The key of the number of experts. Files have either of the first two;
/// transformers 5 writes num_local_experts. The third is that of other classes:
/// it may agree, or say that there are none.
static const char *countKey(ConfigKeys &keys) {
  const char *plain = "num_experts", *local = "num_local_experts",
             *routed = "n_routed_experts";
  const char *used = keys.find(plain) ? plain : local;
  const llvm::json::Value *count = keys.find(used);
  for (const char *other : {local, routed}) {
    const llvm::json::Value *value = keys.find(other);
    if (!value || (other == routed && value->getAsInteger() == 0))
      continue;
    if (!count)
      keys.refuse(other, "which is not supported");
    else if (*value != *count)
      keys.refuse(used, fmt::format("but {} is {}", other, keys.shown(other)));
  }
  return used;
}

/// Classes without experts have none of their keys.
static void refuseExperts(ConfigKeys &keys) {
  countKey(keys);
  for (const char *key : {"num_experts", "num_local_experts",
                          "num_experts_per_tok", "moe_intermediate_size"})
    if (keys.find(key))
      keys.refuse(key, "which is not supported");
}

/// Layers of Qwen3-MoE: every decoder_sparse_step-th one has experts, except
/// for those of mlp_only_layers (modeling_qwen3_moe.py).
static std::vector<bool> sparseLayers(ConfigKeys &keys, int64_t layers) {
  constexpr llvm::StringLiteral kDense = "mlp_only_layers";
  const int64_t step = keys.integer("decoder_sparse_step", 1, INT32_MAX, 1);
  std::vector<bool> sparse;
  for (int64_t layer = 0; layer < layers; ++layer)
    sparse.push_back((layer + 1) % step == 0);
  const llvm::json::Array *dense = keys.array(kDense);
  if (!dense)
    return sparse;
  for (const llvm::json::Value &value : *dense) {
    const std::optional<int64_t> layer = value.getAsInteger();
    if (!layer || *layer < 0)
      keys.refuse(kDense, "expected numbers of layers");
    // Models with fewer layers than they were published with keep the list.
    else if (*layer < layers)
      sparse[static_cast<size_t>(*layer)] = false;
  }
  return sparse;
}

static void readExperts(ConfigKeys &keys, NetworkConfig &config) {
  NetworkExperts &experts = config.experts;
  auto readCount = [&](int64_t count, int64_t perToken) {
    experts.count = keys.integer(countKey(keys), 1, kMostExperts, count);
    experts.perToken = keys.integer("num_experts_per_tok", 1,
                                    std::min(experts.count, kMostPerToken),
                                    std::min(experts.count, perToken));
  };
  const bool isGptOss = config.kind == NetworkKind::GptOss;
  if (isGptOss || config.kind == NetworkKind::Mixtral) {
    readCount(isGptOss ? 128 : 8, isGptOss ? 4 : 2);
    experts.intermediateSize =
        keys.integer("intermediate_size", 1, kMostIntermediate);
    experts.layers.assign(static_cast<size_t>(config.layers), true);
    if (isGptOss)
      readGptOss(keys, experts);
    return;
  }
  config.intermediateSize =
      keys.integer("intermediate_size", 1, kMostIntermediate);
  if (config.kind != NetworkKind::Qwen3Moe)
    return refuseExperts(keys);
  readCount(128, 8);
  experts.normalizes = keys.boolean("norm_topk_prob", false);
  experts.intermediateSize =
      keys.integer("moe_intermediate_size", 1, kMostIntermediate, 768);
  experts.layers = sparseLayers(keys, config.layers);
}

/// The stored format of weights. Only that of gpt-oss' experts is known.
static void readQuantization(ConfigKeys &keys, NetworkConfig &config) {
  constexpr llvm::StringLiteral kKey = "quantization_config";
  if (!keys.find(kKey))
    return;
  const llvm::json::Object *object = keys.object(kKey);
  config.experts.isMxfp4 = config.kind == NetworkKind::GptOss && object &&
                           object->getString("quant_method") == "mxfp4";
  if (!config.experts.isMxfp4)
    keys.refuse(kKey, "which is not supported");
}

/// The window of transformers' configuration class; 0: it has none by default.
static int64_t defaultWindow(NetworkKind kind) {
  switch (kind) {
  case NetworkKind::Mistral:
  case NetworkKind::Qwen2:
  case NetworkKind::Qwen3:
  case NetworkKind::Qwen3Moe:
    return 4096;
  case NetworkKind::GptOss:
    return 128;
  case NetworkKind::Llama:
  case NetworkKind::Mixtral:
    break;
  }
  return 0;
}

/// Whether \p layer has the window, where layer_types does not say it.
static bool hasWindow(ConfigKeys &keys, NetworkKind kind, int64_t layer) {
  switch (kind) {
  case NetworkKind::Qwen2:
  case NetworkKind::Qwen3:
    // Layers from max_window_layers on have the window (configuration_qwen2.py,
    // whose default is 28).
    return keys.boolean("use_sliding_window", false) &&
           layer >= keys.integer("max_window_layers", 0, INT64_MAX, 28);
  case NetworkKind::Qwen3Moe:
    return keys.boolean("use_sliding_window", false);
  case NetworkKind::GptOss:
    return layer % 2 == 0;
  case NetworkKind::Llama:
  case NetworkKind::Mistral:
  case NetworkKind::Mixtral:
    break;
  }
  return true;
}

/// Which layers have a window, from layer_types.
static std::vector<bool> readLayerTypes(ConfigKeys &keys,
                                        const llvm::json::Array &types,
                                        int64_t layers) {
  constexpr llvm::StringLiteral kKey = "layer_types";
  if (static_cast<int64_t>(types.size()) != layers)
    keys.refuse(kKey, fmt::format("expected the types of {} layers", layers));
  std::vector<bool> windowed;
  for (const llvm::json::Value &type : types) {
    windowed.push_back(type.getAsString() == "sliding_attention");
    if (!windowed.back() && type.getAsString() != "full_attention")
      keys.refuse(kKey, "only full_attention and sliding_attention are "
                        "supported");
  }
  return windowed;
}

/// A window as long as the longest sequence hides no key.
static void readWindows(ConfigKeys &keys, NetworkConfig &config) {
  constexpr llvm::StringLiteral kKey = "sliding_window";
  int64_t window = 0;
  if (!keys.isNull(kKey))
    window = keys.integer(kKey, 0, INT64_MAX, defaultWindow(config.kind));
  if (window >= config.maxPositions)
    window = 0;
  std::vector<bool> windowed;
  if (const llvm::json::Array *types = keys.array("layer_types"))
    windowed = readLayerTypes(keys, *types, config.layers);
  else
    for (int64_t layer = 0; layer < config.layers; ++layer)
      windowed.push_back(hasWindow(keys, config.kind, layer));
  for (const bool has : windowed)
    if (!llvm::is_contained(config.windows, has ? window : 0))
      config.windows.push_back(has ? window : 0);
}

/// Biases and norms, of which some have no key.
static void readVariants(ConfigKeys &keys, NetworkConfig &config) {
  config.qkvBias = config.kind == NetworkKind::Qwen2;
  config.qkNorm =
      config.kind == NetworkKind::Qwen3 || config.kind == NetworkKind::Qwen3Moe;
  // These put it on q, k, v and o; the others do not read the key.
  const bool isGptOss = config.kind == NetworkKind::GptOss;
  config.outputBias =
      (isGptOss || config.qkNorm || config.kind == NetworkKind::Llama) &&
      keys.boolean("attention_bias", isGptOss);
  config.qkvBias |= config.outputBias;
  config.hasSinks = isGptOss;
}

bool NetworkConfig::hasExperts() const {
  return llvm::is_contained(experts.layers, true);
}

bool NetworkConfig::hasDenseLayers() const {
  return experts.layers.empty() || llvm::is_contained(experts.layers, false);
}

llvm::Expected<NetworkConfig> NetworkConfig::parse(llvm::StringRef json,
                                                   llvm::StringRef source) {
  auto parsed = parseJson(json, source, kMostConfigBytes);
  if (!parsed)
    return parsed.takeError();
  const llvm::json::Object *object = parsed->getAsObject();
  if (!object)
    return makeError(ErrorCode::InvalidArgument, "{}: expected an object",
                     source.str());
  ConfigKeys keys(*object, source);
  NetworkConfig config;
  config.kind = readKind(keys);
  refuseOthers(keys);
  readSizes(keys, config);
  readRotary(keys, config);
  readExperts(keys, config);
  readQuantization(keys, config);
  readWindows(keys, config);
  readVariants(keys, config);
  if (llvm::Error error = keys.takeError())
    return error;
  return config;
}

} // namespace kiln
