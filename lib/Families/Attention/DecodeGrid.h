//===- DecodeGrid.h - how decode kernels split the keys -------------------===//
//
// The grid follows from facts of the host alone: sizes, bounds, and the lengths
// to expect in device memory. So a captured launch stays right when lengths
// change. Few sequences with few heads of K leave SMs idle, and their keys are
// split until there is a block for each SM; more splits cost more than they
// gain. If sequences may be much longer than usual, splits have a fixed length
// instead, and most splits of short sequences are empty.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionCombine.h"
#include "Families/Attention/AttentionProblem.h"
#include "Kernel/FastestVariant.h"
#include "Model/MathUtil.h"
#include "attention/DecodeAttentionConfig.h"

#include <llvm/ADT/ArrayRef.h>

#include <algorithm>
#include <utility>

namespace kiln {

/// The properties of a decode kernel's blocks on which the grid depends.
struct DecodeBlocks {
  int64_t rows;  ///< of queries
  int64_t tile;  ///< keys; splits are whole tiles
  int64_t rings; ///< rings with tiles of their own
  int fill;      ///< quarters of a block for each SM that splits make up
  bool isCluster = false; ///< all splits form a cluster

  static constexpr int64_t kQuarters = 4; ///< of one block, as `fill` counts

  DecodeBlocks(int64_t rows, int64_t tile, int64_t rings, int fill)
      : rows(rows), tile(tile), rings(rings), fill(fill) {}
  explicit DecodeBlocks(const DecodeAttentionConfig &config)
      : rows(config.rows), tile(config.tile), rings(config.rings()),
        fill(config.fill), isCluster(config.cluster != 0) {}
};

/// The most keys of a sequence of \p keys keys that its queries see together.
inline int64_t mostVisibleKeys(const AttentionProblem &problem, int64_t keys) {
  if (problem.mask != AttentionMask::Window || problem.left >= keys)
    return keys;
  return std::min(keys, problem.left + problem.queries);
}

inline DecodeBlocks blocksOf(const DecodeAttentionConfig &config) {
  return DecodeBlocks(config);
}

struct DecodeGrid {
  int64_t rowBlocks = 1; ///< for a head of K
  int64_t splits = 1;
  int64_t splitKeys = 1; ///< counted from the first key that a query sees

  /// Splits become longer where their results would exceed this, unless the
  /// problem fixes them.
  static constexpr int64_t kMostPartialBytes = int64_t(64) << 20;
  static constexpr int64_t kMaxPartialRows = int64_t(1) << 40;
  /// kMostPartialBytes in rows.
  static int64_t roomOf(const AttentionProblem &problem) {
    return kMostPartialBytes / partialBytes(1, problem.valueDim);
  }
  /// Keys of a split in ragged batches. 1024 to 2048 keys measured best on an
  /// H200 (64 sequences, 475 to 24439 keys): 342 us, with 512 keys 354, with
  /// 4096 349.
  static constexpr int64_t kRaggedKeys = 2048;

  /// The grid for \p smCount SMs. \p partialRows: room in rows of partial
  /// results, if it is limited. Nanoseconds; inline, so that a launch reads
  /// only the fields that it needs. A launch with one block for each head of K
  /// makes no division.
  DecodeGrid(const AttentionProblem &problem, const DecodeBlocks &blocks,
             int64_t smCount, int64_t partialRows = kMaxPartialRows);
  DecodeGrid(const AttentionProblem &problem,
             const DecodeAttentionConfig &config, int64_t smCount,
             int64_t partialRows = kMaxPartialRows)
      : DecodeGrid(problem, DecodeBlocks(config), smCount, partialRows) {}

  /// Rows of partial results, over all splits.
  int64_t rows(const AttentionProblem &problem) const {
    return splits > 1 ? splits * partialRowsOf(problem) : 0;
  }

private:
  /// The number of splits of \p keys keys that fills the SMs.
  static int64_t fillingSplits(const DecodeBlocks &blocks, int64_t groups,
                               int64_t keys, int64_t smCount) {
    const int64_t filling = smCount * blocks.fill;
    const int64_t ofSplit = DecodeBlocks::kQuarters * groups;
    if (filling < 2 * ofSplit)
      return 1;
    return fittingSplits(blocks, filling / ofSplit, keys);
  }
  /// \p splits, limited by \p keys keys and by a cluster.
  static int64_t fittingSplits(const DecodeBlocks &blocks, int64_t splits,
                               int64_t keys);
};

[[gnu::always_inline]] inline DecodeGrid::DecodeGrid(
    const AttentionProblem &problem, const DecodeBlocks &blocks,
    int64_t smCount, int64_t partialRows) {
  // Both count over all heads of K. In most launches one block of each is
  // enough, and then no division is made.
  const int64_t rows = problem.queries * problem.heads;
  const int64_t ofBlocks = blocks.rows * problem.kvHeads;
  if (rows > ofBlocks)
    rowBlocks = ceilDiv(rows, ofBlocks);
  int64_t most = std::max<int64_t>(mostVisibleKeys(problem, problem.keys), 1);
  if (problem.fixedSplit > 0)
    splitKeys = problem.fixedSplit;
  else {
    int64_t usual = std::clamp<int64_t>(
        mostVisibleKeys(problem, problem.typicalKeys), 1, most);
    int64_t groups =
        std::max<int64_t>(problem.batch * problem.kvHeads * rowBlocks, 1);
    bool ragged = usual < most && !blocks.isCluster;
    // A cluster covers all keys of the longest sequence.
    int64_t shared = ragged ? usual : most;
    int64_t filling = fillingSplits(blocks, groups, shared, smCount);
    if (filling == 1 && !ragged) { // the case of most launches
      splitKeys = most;
      return;
    }
    splitKeys = ceilDiv(shared, filling);
    if (ragged)
      splitKeys = std::min(splitKeys, kRaggedKeys);
    int64_t room = std::min(partialRows, roomOf(problem));
    int64_t fit = std::max<int64_t>(
        room / std::max<int64_t>(partialRowsOf(problem), 1), 1);
    splitKeys = std::max(splitKeys, ceilDiv(most, fit));
    splitKeys = std::min(roundUp(splitKeys, blocks.tile), most);
  }
  splits = ceilDiv(most, splitKeys);
}

/// Rows of partial results that launches of a plan may need, for problems up to
/// \p problem.
int64_t partialRowsOfPlan(const AttentionProblem &problem,
                          const DecodeBlocks &blocks, int64_t smCount);
inline int64_t partialRowsOfPlan(const AttentionProblem &problem,
                                 const DecodeAttentionConfig &config,
                                 int64_t smCount) {
  return partialRowsOfPlan(problem, DecodeBlocks(config), smCount);
}

/// Calls \p emit with \p config and each of \p fills whose splits are not those
/// of the one before: more of the same is no choice.
template <class Config>
void forEachFill(const AttentionProblem &problem, Config config,
                 llvm::ArrayRef<int> fills, int64_t smCount,
                 Emit<Config> emit) {
  int64_t lastSplits = 0;
  for (int fill : fills) {
    config.fill = fill;
    const DecodeGrid grid(problem, blocksOf(config), smCount);
    if (std::exchange(lastSplits, grid.splits) != grid.splits)
      emit(config);
  }
}

} // namespace kiln
