//===- gemm/PackedGemm.cuh - W4A16 and W8A16 for a few vectors ------------===//
//
// Problem: with few rows of A the time is that of reading the weights, and a
// 4-bit weight is a quarter of a bf16 one. So there is less time for each
// weight, and more work, because it has to be decoded.
//
// The weights lie in memory in the order in which mma.sync takes them
// (common/PackedWeights.h), on its side of 16 rows. A lane loads 16 bytes of
// its own, the fragments of four instructions (two for 8 bits), straight into
// registers, and keeps the loads of several steps in flight there. This needs
// no shared memory, no barrier and no shuffle. The rows of A, the vectors, are
// loaded through shared memory: each warp has a ring of its own, as in
// SkinnyGemm.cuh, and is independent of the others.
//
// Codes become exact integers or floats of 16 bits (WeightDecoder.cuh).
// Products are summed in fp32 for each quantisation group of k separately, and
// the group's scale is applied to its sums: one multiplication for each sum
// instead of one for each weight, and no rounding of a scaled weight. A scale
// of whole rows is applied at the end.
//
// The warps split k inside the block by taking steps in turn. Their sums are
// added in a fixed order. Where there are too few tiles, blocks share one
// (SplitK.cuh).
//
// Padding: codes beyond n make rows that are never stored; codes beyond k are
// multiplied by zeros. So they may be any finite number.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/Groups.cuh"
#include "gemm/PackedGemmConfig.h"
#include "gemm/PackedWeight.cuh"
#include "gemm/SkinnyGemm.cuh"
#include "gemm/WeightDecoder.cuh"

namespace kiln {

template <GemmSignature kSignature, PackedGemmConfig kConfig> class PackedGemm {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ >= 800, "mma.sync with cp.async needs sm_80");

  static constexpr int kRows = kConfig.rows, kVectors = kConfig.vectors;
  static constexpr int kUnits = kRows / 16; // fragments of 16 rows
  static constexpr int kWarpK = kConfig.warpK, kBlockK = kConfig.blockK();
  static constexpr int kStages = kConfig.stages, kWarps = kConfig.warps;
  static constexpr int kRing = kConfig.ringStages;
  static constexpr int kBytes = bytesOf(kSignature.in);
  static constexpr int kTilesV = kVectors / 8;  // fragments of 8 vectors
  static constexpr int kPairsV = kVectors / 16; // pairs of these that load
                                                // together

  static constexpr DType kWeight = kSignature.typeB();
  static constexpr DType kScale = kSignature.scaleTypeB;
  static constexpr int kBits = bitsOf(kWeight);
  static constexpr int kBlocks = kWarpK / 64; // of weights in a step
  static constexpr int kLoads = kBits / 4;    // of 16 bytes for 64 k
  static constexpr int kUnitBytes = PackedWeights::blockBytes(kBits) / 4;
  using Decoder = WeightDecoder<kWeight, kSignature.in>;

  // A part of a step has one scale for each row.
  static constexpr int kGroup = kSignature.groupB;
  static constexpr bool kHasGroups = kGroup != 0;
  static constexpr bool kHasZeros = kSignature.zeroB;
  static constexpr int kPartK = kConfig.partK(kSignature);
  static constexpr int kParts = kWarpK / kPartK;

  static constexpr TileShape kShapeV = {true, kVectors, kWarpK, kBytes};
  static constexpr StagedSums kStaged = {
      false, kRows, kVectors, kConfig.stagingPitch(), kConfig.threads()};

  using LoaderV = SliceLoader<kVectors, kShapeV.rowBytes(), kBytes>;
  using ReaderV = FragmentReader<kShapeV, FragmentOf::B>;
  using Sums = float[kUnits][kTilesV][4];

  /// The scales of a lane's two rows of a unit, 8 apart, as in memory.
  struct RowPair {
    unsigned scales[kScale == DType::FP32 ? 2 : 1];
    unsigned zeros;
  };

