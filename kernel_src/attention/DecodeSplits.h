//===- attention/DecodeSplits.h - how decode splits the keys --------------===//
//
// Splits count from the first key that a query of the sequence sees: a short
// window at the end of a long sequence is split like a short sequence. Lengths
// are in device memory, so each block computes its own split.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionRanges.h"

namespace kiln {

/// The union of the keys that the queries of a sequence see.
constexpr AttentionRange keysOfQueries(AttentionReach reach, int queries,
                                       int keys) {
  return keysOfAny(reach, {0, queries}, queries, keys);
}

/// The number of splits that have keys of \p visible; 1 where \p visible is
/// empty.
constexpr int splitsOf(AttentionRange visible, int splitKeys) {
  int splits = visible.size() / splitKeys + (visible.size() % splitKeys != 0);
  return splits > 0 ? splits : 1;
}

/// Whether \p split is one of splitsOf().
constexpr bool isSplitUsed(AttentionRange visible, int split, int splitKeys) {
  return split == 0 ||
         static_cast<long long>(split) * splitKeys < visible.size();
}

/// Keys of split \p split of \p visible.
constexpr AttentionRange keysOfDecodeSplit(AttentionRange visible, int split,
                                           int splitKeys) {
  AttentionRange part = keysOfSplit({0, visible.size()}, split, splitKeys);
  return {visible.begin + part.begin, visible.begin + part.end};
}

/// Rows of partial results of a head and a split, where queries are packed: the
/// rows of O, or batch times the most queries of a sequence where this is less
/// (O may have room for many more tokens than there are queries).
constexpr long long partialTokens(const AttentionParams &params) {
  long long most = static_cast<long long>(params.batch) * params.queries;
  return params.totalQueries < most ? params.totalQueries : most;
}

/// Index of row \p row of split 0 in partialO and partialLse; each further
/// split lies partialRows behind.
template <AttentionSignature kSignature>
constexpr long long partialRow(const AttentionParams &params, int sequence,
                               AttentionTokens queries, int head, int row) {
  const long long ofSequence =
      static_cast<long long>(sequence) * params.queries;
  if constexpr (kSignature.queryLengths == AttentionLengths::Packed) {
    const long long tokens = partialTokens(params);
    return head * tokens +
           (tokens == params.totalQueries ? queries.first : ofSequence) + row;
  }
  return ofSequence * params.heads +
         static_cast<long long>(head) * params.queries + row;
}

/// Rows of partial results of one split.
template <AttentionSignature kSignature>
constexpr long long partialRows(const AttentionParams &params) {
  return params.heads *
         (kSignature.queryLengths == AttentionLengths::Packed
              ? partialTokens(params)
              : static_cast<long long>(params.batch) * params.queries);
}

} // namespace kiln
