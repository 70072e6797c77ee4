//===- gather/LaneGather.cuh - rows by index ------------------------------===//
//
// The kernel is memory-bound, and every row takes two loads in a row: that of
// its index, then its own. So three things count:
//
// - Bytes in flight. A thread issues the loads of all its vectors before the
//   first store. Where rows are short it has vectors of several rows, and loads
//   all of their indices at once.
// - Whole sectors. Neighbouring lanes load neighbouring vectors of a row, and
//   all lanes of a row load its index by one broadcast.
// - SMs. Few long rows are cut into pieces, which are tiles of their own.
//
// An index that names no row of x loads nothing: its vectors stay zero. Offsets
// are 64 bits wide, since tables have more than 2^31 elements.
//
// Rejected: a grid that stays and loads the next index ahead. Blocks that
// follow each other overlap as well, and keep the order in which DRAM is
// fastest (kPersistentLoss in lib/Model).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Access.cuh"
#include "common/Dependent.cuh"
#include "gather/LaneGatherConfig.h"

namespace kiln {

template <GatherSignature kSignature, LaneGatherConfig kConfig>
class LaneGather {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kLanes = kConfig.lanes, kItems = kConfig.items;
  static constexpr int kRows = kConfig.rows;
  static constexpr int kGroups = kConfig.threads() / kLanes;
  static constexpr int kXBytes = kConfig.xBytes(kSignature);
  static constexpr int kYBytes = kConfig.yBytes(kSignature);
  static constexpr CacheHint kStoreHint =
      kConfig.hint == 1 ? CacheHint::Streaming : CacheHint::Plain;

  /// The thread's part of a tile.
  struct Place {
    int batch = 0;
    long long row = 0;   ///< its first one, of those that are moved
    unsigned vector = 0; ///< its first one in a row
    bool isWhole = true; ///< the tile ends before the rows do
  };
  /// Rows of x and of y of a thread; -1: there is none.
  struct Rows {
    int from[kRows], to[kRows];
  };

public:
  static void run(const LaneGatherParams &params) {
    allowSuccessor();
    long long tile = blockIdx.x;
    Place place = placeOf(params, tile);
    awaitPredecessor();
    while (true) {
      moveTile(params, place);
      tile += gridDim.x;
      if (tile >= params.tiles)
        return;
      place = placeOf(params, tile);
    }
  }

private:
  static Place placeOf(const LaneGatherParams &params, long long tile) {
    auto rest = static_cast<unsigned long long>(tile);
    Place place;
    // Divisions take longer than the rest of a small problem's addresses.
    if (params.pieces > 1) {
      const unsigned long long row = rest / params.pieces;
      place.vector = static_cast<unsigned>(rest - row * params.pieces) *
                     kConfig.pieceVectors();
      rest = row;
    }
    if (params.operands.batch > 1) {
      const unsigned long long batch = rest / params.rowTiles;
      place.batch = static_cast<int>(batch);
      rest -= batch * params.rowTiles;
    }
    place.isWhole = place.vector + kConfig.pieceVectors() <= params.rowVectors;
    place.row = static_cast<long long>(rest) * kConfig.tileRows() +
                threadIdx.x / kLanes;
    place.vector += threadIdx.x % kLanes;
    return place;
  }

  static void moveTile(const LaneGatherParams &params, const Place &place) {
    const Rows rows = findRows(params.operands, place.row);
    if (place.isWhole)
      move<true>(params, place, rows);
    else
      move<false>(params, place, rows);
  }

