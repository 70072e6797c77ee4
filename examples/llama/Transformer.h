//===- Transformer.h - a forward pass as calls of Kiln --------------------===//
//
// Eight launches a layer: RMSNorm, the product of q, k and v, rotation with the
// write to the cache, attention, the output's product with the residual add,
// RMSNorm, the product of gate and up with SwiGLU, and down with the residual
// add. Every launch may begin before the one ahead of it has ended. With e4m3
// weights the norms write e4m3, and two launches more quantise the attention
// and the inner activation (with block scales the latter is the SwiGLU). On
// several GPUs the RMSNorm behind the output and behind down is a sum over the
// ranks with the residual add (NCCL: a launch more). In a layer with experts
// other launches take the place of the last two, and of the RMSNorm behind them
// (ExpertCalls.h).
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_TRANSFORMER_H
#define KILN_EXAMPLES_LLAMA_TRANSFORMER_H

#include "Activations.h"
#include "DeviceWeights.h"
#include "ExchangeMemory.h"
#include "ExpertCalls.h"
#include "Gpu.h"
#include "KvCache.h"
#include "ModelConfig.h"
#include "Nccl.h"
#include "Pass.h"
#include "PassCalls.h"
#include "StepInputs.h"

#include <kiln/kiln.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace llama {

/// Owns activations and the KV cache. Not thread-safe.
class Transformer {
public:
  /// \p model is the part of \p shard. \p scales: as cacheScales() gives them,
  /// for an e4m3 cache. Several ranks sum through \p exchange, or, without it,
  /// by NCCL.
  Transformer(const Gpu &gpu, const ModelConfig &model, const Shard &shard,
              const DeviceWeights &weights, const StepInputs &inputs,
              const TransformerRoom &room, const std::vector<float> &scales,
              const ExchangeMemory *exchange = nullptr);
  Transformer(const Transformer &) = delete;
  Transformer &operator=(const Transformer &) = delete;

  /// Makes the cache. Once, before the first pass.
  void makeCache(int64_t pages) { cache.make(pages); }
  /// Before the first pass, if several ranks sum by NCCL.
  void connect(const Communicator &with) { others = &with; }

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
  DeviceAddress logits() const { return memory.logits.address(); }
  /// int32 [samples]: the inputs' tokens where a pass feeds itself.
  const int32_t *sampled(const Pass &pass) const { return calls.sampled(pass); }

private:
  template <class Call>
  void launch(const kiln::Engine &engine, const Call &call) const;
  void runLayer(const kiln::Engine &engine, const Pass &pass,
                int64_t index) const;
  void runMlp(const kiln::Engine &engine, int64_t tokens, int64_t index) const;
  void runExperts(const kiln::Engine &engine, int64_t tokens,
                  int64_t index) const;
  /// The RMSNorm of the hidden state, behind the output or down.
  void normHidden(const kiln::Engine &engine, int64_t tokens,
                  DeviceAddress weight, const Linear &next) const;
  /// The RMSNorm behind layer \p index: its weight, and what reads the result.
  DeviceAddress nextNorm(int64_t index) const;
  const Linear &nextProduct(int64_t index) const;
  void joinLogits(const kiln::Engine &engine, int64_t rows) const;
  void gatherLogits(int64_t rows) const;

  const Gpu &gpu;
  const ModelConfig &model;
  const Shard shard;
  const DeviceWeights &weights;
  const ExchangeMemory *exchange;
  const Communicator *others = nullptr;
  const TransformerRoom room;
  Activations memory;
  KvCache cache;
  PassCalls calls;
  ExpertCalls experts;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_TRANSFORMER_H
