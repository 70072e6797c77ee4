//===- gemm/SplitK.cuh - ranges of k, and blocks that share a tile --------===//
//
// splitK blocks may share a tile of D, each with a range of k. They store fp32
// partial sums. The last block to arrive, by a counter, adds all of them in the
// order of the splits and finishes the tile. No block waits for another, and
// the bits do not depend on which one is last. The counter is reset to zero for
// the next launch.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "common/Raster.cuh"
#include "gemm/GemmParams.h"
#include "gemm/SplitTiles.h"

namespace kiln {

/// Blocks that share a tile; a constant in kernels that are compiled without
/// splits.
template <auto kConfig> int splitsOf(const GemmParams &params) {
  return kConfig.splits != 0 ? params.splitK : 1;
}

/// A block's piece of a grid of SplitTiles.
struct SplitWork : TileWork {
  int splits;       ///< blocks that share the tile
  long long shared; ///< the tile's number among the tiles that are split
};

/// The work of block \p block. Tiles come in the order of their index; tiles
/// that are not split come first.
template <auto kConfig>
SplitWork splitWork(unsigned block, const GemmParams &params) {
  constexpr SplitTiles kGrid = kConfig.grid();
  int tilesM = tileCount(params.m, kGrid.tileM);
  int tilesN = tileCount(params.n, kGrid.tileN);
  if constexpr (kConfig.splits == 0)
    return {tileWork(block, tilesM, tilesN, 1, params.rasterGroup), 1, 0};
  unsigned whole = params.wholeTiles, tile = block, split = 0;
  if (block >= whole) {
    unsigned rest = static_cast<unsigned>(tilesM) * tilesN *
                        static_cast<unsigned>(params.batch) -
                    whole;
    split = (block - whole) / rest;
    tile = block - split * rest;
  }
  SplitWork work{tileWork(tile, tilesM, tilesN, 1, params.rasterGroup)};
  work.split = static_cast<int>(split);
  work.splits = block < whole ? 1 : params.splitK;
  work.shared = static_cast<long long>(tile) - whole;
  return work;
}

/// The tiles of kBlockK steps of k that belong to a block.
template <int kBlockK> struct KRange {
  int first, count;
  int total; ///< tiles of the whole problem
  int tail;  ///< steps of k in its last tile; all others are full

  KRange(const GemmParams &params, int split, int splits) {
    total = tileCount(params.k, kBlockK);
    int perSplit = tileCount(total, splits);
    first = min(split * perSplit, total);
    count = min(perSplit, total - first);
    tail = static_cast<int>(params.k - (total - 1ll) * kBlockK);
  }

  /// Steps of k before the block's first.
  long long begin() const { return static_cast<long long>(first) * kBlockK; }
  /// Existing steps of k in the block's tile \p tile.
  int leftOf(int tile) const {
    return first + tile == total - 1 ? tail : kBlockK;
  }
  /// Steps of k from the block's tile \p tile to the end of the problem, cut to
  /// two tiles more, which is enough for all callers and fits an int.
  int leftFrom(int tile) const {
    return min(total - 1 - first - tile, 2) * kBlockK + tail;
  }
};

/// Start of a matrix of the batch for a block: \p extentBegin rows or columns
/// and \p kBegin steps of k in. \p batchOffset and \p ld are in elements.
template <int kElementBytes>
const char *operandStart(const void *matrix, long long batchOffset, bool kMajor,
                         long long extentBegin, long long kBegin,
                         long long ld) {
  long long offset =
      kMajor ? extentBegin * ld + kBegin : kBegin * ld + extentBegin;
  return static_cast<const char *>(matrix) +
         (batchOffset + offset) * kElementBytes;
}

/// Called by all threads of a block that shares split tile \p tile, after each
/// has stored its partial sums. True in the block that arrives last: it then
/// sees the sums of all splits.
inline bool isLastSplit(const GemmParams &params, long long tile) {
  __shared__ bool isLast;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    unsigned before = ptx::atomAddAcqRel(params.counters + tile, 1);
    isLast = before == static_cast<unsigned>(params.splitK) - 1;
    if (isLast)
      params.counters[tile] = 0;
    __threadfence();
  }
  __syncthreads();
  return isLast;
}

} // namespace kiln