  /// A step of a warp in flight.
  struct Step {
    uint4 weights[kBlocks][kUnits][kLoads];
    RowPair pairs[kParts][kUnits];
  };

public:
  static void run(const GemmParams &params) {
    extern __shared__ __align__(128) unsigned char sharedMemory[];
    allowSuccessor();
    if constexpr (kSignature.hasGroups())
      runGroups(params, sharedMemory);
    else
      runTile(params, streamWork(params, kConfig, splitsOf<kConfig>(params)),
              sharedMemory);
  }

private:
  /// Whether blocks divide the existing tiles among themselves. (docs/gemm.md,
  /// "Groups of rows".)
  static void runGroups(const GemmParams &params, unsigned char *sharedMemory) {
    awaitPredecessor();
    const GroupTable<kSignature.groups> table(
        params, reinterpret_cast<int *>(sharedMemory + kConfig.tileBytes()));
    if (threadIdx.x < 32)
      table.build(kVectors);
    __syncthreads();
    const int across = tileCount(params.n, kRows);
    const unsigned count = table.tiles() * across;
#pragma unroll 1
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
      const GroupTile tile = table.tile(i, across, params.rasterGroup, false);
      StreamWork work;
      work.batch = tile.work.batch;
      work.row = static_cast<long long>(tile.work.tileN) * kRows;
      work.vector =
          tile.rows.begin + static_cast<long long>(tile.work.tileM) * kVectors;
      work.vectorEnd = tile.rows.end;
      work.tile = i;
      work.split = 0;
      runTile(params, work, sharedMemory);
      __syncthreads(); // the rings are filled again for the next tile
    }
  }

  static void runTile(const GemmParams &params, const StreamWork &work,
                      unsigned char *sharedMemory) {
    float *staged = reinterpret_cast<float *>(sharedMemory);
    prefetchSums<kSignature, kStaged>(params, work);
    Sums sums = {};
    unsigned ring =
        ptx::sharedAddress(sharedMemory) + warp() * kConfig.ringBytes();
    multiply(params, work, ring, sums);
    // The sums take the place of all warps' rings.
    __syncthreads();
    stage(sums, staged + warp() * kStaged.floats());
    __syncthreads();
    int parts = kWarps;
    if constexpr (kConfig.splits != 0)
      if (params.splitK > 1) {
        if (!reduceSplits(params, work, staged))
          return;
        parts = 1;
      }
    finishSums<kSignature, kStaged>(params, work, staged, parts);
  }

  static int warp() { return threadIdx.x / 32; }
  static int lane() { return threadIdx.x % 32; }

  /// The steps of one warp, from the first of its block's range of k on.
  class Producer {
  public:
    Producer(const GemmParams &params, const StreamWork &work)
        : range(params, work.split, splitsOf<kConfig>(params)),
          kBegin(range.begin() + warp() * kWarpK), kLeft(params.k - kBegin),
          vectors(RowsView::ofA<kSignature>(params, work.batch, work.vector,
                                            work.vectorEnd),
                  kBegin * kBytes) {
      // Matrices of groups follow one another without gaps.
      const long long block = work.batch * PackedWeights::blocksOf(params.n) +
                              work.row / PackedWeights::kRows;
      const int unit = static_cast<int>(work.row % PackedWeights::kRows) / 16;
      depthBlocks = static_cast<int>(PackedWeights::blocksOf(params.k));
      weights = static_cast<const char *>(params.b) +
                block * depthBlocks * kUnitBytes * 4 + unit * kUnitBytes +
                lane() * PackedWeights::kLaneBytes;
      groups = static_cast<int>(PackedWeights::groups(params.k, kGroup));
      pairsAt =
          block * groups * PackedWeights::kRows + unit * 16 + lane() / 4 * 2;
      scales = reinterpret_cast<const char *>(params.scaleB.data);
      zeros = static_cast<const char *>(params.zeroB);
    }

    /// Steps of the block.
    int steps() const { return range.count; }

    /// Issues the loads of the weights of step \p index, if it exists. Blocks
    /// beyond k do not exist, and become zero.
    void loadWeights(Step &step, int index) const {
      if (index >= range.count)
        return;
      const int first = static_cast<int>(kOf(index) / 64);
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        const char *from =
            weights + static_cast<long long>(first + b) * (kUnitBytes * 4);
        const bool exists = first + b < depthBlocks;
#pragma unroll
        for (int u = 0; u < kUnits; ++u)
#pragma unroll
          for (int l = 0; l < kLoads; ++l) {
            step.weights[b][u][l] = {};
            if (exists)
              step.weights[b][u][l] = ptx::ldGlobalNoAllocate128(
                  from + u * kUnitBytes + l * kUnitBytes / kLoads);
          }
      }
    }

    /// Issues the loads of scales and zero points of groups. Beyond k they
    /// repeat those of the last group.
    void loadPairs(Step &step, int index) const {
      if constexpr (kHasGroups) {
        if (index >= range.count)
          return;
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          const int group = min(
              static_cast<int>((kOf(index) + p * kPartK) / kGroup), groups - 1);
#pragma unroll
          for (int u = 0; u < kUnits; ++u)
            loadPair(step.pairs[p][u], group, u);
        }
      }
    }

    void loadPair(RowPair &pair, int group, int unit) const {
      const long long at =
          pairsAt + static_cast<long long>(group) * PackedWeights::kRows +
          unit * 16;
      constexpr int kScaleBytes = bytesOf(kScale);
      const char *from = scales + at * kScaleBytes;
      if constexpr (kScaleBytes == 4) {
        uint2 both = *reinterpret_cast<const uint2 *>(from);
        pair.scales[0] = both.x;
        pair.scales[1] = both.y;
      } else if constexpr (kScaleBytes == 2)
        pair.scales[0] = *reinterpret_cast<const unsigned *>(from);
      else
        pair.scales[0] = *reinterpret_cast<const unsigned short *>(from);
      if constexpr (kHasZeros)
        pair.zeros = *reinterpret_cast<const unsigned short *>(zeros + at);
    }

    /// Issues the copies of the vectors of step \p index, which may not exist,
    /// and closes their group.
    void copyVectors(int index, unsigned stage) const {
      if (index < range.count) {
        long long offset = static_cast<long long>(index) * kBlockK;
        long long rest = kLeft - offset;
        int left = rest >= kWarpK ? kWarpK : static_cast<int>(max(rest, 0ll));
        vectors.copy(stage, offset * kBytes, left);
      }
      // Committed even when empty: the wait counts groups.
      ptx::cpAsyncCommit();
    }

  private:
    long long kOf(int index) const {
      return kBegin + static_cast<long long>(index) * kBlockK;
    }

    KRange<kBlockK> range;
    long long kBegin, kLeft;
    LoaderV vectors;
    const char *weights; // the lane's, in the first block along k
    const char *scales, *zeros;
    long long pairsAt; // the lane's first rows, in the first group
    int depthBlocks, groups;
  };

  static void multiply(const GemmParams &params, const StreamWork &work,
                       unsigned ring, Sums &sums) {
    const Producer producer(params, work);
    const ReaderV reader(0);
    Step steps[kStages];
    // Weights may be loaded before the kernel ahead has ended.
    if (!isStreamedEarly<false>(params))
      awaitPredecessor();
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s)
      producer.loadWeights(steps[s], s);
    awaitPredecessor();
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s)
      producer.loadPairs(steps[s], s);
