//===- transpose/ShiftedTranspose.cuh - tiles of rows that begin anywhere -===//
//
// Where rows begin between two multiples of 16 bytes, each at another place, no
// vector of x is one of y. All accesses to memory are of 16 bytes all the same:
//
// - Of each row of x the tile copies the aligned vectors that its columns touch
//   to a row of shared memory; see GatheredRows.cuh.
// - From there a thread gathers single elements, those of an aligned vector of
//   y: one from each of the rows that the vector has. Each row has a shift of
//   its own, which is in the address. Rows of y a period apart are misaligned
//   alike, so a thread that stores such rows finds its addresses once.
// - Pieces of rows of y begin and end at multiples of a sector of 32 bytes. So
//   a tile's piece may begin up to a sector before the tile's first row: the
//   tile loads those rows, too. Vectors are stored by elements at both ends of
//   a row of y alone.
//
// With asynchronous copies, all bytes of a block are in flight at once and take
// no registers; a few blocks on an SM are enough.
//
// Bank conflicts. The lanes of a warp gather from 8 vectors of y, 4 rows each:
// of one instruction from 8 rows of x, which are `vector` rows apart, and 4
// neighbouring columns. Rows of shared memory begin at multiples of 16 bytes,
// so it is the 8 groups of 16 bytes that have to differ. One more group is left
// out behind each `vector` rows: then the distance of the 8 rows is odd in
// groups. The shift moves an element within its group's 16 bytes and the next,
// so lanes meet in a word at most. Exception: where rows of y are misaligned
// each in its own way, lanes of different rows of y meet at random.
//
// Rejected: shifting in registers, as vectors of x then need two loads or
// shuffles and y needs the same once more; elements of 4 bytes and less in
// registers, as a tile needs some 100 KB in flight; pieces of y that end at
// multiples of 16 bytes, whose shared sectors cost 4 %.
//
#pragma once

#include "common/Dependent.cuh"
#include "common/Raster.cuh"
#include "transpose/GatheredRows.cuh"
#include "transpose/ShiftedTransposeConfig.h"
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
  };

public:
  static void run(const TransposeParams &params) {
    extern __shared__ __align__(128) char shared[];
    Tile tile = setup(params);
    load(tile, shared);
    __syncthreads();
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
    // The first tile has no rows before its own, and the last few behind them.
    bool hasExtra = tile.isShifted && tile.row > 0;
    int end = min(leftOf(tile.rows, tile.row), kConfig.tileRows) + kExtraRows;
    tile.x.load(shared,
                tile.x.begin + (tile.row - kExtraRows) * tile.xPitch +
                    tile.column * kElementBytes,
                tile.xPitch, hasExtra ? 0 : kExtraRows, end, tile.cols);
  }

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
    const char *from[kVector];
    unsigned origin =
        addressBits(tile.x.begin) +
        static_cast<unsigned>(tile.column) * kElementBytes +
        static_cast<unsigned>(first) * static_cast<unsigned>(tile.xPitch);
#pragma unroll
    for (int k = 0; k < kVector; ++k)
      from[k] = shared +
                kConfig.rowOffset(kSignature, kExtraRows + inTile + k) +
                (origin + k * static_cast<unsigned>(tile.xPitch) & 15) +
                column * kElementBytes;
    bool isWhole = end - begin == kVector;
    constexpr int kStep = kConfig.rowStep(kSignature);
    constexpr int kSteps = kConfig.tileCols / kStep;
    constexpr int kUnroll = kConfig.unroll(kSignature);
#pragma unroll kUnroll
    for (int i = 0; i < kSteps; ++i) {
      if (column + i * kStep >= tile.cols)
        break;
      Words<16> value = Rows::gather(from, i * kStep * kElementBytes);
      char *at = to + i * (kStep * tile.yPitch);
      if (isWhole)
        storeVector<16>(at, value);
      else
        storeElements<16, kElementBytes>(at, value, begin, end);
    }
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
