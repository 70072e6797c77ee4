//===- ModelConfig.cpp - the shape of a model, from its config.json -------===//
#include "ModelConfig.h"

#include "ConfigReader.h"
#include "Error.h"
#include "ExpertConfig.h"
#include "RopeConfig.h"

#include <filesystem>
#include <system_error>
#include <utility>

namespace llama {

namespace {

using Json = nlohmann::json;

// Bounds keep products of sizes far below 2^63. The largest published dense
// models have a quarter of each at most.
constexpr int64_t kMostHidden = 1 << 17;
constexpr int64_t kMostIntermediate = 1 << 20;
constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostHeads = 1024;
constexpr int64_t kMostHeadDim = 1024;
constexpr int64_t kMostVocab = 1 << 24;
constexpr int64_t kMostPositions = 1 << 28;
/// Published files have up to 10 KB, longrope's with two lists of factors.
constexpr uint64_t kMostConfigBytes = 4 << 20;

struct ArchitectureName {
  Architecture architecture;
  const char *modelType;
  const char *className;
};

constexpr ArchitectureName kArchitectures[] = {
    {Architecture::Llama, "llama", "LlamaForCausalLM"},
    {Architecture::Mistral, "mistral", "MistralForCausalLM"},
    {Architecture::Qwen2, "qwen2", "Qwen2ForCausalLM"},
    {Architecture::Qwen3, "qwen3", "Qwen3ForCausalLM"},
    {Architecture::Mixtral, "mixtral", "MixtralForCausalLM"},
    {Architecture::Qwen3Moe, "qwen3_moe", "Qwen3MoeForCausalLM"},
    {Architecture::GptOss, "gpt_oss", "GptOssForCausalLM"}};

/// The architecture by model_type and architectures, of which one may be
/// absent. A classifier or an embedding model has the same model_type, but no
/// lm_head, so the class counts where it is given.
Architecture readArchitecture(const ConfigReader &config) {
  const std::string modelType = config.text("model_type");
  const Json *classes = config.find("architectures");
  if (modelType.empty() && !classes)
    config.refuse("model_type", "expected it or architectures");
  std::string className;
  if (classes) {
    if (!classes->is_array() || classes->size() != 1 ||
        !classes->front().is_string())
      config.refuse("architectures", "expected a list of one class");
    className = classes->front().get<std::string>();
  }
  for (const ArchitectureName &name : kArchitectures)
    if ((modelType.empty() || modelType == name.modelType) &&
        (className.empty() || className == name.className))
      return name.architecture;
  throw Error(config.name() + ": model_type \"" + printable(modelType) +
              "\" with class \"" + printable(className) +
              "\" is not supported (llama, mistral, qwen2, qwen3, mixtral, "
              "qwen3_moe and gpt_oss for causal language models are)");
}

/// Keys that would change the results.
void refuseUnsupported(const ConfigReader &config) {
  for (const char *key :
       {"attn_logit_softcapping", "final_logit_softcapping",
        "query_pre_attn_scalar", "embedding_multiplier", "residual_multiplier",
        "attention_multiplier", "logits_scaling", "no_rope_layers",
        "dual_chunk_attention_config"})
    if (config.find(key))
      config.refuse(key, "which is not supported");
  if (config.boolean("use_mrope", false))
    config.refuse("use_mrope", "which is not supported");
  if (config.boolean("mlp_bias", false))
    config.refuse("mlp_bias", "which is not supported");
  const std::string activation = config.text("hidden_act");
  if (!activation.empty() && activation != "silu" && activation != "swish")
    config.refuse("hidden_act", "only silu is supported");
}

/// The window of transformers' configuration class; 0: it has none by default.
int64_t defaultWindow(Architecture architecture) {
  switch (architecture) {
  case Architecture::Mistral:
  case Architecture::Qwen2:
  case Architecture::Qwen3:
  case Architecture::Qwen3Moe:
    return 4096;
  case Architecture::GptOss:
    return 128;
  default:
    return 0;
  }
}

/// The keys that a query sees in layers with a window; 0 where no layer can
/// have one. A window as long as the longest sequence hides no key.
int64_t readWindow(const ConfigReader &config, const ModelConfig &model) {
  constexpr const char *kKey = "sliding_window";
  if (config.isNull(kKey))
    return 0;
  const int64_t window =
      config.integer(kKey, 0, INT64_MAX, defaultWindow(model.architecture));
  return window < model.maxPositions ? window : 0;
}

/// Which layers have a window, from layer_types.
std::vector<bool> readLayerTypes(const ConfigReader &config, const Json &types,
                                 int64_t layers) {
  if (!types.is_array() || types.size() != static_cast<size_t>(layers))
    config.refuse("layer_types", "expected an array with the types of " +
                                     std::to_string(layers) + " layers");
  std::vector<bool> windowed;
  for (const Json &type : types) {
    if (type != "full_attention" && type != "sliding_attention")
      config.refuse("layer_types", "only full_attention and sliding_attention "
                                   "are supported");
    windowed.push_back(type == "sliding_attention");
  }
  return windowed;
}

/// Which layers have a window, where layer_types does not say it.
bool hasWindow(const ConfigReader &config, Architecture architecture,
               int64_t layer) {
  switch (architecture) {
  case Architecture::Qwen2:
  case Architecture::Qwen3:
    // Layers from max_window_layers on have the window (configuration_qwen2.py,
    // whose default is 28).
    return config.boolean("use_sliding_window", false) &&
           layer >= config.integer("max_window_layers", 0, INT64_MAX, 28);
  case Architecture::Qwen3Moe:
    return config.boolean("use_sliding_window", false);
  case Architecture::GptOss:
    return layer % 2 == 0;
  default:
    return true;
  }
}

void readWindows(const ConfigReader &config, ModelConfig &model) {
  const int64_t window = readWindow(config, model);
  std::vector<bool> windowed;
  if (const Json *types = config.find("layer_types"))
    windowed = readLayerTypes(config, *types, model.layers);
  else
    for (int64_t layer = 0; layer < model.layers; ++layer)
      windowed.push_back(hasWindow(config, model.architecture, layer));
  for (const bool has : windowed)
    model.windows.push_back(has ? window : 0);
}

void readSizes(const ConfigReader &config, ModelConfig &model) {
  model.hiddenSize = config.integer("hidden_size", 1, kMostHidden);
  model.intermediateSize =
      config.integer("intermediate_size", 1, kMostIntermediate);
  model.layers = config.integer("num_hidden_layers", 1, kMostLayers);
  model.heads = config.integer("num_attention_heads", 1, kMostHeads);
  model.kvHeads =
      config.integer("num_key_value_heads", 1, kMostHeads, model.heads);
  if (model.heads % model.kvHeads != 0)
    config.refuse("num_key_value_heads",
                  "not a divisor of " + std::to_string(model.heads) + " heads");
  if (!config.find("head_dim") && model.hiddenSize % model.heads != 0)
    config.refuse("hidden_size", "not a multiple of " +
                                     std::to_string(model.heads) +
                                     " heads, and there is no head_dim");
  model.headDim = config.integer("head_dim", 1, kMostHeadDim,
                                 model.hiddenSize / model.heads);
  if (model.headDim < 2 || model.headDim > kMostHeadDim)
    config.refuse("head_dim", "and heads of " + std::to_string(model.headDim) +
                                  " elements are not supported");
  model.vocabSize = config.integer("vocab_size", 1, kMostVocab);
  model.maxPositions =
      config.integer("max_position_embeddings", 1, kMostPositions);
  model.rmsNormEps = config.required("rms_norm_eps", 0, 1);
}

DType readDType(const ConfigReader &config) {
  // transformers 5 writes "dtype", earlier versions "torch_dtype".
  const char *key = config.find("dtype") ? "dtype" : "torch_dtype";
  if (!config.find(key))
    return DType::BF16;
  const auto type = dtypeNamedByTorch(config.text(key));
  if (!type)
    config.refuse(key, "expected bfloat16, float16 or float32");
  return *type;
}

/// Biases and norms, of which some have no key.
void readVariants(const ConfigReader &config, ModelConfig &model) {
  const Architecture architecture = model.architecture;
  const bool isGptOss = architecture == Architecture::GptOss;
  const bool isQwen3 = architecture == Architecture::Qwen3 ||
                       architecture == Architecture::Qwen3Moe;
  // These put it on q, k, v and o; the others do not read the key.
  const bool hasBias =
      (architecture == Architecture::Llama || isQwen3 || isGptOss) &&
      config.boolean("attention_bias", isGptOss);
  model.qkvBias = architecture == Architecture::Qwen2 || hasBias;
  model.outputBias = hasBias;
  model.qkNorm = isQwen3;
  model.hasSinks = isGptOss;
  model.tieEmbeddings = config.boolean("tie_word_embeddings", false);
}

} // namespace

int64_t ModelConfig::expertLayers() const {
  int64_t number = 0;
  for (int64_t layer = 0; layer < layers; ++layer)
    number += hasExperts(layer);
  return number;
}

ModelConfig parseModelConfig(std::string_view json, const std::string &source) {
  const Json parsed = parseJson(json, source);
  const ConfigReader config(parsed, source);
  ModelConfig model;
  model.architecture = readArchitecture(config);
  refuseUnsupported(config);
  readSizes(config, model);
  readWindows(config, model);
  readVariants(config, model);
  readExperts(config, model);
  readRope(config, model);
  model.dtype = readDType(config);
  model.quantization = readQuantization(config);
  model.eosTokens = config.tokens("eos_token_id", model.vocabSize - 1);
  return model;
}

static std::string configFile(const std::string &path) {
  std::error_code ignored; // Opening the file reports it better.
  const bool folder = std::filesystem::is_directory(path, ignored);
  return folder ? path + "/config.json" : path;
}

std::string readConfigText(const std::string &path) {
  return readText(configFile(path), kMostConfigBytes);
}

ModelConfig readModelConfig(const std::string &path) {
  return parseModelConfig(readConfigText(path), configFile(path));
}

ModelConfig presetConfig(std::string_view name) {
  return parseModelConfig(presetText(name), "preset " + std::string(name));
}

} // namespace llama
