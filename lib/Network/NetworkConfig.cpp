//===- NetworkConfig.cpp - the shape of a language model ------------------===//
#include "Network/NetworkConfig.h"

#include "Network/ConfigKeys.h"
#include "Support/Error.h"
#include "Support/Json.h"

#include <algorithm>
#include <optional>
#include <string>

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
    {NetworkKind::Qwen3Moe, "qwen3_moe", "Qwen3MoeForCausalLM"}};

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

/// Keys that would change the problems.
static void refuseOthers(ConfigKeys &keys) {
  for (const char *key :
       {"quantization_config", "attn_logit_softcapping",
        "final_logit_softcapping", "query_pre_attn_scalar", "no_rope_layers",
        "dual_chunk_attention_config", "n_shared_experts", "n_group"})
    if (keys.find(key))
      keys.refuse(key, "which is not supported");
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

static void readExperts(ConfigKeys &keys, NetworkConfig &config) {
  NetworkExperts &experts = config.experts;
  auto readPerToken = [&](std::optional<int64_t> otherwise) {
    experts.perToken =
        keys.integer("num_experts_per_tok", 1,
                     std::min(experts.count, kMostPerToken), otherwise);
  };
  if (config.kind == NetworkKind::Mixtral) {
    experts.count = keys.integer("num_local_experts", 1, kMostExperts, 8);
    readPerToken(2);
    experts.intermediateSize =
        keys.integer("intermediate_size", 1, kMostIntermediate);
    config.hasDenseLayers = false;
    return;
  }
  config.intermediateSize =
      keys.integer("intermediate_size", 1, kMostIntermediate);
  if (config.kind != NetworkKind::Qwen3Moe)
    return;
  // transformers 5 writes num_local_experts.
  experts.count = keys.integer(keys.find("num_experts") ? "num_experts"
                                                        : "num_local_experts",
                               1, kMostExperts);
  readPerToken(std::nullopt);
  experts.normalizes = keys.boolean("norm_topk_prob", false);
  experts.intermediateSize =
      keys.integer("moe_intermediate_size", 1, kMostIntermediate);
  // A layer is dense if it is listed, or if its number does not divide
  // (configuration_qwen3_moe.py).
  const llvm::json::Array *dense = keys.array("mlp_only_layers");
  config.hasDenseLayers =
      (dense && !dense->empty()) ||
      keys.integer("decoder_sparse_step", 1, kMostLayers, 1) > 1;
}

/// Refuses sliding windows that some layer would use. Configs that only name a
/// width for them pass.
static void refuseWindows(ConfigKeys &keys, const NetworkConfig &config) {
  if (const llvm::json::Array *types = keys.array("layer_types")) {
    for (const llvm::json::Value &type : *types)
      if (type.getAsString() != "full_attention")
        keys.refuse("layer_types", "only full_attention is supported");
    return;
  }
  const bool isQwen = config.kind == NetworkKind::Qwen2 ||
                      config.kind == NetworkKind::Qwen3 ||
                      config.kind == NetworkKind::Qwen3Moe;
  constexpr llvm::StringLiteral kKey = "sliding_window";
  const bool hasDefault = isQwen || config.kind == NetworkKind::Mistral;
  if (keys.isNull(kKey) || (!keys.find(kKey) && !hasDefault))
    return;
  // 4096 is the default of transformers' classes. A window as long as the
  // longest sequence hides no key.
  if (keys.integer(kKey, 0, INT64_MAX, 4096) >= config.maxPositions)
    return;
  // Layers from max_window_layers on have the window (configuration_qwen2.py,
  // whose default is 28).
  if (!isQwen ||
      (keys.boolean("use_sliding_window", false) &&
       keys.integer("max_window_layers", 0, INT64_MAX, 28) < config.layers))
    keys.refuse(kKey, "sliding windows are not supported");
}

/// Biases and norms, of which some have no key.
static void readVariants(ConfigKeys &keys, NetworkConfig &config) {
  config.qkvBias = config.kind == NetworkKind::Qwen2;
  config.qkNorm =
      config.kind == NetworkKind::Qwen3 || config.kind == NetworkKind::Qwen3Moe;
  // It would put a bias on o as well; Qwen2 and Mistral do not read the key.
  if (config.kind != NetworkKind::Qwen2 &&
      config.kind != NetworkKind::Mistral &&
      keys.boolean("attention_bias", false))
    keys.refuse("attention_bias", "which is not supported");
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
  refuseWindows(keys, config);
  readVariants(keys, config);
  if (llvm::Error error = keys.takeError())
    return error;
  return config;
}

} // namespace kiln
