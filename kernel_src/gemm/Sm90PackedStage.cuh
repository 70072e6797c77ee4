//===- gemm/Sm90PackedStage.cuh - packed weights in a stage of a ring -----===//
//
// A stage has the blocks of weights of a tile's rows, each 64 rows' along k;
// behind them the scales of its groups, each 64 rows' by their groups; behind
// those the zero points, likewise. All as they lie in memory
// (common/PackedWeights.h), so one bulk copy brings what 64 rows have.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "common/PtxSm90.cuh"
#include "gemm/PackedWeight.cuh"
#include "gemm/Sm90PackedConfig.h"
#include "gemm/Sm90Tiles.cuh"
#include "gemm/WeightDecoder.cuh"

namespace kiln {

/// What a producer copies to a stage, and what a consumer's thread reads of it.
template <GemmSignature kSignature, Sm90PackedConfig kConfig>
class Sm90PackedStage {
  static constexpr DType kWeight = kSignature.typeB();
  static constexpr DType kScale = kSignature.scaleTypeB;
  static constexpr int kBits = bitsOf(kWeight);
  static constexpr int kGroup = kSignature.groupB;
  static constexpr bool kHasGroups = kGroup != 0;
  static constexpr bool kHasZeros = kSignature.zeroB;
  static constexpr int kRows = PackedWeights::kRows;
  static constexpr int kBlockBytes = PackedWeights::blockBytes(kBits);
  static constexpr int kBlocks = kConfig.blockK / PackedWeights::kDepth;
  static constexpr int kGroups = kHasGroups ? kConfig.groups(kSignature) : 0;
  /// Blocks of 64 rows of the tile, and those of a consumer.
  static constexpr int kAll = kConfig.rows / kRows;
  static constexpr int kUnits = kConfig.units();
  /// Bytes of 64 rows, and where scales and zero points begin.
  static constexpr int kWeightBytes = kBlocks * kBlockBytes;
  static constexpr int kScaleBytes = kGroups * kRows * bytesOf(kScale);
  static constexpr int kZeroBytes = kHasZeros ? kGroups * kRows : 0;
  static constexpr int kScalesAt = kAll * kWeightBytes;
  static constexpr int kZerosAt = kScalesAt + kAll * kScaleBytes;

  using Decoder = WeightDecoder<kWeight, kSignature.in>;

public:
  /// Steps of k of a run: a group, or a block.
  static constexpr int kRunDepth = kConfig.runDepth(kSignature);
  /// Steps of k whose words a lane loads at once, and these words.
  static constexpr int kChunkDepth =
      kRunDepth < PackedWeights::kDepth ? kRunDepth : PackedWeights::kDepth;
  static constexpr int kChunkWords = kChunkDepth * kBits / 64;

  /// For a producer.
  Sm90PackedStage(const GemmParams &gemm, unsigned long long policy)
      : weights(static_cast<const char *>(gemm.b)),
        scales(reinterpret_cast<const char *>(gemm.scaleB.data)),
        zeros(static_cast<const char *>(gemm.zeroB)), policy(policy),
        blocksN(static_cast<int>(PackedWeights::blocksOf(gemm.n))),
        blocksK(static_cast<int>(PackedWeights::blocksOf(gemm.k))),
        groups(static_cast<int>(PackedWeights::groups(gemm.k, kGroup))) {}
  /// For a thread of consumer \p consumer.
  Sm90PackedStage(const GemmParams &gemm, int consumer)
      : Sm90PackedStage(gemm, 0ull) {
    firstUnit = kConfig.kShared ? 0 : consumer * kUnits;
    const unsigned thread = threadIdx.x % Sm90GemmConfig::kWarpgroup;
    ofWords = firstUnit * kWeightBytes + thread / 32 * (kBlockBytes / 4) +
              thread % 32 * PackedWeights::kLaneBytes;
    ofScales =
        kScalesAt + firstUnit * kScaleBytes + rowOfLane() * bytesOf(kScale);
    ofZeros = kZerosAt + firstUnit * kZeroBytes + rowOfLane();
  }

  //===--------------------------------------------------------------------===//
  // The producer
  //===--------------------------------------------------------------------===//

  /// Bytes that arrive for the rows from \p row on, at \p k.
  unsigned bytes(int row, int k) const {
    return rowBlocks(row) *
           (blocks(k) * kBlockBytes +
            (kHasGroups ? groupsFrom(k) * kRows *
                              (bytesOf(kScale) + (kHasZeros ? 1 : 0))
                        : 0));
  }

  template <bool kHints>
  void loadWeights(unsigned to, unsigned full, const Sm90Tile &tile,
                   int k) const {
    const char *from =
        weights + (firstRowBlock(tile) * blocksK + k / PackedWeights::kDepth) *
                      kBlockBytes;
    const unsigned size = blocks(k) * kBlockBytes;
    const int count = rowBlocks(tile.rowBegin);
    // A loop: unrolled, it takes more registers than a producer has.
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      if constexpr (kHints)
        ptx::bulkLoad(to, from, size, full, policy);
      else
        ptx::bulkLoad(to, from, size, full);
      to += kWeightBytes;
      from += static_cast<long long>(blocksK) * kBlockBytes;
    }
  }

