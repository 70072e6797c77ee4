//===- attention/MmaAttentionTiles.cuh - tiles of Q, K and V --------------===//
//
// Rows are copied from global to shared memory, by any strides or pages, and
// ldmatrix loads the fragments of mma.sync from there. Offsets that depend on
// the layout alone are constant at compile time, so a loop over steps has no
// address arithmetic.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionRanges.h"
#include "attention/MmaAttentionConfig.h"
#include "common/Access.cuh"

namespace kiln {

namespace detail {
/// The XOR for the chunk index of \p row.
template <AttentionTileShape kShape> constexpr unsigned phaseOf(unsigned row) {
  if constexpr (!kShape.permutes())
    return 0;
  else
    return kShape.rowBytes() == 32   ? (row >> 2) & 1u
           : kShape.rowBytes() == 64 ? (row >> 1) & 3u
                                     : row & 7u;
}
} // namespace detail

/// Offset in a tile of byte \p byte of row \p row.
template <AttentionTileShape kShape>
constexpr unsigned tileOffset(unsigned row, unsigned byte) {
  return row * kShape.pitch() + (byte ^ (detail::phaseOf<kShape>(row) << 4));
}

/// The address that one lane gives ldmatrix: row \p row (of 16) and chunk
/// \p half (of two) of every 16 x 16 piece of a tile.
template <AttentionTileShape kShape> class FragmentAddress {
  /// Bytes of a row that the XOR permutes among themselves.
  static constexpr int kSpan =
      kShape.rowBytes() < 128 ? kShape.rowBytes() : 128;

public:
  FragmentAddress(unsigned tile, unsigned row, unsigned half)
      : first(tile + tileOffset<kShape>(row, half * 16)) {}

  /// A copy that the compiler takes for a new value: within a loop, values
  /// derived from it occupy no register beyond one iteration.
  FragmentAddress renewed() const {
    FragmentAddress result = *this;
    ptx::opaque(result.first);
    return result;
  }

  /// The address for the piece that begins at row \p row, a multiple of 16, and
  /// at element 16 * \p step.
  unsigned operator()(int row, int step) const {
    int byte = step * 32;
    if constexpr (kShape.permutes())
      return (first ^ byte % kSpan) + byte / kSpan * kSpan +
             row * kShape.pitch();
    else
      return first + byte + row * kShape.pitch();
  }

private:
  unsigned first;
};

/// Shape of the copy of a tile of kRows rows, of which kValid elements exist;
/// the rest of a row becomes zero.
struct TileCopyShape {
  int rows, valid, vectorBytes, threads;
  AttentionTileShape tile;
  bool async;

  constexpr int units() const { return tile.rowBytes() / vectorBytes; }
  /// Threads that share a row, side by side: a power of two that divides the
  /// number of its vectors.
  constexpr int lanes() const {
    int lowest = units() & -units();
    return lowest < 16 ? lowest : 16;
  }
  constexpr int unitsPerLane() const { return units() / lanes(); }
  constexpr int rowsPerPass() const { return threads / lanes(); }
  constexpr int passes() const {
    return (rows + rowsPerPass() - 1) / rowsPerPass();
  }
};

/// One thread's part in copies of tiles.
template <TileCopyShape kShape> class TileCopy {
  static constexpr int kVector = kShape.vectorBytes;
  static constexpr int kLanes = kShape.lanes();
  static constexpr int kUnits = kShape.unitsPerLane();
  static constexpr int kRowsPerPass = kShape.rowsPerPass();
  static constexpr int kPasses = kShape.passes();

public:
  /// Row of this thread's first vector, and its byte in the row.
  static int firstRow() { return threadIdx.x / kLanes; }
  static int firstByte() { return threadIdx.x % kLanes * kVector; }

  /// Copies to \p tile. \p address(pass, row) is the start of row \p row, which
  /// this thread copies in pass \p pass. Rows from \p rowsLeft on become zero
  /// and are not read.
  template <class Address>
  static void run(unsigned tile, int rowsLeft, Address &&address) {
    if (rowsLeft >= kShape.rows)
      runAs<false>(tile, rowsLeft, address);
    else
      runAs<true>(tile, rowsLeft, address);
  }

private:
  template <bool kTail, class Address>
  static void runAs(unsigned tile, int rowsLeft, Address &address) {
    // Number of copies whose registers are in use at once.
    constexpr int kMost = kUnits > 4 ? 1 : 4 / kUnits;
    constexpr int kBatch = kShape.async ? 1 : kMost < kPasses ? kMost : kPasses;
#pragma unroll
    for (int begin = 0; begin < kPasses; begin += kBatch) {
      Words<kVector> staged[kBatch * kUnits];
#pragma unroll
      for (int pass = begin; pass < begin + kBatch && pass < kPasses; ++pass) {
        int row = firstRow() + pass * kRowsPerPass;
        if (kShape.rows % kRowsPerPass != 0 && row >= kShape.rows)
          continue;
        const char *source = address(pass, row) + firstByte();
        bool inside = !kTail || row < rowsLeft;
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit)
          copy(staged[(pass - begin) * kUnits + unit], tile, row, unit,
               source + unit * kLanes * kVector, inside);
      }
      if constexpr (!kShape.async)
#pragma unroll
        for (int i = 0; i < kBatch * kUnits; ++i) {
          int row = firstRow() + (begin + i / kUnits) * kRowsPerPass;
          if (begin + i / kUnits < kPasses && row < kShape.rows)
            store(tile + offsetOf(row, i % kUnits), staged[i]);
        }
    }
  }

