//===- AttentionEstimate.h - predicted times of attention kernels ---------===//
//
// Plain functions over plain inputs, for all templates of the family: one of
// the structs below describes a kernel to the estimate. Lengths are those that
// the problem expects (AttentionProblem::typicalKeys), not its bounds;
// capacities are ignored. docs/estimate.md has the formulas.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionProblem.h"
#include "Families/Walls.h"
#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"
#include "Model/Occupancy.h"

#include "Device/DeviceModel.h"

namespace kiln {

/// The way in which the results of splits are merged (split-KV).
enum class SplitMerge {
  None,            ///< there is one split
  Cluster,         ///< a cluster has all splits of its rows
  DependentLaunch, ///< a second kernel that starts early
  Launch,          ///< a second kernel
  LastBlock,       ///< the last block to finish
};

/// The order in which blocks take tiles.
enum class TileOrder {
  Static,       ///< known ahead: blocks stay and stride
  Pairs,        ///< likewise, by pairs of a tile of the last rows and one of
                ///< the first
  Dynamic,      ///< the next tile of a counter, or of the grid
  LongestFirst, ///< likewise, with the tiles of most keys first
};

/// A kernel whose blocks each hold a tile of rows of queries and walk over the
/// keys: `sm90`, `mma`.
struct AttentionTileKernel {
  enum class Instruction { Wgmma, MmaSync } instruction = Instruction::Wgmma;
  int64_t rows = 128; ///< of queries, of a tile
  int64_t keys = 128; ///< of a step
  /// Heads of Q whose rows share a tile: 1, AttentionProblem::group(), or a
  /// number that makes few tiles of the group, where the last tile may have
  /// fewer.
  int64_t packed = 1;
  /// Rows of a tile that may have a query: whole tokens of packed heads. 0: all
  /// rows.
  int64_t filledRows = 0;
  /// Head dims of the kernel, padding included; 0: the problem's.
  int64_t headDim = 0, valueDim = 0;
  TileOrder order = TileOrder::LongestFirst;
  bool isDrawn = false; ///< wgmma: a counter gives the number of a tile
  /// Splits of AttentionProblem::keys, each of which has tiles of its own.
  int64_t splits = 1;
  int64_t splitKeys = 0; ///< of a split; 0: keys / splits
  SplitMerge merge = SplitMerge::None;
  bool gathers = false; ///< K and V are copied row by row, or by few rows
  /// Blocks that read the same keys from L2 once, by multicast.
  int64_t sharers = 1;
  /// wgmma: blocks of K, and of V, in flight.
  int64_t stages = 0;
  /// wgmma: the next tile's first blocks load under this tile's last steps.
  bool loadsAhead = true;

  /// wgmma, with rows / 64 consumers: Q K^T of the next step is issued before P
  /// V of this one.
  bool overlaps = true;
  /// wgmma: consumers issue in turns.
  bool takesTurns = true;
  /// wgmma: weights of blocks without a mask are made over the origins of the
  /// blocks before. The first block is an exception, and with raisesLast the
  /// last one.
  bool keepsOrigins = false, raisesLast = false;
  /// wgmma: consumers that have the same rows; each has a part of the columns
  /// of O, and the scores of other keys.
  int64_t columnParts = 1;
  /// wgmma: boxes of pages that the loading thread issues in a step, and the
  /// clocks that one keeps it busy.
  int64_t boxes = 0;
  double boxClocks = 0;

