//===- DecodeGrid.cpp -----------------------------------------------------===//
#include "Families/Attention/DecodeGrid.h"

#include "Families/Attention/AttentionCombine.h"
#include "Model/MathUtil.h"

#include <algorithm>
#include <bit>

namespace kiln {

/// Splits of ragged batches. 1024 to 2048 keys measured best on an H200 (64
/// sequences, 475 to 24439 keys): 342 us, with 512 keys 354, with 4096 349.
static constexpr int64_t kRaggedKeys = 2048;
/// One KV head of a long cache: more take the combine kernel longer than they
/// save.
static constexpr int64_t kMostSplits = 128;
/// Keys of the longest sequence over those of a usual one that a plan has room
/// to split finely.
static constexpr int64_t kMostSpread = 8;

int64_t mostVisibleKeys(const AttentionProblem &problem, int64_t keys) {
  if (problem.mask != AttentionMask::Window || problem.left >= keys)
    return keys;
  return std::min(keys, problem.left + problem.queries);
}

/// Of DecodeBlocks::fill.
static constexpr int64_t kQuarters = 4;

/// Splits that leave every ring a tile.
static int64_t mostSplits(const DecodeBlocks &blocks, int64_t keys) {
  return std::clamp<int64_t>(ceilDiv(keys, blocks.tile * blocks.rings), 1,
                             kMostSplits);
}

/// Splits that fill the SMs.
static int64_t fillingSplits(const DecodeBlocks &blocks, int64_t groups,
                             int64_t keys, int64_t smCount) {
  int64_t splits = smCount * blocks.fill / (kQuarters * groups);
  if (splits <= 1)
    return 1;
  splits = std::min(splits, mostSplits(blocks, keys));
  // Clusters of other sizes leave SMs of a GPC unused.
  if (blocks.isCluster)
    splits = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(
        std::min<int64_t>(splits, DecodeAttentionConfig::kMaxCluster))));
  return splits;
}

DecodeGrid::DecodeGrid(const AttentionProblem &problem,
                       const DecodeBlocks &blocks, int64_t smCount,
                       int64_t partialRows) {
  rowBlocks = std::max<int64_t>(
      ceilDiv(problem.queries * problem.group(), blocks.rows), 1);
  int64_t most = std::max<int64_t>(mostVisibleKeys(problem, problem.keys), 1);
  if (problem.fixedSplit > 0)
    splitKeys = problem.fixedSplit;
  else {
    int64_t usual = std::clamp<int64_t>(
        mostVisibleKeys(problem, problem.typicalKeys), 1, most);
    int64_t groups =
        std::max<int64_t>(problem.batch * problem.kvHeads * rowBlocks, 1);
    bool ragged = usual < most && !blocks.isCluster;
    // A cluster has all keys of the longest sequence.
    int64_t shared = ragged ? usual : most;
    int64_t filling = fillingSplits(blocks, groups, shared, smCount);
    if (filling == 1 && !ragged) { // what most launches are
      splitKeys = most;
      return;
    }
    splitKeys = ceilDiv(shared, filling);
    if (ragged)
      splitKeys = std::min(splitKeys, kRaggedKeys);
    int64_t room = std::min(partialRows, kMostPartialBytes /
                                             partialBytes(1, problem.valueDim));
    int64_t fit = std::max<int64_t>(
        room / std::max<int64_t>(partialRowsOf(problem), 1), 1);
    splitKeys = std::max(splitKeys, ceilDiv(most, fit));
    splitKeys = std::min(roundUp(splitKeys, blocks.tile), most);
  }
  splits = ceilDiv(most, splitKeys);
}

int64_t DecodeGrid::rows(const AttentionProblem &problem) const {
  return splits > 1 ? splits * partialRowsOf(problem) : 0;
}

int64_t partialRowsOfPlan(const AttentionProblem &problem,
                          const DecodeBlocks &blocks, int64_t smCount) {
  if (blocks.isCluster)
    return 0;
  int64_t rows = DecodeGrid(problem, blocks, smCount).rows(problem);
  if (problem.fixedSplit > 0)
    return rows;
  // Fewer sequences than the problem's have more splits each, but not more
  // blocks than fill the SMs.
  int64_t most = mostVisibleKeys(problem, problem.keys);
  int64_t splits = mostSplits(blocks, most);
  if (splits == 1)
    return rows;
  int64_t filling = smCount * blocks.fill / kQuarters;
  rows = std::max(
      rows, std::min(splits * partialRowsOf(problem), filling * blocks.rows));
  if (problem.keyLengths == AttentionLengths::Uniform)
    return rows;
  // Plans know no hint, launches may: of sequences that are usually shorter.
  int64_t groups = std::max<int64_t>(
      problem.batch * problem.kvHeads *
          ceilDiv(problem.queries * problem.group(), int64_t(blocks.rows)),
      1);
  int64_t ragged = std::max(ceilDiv(most, kRaggedKeys),
                            std::min(splits, kMostSpread * filling / groups));
  return std::max(rows, std::min(ragged * partialRowsOf(problem),
                                 DecodeGrid::kMostPartialBytes /
                                     partialBytes(1, problem.valueDim)));
}

} // namespace kiln