#pragma unroll 1
    for (int s = 0; s < kRing - 1; ++s)
      producer.copyVectors(s, ring + s * kShapeV.bytes());
    RowPair whole[kUnits];
    if constexpr (!kHasGroups) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        producer.loadPair(whole[u], 0, u);
    }
    const unsigned ringEnd = ring + kRing * kShapeV.bytes();
    unsigned reading = ring, writing = ringEnd - kShapeV.bytes();
#pragma unroll 1
    for (int first = 0; first < producer.steps(); first += kStages) {
#pragma unroll
      for (int s = 0; s < kStages; ++s) {
        const int index = first + s;
        if (index >= producer.steps())
          break;
        // Beyond this point the warp's vectors of the step are visible to all
        // of its lanes, and none of them reads those of the step before any
        // more.
        ptx::cpAsyncWait<kRing - 2>();
        __syncwarp();
        producer.copyVectors(index + kRing - 1, writing);
        Step &next = steps[(s + kStages - 1) % kStages];
        producer.loadWeights(next, index + kStages - 1);
        producer.loadPairs(next, index + kStages - 1);
        multiplyStep(steps[s], whole, reader, reading, sums);
        writing = reading;
        reading += kShapeV.bytes();
        if (reading == ringEnd)
          reading = ring;
      }
    }
    if constexpr (!kHasGroups) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        float scale[2];
        scalesOf(scale, whole[u]);
#pragma unroll
        for (int j = 0; j < kTilesV; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            sums[u][j][e] *= scale[e / 2];
      }
    }
    // No copy may arrive where the sums are staged.
    ptx::cpAsyncWait<0>();
  }

  /// Adds the products of a step, part by part.
  static void multiplyStep(const Step &step, const RowPair (&whole)[kUnits],
                           const ReaderV &reader, unsigned stage, Sums &sums) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      if constexpr (!kHasGroups)
        multiplyPart(step, whole, reader, stage, p, sums);
      else {
        Sums part = {};
        multiplyPart(step, step.pairs[p], reader, stage, p, part);
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          float scale[2];
          scalesOf(scale, step.pairs[p][u]);
#pragma unroll
          for (int j = 0; j < kTilesV; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              sums[u][j][e] = fmaf(part[u][j][e], scale[e / 2], sums[u][j][e]);
        }
      }
    }
  }

  static void multiplyPart(const Step &step, const RowPair (&pairs)[kUnits],
                           const ReaderV &reader, unsigned stage, int part,
                           Sums &sums) {
    unsigned addends[kUnits][2];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      addends[u][0] = Decoder::addendOf(kHasZeros ? pairs[u].zeros & 0xffu : 8);
      addends[u][1] = Decoder::addendOf(kHasZeros ? pairs[u].zeros >> 8 : 8);
    }
