//===- transpose/TiledTransposeConfig.h - knobs of the tiled transpose ----===//
//
// The knobs, and the places of a tile's elements: the sub-block of x that a
// thread loads in each step, the chunk of y that it stores, and the chunk's
// place in shared memory in between. Host and kernel share these functions, so
// that a test on the host can walk through all of them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "transpose/TransposeParams.h"
#include "transpose/TransposeSignature.h"

namespace kiln {

/// Transposes tiles of tileRows x tileCols elements of x through shared memory.
/// A thread loads sub-blocks of vector x vector elements and transposes them in
/// registers. From then on it moves `chunks`, runs of `vector` elements of a
/// row of the transposed tile. Any architecture and size; with vector = 1 any
/// alignment.
struct TiledTransposeConfig {
  int tileRows = 128, tileCols = 128;
  int blockThreads = 256;
  int vector = 8; ///< elements of a global access, on both sides
  /// Bits: 1 stores are streaming, 2 loads bypass L1.
  int hint = 0;
  int rasterGroup = 1; ///< run-time value

  static constexpr const char *kName = "tiled";
  static constexpr int kStreamingStores = 1, kStreamingLoads = 2;
  /// A raster group that in practice holds all rows: tiles go down x's columns.
  static constexpr int kAllRows = 1024;