  /// The rows of a thread whose first one is \p first.
  static Rows findRows(const GatherParams &params, long long first) {
    // The last row stands for those behind it.
    const auto last = static_cast<int>(params.rows) - 1;
    int at[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      at[r] = static_cast<int>(
          min(first + r * kGroups, static_cast<long long>(last)));
    // Both arrays before the first use of either.
    unsigned long long indices[kRows], targets[kRows];
    loadIntegers(indices, params.indices, params.indexBytes, at);
    loadIntegers(targets, params.targets, params.indexBytes, at);
    Rows rows;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool isThere = first + r * kGroups <= last;
      const long long target = integerOf(targets[r], params.indexBytes);
      const long long index = integerOf(indices[r], params.indexBytes);
      rows.to[r] = isThere ? rowWithin(target, params.yRows) : -1;
      rows.from[r] = rowWithin(rowOfX(index, params), params.xRows);
    }
    return rows;
  }

  /// The bits of the integers at \p at of an array; without one those of the
  /// places themselves. Narrow ones are not extended yet, which would wait.
  static void loadIntegers(unsigned long long (&out)[kRows], const void *array,
                           int bytes, const int (&at)[kRows]) {
    if (array == nullptr) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        out[r] = static_cast<unsigned>(at[r]);
    } else if (bytes == 8) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        out[r] = static_cast<const unsigned long long *>(array)[at[r]];
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        out[r] = static_cast<const unsigned *>(array)[at[r]];
    }
  }
  static long long integerOf(unsigned long long bits, int bytes) {
    return bytes == 8 ? static_cast<long long>(bits) : static_cast<int>(bits);
  }

  /// The row that \p index names; it may lie outside of x.
  static long long rowOfX(long long index, const GatherParams &params) {
    if (params.divisor > 1 && index >= 0)
      index = static_cast<long long>(static_cast<unsigned long long>(index) /
                                     params.divisor);
    return index < 0 ? -1 : index - params.first;
  }

  /// \p row if it is one of \p rows, else -1.
  static int rowWithin(long long row, long long rows) {
    return static_cast<unsigned long long>(row) <
                   static_cast<unsigned long long>(rows)
               ? static_cast<int>(row)
               : -1;
  }

  /// Moves the thread's vectors. With kWhole all vectors of a row exist.
  template <bool kWhole>
  static void move(const LaneGatherParams &params, const Place &place,
                   const Rows &rows) {
    const GatherParams &operands = params.operands;
    auto hasVector = [&](int i) {
      return kWhole || place.vector + i * kLanes < params.rowVectors;
    };
    Words<kXBytes> words[kRows][kItems];
    const char *x = static_cast<const char *>(operands.x) +
                    place.batch * params.xBatchPitch +
                    static_cast<long long>(place.vector) * kXBytes;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool isRead = rows.from[r] >= 0 && rows.to[r] >= 0;
      const char *row = x + rows.from[r] * params.xPitch;
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        words[r][i] = {};
        if (isRead && hasVector(i))
          words[r][i] = loadVector<kXBytes>(row + i * kLanes * kXBytes);
      }
    }
    // The condition is never true. The compiler moves no instruction across a
    // branch: without one it may wait for the first vector before it has issued
    // the last loads.
    if (operands.y == nullptr)
      return;
    char *y = static_cast<char *>(operands.y) +
              place.batch * params.yBatchPitch +
              static_cast<long long>(place.vector) * kYBytes;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      char *row = y + rows.to[r] * params.yPitch;
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        if (rows.to[r] >= 0 && hasVector(i))
          storeVector<kYBytes, kStoreHint>(
              row + i * kLanes * kYBytes,
              converted(words[r][i], operands.scale));
    }
  }

  static Words<kYBytes> converted(const Words<kXBytes> &words, float scale) {
    if constexpr (kSignature.moves())
      return words;
    else {
      constexpr int kElements = kConfig.elements(kSignature);
      float values[kElements];
      unpackFloats<kSignature.in>(values, words);
#pragma unroll
      for (float &value : values)
        value *= scale;
      return packFloats<kSignature.out>(values);
    }
  }
};

/// Moves the rows, on kConfig.blocks(params.tiles) blocks.
template <GatherSignature kSignature, LaneGatherConfig kConfig>
void laneGather(const LaneGatherParams &params) {
  LaneGather<kSignature, kConfig>::run(params);
}

} // namespace kiln
