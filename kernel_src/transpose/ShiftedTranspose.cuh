//===- transpose/ShiftedTranspose.cuh - tiles of rows that begin anywhere -===//
//
// Where rows begin between two multiples of 16 bytes, each at another place, no
// vector of x is one of y. All accesses to memory are of 16 bytes all the same:
//
// - Of each row of x the tile copies the aligned vectors that its columns touch
//   to a row of shared memory; see GatheredRows.cuh.
// - Elements of one and two bytes are transposed there, by squares of one word
//   on a side; see Squares.cuh. Each row of x has a shift of its own, by which
//   its words are put together. Words stay among those of their square's rows.
// - From there a thread takes an aligned vector of y: the words of its rows,
//   one more than fill it, shifted by what rows of y are misaligned. Rows of y
//   a period apart are misaligned alike, so a thread that stores such rows
//   finds its addresses once. Elements of four bytes are words already,
//   and the shift of their row is in the address.
// - Pieces of rows of y begin and end at multiples of a sector of 32 bytes. So
//   a tile's piece may begin up to a sector before the tile's first row: the
//   tile loads those rows, too. Vectors are cut at both ends of a row of y
//   alone, and stored by four narrower accesses at most.
//
// With asynchronous copies, all bytes of a block are in flight at once and take
// no registers; a few blocks on an SM are enough.
//
// Bank conflicts. The lanes of a warp take 8 vectors of y, 4 rows each: by one
// instruction words of 8 squares, which are `vector` rows apart, of 4
// neighbouring columns. Rows of shared memory begin at multiples of 16 bytes.
// One more group of 16 bytes is left out behind each `vector` rows: then the
// distance of the 8 squares is odd in such groups, and words of one column are
// in 8 different ones. The words of 4 columns differ in their place within a
// group; see squareOffset(). Exception: of elements of four bytes, which stay
// where they are, lanes of different rows of y meet at random where these are
// misaligned each in its own way.
//
// Rejected: gathering single elements, 16 accesses for a vector of 16 bytes,
// which take shared memory as long as DRAM takes; words of x to registers and
// vectors of columns from there to shared memory, with two or three thirds of
// the bytes in flight (H200, int8 4091 x 12496: 43 us); pieces of y that end at
// multiples of 16 bytes, whose shared sectors cost 4 %.
//
#pragma once

#include "common/Dependent.cuh"
#include "common/Raster.cuh"
#include "transpose/GatheredRows.cuh"
#include "transpose/ShiftedTransposeConfig.h"
#include "transpose/Squares.cuh"
#include "transpose/TransposeParams.h"

namespace kiln {

template <TransposeSignature kSignature, ShiftedTransposeConfig kConfig>
class ShiftedTranspose {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kElementBytes = kSignature.elementBytes;
  static constexpr int kVector = kConfig.vector(kSignature);
  static constexpr int kExtraRows = kConfig.extraRows(kSignature);
  static constexpr int kRowsAtOnce = kConfig.rowsAtOnce(kSignature);
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kSide = kConfig.squareSide(kSignature);
  /// Words that a vector of y may have elements of.
  static constexpr int kWords = kSide > 1 ? 5 : 4;
  using Rows = GatheredRows<ShiftedTransposeConfig, kSignature, kConfig>;

  /// The block's tile: its first row and column of x, and its columns.
  struct Tile {
    Rows x;
    char *y;
    long long xPitch, yPitch; // bytes of a row
    long long rows;           // of x
    long long row, column;
    int cols;
    bool isShifted;

    /// The rows of shared memory that have some of x: of the rows before the
    /// tile's own, the first tile has none.
    int firstRow() const { return isShifted && row > 0 ? 0 : kExtraRows; }
    int endRow() const {
      return min(leftOf(rows, row), kConfig.tileRows) + kExtraRows;
    }
    /// Bytes that row \p i of shared memory begins behind a multiple of 16, in
    /// x and there.
    unsigned past(int i) const {
      return addressBits(x.begin) +
                 static_cast<unsigned>(column) * kElementBytes +
                 (static_cast<unsigned>(row) + i - kExtraRows) *
                     static_cast<unsigned>(xPitch) &
             15;
    }
  };

public:
  static void run(const TransposeParams &params) {
    extern __shared__ __align__(128) char shared[];
    Tile tile = setup(params);
    load(tile, shared);
    __syncthreads();
    if constexpr (kSide > 1) {
      transposeSquares(tile, shared);
      __syncthreads();
    }
    store(tile, shared);
  }

private:
  static unsigned addressBits(const void *pointer) {
    return static_cast<unsigned>(reinterpret_cast<unsigned long long>(pointer));
  }

