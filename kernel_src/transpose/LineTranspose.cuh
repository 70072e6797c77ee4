//===- transpose/LineTranspose.cuh - transposition of few rows ------------===//
//
// Where x has few rows, the rows of y are short, and pieces of them even
// shorter: a tile of 128 rows would be mostly empty, and few vectors of y would
// lie within a row. But a packed y is one line of memory, and all rows of some
// columns of x are one run of it. So a block takes such columns:
//
// - It copies its columns of each row of x to shared memory; see
//   GatheredRows.cuh.
// - It stores its run as aligned vectors. A vector has elements of one column
//   or of several, depending on the rows.
// - The run's elements before its first aligned vector and behind its last one
//   are stored singly. Where y begins at a multiple of 16 bytes only the last
//   block may have some, because whole tiles are whole sectors.
//
// The places of a vector's elements take a division and some steps for each
// row. But vectors repeat: after rows / gcd(rows, vector) of them, its `kinds`,
// the next vector begins at the same row of x, a few columns further. A thread
// computes the addresses of a kind once, and stores many vectors of it.
//
// Bank conflicts. Neighbouring lanes gather from rows that are `vector` apart,
// mostly in one column. Rows begin at multiples of a copy. One more copy is
// left out behind every `vector` rows, so that the distance of such rows is an
// odd number of copies. With copies of 4 bytes the lanes' elements lie in all
// banks; with copies of 16 bytes they lie in a quarter of the banks, 4 lanes in
// each.
//
// Rejected: computing a vector's addresses from its index, which takes 16
// instructions for each element; a tile with as many columns as fit shared
// memory, by whose number the kernel would have to divide.
//
// A y with gaps between its rows, which a plan for a range of rows may meet, is
// stored by elements.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "common/Raster.cuh"
#include "transpose/GatheredRows.cuh"
#include "transpose/LineTransposeConfig.h"
#include "transpose/TransposeParams.h"

namespace kiln {

template <TransposeSignature kSignature, LineTransposeConfig kConfig>
class LineTranspose {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kElementBytes = kSignature.elementBytes;
  static constexpr int kVector = kConfig.vector(kSignature);
  static constexpr int kThreads = kConfig.threads();
  using Rows = GatheredRows<LineTransposeConfig, kSignature, kConfig>;

  /// The block's columns.
  struct Tile {
    Rows x;
    const char *from;         // the first element of x
    char *to;                 // and of y
    long long xPitch, yPitch; // bytes of a row
    int rows, cols;

    int elements() const { return rows * cols; }
  };

public:
  static void run(const TransposeParams &params) {
    extern __shared__ __align__(128) char shared[];
    Tile tile = setup(params);
    tile.x.load(shared, tile.from, tile.xPitch, 0, tile.rows, tile.cols);
    __syncthreads();
    if (params.ldy == params.rows)
      storeLine(tile, shared);
    else
      storeSingly(tile, shared, 0, tile.elements());
  }

private:
  static Tile setup(const TransposeParams &params) {
    long long column = static_cast<long long>(blockIdx.x) * kConfig.tileCols;
    Tile tile;
    tile.xPitch = params.ldx * kElementBytes;
    tile.yPitch = params.ldy * kElementBytes;
    tile.x = Rows::of(params);
    tile.from = tile.x.begin + column * kElementBytes;
    tile.to = static_cast<char *>(params.y) + column * tile.yPitch;
    tile.rows = static_cast<int>(params.rows);
    tile.cols = min(leftOf(params.cols, column), kConfig.tileCols);
    return tile;
  }

  /// Address of an element in shared memory.
  static const char *placeOf(const Tile &tile, const char *shared, int row,
                             int column) {
    return shared + kConfig.rowOffset(kSignature, row) +
           Rows::past(tile.from + row * tile.xPitch) + column * kElementBytes;
  }

  /// Stores the elements [begin, end) of the tile, in the order of y.
  static void storeSingly(const Tile &tile, const char *shared, int begin,
                          int end) {
#pragma unroll 1
    for (int i = begin + static_cast<int>(threadIdx.x); i < end;
         i += kThreads) {
      int column = i / tile.rows, row = i - column * tile.rows;
      storeVector<kElementBytes>(
          tile.to + column * tile.yPitch + row * kElementBytes,
          loadVector<kElementBytes>(placeOf(tile, shared, row, column)));
    }
  }

  /// Stores the tile as a run of a packed y.
  static void storeLine(const Tile &tile, const char *shared) {
    const int elements = tile.elements();
    const int past = bytesPast(tile.to, 16) / kElementBytes;
    const int head = min((kVector - past) % kVector, elements);
    const int vectors = (elements - head) / kVector;
    storeVectors(tile, shared, head, vectors);
    if (head > 0)
      storeSingly(tile, shared, 0, head);
    if (head + vectors * kVector < elements)
      storeSingly(tile, shared, head + vectors * kVector, elements);
  }

  /// A vector of y, gathered from the elements that lie \p offset bytes behind
  /// each of \p from.
  static Words<16> gather(const char *const (&from)[kVector], int offset) {
    Words<16> value = {};
#pragma unroll
    for (int k = 0; k < kVector; ++k)
      value.word[k * kElementBytes / 4] |=
          loadVector<kElementBytes>(from[k] + offset).word[0]
          << k * kElementBytes % 4 * 8;
    return value;
  }

  /// Stores \p vectors vectors; the first one begins with element \p head of
  /// the run.
  static void storeVectors(const Tile &tile, const char *shared, int head,
                           int vectors) {
    const int common = min(tile.rows & -tile.rows, kVector);
    const int kinds = tile.rows / common;
    // Distance in a row of x between neighbours of one kind.
    const int kindBytes = 16 / common;
    // Groups with a thread for each kind, or one group with fewer threads.
    const int groups = max(kThreads / kinds, 1);
    const int thread = static_cast<int>(threadIdx.x);
    const int group = kinds < kThreads ? thread / kinds : 0;
    if (group == groups)
      return;
#pragma unroll 1
    for (int kind = thread - group * kinds; kind < kinds; kind += kThreads) {
      const char *from[kVector];
      const int first = head + kind * kVector;
      int column = first / tile.rows, row = first - column * tile.rows;
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        from[k] = placeOf(tile, shared, row, column);
        const bool isLast = ++row == tile.rows;
        row = isLast ? 0 : row;
        column += isLast;
      }
      char *to = tile.to + head * kElementBytes;
      int offset = group * kindBytes;
      constexpr int kUnroll = kConfig.unroll(kSignature);
#pragma unroll kUnroll
      for (int i = kind + group * kinds; i < vectors; i += groups * kinds) {
        storeVector<16>(to + i * 16, gather(from, offset));
        offset += groups * kindBytes;
      }
    }
  }
};

/// y[c, r] = x[r, c], on kConfig.tileColumnCount(cols) blocks.
template <TransposeSignature kSignature, LineTransposeConfig kConfig>
void lineTranspose(const TransposeParams &params) {
  allowSuccessor();
  awaitPredecessor();
  LineTranspose<kSignature, kConfig>::run(params);
}

} // namespace kiln
