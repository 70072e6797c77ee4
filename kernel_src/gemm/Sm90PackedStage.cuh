//===- gemm/Sm90PackedStage.cuh - packed weights in a stage of a ring -----===//
//
// A stage has the blocks of weights of a tile's rows, for 64 rows at a time
// along k. Behind them are the scales of its quantisation groups, for 64 rows
// at a time by group, and then the zero points, likewise. All have the order of
// memory (common/PackedWeights.h), so one bulk copy loads those of 64 rows.
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

/// The copies of a producer to a stage, and the reads of a consumer's thread.
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
  /// Blocks of 64 rows of the tile, and of a consumer.
  static constexpr int kAll = kConfig.rows / kRows;
  static constexpr int kUnits = kConfig.units();
  /// Bytes of 64 rows, and offsets of scales and zero points.
  static constexpr int kWeightBytes = kBlocks * kBlockBytes;
  static constexpr int kScaleBytes = kGroups * kRows * bytesOf(kScale);
  static constexpr int kZeroBytes = kHasZeros ? kGroups * kRows : 0;
  static constexpr int kScalesAt = kAll * kWeightBytes;
  static constexpr int kZerosAt = kScalesAt + kAll * kScaleBytes;

  using Decoder = WeightDecoder<kWeight, kSignature.in>;

public:
  /// Steps of k of a run: a quantisation group, or a block.
  static constexpr int kRunDepth = kConfig.runDepth(kSignature);
  /// Steps of k whose words a lane loads at once, and these words.
  static constexpr int kChunkDepth =
      kRunDepth < PackedWeights::kDepth ? kRunDepth : PackedWeights::kDepth;
  static constexpr int kChunkWords = kChunkDepth * kBits / 64;

  /// The stage of a producer.
  Sm90PackedStage(const GemmParams &gemm, unsigned long long policy)
      : weights(static_cast<const char *>(gemm.b)),
        scales(reinterpret_cast<const char *>(gemm.scaleB.data)),
        zeros(static_cast<const char *>(gemm.zeroB)), policy(policy),
        blocksN(static_cast<int>(PackedWeights::blocksOf(gemm.n))),
        blocksK(static_cast<int>(PackedWeights::blocksOf(gemm.k))),
        groups(static_cast<int>(PackedWeights::groups(gemm.k, kGroup))) {}
  /// The stage of a thread of consumer \p consumer.
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

  /// Bytes that are loaded for the rows from \p row on, at \p k.
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
    // The loop is kept: unrolled, it takes more registers than a producer has.
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

  /// Loads scales and zero points of quantisation groups.
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

  /// Index of this lane's two rows of a unit, which are neighbours, among 64
  /// scales.
  static int rowOfLane() {
    const unsigned thread = threadIdx.x % Sm90GemmConfig::kWarpgroup;
    return thread / 32 * 16 + thread % 32 / 4 * 2;
  }

  /// The scales of this lane's two rows, as stored.
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

  /// The fragment of step \p step of 16 k within a chunk.
  static void decode(unsigned (&fragment)[4],
                     const unsigned (&words)[kChunkWords], int step,
                     const unsigned (&addends)[2]) {
    unsigned own[Decoder::kWords];
#pragma unroll
    for (int i = 0; i < Decoder::kWords; ++i)
      own[i] = words[step * Decoder::kWords + i];
    Decoder::decode(fragment, own, addends);
  }

  /// The scales of a run. A group that does not exist gets finite scales,
  /// because shared memory may hold anything there.
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
  /// The first of a tile's blocks of 64 rows, counted over all matrices.
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