  template <class F> static constexpr void forEachField(F &&f) {
    f("tr", "tileRows", &TiledTransposeConfig::tileRows, 128);
    f("tc", "tileCols", &TiledTransposeConfig::tileCols, 128);
    f("t", "blockThreads", &TiledTransposeConfig::blockThreads, 256);
    f("v", "vector", &TiledTransposeConfig::vector, 8);
    f("h", "hint", &TiledTransposeConfig::hint, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("rg", "rasterGroup", &TiledTransposeConfig::rasterGroup, 1);
  }

  constexpr int threads() const { return blockThreads; }
  constexpr int vectorBytes(const TransposeSignature &signature) const {
    return vector * signature.elementBytes;
  }
  /// Pointers, pitches and extents have to be multiples of this.
  constexpr int neededAlign(const TransposeSignature &signature) const {
    return vectorBytes(signature);
  }
  constexpr int sharedBytes(const TransposeSignature &signature) const {
    return tileRows * tileCols * signature.elementBytes;
  }

  constexpr bool isValid(const TransposeSignature &signature) const {
    if (!signature.isWellFormed() || hint < 0 || hint > 3 || rasterGroup < 1)
      return false;
    for (int extent : {tileRows, tileCols})
      if (!isPowerOfTwo(extent) || extent < 32 || extent > 256)
        return false;
    if (!isPowerOfTwo(vector) || vectorBytes(signature) > signature.align)
      return false;
    // A vector smaller than a register would be packed from halves of rows.
    if (vector > 1 && vectorBytes(signature) < 4)
      return false;
    return isPowerOfTwo(blockThreads) && blockThreads >= 32 &&
           blockThreads <= 1024 && blockThreads <= subBlocks();
  }

  // Sub-blocks of vector x vector elements.
  constexpr int subBlocksPerRow() const { return tileCols / vector; }
  constexpr int subBlocks() const {
    return tileRows / vector * subBlocksPerRow();
  }
  constexpr int subBlocksPerThread() const {
    return subBlocks() / blockThreads;
  }
  /// Registers of one sub-block.
  constexpr int subBlockWords(const TransposeSignature &signature) const {
    int bytes = vectorBytes(signature);
    return vector * (bytes < 4 ? 1 : bytes / 4);
  }
  /// Sub-blocks that a thread loads before it stores the first one.
  constexpr int subBlocksAtOnce(const TransposeSignature &signature) const {
    // Each vector of a single element has an address and a mask of its own.
    int limit = vector == 1 ? kLoadRegisters / 2 : kLoadRegisters;
    int fit = limit / subBlockWords(signature);
    int all = subBlocksPerThread();
    return fit < 1 ? 1 : fit < all ? fit : all;
  }

  /// Registers of a thread: the data in flight, which is transposed in place,
  /// and addresses. Several sub-blocks at once need more addresses, and single
  /// elements most, because each has its own. With these numbers ptxas 13.0
  /// does not spill on any architecture.
  constexpr int registers(const TransposeSignature &signature) const {
    int atOnce = subBlocksAtOnce(signature);
    int addresses = vector == 1 ? 64 : atOnce > 1 ? 40 : 32;
    return atOnce * subBlockWords(signature) + addresses;
  }
  /// Blocks that the registers of an SM (64 Ki, all architectures) hold.
  constexpr int minBlocks(const TransposeSignature &signature) const {
    int byRegisters = 65536 / (registers(signature) * blockThreads);
    int byThreads = 1024 / blockThreads; // of sm_75, the smallest limit
    int least = byRegisters < byThreads ? byRegisters : byThreads;
    return least < 1 ? 1 : least;
  }

  /// Row and column, in sub-blocks, of sub-block \p index of the tile:
  /// consecutive threads walk along a row of x.
  constexpr int subBlockRow(int index) const {
    return index / subBlocksPerRow();
  }
  constexpr int subBlockColumn(int index) const {
    return index % subBlocksPerRow();
  }

  // Chunks of the transposed tile, in the order of its rows: consecutive
  // threads walk along a row of y.
  constexpr int chunksPerRow() const { return tileRows / vector; }
  constexpr int chunks() const { return tileCols * chunksPerRow(); }
  constexpr int chunkRow(int index) const { return index / chunksPerRow(); }
  constexpr int chunkColumn(int index) const { return index % chunksPerRow(); }
  constexpr int chunkIndex(int row, int column) const {
    return row * chunksPerRow() + column;
  }

  /// Place of chunk \p index, in chunks from the start of shared memory; a
  /// permutation of the chunks of each sub-block column. See the head of
  /// TiledTranspose.cuh.
  constexpr int place(const TransposeSignature &signature, int index) const {
    int perLine = kBankLineBytes / vectorBytes(signature);
    int span = perLine < tileRows ? perLine : tileRows;
    // Neighbouring columns that would share a line of banks without the XOR.
    int columnsPerLine = perLine / span;
    // A bank has 4 bytes: narrower chunks share one, and step by their number.
    int step = perLine > 32 ? perLine / 32 : 1;
    // With few sub-blocks in a row, the lanes of an access span several rows.
    int wide = span / subBlocksPerRow();
    int stride = wide > step ? wide : step;
    int column = index / tileRows; // chunks of one sub-block column: tileRows
    return index ^ (column / columnsPerLine * stride & (span - 1));
  }

  /// Tiles, and blocks of the one-dimensional grid; must stay below 2^31.
  constexpr long long tileRowCount(const TransposeSignature &,
                                   const TransposeParams &params) const {
    return (params.rows + tileRows - 1) / tileRows;
  }
  constexpr long long tileColumnCount(long long cols) const {
    return (cols + tileCols - 1) / tileCols;
  }

  friend constexpr bool operator==(const TiledTransposeConfig &,
                                   const TiledTransposeConfig &) = default;

private:
  static constexpr int kLoadRegisters = 32;
  static constexpr int kBankLineBytes = 128; // 32 banks of 4 bytes

  static constexpr bool isPowerOfTwo(int value) {
    return value > 0 && (value & (value - 1)) == 0;
  }
};

/// referenceTranspose has no knobs.
struct ReferenceTransposeConfig {
  static constexpr int kTile = 32, kTileRows = 8;
  static constexpr int threads() { return kTile * kTileRows; }
  /// Blocks of the one-dimensional grid for \p rows rows of y.
  static constexpr long long blocks(long long rows, long long columns) {
    return ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  }
};

} // namespace kiln