  static unsigned offsetOf(int row, int unit) {
    return tileOffset<kShape.tile>(row, firstByte() + unit * kLanes * kVector);
  }

  static void copy(Words<kVector> &staged, unsigned tile, int row, int unit,
                   const char *source, bool rowExists) {
    bool inside = rowExists;
    if constexpr (2 * kShape.valid < kShape.tile.rowBytes())
      inside &= firstByte() + unit * kLanes * kVector < 2 * kShape.valid;
    if constexpr (kShape.async)
      ptx::cpAsyncOrZero<kVector>(tile + offsetOf(row, unit), source, inside,
                                  true);
    else if (inside)
      staged = loadWords<kVector>(source);
    else
      staged = {};
  }

  static void store(unsigned shared, const Words<kVector> &words) {
    if constexpr (kVector == 16)
      ptx::stShared128(shared, words.word);
    else if constexpr (kVector == 8)
      ptx::stShared64(shared, words.word[0], words.word[1]);
    else
      ptx::stShared32(shared, words.word[0]);
  }
};

/// The rows of K or V of a sequence and a head: at a stride, or in pages.
/// Blocks of keys are visited in any order, one begun after the other.
template <AttentionSignature kSignature, TileCopyShape kShape,
          bool kPaged = kSignature.pages != AttentionPages::None>
class KeyRows {
public:
  KeyRows(const AttentionParams &params, int sequence, AttentionTokens keys)
      : params(params), sequence(sequence), keys(keys) {}

  void begin(int block) { firstKey = block * kShape.rows; }

  /// Copies the block of K or V, which \p start and \p strides give, to
  /// \p tile.
  void copy(unsigned tile, const void *start, const HeadStrides &strides,
            int kvHead) const {
    const char *first =
        static_cast<const char *>(start) +
        2 * keyOffset<kSignature>(params, strides, sequence, keys, kvHead,
                                  firstKey + TileCopy<kShape>::firstRow());
    long long step = 2 * kShape.rowsPerPass() * strides.token;
    TileCopy<kShape>::run(tile, keys.count - firstKey,
                          [&](int pass, int) { return first + pass * step; });
  }

private:
  const AttentionParams &params;
  int sequence;
  AttentionTokens keys;
  int firstKey = 0;
};

/// Paged: each lane looks up the page of one of its warp's rows ahead of the
/// copies, which exchange the results by shuffles.
template <AttentionSignature kSignature, TileCopyShape kShape>
class KeyRows<kSignature, kShape, true> {
  static constexpr int kRowsPerWarp = 32 / kShape.lanes();
  static_assert(kShape.passes() * kRowsPerWarp <= 32,
                "a warp has a lane for each of its rows");

public:
  KeyRows(const AttentionParams &params, int sequence, AttentionTokens keys)
      : params(params), sequence(sequence), keys(keys) {}

  void begin(int block) {
    firstKey = block * kShape.rows;
    int lane = threadIdx.x % 32;
    int row = lane / kRowsPerWarp * kShape.rowsPerPass() +
              threadIdx.x / 32 * kRowsPerWarp + lane % kRowsPerWarp;
    int key = firstKey + row;
    page = within = 0;
    // Behind the last key the table may hold anything, or end.
    if (row < kShape.rows && key < keys.count) {
      int index = key / params.pageSize;
      within = key - index * params.pageSize;
      page = pageNumber<kSignature>(params, sequence, index);
    }
  }

  void copy(unsigned tile, const void *start, const HeadStrides &strides,
            int kvHead) const {
    const char *first =
        static_cast<const char *>(start) + 2 * kvHead * strides.head;
    TileCopy<kShape>::run(tile, keys.count - firstKey, [&](int pass, int) {
      int from = pass * kRowsPerWarp + threadIdx.x % 32 / kShape.lanes();
      long long ofPage = __shfl_sync(~0u, page, from) * strides.batch;
      long long ofToken = __shfl_sync(~0u, within, from) * strides.token;
      return first + 2 * (ofPage + ofToken);
    });
  }

private:
  const AttentionParams &params;
  int sequence;
  AttentionTokens keys;
  int firstKey = 0, page = 0, within = 0;
};

} // namespace kiln
