//===- NetworkProblems.h - the problems of a language model ---------------===//
//
// The launches of a step of an engine that serves the model, as problems with
// the ranges of their extents: a step has up to maxTokens tokens, of which up
// to maxBatch are sampled. Their order is that of a layer:
//
//   embedding, norm, q k v, rotation with the write to the paged cache,
//   attention of decodes, attention of prefills, o with the residual add, norm,
//   gate and up with SwiGLU, down with the residual add; then the last rows,
//   the head and the sampling. With experts (MoE) the router, the choice of
//   experts, both grouped products and the sum over a token's experts take the
//   place of gate, up and down.
//
// examples/llama is such an engine, and a test holds that both have the same
// list. Products of fp8 (W8A8) have a scale for each row of both operands: the
// norms write rows that are quantised, and so does SwiGLU. Products of packed
// weights (W4A16) have int4 codes with fp16 scales for 128 k, or for 64 or 32
// where k is no multiple. MXFP4 has e2m1 codes with a power of two for 32 k;
// in gpt-oss only experts have it. The head and what is sampled stay bf16 in
// all formats.
//
// With tensor parallelism a rank has its share of heads, of rows of gate, up
// and the head, and of columns of o and down. Then the ranks add up o and down,
// and the residual is added behind that: by kiln_allreduce itself, with the
// norm, or by the norm behind a sum of NCCL. kiln_allreduce also puts the
// logits of all ranks side by side, each in its columns and zeros elsewhere.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemLine.h"
#include "Network/NetworkConfig.h"

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

enum class WeightFormat {
  Bf16,
  Fp8,   ///< e4m3 weights and activations: W8A8
  W4,    ///< packed int4 weights, bf16 activations: W4A16
  Mxfp4, ///< packed e2m1 weights, bf16 activations
};

/// The library that adds up partial results over the ranks.
enum class RankSums { Kiln, Nccl };

/// The most ranks with sums of Kiln.
inline constexpr int64_t kMostSummedRanks = 8;

enum class CacheFormat { Bf16, E4m3 };

struct NetworkOptions {
  WeightFormat weights = WeightFormat::Bf16;
  CacheFormat cache = CacheFormat::Bf16;
  int64_t ranks = 1; ///< of tensor parallelism
  RankSums sums = RankSums::Kiln;
  int64_t maxTokens = 8192; ///< of a step
  int64_t maxBatch = 256;   ///< sequences of a step
  int64_t maxPositions = 0; ///< of a sequence; 0: the model's, at most 8192
  int64_t pageTokens = 64;  ///< of the KV cache
};

/// A problem of the model, with a name for a user.
struct NetworkProblem {
  std::string name;
  ProblemLine line;
};

/// Errors: an option out of bounds, a size that the ranks do not divide, or
/// that has no whole groups of packed weights (InvalidArgument); a format or
/// ranks that the model does not have (Unsupported).
llvm::Expected<std::vector<NetworkProblem>>
problemsOf(const NetworkConfig &config, const NetworkOptions &options);

} // namespace kiln
