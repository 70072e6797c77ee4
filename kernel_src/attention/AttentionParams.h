//===- attention/AttentionParams.h - parameters of attention kernels ------===//
#pragma once

#include "common/HeadStrides.h"

namespace kiln {

/// Floats from row to row of partial results: whole vectors.
constexpr long long partialPitch(long long valueDim) {
  return (valueDim + 3) / 4 * 4;
}

/// The operands of every kernel of the family. Addresses that a signature does
/// not use are null.
struct AttentionParams {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void *o = nullptr;
  /// Natural logarithm of the sum of exponentials of a row, sinks included;
  /// -inf where a row sees no key. [batch][heads][queries], or [heads][all
  /// queries] for packed queries.
  float *lse = nullptr;
  HeadStrides qStrides, kStrides, vStrides, oStrides;
  long long lseHeadStride = 0, lseBatchStride = 0;

  const int *queryOffsets = nullptr; ///< batch + 1, of packed queries
  const int *keyOffsets = nullptr;   ///< batch + 1, of packed keys
  const int *keyLengths = nullptr;   ///< batch, of used keys
  const int *pageTable = nullptr;    ///< the table, or the list
  const int *pageOffsets = nullptr;  ///< batch + 1, of the list
  long long pageTableStride = 0;     ///< entries of a row of the table
  const float *sinks = nullptr;      ///< [heads]
  const float *alibi = nullptr;      ///< slopes, [heads]
  /// Factors of Q, K and V by sequence and head of K; strides of 0 share one.
  const float *qScale = nullptr, *kScale = nullptr, *vScale = nullptr;
  long long scaleBatchStride = 0, scaleHeadStride = 0;

  int batch = 0;
  int queries = 0; ///< of each sequence, or the most
  int keys = 0;    ///< likewise
  int heads = 0, kvHeads = 0;
  int pageSize = 0;                          ///< tokens
  int left = 0x7fffffff, right = 0x7fffffff; ///< of the window
  float scale = 1;                           ///< positive
  float softcap = 0;                         ///< 0: none

  /// Split-KV: split s has keys [s * splitKeys, (s + 1) * splitKeys). Partial
  /// results of split s lie at partialO[((s * batch + b) * heads + h) * queries
  /// + i], partialPitch() apart (partialRow() of DecodeSplits.h for packed
  /// queries). They are normalised fp32, with their partialLse in the same
  /// order; an empty split has the LSE -inf and any O. `decode` counts keys
  /// from the first key that a query of the sequence sees (DecodeSplits.h).
  int splits = 1;
  int splitKeys = 0;
  float *partialO = nullptr, *partialLse = nullptr;
  unsigned *counter = nullptr; ///< of the zeroed region, zero before and after
  int totalQueries = 0;        ///< of all sequences, packed; rows of O
  /// Whether all but the newest tokens of K and V, and all that leads to them,
  /// may be read before the kernel ahead has ended. The newest tokens of a
  /// sequence are as many as its queries.
  bool hasEarlyKeys = false;
};

} // namespace kiln
