//===- PassCalls.h - the calls of Kiln that a forward pass makes ----------===//
#ifndef KILN_EXAMPLES_LLAMA_PASSCALLS_H
#define KILN_EXAMPLES_LLAMA_PASSCALLS_H

#include "Activations.h"
#include "DeviceWeights.h"
#include "ExchangeMemory.h"
#include "KvCache.h"
#include "ModelConfig.h"
#include "Pass.h"
#include "Shard.h"
#include "StepInputs.h"

#include <kiln/kiln.hpp>

#include <cstdint>

namespace llama {

/// Whether gate and up follow each other, and do not alternate.
bool isStacked(const LayerWeights &layer);

/// The call of each part of a pass, over the memory of an engine. All but
/// embedding() may begin before the one ahead has ended, unless NCCL exchanges
/// data between both. Before the cache is made, the calls of layers only
/// describe problems. The model is the part of a shard; \p exchange is null
/// where ranks sum by NCCL.
class PassCalls {
public:
  PassCalls(const ModelConfig &model, const Shard &shard,
            const DeviceWeights &weights, const StepInputs &inputs,
            const Activations &memory, const KvCache &cache,
            const TransformerRoom &room, const ExchangeMemory *exchange)
      : model(model), shard(shard), weights(weights), inputs(inputs),
        memory(memory), cache(cache), room(room), exchange(exchange) {}

  kiln::Gather embedding(int64_t tokens) const;
  /// The result has the type that the product with \p next reads.
  kiln::RmsNorm norm(int64_t rows, DeviceAddress weight,
                     const Linear &next) const;
  /// Adds the sum of the ranks' partial sums to the hidden state, and norms it.
  kiln::AllReduce summedNorm(int64_t rows, DeviceAddress weight) const;
  /// The same where NCCL has made the sum.
  kiln::RmsNorm addedNorm(int64_t rows, DeviceAddress weight) const;
  kiln::Gemm qkv(int64_t tokens, const LayerWeights &layer) const;
  /// With \p hasSequences tokens are of the sequences that the inputs name;
  /// otherwise token t is of sequence t.
  kiln::Rope rope(int64_t tokens, int64_t layer, bool hasSequences) const;
  kiln::Attention decodes(const Pass &pass, int64_t layer) const;
  kiln::Attention prefills(const Pass &pass, int64_t layer) const;
  /// Before output(), where readsQuantized() says so of its weight.
  kiln::Quantize quantizedAttended(int64_t tokens,
                                   const LayerWeights &layer) const;
  /// With the residual add. If there are several ranks, partial sums without
  /// it, for the norm behind.
  kiln::Gemm output(int64_t tokens, const LayerWeights &layer) const;
  /// With SwiGLU, unless isStacked() says that gated() follows.
  kiln::Gemm gateUp(int64_t tokens, const LayerWeights &layer) const;
  kiln::Elementwise gated(int64_t tokens, const LayerWeights &layer) const;
  /// Before down(), behind a gateUp() with SwiGLU, where readsQuantized() says
  /// so of its weight.
  kiln::Quantize quantizedInner(int64_t tokens,
                                const LayerWeights &layer) const;
  /// As output().
  kiln::Gemm down(int64_t tokens, const LayerWeights &layer) const;

  /// Rows between gateUp() and down(): with experts one of each choice. The
  /// products of experts are ExpertCalls'; gated() and quantizedInner() serve
  /// both.
  int64_t innerRows(int64_t tokens, const LayerWeights &layer) const;

  /// The rows that are sampled, of those that the last norm made.
  kiln::Gather sampledRows(int64_t rows) const;
  kiln::Gemm head(int64_t rows, bool isGathered) const;
  /// Puts the logits of all ranks side by side: each rank has zeros for those
  /// of the others. A row of the call is a part of a row of logits.
  kiln::AllReduce summedLogits(int64_t rows) const;
  int64_t partsOfLogits() const;
  kiln::Sample sample(const Pass &pass) const;
  /// The tokens that sample() writes, int32.
  int32_t *sampled(const Pass &pass) const;

private:
  kiln::Attention attentionOver(int64_t layer, int64_t batch, int64_t queries,
                                int64_t keyCount, int64_t firstRow) const;
  void readCache(int64_t layer, kiln::Attention &call) const;
  kiln::Gemm addToHidden(const Linear &weight, int64_t tokens,
                         const Activation &x) const;
  int64_t headsRow() const { return model.qRows() + 2 * model.kvRows(); }

  const ModelConfig &model;
  const Shard shard;
  const DeviceWeights &weights;
  const StepInputs &inputs;
  const Activations &memory;
  const KvCache &cache;
  const TransformerRoom room;
  const ExchangeMemory *exchange;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_PASSCALLS_H