  /// Scales and zero points of groups.
  void loadScales(unsigned to, unsigned full, const Sm90Tile &tile,
                  int k) const {
    if constexpr (kHasGroups) {
      long long at = (firstRowBlock(tile) * groups + k / kGroup) * kRows;
      const unsigned size = groupsFrom(k) * kRows;
      const int count = rowBlocks(tile.rowBegin);
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        ptx::bulkLoad(to + kScalesAt + i * kScaleBytes,
                      scales + at * bytesOf(kScale), size * bytesOf(kScale),
                      full);
        if constexpr (kHasZeros)
          ptx::bulkLoad(to + kZerosAt + i * kZeroBytes, zeros + at, size, full);
        at += static_cast<long long>(groups) * kRows;
      }
    }
  }

  //===--------------------------------------------------------------------===//
  // A consumer's thread
  //===--------------------------------------------------------------------===//

  /// Where its two rows of a unit, which are neighbours, are among 64 scales.
  static int rowOfLane() {
    const unsigned thread = threadIdx.x % Sm90GemmConfig::kWarpgroup;
    return thread / 32 * 16 + thread % 32 / 4 * 2;
  }

  /// The scales of its two rows, as memory has them.
  struct Scales {
    unsigned words[kScale == DType::FP32 ? 2 : 1];

    void toFloats(float (&factors)[2]) const {
      if constexpr (kScale == DType::FP32) {
        factors[0] = __uint_as_float(words[0]);
        factors[1] = __uint_as_float(words[1]);
      } else if constexpr (kScale == DType::E8M0) {
        factors[0] = selectedE8m0(words[0] & 0xffu);
        factors[1] = selectedE8m0(words[0] >> 8);
      } else
        unpackPair<kScale>(factors[0], factors[1], words[0]);
    }
  };

  /// Groups from \p k on.
  int groupsLeft(int k) const {
    if constexpr (kHasGroups)
      return groups - k / kGroup;
    else
      return 0;
  }

  /// The words of chunk \p chunk of run (\p unit, \p group) of the stage at
  /// \p at.
  void readWords(unsigned (&to)[kChunkWords], unsigned at, int unit, int group,
                 int chunk) const {
    const int k = group * kRunDepth + chunk * kChunkDepth;
    const int block = k / PackedWeights::kDepth,
              inBlock = k % PackedWeights::kDepth;
    const unsigned from =
        at + ofWords + unit * kWeightBytes + block * kBlockBytes +
        inBlock * kBits / 256 * (32 * PackedWeights::kLaneBytes) +
        inBlock * kBits % 256 / 16;
    if constexpr (kChunkWords == 2) {
      const uint2 words = ptx::ldShared64(from);
      to[0] = words.x;
      to[1] = words.y;
    } else
#pragma unroll
      for (int i = 0; i < kChunkWords; i += 4) {
        const uint4 words =
            ptx::ldShared128(from + i / 4 * (32 * PackedWeights::kLaneBytes));
        to[i] = words.x;
        to[i + 1] = words.y;
        to[i + 2] = words.z;
        to[i + 3] = words.w;
      }
  }

  /// The fragment of step \p step of 16 k of a chunk.
  static void decode(unsigned (&fragment)[4],
                     const unsigned (&words)[kChunkWords], int step,
                     const unsigned (&addends)[2]) {
    unsigned own[Decoder::kWords];
#pragma unroll
    for (int i = 0; i < Decoder::kWords; ++i)
      own[i] = words[step * Decoder::kWords + i];
    Decoder::decode(fragment, own, addends);
  }

  /// The scales of a run. Those of a group that does not exist, where shared
  /// memory may hold anything, are finite.
  Scales readScales(unsigned at, int unit, int group, bool exists) const {
    Scales result;
    const unsigned from =
        at + ofScales + unit * kScaleBytes + group * kRows * bytesOf(kScale);
    if constexpr (kScale == DType::FP32) {
      const uint2 both = ptx::ldShared64(from);
      result.words[0] = exists ? both.x : 0;
      result.words[1] = exists ? both.y : 0;
    } else {
      const unsigned both =
          bytesOf(kScale) == 2 ? ptx::ldShared32(from) : ptx::ldShared16(from);
      result.words[0] = exists ? both : 0;
    }
    return result;
  }

  unsigned readZeros(unsigned at, int unit, int group) const {
    return ptx::ldShared16(at + ofZeros + unit * kZeroBytes + group * kRows);
  }
  static void addendsOf(unsigned (&addends)[2], unsigned zeros) {
    addends[0] = Decoder::addendOf(zeros & 0xffu);
    addends[1] = Decoder::addendOf(zeros >> 8);
  }

private:
  /// Of a tile's blocks of 64 rows the first, counted over all matrices.
  long long firstRowBlock(const Sm90Tile &tile) const {
    return static_cast<long long>(tile.batch) * blocksN + tile.rowBegin / kRows;
  }
  int rowBlocks(int row) const { return min(kAll, blocksN - row / kRows); }
  int blocks(int k) const {
    return min(kBlocks, blocksK - k / PackedWeights::kDepth);
  }
  int groupsFrom(int k) const {
    return kHasGroups ? min(kGroups, groups - k / (kHasGroups ? kGroup : 1))
                      : 0;
  }

  const char *weights, *scales, *zeros;
  unsigned long long policy;
  int blocksN, blocksK, groups;
  int firstUnit = 0;
  unsigned ofWords = 0, ofScales = 0, ofZeros = 0;
};

} // namespace kiln
