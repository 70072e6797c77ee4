//===- ConfigFixture.h - configs of models, for tests -----------*- C++ -*-===//
#ifndef KILN_UNITTESTS_EXAMPLES_CONFIGFIXTURE_H
#define KILN_UNITTESTS_EXAMPLES_CONFIGFIXTURE_H

#include "llama/Error.h"
#include "llama/Json.h"
#include "llama/ModelConfig.h"

#include <doctest/doctest.h>

#include <string>

namespace configs {

/// The smallest config of a class.
inline nlohmann::json configOf(const char *modelType, const char *className) {
  return {{"model_type", modelType}, {"architectures", {className}},
          {"hidden_size", 64},       {"intermediate_size", 128},
          {"num_hidden_layers", 2},  {"num_attention_heads", 4},
          {"vocab_size", 100},       {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-5}};
}

inline llama::ModelConfig parse(const nlohmann::json &config) {
  return llama::parseModelConfig(config.dump(), "config.json");
}

/// \p config with one key set is refused, and the message names the key.
inline void refuse(nlohmann::json config, const char *key,
                   const nlohmann::json &value, const char *message = nullptr) {
  config[key] = value;
  CAPTURE(config.dump());
  CHECK_THROWS_WITH_AS(
      parse(config), doctest::Contains(message ? message : key), llama::Error);
}

} // namespace configs

#endif // KILN_UNITTESTS_EXAMPLES_CONFIGFIXTURE_H
