//===- transpose/TiledTranspose.cuh - transposition by tiles --------------===//
//
// A transposition moves as many bytes as a copy, so it is slower only by the
// way in which it accesses them. DRAM needs long contiguous pieces on both
// sides, L1 needs 16 bytes from each lane on both sides, and enough loads must
// be in flight all the time. Hence:
//
// - A tile is tileCols elements long in x and tileRows elements long in y; both
//   are knobs, because both are lengths of contiguous pieces in memory.
// - A thread loads `vector` rows of `vector` elements, up to 16 bytes each:
//   one sub-block, all of its loads in flight before the first is used.
// - It transposes the sub-block in registers. Elements of 4 bytes only change
//   their names; narrower ones take a byte permute for each register and
//   halving. The results are `vector` chunks of `vector` elements which are
//   contiguous in y, and every further access moves a whole chunk.
// - The chunks go through shared memory, so that neighbouring lanes get
//   neighbouring chunks of a row of y: one warp stores pieces of tileRows
//   elements.
// - A block is a tile, and nothing is pipelined within it: several blocks are
//   resident on an SM, and some store while others wait.
//
// Bank conflicts. An access of 16 bytes a lane is done for 8 lanes at a time (8
// bytes: 16; 4 bytes: 32), whose chunks should fill a line of 128 bytes of
// banks. Reads take consecutive chunks of the transposed tile: one line. In
// writes consecutive lanes hold consecutive sub-blocks of a row of x, whose
// chunks are `vector` rows of the transposed tile apart. That is a multiple of
// the line, so without further measures all would be in the same banks. So a
// chunk's index is XORed, within its line, with its sub-block column. The
// lanes' columns are distinct modulo the chunks of a line, and so are their
// places. The XOR is the same for all chunks of a line, so reads stay free of
// conflicts. With fewer sub-blocks in a row than chunks in a line, the lanes
// span several rows; these differ in the low bits of the index, and the column
// is XORed into the bits above. Padding instead would cost the alignment of
// 16-byte accesses or 1/8 of the memory, and residency with it.
//
// Rejected: tensor maps for the loads (they have a swizzle, but the
// transposition itself still needs the registers), ldmatrix.trans (2-byte
// elements only), and stores of 4-byte words into shared memory (fewer
// registers, four times the accesses).
//
// The ends of x are masked by whole sub-blocks: the signature promises that
// vectors divide both extents.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Access.cuh"
#include "common/Dependent.cuh"
#include "common/Raster.cuh"
#include "transpose/Squares.cuh"
#include "transpose/TiledTransposeConfig.h"
#include "transpose/TransposeParams.h"

namespace kiln {

/// A sub-block in registers: kVector rows of kVector elements.
template <int kVector, int kElementBytes> struct SubBlock {
  Words<kVector * kElementBytes> row[kVector];
};

/// Element (i, j) of the result is element (j, i) of \p in.
template <int kVector, int kElementBytes>
SubBlock<kVector, kElementBytes>
transposed(const SubBlock<kVector, kElementBytes> &in) {
  constexpr int kPerWord = 4 / kElementBytes;
  SubBlock<kVector, kElementBytes> out;
  if constexpr (kVector == 1)
    out = in;
  else {
    // Squares of one word on a side.
#pragma unroll
    for (int i = 0; i < kVector / kPerWord; ++i)
#pragma unroll
      for (int j = 0; j < kVector / kPerWord; ++j) {
        unsigned square[kPerWord];
#pragma unroll
        for (int k = 0; k < kPerWord; ++k)
          square[k] = in.row[kPerWord * j + k].word[i];
        transposeSquare<kElementBytes>(square);
#pragma unroll
        for (int k = 0; k < kPerWord; ++k)
          out.row[kPerWord * i + k].word[j] = square[k];
      }
  }
  return out;
}

template <TransposeSignature kSignature, TiledTransposeConfig kConfig>
class TiledTranspose {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kElementBytes = kSignature.elementBytes;
  static constexpr int kVector = kConfig.vector;
  static constexpr int kVectorBytes = kConfig.vectorBytes(kSignature);
  static constexpr int kAtOnce = kConfig.subBlocksAtOnce(kSignature);
  static constexpr CacheHint kLoadHint =
      kConfig.hint & TiledTransposeConfig::kStreamingLoads
          ? CacheHint::Streaming
          : CacheHint::Plain;
  static constexpr CacheHint kStoreHint =
      kConfig.hint & TiledTransposeConfig::kStreamingStores
          ? CacheHint::Streaming
          : CacheHint::Plain;
  using Square = SubBlock<kVector, kElementBytes>;

