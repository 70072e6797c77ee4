//===- attention/AttentionRanges.h - visible keys, and their places -------===//
//
// The rules that every kernel of the family, its reference and its host code
// share. Ranges are half open. Scores are
//
//   s = scale * q k, then cap * tanh(s / cap), then + slope * (j - p),
//
// p is the position of the query; a sink is a logit beside the scores.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionParams.h"
#include "attention/AttentionSignature.h"

namespace kiln {

/// [begin, end) of keys, queries or blocks; begin <= end.
struct AttentionRange {
  int begin = 0, end = 0;

  constexpr int size() const { return end - begin; }
  constexpr bool contains(int at) const { return at >= begin && at < end; }

  friend constexpr bool operator==(const AttentionRange &,
                                   const AttentionRange &) = default;
};

/// How far a query sees to both sides of where it stands.
struct AttentionReach {
  int left = 0x7fffffff, right = 0x7fffffff;
};

/// The reach of the mask. \p left and \p right belong to a window.
constexpr AttentionReach reachOf(AttentionMask mask, int left, int right) {
  if (mask == AttentionMask::Causal)
    return {0x7fffffff, 0};
  if (mask == AttentionMask::Window)
    return {left, right};
  return {};
}

/// Where query \p row of \p queries stands among \p keys.
constexpr int positionOf(int row, int queries, int keys) {
  return row + (keys - queries);
}

/// First key that query \p row sees, where it sees any.
constexpr int firstKeyOf(AttentionReach reach, int row, int queries, int keys) {
  // The position is cut at 0: compilers subtract before they compare, and a
  // position below 0 less an unlimited reach would overflow.
  int position = positionOf(row, queries, keys);
  position = position > 0 ? position : 0;
  return position <= reach.left ? 0 : position - reach.left;
}

/// One past the last key that query \p row sees; 0: none. Rows from \p queries
/// on see what the last one sees, or more.
constexpr int keyLimitOf(AttentionReach reach, int row, int queries, int keys) {
  // The reach ends at the last key, because a sum with an unlimited reach would
  // overflow.
  int last = queries - 1 - row, ahead = reach.right < last ? reach.right : last;
  int limit = positionOf(row, queries, keys) + ahead + 1;
  return limit > 0 ? limit : 0;
}

/// The union of the keys that the queries [rows.begin, rows.end) see.
constexpr AttentionRange keysOfAny(AttentionReach reach, AttentionRange rows,
                                   int queries, int keys) {
  if (rows.begin >= rows.end)
    return {};
  int begin = firstKeyOf(reach, rows.begin, queries, keys);
  int end = keyLimitOf(reach, rows.end - 1, queries, keys);
  return begin < end ? AttentionRange{begin, end} : AttentionRange{};
}

/// Keys that query \p row sees.
constexpr AttentionRange keysOf(AttentionReach reach, int row, int queries,
                                int keys) {
  return keysOfAny(reach, {row, row + 1}, queries, keys);
}

/// The keys that every query of [rows.begin, rows.end) sees, so that they need
/// no mask.
constexpr AttentionRange keysOfAll(AttentionReach reach, AttentionRange rows,
                                   int queries, int keys) {
  if (rows.begin >= rows.end)
    return {};
  int begin = firstKeyOf(reach, rows.end - 1, queries, keys);
  int end = keyLimitOf(reach, rows.begin, queries, keys);
  return begin < end ? AttentionRange{begin, end} : AttentionRange{};
}

/// Blocks of \p blockKeys keys that contain at least one key of \p keys.
constexpr AttentionRange blocksWith(AttentionRange keys, int blockKeys) {
  if (keys.begin >= keys.end)
    return {};
  return {keys.begin / blockKeys, (keys.end - 1) / blockKeys + 1};
}

/// Blocks of \p blockKeys keys that lie wholly in \p keys.
constexpr AttentionRange blocksWithin(AttentionRange keys, int blockKeys) {
  int begin = keys.begin / blockKeys + (keys.begin % blockKeys != 0);
  int end = keys.end / blockKeys;
  return begin < end ? AttentionRange{begin, end} : AttentionRange{};
}

/// Keys of \p keys that belong to split \p split.
constexpr AttentionRange keysOfSplit(AttentionRange keys, int split,
                                     int splitKeys) {
  long long first = static_cast<long long>(split) * splitKeys;
  long long last = first + splitKeys;
  if (first >= keys.end || last <= keys.begin)
    return {};
  return {first > keys.begin ? static_cast<int>(first) : keys.begin,
          last < keys.end ? static_cast<int>(last) : keys.end};
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

/// The queries or the keys of one sequence: their number and their start, in
/// tokens behind the start of the tensor or of the sequence's part of it.
struct AttentionTokens {
  int first = 0, count = 0;
};

/// The queries of sequence \p sequence. Packed queries count from the start of
/// Q and O, and their batch strides are ignored.
template <AttentionSignature kSignature>
constexpr AttentionTokens queriesOf(const AttentionParams &params,
                                    int sequence) {
  if constexpr (kSignature.queryLengths == AttentionLengths::Packed) {
    int first = params.queryOffsets[sequence];
    return {first, params.queryOffsets[sequence + 1] - first};
  }
  return {0, params.queries};
}

template <AttentionSignature kSignature>
constexpr AttentionTokens keysOfSequence(const AttentionParams &params,
                                         int sequence) {
  if constexpr (kSignature.keyLengths == AttentionLengths::Packed) {
    int first = params.keyOffsets[sequence];
    return {first, params.keyOffsets[sequence + 1] - first};
  }
  if constexpr (kSignature.keyLengths == AttentionLengths::Used) {
    // A length above its promised maximum is cut, so that no read is out of
    // bounds.
    int used = params.keyLengths[sequence];
    used = used < params.keys ? used : params.keys;
    return {0, used > 0 ? used : 0};
  }
  return {0, params.keys};
}

/// Elements from the start of Q or O to \p row of the queries of a sequence.
template <AttentionSignature kSignature>
constexpr long long queryOffset(const HeadStrides &strides, int sequence,
                                AttentionTokens queries, int head, int row) {
  long long batch = kSignature.queryLengths == AttentionLengths::Packed
                        ? 0
                        : sequence * strides.batch;
  return batch + head * strides.head +
         (queries.first + static_cast<long long>(row)) * strides.token;
}

/// Index of the LSE of \p row of the queries of a sequence.
template <AttentionSignature kSignature>
constexpr long long lseOffset(const AttentionParams &params, int sequence,
                              AttentionTokens queries, int head, int row) {
  long long batch = kSignature.queryLengths == AttentionLengths::Packed
                        ? 0
                        : sequence * params.lseBatchStride;
  return batch + head * params.lseHeadStride + queries.first + row;
}

/// The number of page \p page of a sequence.
template <AttentionSignature kSignature>
constexpr int pageNumber(const AttentionParams &params, int sequence,
                         int page) {
  if constexpr (kSignature.pages == AttentionPages::List)
    return params.pageTable[params.pageOffsets[sequence] + page];
  return params.pageTable[sequence * params.pageTableStride + page];
}

/// Elements from the start of K or V to \p key of a sequence, for head \p head
/// of K.
template <AttentionSignature kSignature>
constexpr long long keyOffset(const AttentionParams &params,
                              const HeadStrides &strides, int sequence,
                              AttentionTokens keys, int head, int key) {
  if constexpr (kSignature.pages != AttentionPages::None) {
    int page = key / params.pageSize;
    int within = key - page * params.pageSize;
    return pageNumber<kSignature>(params, sequence, page) * strides.batch +
           head * strides.head + within * strides.token;
  }
  long long batch = kSignature.keyLengths == AttentionLengths::Packed
                        ? 0
                        : sequence * strides.batch;
  return batch + head * strides.head +
         (keys.first + static_cast<long long>(key)) * strides.token;
}

/// The factor \p scales of a sequence and a head of K; 1 where Q has none.
constexpr float scaleOf(const AttentionParams &params, const float *scales,
                        int sequence, int kvHead) {
  return scales ? scales[sequence * params.scaleBatchStride +
                         kvHead * params.scaleHeadStride]
                : 1.0f;
}

} // namespace kiln
