//===- ModelConfig.h - the shape of a model, from its config.json ---------===//
//
// The classes of models that the engine runs: LlamaForCausalLM,
// MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, and with experts
// MixtralForCausalLM, Qwen3MoeForCausalLM and GptOssForCausalLM, as
// transformers has them. Anything in a config.json that would change the
// results and that the engine does not implement is refused by the name of its
// key.
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

enum class Architecture : uint8_t {
  Llama,
  Mistral,
  Qwen2,
  Qwen3,
  Mixtral,
  Qwen3Moe,
  GptOss
};

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

/// A mixture of experts (MoE). ExpertConfig.h reads it.
struct ExpertConfig {
  int64_t count = 0; ///< of each layer that has experts; 0: none has
  int64_t perToken = 0;
  int64_t innerSize = 0; ///< of one expert
  /// The weights of a token's experts sum to 1; otherwise they are what a
  /// softmax over all experts gives.
  bool normalizes = true;
  bool hasBias = false;     ///< on the router and both products of the experts
  bool isClamped = false;   ///< gpt-oss' SwiGLU (KILN_POINTWISE_SWIGLU_CLAMPED)
  std::vector<bool> layers; ///< [layers]: which have experts
};

struct ModelConfig {
  Architecture architecture = Architecture::Llama;
  int64_t hiddenSize = 0;
  int64_t intermediateSize = 0; ///< of an MLP that is not an expert
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
  bool qkvBias = false;       ///< Bias on q, k and v.
  bool outputBias = false;    ///< Bias on the output projection of attention.
  bool qkNorm = false;        ///< RMSNorm of each q and k head before rope.
  bool hasSinks = false;      ///< A sink for each head in the softmax.
  /// The keys that a query of each layer sees, its own included; 0: all.
  std::vector<int64_t> windows; // [layers]
  ExpertConfig experts;
  DType dtype = DType::BF16; ///< BF16, F16 or F32.
  std::vector<int32_t> eosTokens;
  Quantization quantization; ///< How weights are stored.

  int64_t qRows() const { return heads * headDim; }
  int64_t kvRows() const { return kvHeads * headDim; }
  int64_t lmHeadRows() const { return headRows == 0 ? vocabSize : headRows; }
  bool hasExperts(int64_t layer) const {
    return experts.count > 0 && experts.layers[static_cast<size_t>(layer)];
  }
  int64_t expertLayers() const; ///< layers that have experts
  int64_t windowOf(int64_t layer) const {
    return windows[static_cast<size_t>(layer)];
  }
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
/// Its name may end with -N-layers, which means the first N layers of it.
std::optional<std::string> findPreset(std::string_view name);

/// The same; throws Error for another name.
std::string presetText(std::string_view name);

/// \p config, the text of a config.json, with only its first \p layers layers.
std::string withLayers(std::string_view config, int64_t layers);

/// parseModelConfig(presetText(name)).
ModelConfig presetConfig(std::string_view name);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_MODELCONFIG_H