  static Tile setup(const TransposeParams &params) {
    Tile tile;
    tile.x = Rows::of(params);
    tile.y = static_cast<char *>(params.y);
    tile.xPitch = params.ldx * kElementBytes;
    tile.yPitch = params.ldy * kElementBytes;
    tile.isShifted = kConfig.isShifted(
        kSignature, reinterpret_cast<unsigned long long>(params.y), params.ldy);
    int tileRows = static_cast<int>(
        kConfig.tileRowCount(kSignature, params.rows, tile.isShifted));
    int tileColumns = static_cast<int>(kConfig.tileColumnCount(params.cols));
    TileWork work =
        tileWork(blockIdx.x, tileRows, tileColumns, 1, params.rasterGroup);
    tile.rows = params.rows;
    tile.row = static_cast<long long>(work.tileM) * kConfig.tileRows;
    tile.column = static_cast<long long>(work.tileN) * kConfig.tileCols;
    tile.cols = min(leftOf(params.cols, tile.column), kConfig.tileCols);
    return tile;
  }

  static void load(const Tile &tile, char *shared) {
    tile.x.load(shared,
                tile.x.begin + (tile.row - kExtraRows) * tile.xPitch +
                    tile.column * kElementBytes,
                tile.xPitch, tile.firstRow(), tile.endRow(), tile.cols);
  }

  //===--------------------------------------------------------------------===//
  // Squares
  //===--------------------------------------------------------------------===//

  // Lanes take neighbouring squares, some of the threads those of kSide rows.
  // Rows kPeriod apart begin alike.
  static constexpr int kRowWords = kConfig.tileCols / kSide;
  static constexpr int kLanes = kRowWords < 32 ? kRowWords : 32;
  static constexpr int kSquareRows = kThreads / kLanes * kSide;
  static constexpr int kPeriod = kSquareRows < 16 ? 16 : kSquareRows;

  /// Transposes the tile's squares in place. Lanes of a warp have all squares
  /// of their rows, and read those of a step before they write one: rows are
  /// moved forward by their shift, to words that this step has read or one
  /// before. What squares have beyond x nobody stores.
  static void transposeSquares(const Tile &tile, char *shared) {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
    for (int i = 0; i < kPeriod; i += kSquareRows) {
      const int row = tile.firstRow() + i + thread / kLanes * kSide;
      transposeRows(tile, shared, row, thread % kLanes);
    }
  }

