//===- transpose/ShiftedTranspose.cuh - tiles of rows that begin anywhere -===//
//
// Where rows begin between two multiples of 16 bytes, each at another place, no
// vector of x is a vector of y. Yet all accesses to memory are of 16 bytes:
//
// - The tile copies the aligned vectors that its columns touch in each row of x
//   to a row of shared memory; see GatheredRows.cuh.
// - Elements of one and two bytes are transposed there, by squares of one word
//   on a side; see Squares.cuh. Each row of x has a shift of its own, by which
//   its words are assembled. Words stay in the rows of their square.
// - From there a thread takes an aligned vector of y: the words of its rows,
//   one more than fill it, shifted by the misalignment of the row of y. Rows of
//   y one period apart are misaligned alike, so a thread that stores such rows
//   computes its addresses once. Elements of four bytes are words already, and
//   the shift of their row is in the address.
// - Pieces of rows of y begin and end at multiples of a sector of 32 bytes. So
//   a tile's piece may begin up to a sector before the tile's first row: the
//   tile loads those rows, too. Vectors are cut only at the two ends of a row
//   of y, and stored by four narrower accesses at most.
//
// With asynchronous copies, all bytes of a block are in flight at once and take
// no registers; a few blocks on an SM are enough.
//
// Bank conflicts. The lanes of a warp take 8 vectors of y in 4 rows each. One
// instruction reads words of 8 squares, which are `vector` rows apart, for 4
// neighbouring columns. Rows of shared memory begin at multiples of 16 bytes.
// One more group of 16 bytes is left out behind every `vector` rows. So the
// distance of the 8 squares is odd in such groups, and the words of one column
// are in 8 different groups. The words of 4 columns differ in their place
// within a group; see squareOffset(). Exception: elements of four bytes stay in
// place, so lanes on different rows of y conflict at random where each row is
// misaligned in its own way.
//
// Rejected: gathering single elements (16 accesses for a vector of 16 bytes
// take shared memory as long as DRAM takes); words of x to registers and
// vectors of columns from there to shared memory, with two or three thirds of
// the bytes in flight (H200, int8 4091 x 12496: 43 us); pieces of y that end at
// multiples of 16 bytes (shared sectors cost 4 %).
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
  /// Words that a vector of y may draw its elements from.
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

    /// The rows of shared memory that hold rows of x. The first tile has no
    /// rows of x before its own.
    int firstRow() const { return isShifted && row > 0 ? 0 : kExtraRows; }
    int endRow() const {
      return min(leftOf(rows, row), kConfig.tileRows) + kExtraRows;
    }
    /// Bytes from a multiple of 16 to the start of row \p i, in x and in shared
    /// memory.
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

  // Neighbouring lanes take neighbouring squares; some of the threads share
  // kSide rows. Rows kPeriod apart have the same alignment.
  static constexpr int kRowWords = kConfig.tileCols / kSide;
  static constexpr int kLanes = kRowWords < 32 ? kRowWords : 32;
  static constexpr int kSquareRows = kThreads / kLanes * kSide;
  static constexpr int kPeriod = kSquareRows < 16 ? 16 : kSquareRows;

  /// Transposes the tile's squares in place. The lanes of a warp have all
  /// squares of their rows, and read the squares of a step before they write
  /// any: rows move forward by their shift, to words that this step or an
  /// earlier one has read. Parts of squares beyond x are never stored.
  static void transposeSquares(const Tile &tile, char *shared) {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
    for (int i = 0; i < kPeriod; i += kSquareRows) {
      const int row = tile.firstRow() + i + thread / kLanes * kSide;
      transposeRows(tile, shared, row, thread % kLanes);
    }
  }

  /// transposeSquares() for the squares from \p row on whose rows have the same
  /// alignment, a period apart: square \p lane of every step.
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

  /// Stores a chunk of each row of y with the misalignment of row \p column of
  /// the tile.
  static void storeKind(const Tile &tile, const char *shared, int chunk,
                        int column) {
    // The first row of x of the chunk, and its row in the tile.
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

  /// Offset of the word that has column \p column of the rows from \p row on.
  static int wordOffset(const Tile &tile, int row, int column) {
    if constexpr (kSide > 1)
      return kConfig.squareOffset(kSignature, row, column);
    return kConfig.rowOffset(kSignature, row) +
           static_cast<int>(tile.past(row)) + column * kElementBytes;
  }

  /// Stores the elements [begin, end) of a vector, or all with kWhole, to the
  /// row of y at \p to and to the rows that follow kStep apart, among \p cols
  /// rows.
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
  /// without the first \p shift bits. With a shift of 0 the last word is not
  /// read.
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
