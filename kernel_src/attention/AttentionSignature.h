//===- attention/AttentionSignature.h - the signature of attention --------===//
//
// O = softmax(scale * Q K^T + mask) V for each head of each sequence. Shared by
// the host and every kernel of the family.
//
// Query head h reads head h / group of K and V, where group = heads / kvHeads.
// Queries stand at the end of the keys: query i of a sequence with q queries
// and k keys stands at key i + k - q (a causal mask is "bottom-right aligned").
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// The keys that a query sees. p is the query's position.
enum class AttentionMask : int {
  None = 0,
  Causal = 1, ///< keys j <= p
  Window = 2, ///< keys p - left <= j <= p + right
};

/// The number of queries, or of keys, of each sequence.
enum class AttentionLengths : int {
  Uniform = 0, ///< as many as the problem says
  /// varlen: all sequences follow each other, and sequence b has the tokens
  /// from offsets[b] to offsets[b + 1]: batch + 1 int32 in device memory.
  Packed = 1,
  /// Keys only: sequence b has lengths[b] keys, at most as many as the problem
  /// says, in tensors (or pages) with room for the most: batch int32 in device
  /// memory.
  Used = 2,
};

/// How K and V lie in memory.
enum class AttentionPages : int {
  None = 0,
  /// Pages of pageSize tokens; row b of a table has the numbers of the pages of
  /// sequence b.
  Table = 1,
  /// Pages of pageSize tokens with one list of page numbers: sequence b has
  /// list[indptr[b]] to list[indptr[b + 1] - 1].
  List = 2,
};

struct AttentionSignature {
  DType q = DType::BF16;  ///< of Q: bf16, fp16, e4m3
  DType kv = DType::BF16; ///< of K and V: Q's, or e4m3
  DType out = DType::BF16;
  int headDim = 128;  ///< elements of a row of Q and K
  int valueDim = 128; ///< of a row of V and O
  AttentionMask mask = AttentionMask::None;
  AttentionLengths queryLengths = AttentionLengths::Uniform;
  AttentionLengths keyLengths = AttentionLengths::Uniform;
  AttentionPages pages = AttentionPages::None;
  bool softcap = false; ///< scores become cap * tanh(score / cap)
  bool sinks = false;   ///< a logit for each head that only the sum sees
  bool alibi = false;   ///< slope of the head * (j - p) is added
  bool lse = false;     ///< the logarithms of the sums are wanted
  bool scales = false;  ///< Q, K, V have scales in device memory
  /// A power of two up to 16 that divides every address, stride and row in
  /// bytes.
  int align = 16;

  friend constexpr bool operator==(const AttentionSignature &,
                                   const AttentionSignature &) = default;
};

} // namespace kiln