  /// The same of the squares from \p row on whose rows begin alike, a period
  /// from each other: of every step number \p lane.
  static void transposeRows(const Tile &tile, char *shared, int row, int lane) {
    const char *from[kSide];
    char *to[kSide];
    unsigned shift[kSide]; // bits
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const unsigned past = tile.past(row + i);
      shift[i] = past % 4 * 8;
      from[i] = shared + kConfig.rowOffset(kSignature, row + i) + past / 4 * 4 +
                lane * 4;
      to[i] = shared + kConfig.squareOffset(kSignature, row, lane * kSide + i);
    }
    constexpr int kSteps = kRowWords / kLanes, kStepBytes = kLanes * 4;
    constexpr int kUnroll = kSteps > 1 ? 1 : 2;
#pragma unroll kUnroll
    for (int i = 0; row + i < tile.endRow(); i += kPeriod) {
      const int offset = kConfig.rowOffset(kSignature, kPeriod) / kPeriod * i;
      unsigned square[kSide];
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) {
          const char *at = from[j] + offset + step * kStepBytes;
          unsigned low = loadVector<4>(at).word[0], high = 0;
          if (shift[j] != 0)
            high = loadVector<4>(at + 4).word[0];
          square[j] = __funnelshift_r(low, high, shift[j]);
        }
        __syncwarp(kLanes == 32 ? ~0u
                                : (1u << kLanes) - 1
                                      << threadIdx.x % 32 / kLanes * kLanes);
        transposeSquare<kElementBytes>(square);
#pragma unroll
        for (int j = 0; j < kSide; ++j)
          storeVector<4>(to[j] + offset + step * kStepBytes,
                         Words<4>{square[j]});
      }
    }
  }

  //===--------------------------------------------------------------------===//
  // Stores
  //===--------------------------------------------------------------------===//

  static void store(const Tile &tile, const char *shared) {
    constexpr int kWarpChunks = kConfig.warpChunks(kSignature);
    constexpr int kGroups = kConfig.chunksPerRow(kSignature) / kWarpChunks;
    int lane = static_cast<int>(threadIdx.x) % 32;
    int warp = static_cast<int>(threadIdx.x) / 32;
    int chunk = warp % kGroups * kWarpChunks + lane % kWarpChunks;
    int column = warp / kGroups * (32 / kWarpChunks) + lane / kWarpChunks;
#pragma unroll 1
    for (int i = 0; i < kConfig.kinds(kSignature); ++i)
      storeKind(tile, shared, chunk, column + i * kRowsAtOnce);
  }

  /// Stores a chunk of each row of y that is misaligned as row \p column of the
  /// tile is.
  static void storeKind(const Tile &tile, const char *shared, int chunk,
                        int column) {
    // Of the chunk: its first row of x, and of the tile.
    char *to = tile.y + (tile.column + column) * tile.yPitch +
               tile.row * kElementBytes;
    int past = static_cast<int>(addressBits(to) & (kConfig.kGrain - 1)) /
               kElementBytes;
    int inTile = chunk * kVector - past;
    to += inTile * kElementBytes;
    long long first = tile.row + inTile;
    int begin = first < 0 ? static_cast<int>(-first) : 0;
    int end = min(leftOf(tile.rows, first), kVector);
    if (begin >= end)
      return;
    const int row = kExtraRows + inTile;
    const char *from[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      from[i] = shared + wordOffset(tile, (row / kSide + i) * kSide, column);
    const unsigned shift = row % kSide * kElementBytes * 8;
    const int cols = tile.cols - column;
    if (end - begin == kVector)
      storeColumns<true>(from, shift, to, tile.yPitch, cols, begin, end);
    else
      storeColumns<false>(from, shift, to, tile.yPitch, cols, begin, end);
  }

  /// Where the word waits that has column \p column of the rows from \p row on.
  static int wordOffset(const Tile &tile, int row, int column) {
    if constexpr (kSide > 1)
      return kConfig.squareOffset(kSignature, row, column);
    return kConfig.rowOffset(kSignature, row) +
           static_cast<int>(tile.past(row)) + column * kElementBytes;
  }

  /// Stores the elements [begin, end) of a vector, or all with kWhole, to the
  /// row of y at \p to and to those kStep behind each other, \p cols rows at
  /// most.
  template <bool kWhole>
  static void storeColumns(const char *const (&from)[kWords], unsigned shift,
                           char *to, long long yPitch, int cols, int begin,
                           int end) {
    constexpr int kStep = kConfig.rowStep(kSignature);
    constexpr int kUnroll = kWhole ? kConfig.unroll(kSignature) : 1;
#pragma unroll kUnroll
    for (int i = 0; i < kConfig.tileCols / kStep; ++i) {
      if (i * kStep >= cols)
        return;
      Words<16> value = take(from, i * kStep * kElementBytes, shift);
      if constexpr (kWhole)
        storeVector<16>(to, value);
      else
        storeEnd<kElementBytes>(to, value, begin, end);
      to += kStep * yPitch;
    }
  }

  /// A vector of y: the words that lie \p offset bytes behind each of \p from,
  /// without the first \p shift bits. The last is not there where these are
  /// none.
  static Words<16> take(const char *const (&from)[kWords], int offset,
                        unsigned shift) {
    unsigned words[kWords] = {};
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      if (i < 4 || shift != 0)
        words[i] = loadVector<4>(from[i] + offset).word[0];
    Words<16> value;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      value.word[i] =
          kSide > 1 ? __funnelshift_r(words[i], words[i + (kSide > 1)], shift)
                    : words[i];
    return value;
  }
};

/// y[c, r] = x[r, c], on kConfig.tileRowCount(..) * tileColumnCount(..) blocks.
template <TransposeSignature kSignature, ShiftedTransposeConfig kConfig>
void shiftedTranspose(const TransposeParams &params) {
  allowSuccessor();
  awaitPredecessor();
  ShiftedTranspose<kSignature, kConfig>::run(params);
}

} // namespace kiln