#pragma unroll
    for (int s = 0; s < kPartK / 16; ++s) {
      const int at = part * (kPartK / 16) + s; // step of 16 k
      unsigned vectors[(kTilesV + 1) / 2][4];
#pragma unroll
      for (int j = 0; j < kPairsV; ++j)
        reader.read(vectors[j], stage, j, at);
      if constexpr (kTilesV % 2 != 0)
        reader.readHalf(vectors[kPairsV], stage, kPairsV, at);
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        unsigned words[Decoder::kWords], fragment[4];
        wordsOf(words, step.weights[at / 4][u], at % 4);
        Decoder::decode(fragment, words, addends[u]);
#pragma unroll
        for (int j = 0; j < kTilesV; ++j)
          multiplyAdd(sums[u][j], fragment, vectors[j / 2][j % 2 * 2],
                      vectors[j / 2][j % 2 * 2 + 1]);
      }
    }
  }

  /// The words of step \p step of 16 k; a block has four steps.
  static void wordsOf(unsigned (&words)[Decoder::kWords],
                      const uint4 (&loaded)[kLoads], int step) {
    if constexpr (kBits == 4)
      words[0] = wordOf(loaded[0], step);
    else {
      words[0] = wordOf(loaded[step / 2], step % 2 * 2);
      words[1] = wordOf(loaded[step / 2], step % 2 * 2 + 1);
    }
  }
  static unsigned wordOf(const uint4 &vector, int index) {
    return index == 0   ? vector.x
           : index == 1 ? vector.y
           : index == 2 ? vector.z
                        : vector.w;
  }

  /// fp32 of the scales of two rows.
  static void scalesOf(float (&scale)[2], const RowPair &pair) {
    if constexpr (kScale == DType::FP32) {
      scale[0] = __uint_as_float(pair.scales[0]);
      scale[1] = __uint_as_float(pair.scales[1]);
    } else if constexpr (kScale == DType::E8M0) {
      scale[0] = selectedE8m0(pair.scales[0] & 0xffu);
      scale[1] = selectedE8m0(pair.scales[0] >> 8);
    } else
      unpackPair<kScale>(scale[0], scale[1], pair.scales[0]);
  }

  static void multiplyAdd(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                          unsigned b1) {
    if constexpr (kSignature.in == DType::BF16)
      ptx::mmaBf16(d, a, b0, b1);
    else
      ptx::mmaFp16(d, a, b0, b1);
  }

  /// Writes the warp's sums in the layout of D.
  static void stage(const Sums &sums, float *staged) {
    const int row = lane() / 4, vector = lane() % 4 * 2;
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
#pragma unroll
      for (int j = 0; j < kTilesV; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          staged[kStaged.offset(u * 16 + row + e / 2 * 8,
                                j * 8 + vector + e % 2)] = sums[u][j][e];
  }

  /// Publishes this split's sums. True in the block that arrived last: the
  /// first staged part then holds the sum over all splits.
  static bool reduceSplits(const GemmParams &params, const StreamWork &work,
                           float *staged) {
    constexpr int kGroups = kRows * kVectors / 4, kPerRow = kRows / 4;
    auto *tile = reinterpret_cast<float4 *>(params.partials) +
                 work.tile * params.splitK * kGroups;
    auto placeOf = [&](int group, int part) {
      return reinterpret_cast<float4 *>(staged + part * kStaged.floats() +
                                        group / kPerRow * kStaged.pitch +
                                        group % kPerRow * 4);
    };
#pragma unroll 1
    for (int i = threadIdx.x; i < kGroups; i += kConfig.threads()) {
      float4 sum = {};
#pragma unroll
      for (int part = 0; part < kWarps; ++part)
        add(sum, *placeOf(i, part));
      ptx::stGlobalCg(tile + work.split * kGroups + i, sum);
    }
    if (!isLastSplit(params, work.tile))
      return false;
#pragma unroll 1
    for (int i = threadIdx.x; i < kGroups; i += kConfig.threads()) {
      float4 sum = {};
#pragma unroll 1
      for (int split = 0; split < params.splitK; ++split)
        add(sum, ptx::ldGlobalCg(tile + split * kGroups + i));
      *placeOf(i, 0) = sum;
    }
    __syncthreads();
    return true;
  }

  static void add(float4 &sum, const float4 &part) {
    sum.x += part.x;
    sum.y += part.y;
    sum.z += part.z;
    sum.w += part.w;
  }
};

/// D = pointwise(alpha * A W^T + beta * C) on a one-dimensional grid of
/// kConfig.grid().blocks(m, n, batch) blocks.
template <GemmSignature kSignature, PackedGemmConfig kConfig>
void packedGemm(const GemmParams &params) {
  PackedGemm<kSignature, kConfig>::run(params);
}

} // namespace kiln
