//===- DecodeGrid.h - how decode kernels share the keys out ---------------===//
//
// Decided from what the host knows alone: sizes, bounds, what to expect of
// lengths in device memory. So a captured launch stays right when lengths
// change. Few sequences with few heads of K leave SMs idle, and their keys are
// split until there is a block for each SM; more splits than that cost more
// than they bring. Where sequences may be much longer than usual, splits have a
// fixed length instead, and short sequences leave most of theirs empty.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionProblem.h"
#include "attention/DecodeAttentionConfig.h"

namespace kiln {

/// Blocks of a kernel that decodes, as far as the grid asks for them.
struct DecodeBlocks {
  int64_t rows;  ///< of queries
  int64_t tile;  ///< keys; splits have whole ones
  int64_t rings; ///< that have tiles of their own
  int fill;      ///< quarters of a block for each SM that splits make up
  bool isCluster = false; ///< of all splits

  DecodeBlocks(int64_t rows, int64_t tile, int64_t rings, int fill)
      : rows(rows), tile(tile), rings(rings), fill(fill) {}
  explicit DecodeBlocks(const DecodeAttentionConfig &config)
      : rows(config.rows), tile(config.tile), rings(config.rings()),
        fill(config.fill), isCluster(config.cluster != 0) {}
};

struct DecodeGrid {
  int64_t rowBlocks = 1; ///< of a head of K
  int64_t splits = 1;
  int64_t splitKeys = 1; ///< from the first key that a query sees

  /// Splits become longer where their results would take more, unless the
  /// problem fixes them.
  static constexpr int64_t kMostPartialBytes = int64_t(64) << 20;
  static constexpr int64_t kMaxPartialRows = int64_t(1) << 40;

  /// For \p smCount SMs. \p partialRows: rows of partial results that there is
  /// room for, where that is a limit. Nanoseconds.
  DecodeGrid(const AttentionProblem &problem, const DecodeBlocks &blocks,
             int64_t smCount, int64_t partialRows = kMaxPartialRows);
  DecodeGrid(const AttentionProblem &problem,
             const DecodeAttentionConfig &config, int64_t smCount,
             int64_t partialRows = kMaxPartialRows)
      : DecodeGrid(problem, DecodeBlocks(config), smCount, partialRows) {}

  /// Rows of partial results, over all splits.
  int64_t rows(const AttentionProblem &problem) const;
};

/// Keys of a sequence of \p keys keys that its queries see together, at most.
int64_t mostVisibleKeys(const AttentionProblem &problem, int64_t keys);

/// Rows of partial results that launches of a plan may need whose problems are
/// at most \p problem.
int64_t partialRowsOfPlan(const AttentionProblem &problem,
                          const DecodeBlocks &blocks, int64_t smCount);
inline int64_t partialRowsOfPlan(const AttentionProblem &problem,
                                 const DecodeAttentionConfig &config,
                                 int64_t smCount) {
  return partialRowsOfPlan(problem, DecodeBlocks(config), smCount);
}

} // namespace kiln
