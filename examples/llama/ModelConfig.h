//===- ModelConfig.h - the shape of a model, from its config.json ---------===//
//
// The classes of models that the engine runs: LlamaForCausalLM,
// MistralForCausalLM, Qwen2ForCausalLM and Qwen3ForCausalLM of transformers.
// Anything in a config.json that would change the results and that the engine
// does not implement is refused by the name of its key.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_MODELCONFIG_H
#define KILN_EXAMPLES_LLAMA_MODELCONFIG_H

#include "DType.h"
#include "Quantization.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llama {

enum class Architecture : uint8_t { Llama, Mistral, Qwen2, Qwen3 };

/// How rotary frequencies are scaled; the rope_type of transformers.
enum class RopeType : uint8_t {
  Default,
  Linear,
  Dynamic,
  Llama3,
  Yarn,
  Longrope
};

/// Named as the keys of transformers' rope_parameters. RopeFrequencies.h has
/// the formulas. Members that the type does not read keep their defaults.
struct RopeConfig {
  RopeType type = RopeType::Default;
  double theta = 10000;
  double factor = 1;
  /// Positions of the training before the scaling. For dynamic scaling it is
  /// maxPositions.
  int64_t originalPositions = 0;
  double lowFreqFactor = 1, highFreqFactor = 4;
  double betaFast = 32, betaSlow = 1;
  bool truncate = true;
  std::optional<double> attentionFactor, mscale, mscaleAllDim;
  std::vector<double> shortFactor, longFactor; // [rotaryDim / 2]
};

struct ModelConfig {
  Architecture architecture = Architecture::Llama;
  int64_t hiddenSize = 0;
  int64_t intermediateSize = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kvHeads = 0;
  int64_t headDim = 0;
  int64_t rotaryDim = 0; ///< Even, at most headDim; the rest is not rotated.
  int64_t vocabSize = 0;
  int64_t headRows = 0; ///< Rows of lm_head that are here; 0: all.
  int64_t maxPositions = 0;
  double rmsNormEps = 0;
  RopeConfig rope;
  bool tieEmbeddings = false; ///< lm_head is the embedding.
  bool qkvBias = false;       ///< Bias on q, k and v; no other product has one.
  bool qkNorm = false;        ///< RMSNorm of each q and k head before rope.
  DType dtype = DType::BF16;  ///< BF16, F16 or F32.
  std::vector<int32_t> eosTokens;
  Quantization quantization; ///< How weights are stored.

  int64_t qRows() const { return heads * headDim; }
  int64_t kvRows() const { return kvHeads * headDim; }
  int64_t lmHeadRows() const { return headRows == 0 ? vocabSize : headRows; }
};

/// The config in \p json, the text of a config.json. Throws Error, whose
/// message begins with \p source and names the key.
ModelConfig parseModelConfig(std::string_view json, const std::string &source);

/// The text of \p path, a config.json or the folder that has one. Throws Error.
std::string readConfigText(const std::string &path);

/// parseModelConfig(readConfigText(path)).
ModelConfig readModelConfig(const std::string &path);

/// Models by name, for benchmarks without files: "llama-3-8b", "tiny", ...
std::vector<std::string_view> presetNames();

/// The config.json of a preset, complete enough for transformers to load it.
/// Throws Error for another name.
std::string_view presetText(std::string_view name);

/// parseModelConfig(presetText(name)).
ModelConfig presetConfig(std::string_view name);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_MODELCONFIG_H
