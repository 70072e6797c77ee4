//===- prepack/BlockPrepack.cuh - weights of a checkpoint, packed ---------===//
//
// A block takes tiles of 64 rows and a few times 64 k. It copies the words of a
// tile to shared memory in the source's own order, with zero points in place of
// elements outside of the weight. Then each thread gathers the 16 bytes of a
// lane (common/PackedWeights.h), pair by pair, and stores them. Scales and zero
// points of a group are moved by the block in whose tile the group begins.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Access.cuh"
#include "common/Dependent.cuh"
#include "prepack/BlockPrepackConfig.h"

namespace kiln {

template <PrepackSignature kSignature, BlockPrepackConfig kConfig>
class BlockPrepack {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kBits = kSignature.bits();
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kTileDepth = kConfig.depthBlocks * 64;
  static constexpr int kTileRows = kConfig.tileRows(kSignature);
  static constexpr int kRowWords = kConfig.rowWords(kSignature);
  static constexpr int kPitch = kConfig.pitchWords(kSignature);

public:
  explicit BlockPrepack(const PrepackParams &params)
      : params(params), from{kSignature.source, kSignature.group, params.n,
                             params.k} {}

  void run(unsigned *shared) {
    allowSuccessor();
    awaitPredecessor();
    const long long depthTiles = kConfig.depthTiles(params.k);
    const long long tiles = kConfig.tiles(params.n, params.k);
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const long long row = tile / depthTiles * 64;
      const long long at = tile % depthTiles * kTileDepth;
      for (int i = threadIdx.x; i < kTileRows * kRowWords; i += kThreads)
        load(shared, i, row, at);
      moveGroups(row, at);
      __syncthreads();
      constexpr int kPieces = kConfig.depthBlocks * 32 * kBits;
      for (int i = threadIdx.x; i < kPieces; i += kThreads)
        gather(shared, i, row, at);
      __syncthreads(); // before the next tile's words are loaded
    }
  }

private:
  //===--------------------------------------------------------------------===//
  // The source
  //===--------------------------------------------------------------------===//

  unsigned word(const void *words, long long index) const {
    return static_cast<const unsigned *>(words)[index];
  }

  /// The zero point of a row's group; the constant for rows outside.
  int zeroOf(long long row, long long group) const {
    if (!kSignature.zeros || row >= params.n || group >= from.groups())
      return from.constantZero();
    const unsigned zeros = word(params.zeros, from.zeroWordOf(row, group));
    return static_cast<int>(zeros >> 4 * from.zeroPlaceOf(row) & 15u) +
           from.zeroOffset();
  }
  /// The code for elements outside of the weight: the code of 0, cut to 4 bits.
  unsigned padOf(long long row) const {
    return min(15, zeroOf(row, from.groups() - 1));
  }

  /// Loads word \p index of the tile, in the order of the source.
  void load(unsigned *shared, int index, long long row, long long at) const {
    int tileRow = index / kRowWords, tileWord = index % kRowWords;
    if (from.isAcrossRows()) { // neighbours are rows
      tileRow = index % 64;
      tileWord = index / 64;
    }
    unsigned &to = shared[tileRow * kPitch + tileWord];
    if constexpr (kBits == 8)
      to = bytesAt(row + tileRow, at + 4 * tileWord);
    else if constexpr (kSignature.source == WeightSource::Awq)
      to = wordAlongRows(row + 8 * tileWord, at + tileRow);
    else
      to = wordAlongDepth(row + tileRow, at + 8 * tileWord);
  }

  /// Eight codes of row \p row, from \p at on.
  unsigned wordAlongDepth(long long row, long long at) const {
    if (row >= params.n)
      return from.constantZero() * kEach;
    const long long inside = params.k - at;
    if (inside >= 8)
      return word(params.weights, from.wordOf(row, at));
    const unsigned pads = padOf(row) * kEach;
    if (inside <= 0)
      return pads;
    const unsigned mask = (1u << 4 * static_cast<int>(inside)) - 1;
    return (word(params.weights, from.wordOf(row, at)) & mask) | (pads & ~mask);
  }

  /// The codes at \p at of the rows from \p row on, in the source's order.
  unsigned wordAlongRows(long long row, long long at) const {
    if (row + 8 <= params.n && at < params.k)
      return word(params.weights, from.wordOf(row, at));
    unsigned codes = 0;
    for (int i = 0; i < 8; ++i) {
      const int shift = 4 * from.placeOf(row + i, at);
      const bool isInside = row + i < params.n && at < params.k;
      codes |= isInside
                   ? word(params.weights, from.wordOf(row, at)) & 15u << shift
                   : padOf(row + i) << shift;
    }
    return codes;
  }

