//===- attention/Sm90MlaTiles.cuh - parts that the roles of MLA share -----===//
//
// The layout of shared memory, and the rows and keys of a block. Every role
// computes them for itself, once for each block of the grid.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionSoftmax.cuh"
#include "attention/DecodeSplits.h"
#include "attention/Sm90MlaConfig.h"
#include "attention/Sm90MlaParams.h"
#include "common/PtxSm90.cuh"

namespace kiln {

/// Shared memory of a block, as offsets in its window.
template <AttentionSignature kSignature, Sm90MlaConfig kConfig>
struct Sm90MlaShared {
  unsigned base;

  static constexpr int kTile = Sm90MlaConfig::tileBytes(kSignature);
  static constexpr int kSlab = Sm90MlaConfig::kSlabBytes;
  static constexpr int kStages = Sm90MlaConfig::kStages;

  unsigned query() const { return base; }
  unsigned key(int stage) const { return base + (1 + stage) * kTile; }
  /// Probabilities of one consumer, which the other reads.
  unsigned probabilities() const { return key(kStages); }
  /// The greatest scores of the rows, passed along with the probabilities.
  unsigned greatest() const { return probabilities() + kSlab; }
  /// Sums of a consumer's rows, written at the end.
  unsigned total(int consumer) const {
    return greatest() + (1 + consumer) * Sm90MlaConfig::kRows * 4;
  }
  unsigned full(int stage, int group) const {
    return greatest() + Sm90MlaConfig::kRowBytes +
           (stage * kConfig.groups() + group) * 8;
  }
  unsigned empty(int stage, int group) const {
    return full(kStages + stage, group);
  }
  /// Page numbers for a block of keys; blocks alternate between two places.
  unsigned page(int parity, int box) const {
    return empty(kStages, 0) + (parity * kConfig.mostBoxes() + box) * 4;
  }
};

/// Rows and keys of a block.
struct Sm90MlaWork {
  AttentionTokens queries, keys;
  int sequence = 0, kvHead = 0, split = 0;
  int group = 1;           ///< rows of a token
  int rowBegin = 0;        ///< packed, of the sequence
  AttentionRange range;    ///< the split's keys
  AttentionRange blocks;   ///< blocks that have some of these keys
  AttentionRange unmasked; ///< blocks that every row sees
  bool isPart = false;     ///< one of several splits
  bool hasWork = true;     ///< false: no rows, or no such split

  int rowEnd() const { return queries.count * group; }
  AttentionRow row(int index) const {
    int at = rowBegin + index;
    // Idle rows get a token behind the last one.
    if (at >= rowEnd())
      return {kvHead * group, queries.count};
    return {kvHead * group + at % group, at / group};
  }
};

/// Grid: (blocks of rows, splits, sequences x heads of K).
template <AttentionSignature kSignature, Sm90MlaConfig kConfig>
Sm90MlaWork workOf(const AttentionParams &params) {
  constexpr int kRows = Sm90MlaConfig::kRows, kKeys = Sm90MlaConfig::kKeys;
  Sm90MlaWork work;
  work.sequence = static_cast<int>(blockIdx.z) / params.kvHeads;
  work.kvHead = static_cast<int>(blockIdx.z) % params.kvHeads;
  work.split = blockIdx.y;
  work.group = params.heads / params.kvHeads;
  work.rowBegin = blockIdx.x * kRows;
  work.queries = queriesOf<kSignature>(params, work.sequence);
  work.keys = keysOfSequence<kSignature>(params, work.sequence);
  const int queries = work.queries.count, keys = work.keys.count;

  // All blocks of a cluster have the same keys, the union of what their rows
  // see.
  AttentionReach reach = reachOf(kSignature.mask, params.left, params.right);
  AttentionRange visible = keysOfQueries(reach, queries, keys);
  int firstRow = work.rowBegin - work.rowBegin % (kConfig.cluster * kRows);
  work.hasWork = isSplitUsed(visible, work.split, params.splitKeys) &&
                 firstRow < work.rowEnd();
  work.isPart = visible.size() > params.splitKeys;
  work.range = keysOfDecodeSplit(visible, work.split, params.splitKeys);
  auto tokensOf = [&](int begin, int end) {
    return AttentionRange{min(begin / work.group, queries),
                          min((end + work.group - 1) / work.group, queries)};
  };
  if constexpr (kSignature.mask != AttentionMask::None) {
    AttentionRange seen =
        keysOfAny(reach, tokensOf(firstRow, firstRow + kConfig.cluster * kRows),
                  queries, keys);
    work.range = {max(work.range.begin, seen.begin),
                  min(work.range.end, seen.end)};
  }
  AttentionRange all = keysOfAll(
      reach, tokensOf(work.rowBegin, work.rowBegin + kRows), queries, keys);
  work.blocks = blocksWith(work.range, kKeys);
  work.unmasked = blocksWithin(
      {max(all.begin, work.range.begin), min(all.end, work.range.end)}, kKeys);
  return work;
}

} // namespace kiln
