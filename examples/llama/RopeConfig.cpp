//===- RopeConfig.cpp - rope's keys of a config.json ----------------------===//
#include "RopeConfig.h"

#include "Error.h"

#include <utility>

namespace llama {

namespace {

using Json = nlohmann::json;

constexpr double kMostTheta = 1e12;
constexpr double kMostFactor = 1e6;
constexpr int64_t kMostOriginal = 1 << 28;

RopeType readType(const ConfigReader &rope) {
  // Checkpoints before transformers 4.43 say "type".
  const char *key = rope.find("rope_type") ? "rope_type" : "type";
  const std::string name = rope.text(key);
  for (const auto &[text, type] : {std::pair("default", RopeType::Default),
                                   std::pair("linear", RopeType::Linear),
                                   std::pair("dynamic", RopeType::Dynamic),
                                   std::pair("llama3", RopeType::Llama3),
                                   std::pair("yarn", RopeType::Yarn),
                                   std::pair("longrope", RopeType::Longrope)})
    if (name == text)
      return type;
  if (name.empty() && !rope.find("factor"))
    return RopeType::Default;
  rope.refuse(key, "expected default, linear, dynamic, llama3, yarn or "
                   "longrope");
}

/// The object with rope's keys: rope_parameters, else rope_scaling, else an
/// empty one.
std::pair<const Json *, const char *> findRope(const ConfigReader &config) {
  static const Json empty = Json::object();
  const Json *parameters = config.find("rope_parameters");
  const Json *scaling = config.find("rope_scaling");
  if (parameters && scaling && *parameters != *scaling)
    config.refuse("rope_scaling", "and rope_parameters says otherwise");
  if (parameters)
    return {parameters, "rope_parameters"};
  if (scaling)
    return {scaling, "rope_scaling"};
  return {&empty, "rope_scaling"};
}

/// A key that transformers 5 has in rope_parameters and versions before it at
/// the top level.
double readEither(const ConfigReader &rope, const ConfigReader &config,
                  const char *key, double least, double most,
                  double otherwise) {
  if (const auto value = rope.number(key, least, most))
    return *value;
  return config.number(key, least, most).value_or(otherwise);
}

/// original_max_position_embeddings; at the top level it wins, as in
/// transformers (standardize_rope_params; Phi-3 has it there).
int64_t readOriginal(const ConfigReader &rope, const ConfigReader &config,
                     int64_t otherwise) {
  const char *key = "original_max_position_embeddings";
  const int64_t inner = rope.integer(key, 1, kMostOriginal, otherwise);
  return config.integer(key, 1, kMostOriginal, inner);
}

void readYarn(const ConfigReader &rope, RopeConfig &read) {
  read.betaFast = rope.number("beta_fast", 1e-3, 1e6).value_or(32);
  read.betaSlow = rope.number("beta_slow", 1e-3, 1e6).value_or(1);
  if (read.betaSlow > read.betaFast)
    rope.refuse("beta_slow", "more than beta_fast");
  read.truncate = rope.boolean("truncate", true);
  read.mscale = rope.number("mscale", 0, kMostFactor);
  read.mscaleAllDim = rope.number("mscale_all_dim", 0, kMostFactor);
}

void readLlama3(const ConfigReader &rope, RopeConfig &read) {
  read.lowFreqFactor = rope.required("low_freq_factor", 1e-3, kMostFactor);
  read.highFreqFactor = rope.required("high_freq_factor", 1e-3, kMostFactor);
  if (read.lowFreqFactor >= read.highFreqFactor)
    rope.refuse("low_freq_factor", "expected less than high_freq_factor");
}

void readLongrope(const ConfigReader &rope, const ModelConfig &model,
                  RopeConfig &read) {
  const int64_t pairs = model.rotaryDim / 2;
  read.shortFactor = rope.numbers("short_factor", pairs, 1e-3, kMostFactor);
  read.longFactor = rope.numbers("long_factor", pairs, 1e-3, kMostFactor);
  read.factor = rope.number("factor", 1e-3, kMostFactor)
                    .value_or(static_cast<double>(model.maxPositions) /
                              static_cast<double>(read.originalPositions));
}

} // namespace

/// The defaults of transformers' configuration classes.
static double defaultTheta(Architecture architecture) {
  switch (architecture) {
  case Architecture::Mixtral:
    return 1e6;
  case Architecture::GptOss:
    return 1.5e5;
  default:
    return 1e4;
  }
}

void readRope(const ConfigReader &config, ModelConfig &model) {
  const auto [object, key] = findRope(config);
  const ConfigReader rope(*object, config.name() + ": " + key);
  // Models with windows have an object of parameters for each type of layer.
  for (const char *layerType : {"full_attention", "sliding_attention"})
    if (rope.find(layerType))
      rope.refuse(layerType, "rope by the type of layer is not supported");

  RopeConfig &read = model.rope;
  read.type = readType(rope);
  read.theta = readEither(rope, config, "rope_theta", 1.0001, kMostTheta,
                          defaultTheta(model.architecture));
  const double part =
      readEither(rope, config, "partial_rotary_factor", 1e-3, 1, 1);
  model.rotaryDim =
      static_cast<int64_t>(static_cast<double>(model.headDim) * part);
  if (model.rotaryDim < 2 || model.rotaryDim % 2 != 0)
    throw Error(config.name() + ": " + std::to_string(model.rotaryDim) +
                " rotary dimensions of head_dim " +
                std::to_string(model.headDim) + ", expected an even number");

  if (read.type == RopeType::Default)
    return;
  // Dynamic scaling starts from the positions of the model, whatever the
  // config says of the original ones (_compute_dynamic_ntk_parameters).
  read.originalPositions = read.type == RopeType::Dynamic
                               ? model.maxPositions
                               : readOriginal(rope, config, model.maxPositions);
  if (read.type == RopeType::Dynamic && model.rotaryDim == 2)
    rope.refuse("rope_type", "impossible with 2 rotary dimensions");
  if (read.type != RopeType::Longrope)
    read.factor = rope.required("factor", 1, kMostFactor);
  if (read.type == RopeType::Yarn || read.type == RopeType::Longrope)
    read.attentionFactor = rope.number("attention_factor", 1e-6, kMostFactor);
  if (read.type == RopeType::Llama3)
    readLlama3(rope, read);
  if (read.type == RopeType::Yarn)
    readYarn(rope, read);
  if (read.type == RopeType::Longrope)
    readLongrope(rope, model, read);
}

} // namespace llama
