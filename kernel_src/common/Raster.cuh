//===- common/Raster.cuh - from a block's index to its piece of work ------===//
//
// Blocks start in the order of their index, so neighbours in the index run at
// the same time and share their operands through L2. Within a group of
// `rasterGroup` tile rows the order goes down the rows first, then to the next
// column: a column's tiles of B serve the whole group, and the group's rows of
// A stay in L2 while it walks along n. Splits of k and batches are the
// outermost.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// Tiles of \p block elements that cover \p extent; below 2^31.
inline int tileCount(long long extent, int block) {
  return static_cast<int>((extent + block - 1) / block);
}

/// Elements of \p extent from \p begin on, cut to 2^30, which is more than any
/// tile needs.
inline int leftOf(long long extent, long long begin) {
  constexpr long long kEnough = 1ll << 30;
  return static_cast<int>(extent - begin < kEnough ? extent - begin : kEnough);
}

/// One block's piece of a batched GEMM.
struct TileWork {
  long long batch; ///< batch index
  int tileM, tileN;
  int split;
  long long tile; ///< flat index of the output tile over all batches
};

/// The work of block \p block of tilesM * tilesN * splits * batches blocks.
inline TileWork tileWork(unsigned block, int tilesM, int tilesN, int splits,
                         int rasterGroup) {
  unsigned perSplit = static_cast<unsigned>(tilesM) * tilesN;
  unsigned outer = block / perSplit; // batch * splits + split
  unsigned index = block - outer * perSplit;
  unsigned batch = outer / splits;

  unsigned perGroup = static_cast<unsigned>(rasterGroup) * tilesN;
  unsigned group = index / perGroup;
  unsigned within = index - group * perGroup;
  unsigned firstRow = group * rasterGroup;
  unsigned below = tilesM - firstRow;
  unsigned rows =
      below < static_cast<unsigned>(rasterGroup) ? below : rasterGroup;
  unsigned column = within / rows;

  TileWork work;
  work.batch = batch;
  work.tileM = firstRow + within - column * rows;
  work.tileN = column;
  work.split = outer - batch * splits;
  work.tile = static_cast<long long>(batch) * perSplit + index;
  return work;
}

} // namespace kiln
