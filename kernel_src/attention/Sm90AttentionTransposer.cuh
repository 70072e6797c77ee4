//===- attention/Sm90AttentionTransposer.cuh - V of e4m3 in columns -------===//
//
// Problem: wgmma multiplies e4m3 only with k contiguous. Keys are k of the
// product with V, but TMA loads its rows with the columns contiguous. Besides,
// the probabilities lie in registers as the scores left them, in an order of
// keys that differs from the first operand's (AttentionSoftmax.cuh).
//
// Choice: three otherwise idle warps rewrite each block to a second buffer,
// with the keys in the order of the probabilities. Blocks of 32 keys and 16
// columns go through registers. ldmatrix with .trans takes pairs of columns for
// elements, so that a register has two keys of two columns. Two such registers,
// eight keys apart, and a permutation of bytes make four keys of one column in
// the order wanted. stmatrix writes them as a part of the column's row. The
// halves of a warp start with different columns of the two, because the eight
// rows of stmatrix would lie in half of the banks otherwise.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/Sm90AttentionTiles.cuh"
#include "common/Ring.cuh"

namespace kiln {

template <AttentionSignature kSignature, Sm90AttentionConfig kConfig>
class Sm90AttentionTransposer {
  static constexpr int kWarps = Sm90AttentionConfig::kTransposers;
  static constexpr int kBlock = kConfig.blockN;
  static constexpr int kWidth = kConfig.valueWidth(kSignature);
  static constexpr int kKeys = 32, kColumns = 16; ///< of a unit
  static constexpr int kChunk = 16;               ///< bytes that are swizzled
  static constexpr int kUnits = kBlock / kKeys;   ///< of 16 columns
  /// Units in flight: all units of 16 columns where registers hold them.
  static constexpr int kMostAtOnce = kConfig.consumers > 2 ? 3 : 4;
  static constexpr int kAtOnce = kUnits <= kMostAtOnce ? kUnits : 2;
  static constexpr bool kClearsTail = valuesEndInAnything(kSignature);

  using Shared = Sm90AttentionShared<kSignature, kConfig>;
  using Place = RingCount<kConfig.stages>;

public:
  explicit Sm90AttentionTransposer(const Shared &shared) : shared(shared) {
    int matrix = lane() / 8, row = lane() % 8;
    // Row for ldmatrix: a key of one of four groups of eight.
    from = lane() * Slab::kBytes;
    fromSwizzle = row * kChunk;
    // Row for stmatrix: a column of two groups of keys. The even matrices have
    // the even columns of the first half, the odd matrices those of the second.
    bool isUpper = row >= 4;
    int column = row * 2 + ((matrix % 2 != 0) != isUpper ? 1 : 0);
    to = column * Slab::kBytes;
    toSwizzle = (column % 8 ^ matrix / 2) * kChunk;
    // Bytes of this lane's column pair, lane / 4.
    constexpr unsigned kEven = 0x6420, kOdd = 0x7531;
    bool swaps = lane() / 4 >= 4;
    selector[0] = swaps ? kOdd : kEven;
    selector[1] = swaps ? kEven : kOdd;
  }

  void run() {
#pragma unroll 1
    for (Place place;; place = place.next()) {
      int stage = place.stage();
      ptx::mbarrierWait(shared.storedFull(stage), place.phase());
      int keys = static_cast<int>(ptx::ldShared32(shared.count(stage)));
      if (keys == 0)
        break;
      ptx::mbarrierWait(shared.valueEmpty(stage), place.phase() ^ 1);
      if (kClearsTail && keys < kBlock)
        clear(stage, keys);
      transpose(stage);
      ptx::fenceProxyAsync();
      __syncwarp();
      if (lane() == 0) {
        ptx::mbarrierArrive(shared.storedEmpty(stage));
        ptx::mbarrierArrive(shared.valueFull(stage));
      }
    }
  }

private:
  /// First column of this warp. Its next columns lie behind those of all warps.
  static int firstColumn() { return (threadIdx.x / 32 % 4 - 1) * kColumns; }
  static constexpr int kColumnStep = kWarps * kColumns;

  void transpose(int stage) const {
#pragma unroll 1
    for (int column = firstColumn(); column < kWidth; column += kColumnStep) {
      unsigned source =
          slabOf(stage, column) + from + (column % Slab::kBytes ^ fromSwizzle);
      unsigned target = shared.value(stage) + to + column * Slab::kBytes;
#pragma unroll 1
      for (int first = 0; first < kBlock; first += kAtOnce * kKeys) {
        unsigned read[kAtOnce][4];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
          if (int key = first + i * kKeys; key < kBlock)
            ptx::ldmatrixX4Trans(read[i], source + key * Slab::kBytes);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
          if (int key = first + i * kKeys; key < kBlock) {
            unsigned written[4];
#pragma unroll
            for (int j = 0; j < 4; ++j)
              written[j] = ptx::prmt(read[i][j / 2 * 2], read[i][j / 2 * 2 + 1],
                                     selector[j % 2]);
            ptx::stmatrixX4(target +
                                key / Slab::kBytes * (kWidth * Slab::kBytes) +
                                (key % Slab::kBytes ^ toSwizzle),
                            written);
          }
      }
    }
  }

  /// Sets this warp's columns to zero for all keys behind the first \p keys.
  void clear(int stage, int keys) const {
#pragma unroll 1
    for (int column = firstColumn(); column < kWidth; column += kColumnStep)
#pragma unroll 1
      for (int key = keys + lane(); key < kBlock; key += 32)
        ptx::stShared128(slabOf(stage, column) + key * Slab::kBytes +
                             (column % Slab::kBytes ^ key % 8 * kChunk),
                         {0, 0, 0, 0});
    __syncwarp();
  }

  unsigned slabOf(int stage, int column) const {
    return shared.stored(stage) +
           column / Slab::kBytes * (kBlock * Slab::kBytes);
  }
  static int lane() { return threadIdx.x % 32; }

  const Shared &shared;
  /// This lane in a unit: bytes to its row, and its chunk of the swizzle.
  unsigned from, fromSwizzle, to, toSwizzle;
  unsigned selector[2];
};

} // namespace kiln
