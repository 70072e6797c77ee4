//===- Quantization.cpp ---------------------------------------------------===//
#include "Quantization.h"

#include "ConfigReader.h"
#include "Error.h"

#include <initializer_list>
#include <string>

namespace llama {

namespace {

using Json = nlohmann::json;

/// A text that is absent or one of \p allowed.
void requireText(const ConfigReader &config, const char *key,
                 std::initializer_list<const char *> allowed) {
  if (!config.find(key))
    return;
  std::string list;
  for (const char *name : allowed) {
    if (config.text(key) == name)
      return;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  config.refuse(key, "which is not supported (" + list + ")");
}

/// Scales of blocks, which are 128 x 128.
bool hasBlocks(const ConfigReader &config, const char *key) {
  const Json *block = config.find(key);
  if (block && *block != Json::array({128, 128}))
    config.refuse(key, "only blocks of [128, 128] are supported");
  return block != nullptr;
}

void readGroups(const ConfigReader &config, Quantization &found) {
  const int64_t size = config.integer("group_size", -1, INT32_MAX, -1);
  if (size != -1 && size != 32 && size != 64 && size != 128)
    config.refuse("group_size", "only 32, 64, 128 and -1 are supported");
  found.groupSize = size == -1 ? 0 : size;
  found.bits = 4;
}

void requireFourBits(const ConfigReader &config, const char *key) {
  if (config.integer(key, 1, 64) != 4)
    config.refuse(key, "only 4 is supported");
}

void readFp8(const ConfigReader &config, Quantization &found) {
  requireText(config, "fmt", {"e4m3"});
  requireText(config, "activation_scheme", {"dynamic", "static"});
  found.bits = 8;
  found.hasBlocks = hasBlocks(config, "weight_block_size");
}

void readModelOpt(const ConfigReader &config, Quantization &found) {
  if (config.text("quant_algo") != "FP8")
    config.refuse("quant_algo", "only FP8 is supported");
  found.bits = 8;
}

void readAwq(const ConfigReader &config, Quantization &found) {
  // transformers and AutoAWQ write "bits", early files "w_bit".
  requireFourBits(config, config.find("w_bit") ? "w_bit" : "bits");
  requireText(config, "version", {"gemm", "GEMM"});
  if (!config.boolean("zero_point", true))
    config.refuse("zero_point",
                  "weights without zero points are not supported");
  readGroups(config, found);
  found.hasZeros = true;
}

void readGptq(const ConfigReader &config, Quantization &found) {
  requireFourBits(config, "bits");
  requireText(config, "checkpoint_format", {"gptq", "gptq_v2"});
  if (const Json *parts = config.find("dynamic"); parts && !parts->empty())
    config.refuse("dynamic", "rules for single modules are not supported");
  readGroups(config, found);
  found.hasZeros = !config.boolean("sym", true);
  found.hasZerosLessOne = config.text("checkpoint_format") != "gptq_v2";
}

//===----------------------------------------------------------------------===//
// compressed-tensors
//===----------------------------------------------------------------------===//

void readFloatWeights(const ConfigReader &weights, Quantization &found) {
  requireText(weights, "strategy", {"tensor", "channel", "block"});
  found.bits = 8;
  if (weights.text("strategy") == "block")
    found.hasBlocks = hasBlocks(weights, "block_structure");
}

void readIntegerWeights(const ConfigReader &weights, Quantization &found) {
  requireText(weights, "strategy", {"group", "channel"});
  // Activation order within groups moves whole groups, and needs no index.
  requireText(weights, "actorder", {"weight", "static"});
  readGroups(weights, found);
  if (weights.text("strategy") == "channel")
    found.groupSize = 0;
  found.hasZeros = !weights.boolean("symmetric", true);
}

const Json &onlyGroup(const ConfigReader &config) {
  const Json *groups = config.find("config_groups");
  if (!groups || !groups->is_object() || groups->size() != 1)
    config.refuse("config_groups", "expected one group");
  return groups->begin().value();
}

void readCompressedTensors(const ConfigReader &config, Quantization &found) {
  requireText(config, "quantization_status", {"compressed"});
  if (const Json *sparsity = config.find("sparsity_config"))
    requireText(ConfigReader(*sparsity, config.name() + ": sparsity_config"),
                "format", {"dense"});
  const ConfigReader group(onlyGroup(config), config.name() + ": group");
  const Json *targets = group.find("targets");
  if (!targets || *targets != Json::array({"Linear"}))
    group.refuse("targets", "only [\"Linear\"] is supported");
  const Json *weightsJson = group.find("weights");
  if (!weightsJson)
    group.refuse("weights", "expected an object");
  const ConfigReader weights(*weightsJson, group.name() + ": weights");
  const int64_t bits = weights.integer("num_bits", 1, 64);
  const std::string type = weights.text("type");
  const ConfigReader &formatted = group.find("format") ? group : config;
  if (bits == 8 && type == "float") {
    requireText(formatted, "format", {"float-quantized", "naive-quantized"});
    readFloatWeights(weights, found);
  } else if (bits == 4 && type == "int") {
    requireText(formatted, "format", {"pack-quantized"});
    if (group.find("input_activations"))
      group.refuse("input_activations",
                   "quantised activations beside weights of 4 bits are not "
                   "supported");
    readIntegerWeights(weights, found);
  } else {
    weights.refuse("num_bits", "of type \"" + printable(type) +
                                   "\": only 8 of float and 4 of int are "
                                   "supported");
  }
}

struct Method {
  QuantMethod method;
  const char *name;
  void (*read)(const ConfigReader &config, Quantization &found);
};

constexpr Method kMethods[] = {
    {QuantMethod::Fp8, "fp8", readFp8},
    {QuantMethod::CompressedTensors, "compressed-tensors",
     readCompressedTensors},
    {QuantMethod::ModelOpt, "modelopt", readModelOpt},
    {QuantMethod::Awq, "awq", readAwq},
    {QuantMethod::Gptq, "gptq", readGptq},
    {QuantMethod::Mxfp4, "mxfp4", [](const ConfigReader &, Quantization &) {}}};

} // namespace

std::string_view nameOf(QuantMethod method) {
  for (const Method &known : kMethods)
    if (known.method == method)
      return known.name;
  return "none";
}

Quantization readQuantization(const ConfigReader &config) {
  constexpr const char *kKey = "quantization_config";
  Quantization found;
  const Json *json = config.find(kKey);
  if (!json)
    return found;
  const ConfigReader reader(*json, config.name() + ": " + kKey);
  const std::string name = reader.text("quant_method");
  std::string known;
  for (const Method &method : kMethods) {
    if (name == method.name) {
      found.method = method.method;
      method.read(reader, found);
      return found;
    }
    known += (known.empty() ? "" : ", ") + std::string(method.name);
  }
  reader.refuse("quant_method", "which is not supported (" + known + ")");
}

} // namespace llama
