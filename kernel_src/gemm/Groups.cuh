//===- gemm/Groups.cuh - grouped GEMM: rows with their own matrix of B ----===//
//
// MoE multiplies the rows of each expert by that expert's weight (grouped
// GEMM). An earlier kernel computes how many rows an expert has, so the host
// knows only an upper bound: a launch has as many blocks as run at once, and
// they divide the existing tiles. A block finds its tiles in a table of its
// own, which one warp makes from the sizes.
//
// Sizes are untrusted: whatever they are, no row outside of A or D is read or
// written.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Raster.cuh"
#include "common/Warp.cuh"
#include "gemm/GemmParams.h"
#include "gemm/GemmSignature.h"

namespace kiln {

/// The rows [begin, end) of A and D that belong to a group; masked groups count
/// them in their own matrix of the batch.
struct GroupRows {
  int begin, end;
};

template <GroupKind kKind>
GroupRows groupRows(const GemmParams &params, int group) {
  const int *sizes = params.groups.sizes;
  const int most = static_cast<int>(params.m);
  if constexpr (kKind == GroupKind::Masked)
    return {0, min(max(sizes[group], 0), most)};
  else {
    const int align = params.groups.align;
    // Unsigned, since a multiple behind the end may exceed an int.
    const unsigned from = params.groups.first;
    unsigned before = group > 0 ? max(sizes[group - 1], 0) : 0;
    unsigned first = max((before + align - 1) / align * align, from) - from;
    int begin = static_cast<int>(min(first, static_cast<unsigned>(most)));
    int end = max(sizes[group], 0) - static_cast<int>(from);
    return {begin, min(max(end, begin), most)};
  }
}

/// The group with ends to which row \p row belongs; -1 if it belongs to no
/// group.
template <GroupKind kKind>
int groupOfRow(const GemmParams &params, long long row) {
  static_assert(kKind == GroupKind::Ends);
  int low = 0, high = static_cast<int>(params.batch);
  while (low < high) { // the first group that ends behind the row
    int middle = (low + high) / 2;
    if (params.groups.sizes[middle] > params.groups.first + row)
      high = middle;
    else
      low = middle + 1;
  }
  if (low == params.batch)
    return -1;
  GroupRows rows = groupRows<kKind>(params, low);
  return row >= rows.begin && row < rows.end ? low : -1;
}

/// The index of row \p row of the product; -1 if it is invalid.
inline int rowNumber(const GemmParams &params, long long row) {
  int number = params.groups.index[row];
  return number >= 0 && number < params.groups.all ? number : -1;
}

/// The row of A, and of D, for row \p row of the product; -1: none.
template <GemmSignature kSignature>
long long rowInA(const GemmParams &params, long long row) {
  if constexpr (kSignature.gathers) {
    int number = rowNumber(params, row);
    return number < 0 ? -1 : number / params.groups.divisor;
  } else
    return row;
}
template <GemmSignature kSignature>
long long rowInD(const GemmParams &params, long long row) {
  if constexpr (kSignature.scatters)
    return rowNumber(params, row);
  else
    return row;
}

/// The factor for the results of row \p row; 1 without weights.
template <GemmSignature kSignature>
float rowWeight(const GemmParams &params, long long row) {
  if constexpr (!kSignature.hasRowWeights)
    return 1.0f;
  else if constexpr (kSignature.mapsRows()) {
    int number = rowNumber(params, row);
    return number < 0 ? 0.0f : params.groups.weights[number];
  } else
    return params.groups.weights[row];
}

/// A tile of a group: `work` as for a batch, and the group's rows.
struct GroupTile {
  TileWork work;
  GroupRows rows;
};

/// Counts tiles of rows over all groups: entry g of the table is the number of
/// tiles of the groups up to and including g.
template <GroupKind kKind> class GroupTable {
public:
  /// \p ends: groupTableBytes() of shared memory.
  GroupTable(const GemmParams &params, int *ends)
      : params(params), ends(ends), count(static_cast<int>(params.batch)) {}

  /// Makes the table for tiles of \p blockM rows. Called by one whole warp; a
  /// barrier of the block has to follow before reads.
  void build(int blockM) const {
    int lane = threadIdx.x % 32;
    // Neighbouring groups belong to one lane, so that its loads are
    // independent.
    int each = (count + 31) / 32, first = lane * each, tiles = 0;
#pragma unroll 4
    for (int i = 0; i < each; ++i)
      if (first + i < count) {
        GroupRows rows = groupRows<kKind>(params, first + i);
        tiles = sum(tiles, tileCount(rows.end - rows.begin, blockM));
        ends[first + i] = tiles;
      }
    const int before =
        sumUpToLane(tiles, [](int a, int b) { return sum(a, b); }) - tiles;
    for (int i = 0; i < each; ++i)
      if (first + i < count)
        ends[first + i] = sum(ends[first + i], before);
  }

  /// All tiles of rows.
  unsigned tiles() const { return static_cast<unsigned>(ends[count - 1]); }

  /// Tile \p index of tiles() * \p across, in raster groups of \p rasterGroup
  /// rows of tiles or, with \p alongN, of columns.
  GroupTile tile(unsigned index, int across, int rasterGroup,
                 bool alongN) const {
    unsigned row = index / across;
    int low = 0, high = count - 1;
    while (low < high) { // the first group that ends behind the row
      int middle = (low + high) / 2;
      if (static_cast<unsigned>(ends[middle]) > row)
        high = middle;
      else
        low = middle + 1;
    }
    int first = low > 0 ? ends[low - 1] : 0, own = ends[low] - first;
    TileWork work =
        tileWork(index - static_cast<unsigned>(first) * across,
                 alongN ? across : own, alongN ? own : across, 1, rasterGroup);
    if (alongN) {
      int swapped = work.tileM;
      work.tileM = work.tileN;
      work.tileN = swapped;
    }
    work.batch = low;
    work.tile = index;
    return {work, groupRows<kKind>(params, low)};
  }

private:
  /// A saturating sum of tiles: groups with decreasing ends may exceed an int.
  static int sum(int a, int b) {
    return static_cast<int>(
        min(static_cast<unsigned>(a) + static_cast<unsigned>(b), 0x7fffffffu));
  }

  const GemmParams &params;
  int *ends;
  int count;
};

} // namespace kiln