  /// mma.sync.
  int64_t warps = 4, blocksPerSm = 2;
  bool asyncCopy = true;       ///< cp.async, not registers, fills tiles
  bool eagerLoads = true;      ///< the next tile loads under this one's product
  bool swizzled = true;        ///< tiles are read without bank conflicts
  bool residentQueries = true; ///< Q stays in registers
  bool foldedScale = true;     ///< one FFMA and an exp2 for each score
};

/// Launch + ramp + start + first keys + tiles + last tile + bytes beyond the
/// tiles + skew + merge: the SM
/// with the most work, or the bytes of DRAM. About half a microsecond. The
/// kernel must have rows, keys and splits.
Estimate estimateAttentionTiles(const AttentionProblem &problem,
                                const AttentionTileKernel &kernel,
                                const DeviceModel &device);
/// The same with its derivation: figures and words are added to \p steps.
Prediction<Figure> explainAttentionTiles(const AttentionProblem &problem,
                                         const AttentionTileKernel &kernel,
                                         const DeviceModel &device,
                                         Derivation &steps);

/// A kernel for few rows of queries that reads K and V once: a block has all
/// rows of a head of K (rows of its heads of Q are packed), and each of its
/// warps has a ring of pieces of keys. `decode`.
struct AttentionDecodeKernel {
  int64_t rows = 16;  ///< of queries of a block, a multiple of 16
  int64_t warps = 4;  ///< rings: each belongs to one warp, or to several
  int64_t parts = 1;  ///< warps of a ring: all scores, a part of O's columns
  int64_t stages = 3; ///< pieces of a ring
  int64_t pieceKeys = 16; ///< keys of a piece
  int64_t copyBytes = 16; ///< of a lane's copy
  int64_t blocksPerSm = 2;
  /// Splits of the grid for the most keys of a sequence
  /// (AttentionProblem::keys), of splitKeys each; blocks of splits without keys
  /// leave at once.
  int64_t splits = 1;
  int64_t splitKeys = 0; ///< 0: keys / splits
  SplitMerge merge = SplitMerge::None;
};

/// Launch + ramp + ends + stream + skew + uneven + empty blocks + merge: bytes
/// at the rate that the bytes in flight allow, or arithmetic. About half a
/// microsecond.
Estimate estimateAttentionDecode(const AttentionProblem &problem,
                                 const AttentionDecodeKernel &kernel,
                                 const DeviceModel &device);
Prediction<Figure> explainAttentionDecode(const AttentionProblem &problem,
                                          const AttentionDecodeKernel &kernel,
                                          const DeviceModel &device,
                                          Derivation &steps);

/// A kernel with a thread, or a group of threads, for each row of queries and
/// ordinary arithmetic. `naive`.
Estimate estimateNaiveAttention(const AttentionProblem &problem,
                                const DeviceModel &device);
Prediction<Figure> explainNaiveAttention(const AttentionProblem &problem,
                                         const DeviceModel &device,
                                         Derivation &steps);

/// Registers of a thread that multiplies, as the pruner of its template counts
/// them.
struct AttentionRegisters {
  int64_t output = 0;  ///< sums of O
  int64_t scores = 0;  ///< S in fp32
  int64_t weights = 0; ///< P in the type of Q, where S stays beside it
  int64_t queries = 0, keys = 0; ///< fragments of Q and of a step of K
  int64_t rows = 0;              ///< maxima and sums
  int64_t rest = 0;              ///< addresses and loop state

  int64_t total() const {
    return output + scores + weights + queries + keys + rows + rest;
  }
};

/// The limits of one kernel, in the numbers that its template prunes by.
struct AttentionWalls {
  AttentionRegisters registers;
  int64_t registerLimit = 0;
  llvm::StringRef registerRule; ///< the origin of the limit, a literal
  /// Registers that consumers trade up to by setmaxnreg; 0: none are traded.
  int64_t tradedRegisters = 0;
  SharedUse shared; ///< stages, and their bytes of K and V
  BlockResources block;
};
void addAttentionWalls(const AttentionWalls &walls, const DeviceModel &device,
                       Derivation &steps);

/// The rate of the unit that multiplies Q and K, a value of the device: in
/// tiles, and in decoding, which multiplies e4m3 as fp16, whatever Q is.
inline double DeviceModel::*
attentionRate(DType dtype, AttentionTileKernel::Instruction instruction) {
  const RateType type = rateTypeOf(dtype, ComputeMode::Native);
  return instruction == AttentionTileKernel::Instruction::Wgmma
             ? tensorRateOf(type)
             : mmaSyncRateOf(type);
}
inline double DeviceModel::*decodeRate(DType q, DType kv) {
  return mmaSyncRateOf(
      rateTypeOf(bytesOf(kv) == 1 ? DType::FP16 : q, ComputeMode::Native));
}

/// Blocks of keys that tiles of query rows see.
struct VisibleBlocks {
  int64_t tiles = 0;  ///< of rows, of one sequence and (packed) head
  int64_t empty = 0;  ///< tiles that see no keys
  int64_t blocks = 0; ///< of keys, of all these tiles together
  /// Blocks of the longest and of the shortest tile.
  int64_t longest = 0, shortest = 0;
  /// Blocks of which some row of the tile does not see all keys. Windows
  /// narrower than a tile and a block have no others.
  int64_t masked = 0;
};

/// Counts for the lengths to expect, tiles of \p rows rows, of which \p packed
/// in a row are heads of one query, and blocks of \p keys keys. The counts are
/// exact; a window's longest and shortest tile are exact within a block. Does
/// not loop over tiles.
VisibleBlocks visibleBlocks(const AttentionProblem &problem, int64_t rows,
                            int64_t packed, int64_t keys);

} // namespace kiln
