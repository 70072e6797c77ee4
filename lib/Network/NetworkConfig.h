//===- NetworkConfig.h - the shape of a language model --------------------===//
//
// The sizes in a config.json of transformers, as far as problems depend on
// them: scalings of rotary frequencies are in a table and change none, so they
// are not read. A key that would change the problems in a way that is not
// described here is refused by its name.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <vector>

namespace kiln {

/// The classes of transformers that are known.
enum class NetworkKind {
  Llama,    ///< LlamaForCausalLM
  Mistral,  ///< MistralForCausalLM
  Qwen2,    ///< Qwen2ForCausalLM: with a bias of q, k and v
  Qwen3,    ///< Qwen3ForCausalLM: with norms of q and k heads
  Mixtral,  ///< MixtralForCausalLM: all layers have experts
  Qwen3Moe, ///< Qwen3MoeForCausalLM: as Qwen3, most layers have experts
  GptOss,   ///< GptOssForCausalLM: biases, sinks, windows in every other layer
};

/// The experts of a mixture (MoE).
struct NetworkExperts {
  int64_t count = 0;    ///< of a layer
  int64_t perToken = 0; ///< that a token is sent to
  int64_t intermediateSize = 0;
  /// The weights of a token's experts have the sum 1.
  bool normalizes = true;
  bool hasBias = false;     ///< on the router and both products
  bool isClamped = false;   ///< gpt-oss' SwiGLU
  bool isMxfp4 = false;     ///< as the checkpoint stores them
  std::vector<bool> layers; ///< which have them; empty: no layer has any
};

struct NetworkConfig {
  NetworkKind kind = NetworkKind::Llama;
  int64_t hiddenSize = 0;
  int64_t intermediateSize = 0; ///< of layers without experts
  int64_t layers = 0;
  int64_t heads = 0, kvHeads = 0;
  int64_t headDim = 0, rotaryDim = 0;
  int64_t vocabSize = 0;
  int64_t maxPositions = 0;
  double rmsNormEps = 0;
  bool qkvBias = false;
  bool outputBias = false; ///< on the output projection of attention
  bool qkNorm = false;     ///< RMSNorm of each q and k head before the rotation
  bool hasSinks = false;   ///< one for each head in the softmax
  /// The keys that a query sees, its own included; 0: all. Each number that
  /// some layer has, once.
  std::vector<int64_t> windows;
  NetworkExperts experts;

  bool hasExperts() const; ///< in some layer
  bool hasDenseLayers() const;

  /// Reads \p json, the text of a config.json. Errors (InvalidArgument,
  /// Unsupported) begin with \p source and name the key.
  static llvm::Expected<NetworkConfig> parse(llvm::StringRef json,
                                             llvm::StringRef source);
};

} // namespace kiln
