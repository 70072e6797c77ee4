//===- Shard.h - the part of a model that one GPU has ---------------------===//
//
// Tensor parallelism: each rank has whole heads of q, k and v, a part of the
// rows of gate and up, and the columns of the output and of down that read
// these. So the output and down give partial sums, which are added up over the
// ranks, with the residual. The head is divided by tokens of the vocabulary.
// Embedding, norms and the sampler are the same everywhere.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_SHARD_H
#define KILN_EXAMPLES_LLAMA_SHARD_H

#include "ModelConfig.h"

#include <cstdint>

namespace llama {

struct Shard {
  int64_t rank = 0, count = 1;

  bool isWhole() const { return count == 1; }
  bool isFirst() const { return rank == 0; }
};

/// The config of the part that each of \p count ranks computes. The head has a
/// part of the vocabulary if that can be divided evenly, in vectors of four
/// logits. Throws Error if heads or the inner size cannot.
ModelConfig partOf(const ModelConfig &model, int64_t count);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_SHARD_H