  /// The block's tile: its origin in x, and its size inside of x, in elements.
  struct Tile {
    const char *x;
    char *y;
    long long xPitch, yPitch; // bytes of a row
    int rows, cols;
  };

public:
  static void run(const TransposeParams &params) {
    extern __shared__ __align__(128) char shared[];
    Tile tile = setup(params);
    constexpr int kPasses = kConfig.subBlocksPerThread() / kAtOnce;
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass) {
      Square squares[kAtOnce];
      load(tile, pass * kAtOnce, squares);
      fill(shared, pass * kAtOnce, squares);
    }
    __syncthreads();
    store(tile, shared);
  }

private:
  static Tile setup(const TransposeParams &params) {
    TileWork work = tileWork(
        blockIdx.x, tileCount(params.rows, kConfig.tileRows),
        tileCount(params.cols, kConfig.tileCols), 1, params.rasterGroup);
    long long row = static_cast<long long>(work.tileM) * kConfig.tileRows;
    long long column = static_cast<long long>(work.tileN) * kConfig.tileCols;
    Tile tile;
    tile.x = static_cast<const char *>(params.x) +
             (row * params.ldx + column) * kElementBytes;
    tile.y = static_cast<char *>(params.y) +
             (column * params.ldy + row) * kElementBytes;
    tile.xPitch = params.ldx * kElementBytes;
    tile.yPitch = params.ldy * kElementBytes;
    tile.rows = leftOf(params.rows, row);
    tile.cols = leftOf(params.cols, column);
    return tile;
  }

  /// Index of the thread's \p number-th sub-block.
  static int indexOf(int number) {
    return number * kConfig.threads() + static_cast<int>(threadIdx.x);
  }

  /// Loads the thread's sub-blocks from number \p first on.
  static void load(const Tile &tile, int first, Square (&squares)[kAtOnce]) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      int row = kConfig.subBlockRow(indexOf(first + i)) * kVector;
      int column = kConfig.subBlockColumn(indexOf(first + i)) * kVector;
      if (row >= tile.rows || column >= tile.cols)
        continue;
      const char *from = tile.x + row * tile.xPitch + column * kElementBytes;
#pragma unroll
      for (int j = 0; j < kVector; ++j)
        squares[i].row[j] =
            loadVector<kVectorBytes, kLoadHint>(from + j * tile.xPitch);
    }
  }

  /// Writes their chunks to shared memory. Chunks outside of x hold anything,
  /// and are never stored to y.
  static void fill(char *shared, int first, const Square (&squares)[kAtOnce]) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      int index = indexOf(first + i);
      int row = kConfig.subBlockColumn(index) * kVector; // of the chunk
      int column = kConfig.subBlockRow(index);
      Square square = transposed(squares[i]);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        int place =
            kConfig.place(kSignature, kConfig.chunkIndex(row + j, column));
        storeVector<kVectorBytes>(shared + place * kVectorBytes, square.row[j]);
      }
    }
  }

  /// Stores the chunks of the transposed tile to y, row by row.
  static void store(const Tile &tile, const char *shared) {
    constexpr int kChunks = kConfig.chunks() / kConfig.threads();
    constexpr int kUnroll = kChunks < 8 ? kChunks : 8;
#pragma unroll kUnroll
    for (int i = 0; i < kChunks; ++i) {
      int index = indexOf(i);
      int row = kConfig.chunkRow(index);
      int column = kConfig.chunkColumn(index) * kVector;
      if (row >= tile.cols || column >= tile.rows)
        continue;
      int place = kConfig.place(kSignature, index);
      storeVector<kVectorBytes, kStoreHint>(
          tile.y + row * tile.yPitch + column * kElementBytes,
          loadVector<kVectorBytes>(shared + place * kVectorBytes));
    }
  }
};

/// y[c, r] = x[r, c], on kConfig.tileRowCount(..) * tileColumnCount(..) blocks.
template <TransposeSignature kSignature, TiledTransposeConfig kConfig>
void tiledTranspose(const TransposeParams &params) {
  allowSuccessor();
  awaitPredecessor();
  TiledTranspose<kSignature, kConfig>::run(params);
}

} // namespace kiln