  /// Four bytes of row \p row, from \p at on; 0 outside.
  unsigned bytesAt(long long row, long long at) const {
    if (row >= params.n || at >= params.k)
      return 0;
    const unsigned char *bytes =
        static_cast<const unsigned char *>(params.weights) + row * params.k +
        at;
    if constexpr (kSignature.wordRows)
      return *reinterpret_cast<const unsigned *>(bytes);
    unsigned all = 0;
    for (int i = 0; i < 4; ++i)
      if (at + i < params.k)
        all |= static_cast<unsigned>(bytes[i]) << 8 * i;
    return all;
  }

  //===--------------------------------------------------------------------===//
  // The result
  //===--------------------------------------------------------------------===//

  /// The codes of \p row at \p at, which is even, and at \p at + 1: in the
  /// lower and the upper half of a word.
  static unsigned pairOf(const unsigned *shared, int row, int at) {
    if constexpr (kBits == 8) {
      const unsigned pair = shared[row * kPitch + at / 4] >> at % 4 * 8;
      return (pair & 0xffu) | (pair & 0xff00u) << 8;
    } else if constexpr (kSignature.source == WeightSource::Awq) {
      const int shift = (row % 8 / 2 + row % 2 * 4) * 4;
      const unsigned *words = shared + at * kPitch + row / 8;
      return (words[0] >> shift & 15u) | (words[kPitch] >> shift & 15u) << 16;
    } else {
      const unsigned pair = shared[row * kPitch + at / 8] >> at % 8 * 4;
      return (pair & 15u) | (pair & 0xf0u) << 12;
    }
  }

  /// Gathers the 16 bytes of lane piece \p index of the tile and stores them.
  void gather(const unsigned *shared, int index, long long row,
              long long at) const {
    constexpr int kPerBlock = PackedWeights::blockBytes(kBits) / 16;
    const int block = index / kPerBlock, piece = index % kPerBlock;
    const int lane = piece % 32, part = piece / 32;
    const int unit = kBits == 4 ? part : part / 2;
    const int first = block * 64 + (kBits == 4 ? 0 : part % 2 * 32);
    const int unitRow = unit * 16 + lane / 4, pair = lane % 4 * 2;
    if (at + block * 64 >= params.k)
      return; // of a tile that ends behind the last block
    Words<16> words;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      words.word[w] = 0;
      // A word has two registers of 8 bits, or all four of 4 bits.
      constexpr int kRegisters = 16 / kBits;
#pragma unroll
      for (int i = 0; i < kRegisters; ++i) {
        const int reg = kBits == 4 ? i : w % 2 * 2 + i;
        const int step = kBits == 4 ? w : w / 2;
        const unsigned codes = pairOf(shared, unitRow + reg % 2 * 8,
                                      first + step * 16 + pair + reg / 2 * 8);
        words.word[w] |= codes << kBits * i;
      }
    }
    const long long blocks = PackedWeights::blocksOf(params.k);
    char *to = static_cast<char *>(params.packed) +
               (row / 64 * blocks + at / 64 + block) *
                   PackedWeights::blockBytes(kBits);
    storeVector<16>(to + piece * 16, words);
  }

  /// Moves scales and zero points of the groups that begin in the tile.
  void moveGroups(long long row, long long at) const {
    const long long groups = PackedWeights::groups(params.k, kSignature.group);
    long long begin = at != 0, end = 1;
    if constexpr (kSignature.group != 0) {
      begin = (at + kSignature.group - 1) / kSignature.group;
      end = (at + kTileDepth + kSignature.group - 1) / kSignature.group;
      end = end < groups ? end : groups;
    }
    const int count = begin < end ? static_cast<int>(end - begin) * 64 : 0;
    for (int i = threadIdx.x; i < count; i += kThreads) {
      const long long group = begin + i / 64, r = row + i % 64;
      const long long to = PackedWeights::scaleAt(r, group, groups);
      using Scale = Storage<kSignature.scale>;
      const bool isInside = r < params.n && group < from.groups();
      static_cast<Scale *>(params.packedScales)[to] =
          isInside ? static_cast<const Scale *>(
                         params.scales)[from.scaleOf(r, group)]
                   : Scale(0);
      if constexpr (kSignature.zeros)
        static_cast<unsigned char *>(params.packedZeros)[to] =
            static_cast<unsigned char>(zeroOf(r, group));
    }
  }

  static constexpr unsigned kEach = 0x11111111u; ///< all eight elements

  const PrepackParams &params;
  const PrepackSource from;
};

/// Packs a weight, on kConfig.blocks(n, k) blocks, or fewer.
template <PrepackSignature kSignature, BlockPrepackConfig kConfig>
void blockPrepack(const PrepackParams &params) {
  extern __shared__ __align__(16) unsigned sharedWords[];
  BlockPrepack<kSignature, kConfig>(params).run(sharedWords);
}

} // namespace kiln
