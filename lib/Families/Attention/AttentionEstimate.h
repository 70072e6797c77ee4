//===- AttentionEstimate.h - predicted times of attention kernels ---------===//
//
// Plain functions over plain inputs, for all templates of the family: what a
// kernel is to the estimate is said by one of the structs below. Lengths are
// those that the problem expects (AttentionProblem::typicalKeys), not its
// bounds; capacities are not looked at. docs/estimate.md has the formulas.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionProblem.h"
#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"

#include "Device/DeviceModel.h"

namespace kiln {

/// How the results of splits of the keys come together.
enum class SplitMerge {
  None,            ///< there is one split
  Cluster,         ///< a cluster has all splits of its rows
  DependentLaunch, ///< a second kernel that starts early
  Launch,          ///< a second kernel
  LastBlock,       ///< the block that is last
};

/// Which tile a block takes next.
enum class TileOrder {
  Static,       ///< its n-th is known before: blocks stay and stride
  Pairs,        ///< likewise, two at once: one of the last rows and first ones
  Dynamic,      ///< the next of a counter, or of the grid
  LongestFirst, ///< likewise, and tiles with most keys come first
};

/// A kernel whose blocks hold a tile of rows of queries each and walk over the
/// keys: `sm90`, `mma`.
struct AttentionTileKernel {
  enum class Instruction { Wgmma, MmaSync } instruction = Instruction::Wgmma;
  int64_t rows = 128; ///< of queries, of a tile
  int64_t keys = 128; ///< of a step
  /// Heads of Q whose rows share a tile: 1, AttentionProblem::group(), or as
  /// many as make few tiles of these, of which the last one may have fewer.
  int64_t packed = 1;
  /// Rows of a tile that may have a query: whole tokens of packed heads. 0:
  /// all.
  int64_t filledRows = 0;
  /// Head dims as the kernel computes them, padding included; 0: as the problem
  /// has them.
  int64_t headDim = 0, valueDim = 0;
  TileOrder order = TileOrder::LongestFirst;
  bool isDrawn = false; ///< of wgmma: a counter has the number of a tile
  /// Of the keys, each a tile of its own, for AttentionProblem::keys.
  int64_t splits = 1;
  int64_t splitKeys = 0; ///< of a split; 0: keys / splits
  SplitMerge merge = SplitMerge::None;
  /// What a block has of shared memory, for the report.
  int64_t sharedBytes = 0;
  bool gathers = false; ///< K and V come by a copy for each row, or few rows
  /// Blocks that read the same keys from L2 once, by multicast.
  int64_t sharers = 1;
  /// Of wgmma: blocks of K, and of V, in flight; 0: tiles do not wait for the
  /// first ones.
  int64_t stages = 0;

  /// Of wgmma, with rows / 64 consumers: Q K^T of the next step is issued
  /// before P V of this one.
  bool overlaps = true;
  /// Of wgmma: consumers issue in turns.
  bool takesTurns = true;
  /// Of wgmma: weights of blocks without a mask, the first one and, where it
  /// says so, the last one excepted, are made over the origins of before.
  bool keepsOrigins = false, raisesLast = false;
  /// Of wgmma: consumers that have the same rows, each with a part of the
  /// columns of O, and the scores of other keys.
  int64_t columnParts = 1;
  /// Of wgmma: clocks that pages of a step keep the thread busy that loads.
  double pageClocks = 0;

  /// Of mma.sync.
  int64_t warps = 4, blocksPerSm = 2;
  bool asyncCopy = true;       ///< cp.async, not registers, fills tiles
  bool eagerLoads = true;      ///< the next tile loads under this one's product
  bool swizzled = true;        ///< tiles are read without bank conflicts
  bool residentQueries = true; ///< Q stays in registers
  bool foldedScale = true;     ///< one FFMA and an exp2 for each score
};

/// Launch + ramp + start + tiles + tail + beyond path + skew + merge: the SM
/// with most to do, or the bytes of DRAM. About half a microsecond. The kernel
/// must have rows, keys and splits.
Estimate estimateAttentionTiles(const AttentionProblem &problem,
                                const AttentionTileKernel &kernel,
                                const DeviceModel &device,
                                Detail detail = Detail::Terms);
/// The same as steps whose last result is the total.
Derivation explainAttentionTiles(const AttentionProblem &problem,
                                 const AttentionTileKernel &kernel,
                                 const DeviceModel &device);

/// A kernel for few rows of queries that streams K and V: a block has all rows
/// of a head of K (rows of its heads of Q are packed), and each of its warps
/// has a ring of pieces of keys. `decode`.
struct AttentionDecodeKernel {
  int64_t rows = 16;  ///< of queries of a block, a multiple of 16
  int64_t warps = 4;  ///< rings: each a warp's own, or of several warps
  int64_t parts = 1;  ///< warps of a ring: all scores, a part of O's columns
  int64_t stages = 3; ///< pieces of a ring
  int64_t pieceKeys = 16; ///< keys of a piece
  int64_t copyBytes = 16; ///< of a lane's copy
  int64_t blocksPerSm = 2;
  /// Of the keys: as many as the grid has for the most keys of a sequence
  /// (AttentionProblem::keys), of splitKeys each; blocks of splits without keys
  /// leave at once.
  int64_t splits = 1;
  int64_t splitKeys = 0; ///< 0: keys / splits
  SplitMerge merge = SplitMerge::None;
};

/// Launch + ramp + ends + stream + skew + uneven + empty blocks + merge: bytes
/// at the rate that those in flight leave, or arithmetic. About half a
/// microsecond.
Estimate estimateAttentionDecode(const AttentionProblem &problem,
                                 const AttentionDecodeKernel &kernel,
                                 const DeviceModel &device,
                                 Detail detail = Detail::Terms);
Derivation explainAttentionDecode(const AttentionProblem &problem,
                                  const AttentionDecodeKernel &kernel,
                                  const DeviceModel &device);

/// A kernel with a thread, or a group of threads, for each row of queries and
/// ordinary arithmetic. `naive`.
Estimate estimateNaiveAttention(const AttentionProblem &problem,
                                const DeviceModel &device,
                                Detail detail = Detail::Terms);
Derivation explainNaiveAttention(const AttentionProblem &problem,
                                 const DeviceModel &device);

/// Blocks of keys that tiles of rows of queries see.
struct VisibleBlocks {
  int64_t tiles = 0;  ///< of rows, of one sequence and (packed) head
  int64_t empty = 0;  ///< of tiles: those that see no keys
  int64_t blocks = 0; ///< of keys, of all these tiles together
  /// Of one tile: of the most and the fewest.
  int64_t longest = 0, shortest = 0;
  /// Of blocks: those that not every row of the tile sees all of. Of windows
  /// narrower than a tile and a block, all of them.
  int64_t masked = 0;
};

/// Counts for the lengths to expect and tiles of \p rows rows, of which \p
/// packed in a row are heads of one query, and blocks of \p keys keys. Exact;
/// of a window's longest and shortest tile within a block. Does not loop over
/// tiles.
VisibleBlocks visibleBlocks(const AttentionProblem &problem, int64_t rows,
                            int64_t packed, int64_t keys);

} // namespace kiln
