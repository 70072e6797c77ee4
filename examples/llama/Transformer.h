//===- Transformer.h - a forward pass as calls of Kiln --------------------===//
//
// Eight launches a layer: RMSNorm, the product of q, k and v, rotation with the
// write to the cache, attention, the output's product with the residual add,
// RMSNorm, the product of gate and up with SwiGLU, and down with the residual
// add. Every launch may begin before the one ahead of it has ended.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_TRANSFORMER_H
#define KILN_EXAMPLES_LLAMA_TRANSFORMER_H

#include "DeviceWeights.h"
#include "Gpu.h"
#include "ModelConfig.h"
#include "StepInputs.h"

#include <kiln/kiln.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace llama {

/// The largest step, and the cache.
struct TransformerRoom {
  StepRoom step;
  int64_t positions = 0; ///< of a sequence
  int64_t pageTokens = 64;
  int64_t pages = 0; ///< of the cache; may be set when the rest is there
};

/// The tokens of a forward pass: decodes, one token each, then prefills,
/// packed.
struct Pass {
  int64_t decodes = 0;
  int64_t decodeKeys = 0;     ///< upper bound of their lengths
  int64_t decodeKeysHint = 0; ///< expected length
  int64_t prefills = 0, prefillTokens = 0;
  int64_t longestPrefill = 0; ///< tokens
  int64_t prefillKeys = 0;    ///< upper bound of their lengths
  int64_t samples = 0;        ///< rows of logits
  /// Tokens are sampled in place, and the next step follows without the host.
  bool feedsItself = false;
  /// Every token has a row of logits, and none is sampled: for comparisons.
  bool isProbe = false;

  int64_t tokens() const { return decodes + prefillTokens; }
};

/// Owns activations and the KV cache. Not thread-safe.
class Transformer {
public:
  Transformer(const Gpu &gpu, const ModelConfig &model,
              const DeviceWeights &weights, const StepInputs &inputs,
              const TransformerRoom &room);

  /// Makes the cache. Once, before the first pass.
  void makeCache(int64_t pages);

  /// The problems of all passes within the room, named for a progress bar.
  struct NamedProblem {
    std::string name;
    kiln::Problem problem;
  };
  std::vector<NamedProblem> problems() const;

  /// Enqueues a pass over the inputs. Throws kiln::Error; DeviceLost where the
  /// context has died.
  void run(const kiln::Engine &engine, const Pass &pass) const;

  /// fp32 [samples][vocabulary] of the last pass.
  DeviceAddress logits() const { return logitRows.address(); }
  /// int32 [samples]: the inputs' tokens where a pass feeds itself.
  const int32_t *sampled(const Pass &pass) const;

private:
  struct Layer;

  kiln::Gather embedding(int64_t tokens) const;
  kiln::RmsNorm norm(int64_t rows, DeviceAddress weight) const;
  kiln::Gemm product(int64_t m, int64_t n, int64_t k, DeviceAddress a,
                     DeviceAddress b, DeviceAddress d) const;
  kiln::Gemm qkv(int64_t tokens, const LayerWeights &layer) const;
  kiln::Gemm output(int64_t tokens, const LayerWeights &layer) const;
  kiln::Gemm gateUp(int64_t tokens, const LayerWeights &layer) const;
  kiln::Gemm down(int64_t tokens, const LayerWeights &layer) const;
  kiln::Gemm head(int64_t rows, bool isGathered) const;
  kiln::Rope rope(int64_t tokens, int64_t index, bool hasSequences) const;
  kiln::Attention decodes(const Pass &pass, int64_t index) const;
  kiln::Attention prefills(const Pass &pass, int64_t index) const;
  kiln::Gather sampledRows(int64_t rows) const;
  kiln::Sample sample(const Pass &pass) const;
  template <class Call>
  void launch(const kiln::Engine &engine, const Call &call) const;
  void runLayer(const kiln::Engine &engine, const Pass &pass,
                int64_t index) const;
  uint16_t *keys(int64_t index) const;
  uint16_t *values(int64_t index) const;

  const Gpu &gpu;
  const ModelConfig &model;
  const DeviceWeights &weights;
  const StepInputs &inputs;
  TransformerRoom room;
  DeviceMemory table;                                  ///< of angles
  DeviceMemory hidden, normed, heads, attended, inner; ///< [tokens][...]
  DeviceMemory lastRows, logitRows, chosen;            ///< [sequences][...]
  DeviceMemory cache; ///< [layer][2][page][token][head][element]
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_TRANSFORMER_H
