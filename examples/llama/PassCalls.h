//===- PassCalls.h - the calls of Kiln that a forward pass makes ----------===//
#ifndef KILN_EXAMPLES_LLAMA_PASSCALLS_H
#define KILN_EXAMPLES_LLAMA_PASSCALLS_H

#include "Activations.h"
#include "DeviceWeights.h"
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
/// embedding() may begin before the one ahead has ended, unless the ranks' GPUs
/// exchange data between both. Before the cache is made, the calls of layers
/// only describe problems. The model is the part of a shard.
class PassCalls {
public:
  PassCalls(const ModelConfig &model, const Shard &shard,
            const DeviceWeights &weights, const StepInputs &inputs,
            const Activations &memory, const KvCache &cache,
            const TransformerRoom &room)
      : model(model), shard(shard), weights(weights), inputs(inputs),
        memory(memory), cache(cache), room(room) {}

  kiln::Gather embedding(int64_t tokens) const;
  /// The result has the type that the product with \p next reads.
  kiln::RmsNorm norm(int64_t rows, DeviceAddress weight,
                     const Linear &next) const;
  kiln::Gemm qkv(int64_t tokens, const LayerWeights &layer) const;
  /// With \p hasSequences tokens are of the sequences that the inputs name;
  /// otherwise token t is of sequence t.
  kiln::Rope rope(int64_t tokens, int64_t layer, bool hasSequences) const;
  kiln::Attention decodes(const Pass &pass, int64_t layer) const;
  kiln::Attention prefills(const Pass &pass, int64_t layer) const;
  /// Before output(), where readsQuantized() says so of its weight.
  kiln::Quantize quantizedAttended(int64_t tokens,
                                   const LayerWeights &layer) const;
  /// Products with a residual add. If there are several ranks, the first one
  /// adds it, and the sum over all is the result.
  kiln::Gemm output(int64_t tokens, const LayerWeights &layer,
                    bool addsResidual) const;
  kiln::Gemm output(int64_t tokens, const LayerWeights &layer) const {
    return output(tokens, layer, shard.isFirst());
  }
  /// With SwiGLU, unless isStacked() says that gated() follows.
  kiln::Gemm gateUp(int64_t tokens, const LayerWeights &layer) const;
  kiln::Elementwise gated(int64_t tokens, const LayerWeights &layer) const;
  /// Before down(), behind a gateUp() with SwiGLU, where readsQuantized() says
  /// so of its weight.
  kiln::Quantize quantizedInner(int64_t tokens,
                                const LayerWeights &layer) const;
  kiln::Gemm down(int64_t tokens, const LayerWeights &layer,
                  bool addsResidual) const;
  kiln::Gemm down(int64_t tokens, const LayerWeights &layer) const {
    return down(tokens, layer, shard.isFirst());
  }

  /// Rows between gateUp() and down(): with experts one of each choice. The
  /// products of experts are ExpertCalls'; gated() and quantizedInner() serve
  /// both.
  int64_t innerRows(int64_t tokens, const LayerWeights &layer) const;

  /// The rows that are sampled, of those that the last norm made.
  kiln::Gather sampledRows(int64_t rows) const;
  kiln::Gemm head(int64_t rows, bool isGathered) const;
  kiln::Sample sample(const Pass &pass) const;
  /// The tokens that sample() writes, int32.
  int32_t *sampled(const Pass &pass) const;

private:
  kiln::Attention attentionOver(int64_t layer, int64_t batch, int64_t queries,
                                int64_t keyCount, int64_t firstRow) const;
  void readCache(int64_t layer, kiln::Attention &call) const;
  kiln::Gemm addToHidden(const Linear &weight, int64_t tokens,
                         const Activation &x, bool addsResidual) const;
  int64_t headsRow() const { return model.qRows() + 2 * model.kvRows(); }

  const ModelConfig &model;
  const Shard shard;
  const DeviceWeights &weights;
  const StepInputs &inputs;
  const Activations &memory;
  const KvCache &cache;
  const TransformerRoom room;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_PASSCALLS_H
