//===- DecodeGrid.cpp -----------------------------------------------------===//
#include "Families/Attention/DecodeGrid.h"

#include <bit>

namespace kiln {

/// The most splits, for one KV head of a long cache: more take the combine
/// kernel longer than they save.
static constexpr int64_t kMostSplits = 128;
/// The ratio of the longest sequence to a usual one up to which a plan has room
/// for fine splits.
static constexpr int64_t kMostSpread = 8;

/// The most splits with which every ring has a tile.
static int64_t mostSplits(const DecodeBlocks &blocks, int64_t keys) {
  return std::clamp<int64_t>(ceilDiv(keys, blocks.tile * blocks.rings), 1,
                             kMostSplits);
}

int64_t DecodeGrid::fittingSplits(const DecodeBlocks &blocks, int64_t splits,
                                  int64_t keys) {
  splits = std::min(splits, mostSplits(blocks, keys));
  // Clusters of other sizes leave SMs of a GPC unused.
  if (blocks.isCluster)
    splits = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(
        std::min<int64_t>(splits, DecodeAttentionConfig::kMaxCluster))));
  return splits;
}

int64_t partialRowsOfPlan(const AttentionProblem &problem,
                          const DecodeBlocks &blocks, int64_t smCount) {
  if (blocks.isCluster)
    return 0;
  int64_t rows = DecodeGrid(problem, blocks, smCount).rows(problem);
  if (problem.fixedSplit > 0)
    return rows;
  // A launch with fewer sequences than the problem has more splits for each,
  // but not more blocks than fill the SMs.
  int64_t most = mostVisibleKeys(problem, problem.keys);
  int64_t splits = mostSplits(blocks, most);
  if (splits == 1)
    return rows;
  const int64_t room = DecodeGrid::roomOf(problem);
  int64_t filling = smCount * blocks.fill / DecodeBlocks::kQuarters;
  rows = std::max(rows, std::min({splits * partialRowsOf(problem),
                                  filling * blocks.rows, room}));
  if (problem.keyLengths == AttentionLengths::Uniform)
    return rows;
  // Plans know no hint, but launches may, for sequences that are usually
  // shorter.
  int64_t groups = std::max<int64_t>(
      problem.batch * problem.kvHeads *
          ceilDiv(problem.queries * problem.group(), int64_t(blocks.rows)),
      1);
  int64_t ragged = std::max(ceilDiv(most, DecodeGrid::kRaggedKeys),
                            std::min(splits, kMostSpread * filling / groups));
  return std::max(rows, std::min(ragged * partialRowsOf(problem), room));
}

} // namespace kiln
