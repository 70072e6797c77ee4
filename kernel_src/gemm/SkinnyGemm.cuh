//===- gemm/SkinnyGemm.cuh - a matrix by up to 64 vectors -----------------===//
//
// Problem: with few vectors the time is still that of reading the matrix, but
// plain FMA is too slow for them. mma.sync takes the rows of the large operand
// on its side of 16 and the vectors on its side of 8, so that little of it is
// padding.
//
// The warps split k inside the block. Each has a ring of its own, filled by
// cp.async with exactly the slices of both operands that it multiplies. So no
// warp waits for another before the sums are added: the loop has no barrier of
// the block. The sums of the warps are added in a fixed order.
//
// Where there are too few tiles, blocks share one by split-K, too (SplitK.cuh).
//
// Types of one byte are stored as they are in shared memory, and multiplied by
// ByteFragments.cuh. Sums of int8 stay int32 to the end, so they do not depend
// on how k was split. Block scales are applied to the sums of each 128 of k.
//
// Limits: sm_80 and up; rows of both operands aligned to 16 bytes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/ByteFragments.cuh"
#include "gemm/MmaTiles.cuh"
#include "gemm/PartialScales.cuh"
#include "gemm/SkinnyGemmConfig.h"
#include "gemm/SplitK.cuh"
#include "gemm/StreamedRows.cuh"

namespace kiln {

/// Copies the slices of one operand, kExtent rows of kRowBytes, to a warp's own
/// ring. Elements that do not exist become zero.
template <int kExtent, int kRowBytes, int kBytes> class SliceLoader {
public:
  /// \p view: the block's rows; \p begin: the bytes of k before the warp's
  /// first slice.
  SliceLoader(const RowsView &view, long long begin) {
    int lane = threadIdx.x % 32;
    row = lane / kUnits;
    unit = lane % kUnits;
    source = view.base + row * view.pitchBytes + begin + unit * 16;
    rowStepBytes = kRowStep * view.pitchBytes;
    rowsLeft = view.rowsLeft - row;
  }

  /// Issues the copies of a slice to \p shared, \p tileBytes along k behind the
  /// first one; \p left of its elements exist.
  void copy(unsigned shared, long long tileBytes, int left) const {
    const char *from = source + tileBytes;
    int mine = left - unit * kElements;
    bool cut = mine > 0 && mine < kElements;
#pragma unroll
    for (int i = 0; i < kCopies; ++i, from += rowStepBytes) {
      bool inside = i * kRowStep < rowsLeft;
      ptx::cpAsyncOrZero<16>(shared + offsetOf(i), from, inside && mine > 0,
                             !cut);
    }
    if (cut)
      copyCut(shared, source + tileBytes, mine);
  }

private:
  static constexpr int kElements = 16 / kBytes;
  static constexpr int kUnits = kRowBytes / 16;
  static constexpr int kRowStep = 32 / kUnits;
  static constexpr int kCopies = kExtent / kRowStep;
  static_assert(kExtent % kRowStep == 0, "copies cover whole slices");

  unsigned offsetOf(int i) const {
    return swizzledOffset<kRowBytes, SwizzleFor::Ldmatrix>(row + i * kRowStep,
                                                           unit * 16);
  }

  /// The lane's part of every row, when the rows end within it.
  void copyCut(unsigned shared, const char *from, int elements) const {
#pragma unroll 1
    for (int i = 0; i < kCopies; ++i, from += rowStepBytes)
      ptx::cpAsync<16>(shared + offsetOf(i), from,
                       i * kRowStep < rowsLeft ? elements * kBytes : 0);
  }

  const char *source; // the lane's first unit of the first slice
  long long rowStepBytes;
  int row, unit;
  int rowsLeft; // counted from the lane's first row
};

template <GemmSignature kSignature, SkinnyGemmConfig kConfig> class SkinnyGemm {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ >= 800, "mma.sync with cp.async needs sm_80");

  static constexpr bool kStreamsA = kConfig.streamsA != 0;
  static constexpr int kRows = kConfig.rows, kVectors = kConfig.vectors;
  static constexpr int kWarpK = kConfig.warpK, kBlockK = kConfig.blockK();
  static constexpr int kStages = kConfig.stages, kWarps = kConfig.warps;
  static constexpr int kBytes = bytesOf(kSignature.in);
  static constexpr int kSteps = kWarpK * kBytes / 32;
  static constexpr int kTilesS = kRows / 16;    // fragments of 16 rows
  static constexpr int kTilesV = kVectors / 8;  // of 8 vectors
  static constexpr int kPairsV = kVectors / 16; // pairs of these that load
                                                // together

  static constexpr TileShape kShapeS = {true, kRows, kWarpK, kBytes};
  static constexpr TileShape kShapeV = {true, kVectors, kWarpK, kBytes};
  static constexpr int kStageBytes = kShapeS.bytes() + kShapeV.bytes();
  static constexpr StagedSums kStaged = {
      kStreamsA, kRows, kVectors, kConfig.stagingPitch(), kConfig.threads()};

  static constexpr DType kTypeS =
      kStreamsA ? kSignature.in : kSignature.typeB();
  static constexpr DType kTypeV =
      kStreamsA ? kSignature.typeB() : kSignature.in;
  static constexpr ByteProduct kProduct =
      byteProductOf(kSignature, kByteCapability);
  /// Steps after which partial sums are added to the others; 0: no partial
  /// sums.
  static constexpr int kPartialSteps =
      !hasPartialSums(kSignature, kByteCapability) ? 0
      : kWarpK < kPromotedDepth                    ? kSteps
                                                   : kPromotedDepth / 32;

  /// Blocks of k of a slice that share a scale, and scales of A's rows that a
  /// lane needs for each: A's rows are its vectors, or the rows that are
  /// streamed.
  static constexpr int kScaledBlocks =
      kWarpK < kPromotedDepth ? 1 : kWarpK / kPromotedDepth;
  static constexpr int kLaneScales = 2 * (kStreamsA ? kTilesS : kTilesV);
  using Scales = PartialScales<kLaneScales>;
  using ScaleReader = PartialScaleReader<kLaneScales>;

  using LoaderS = SliceLoader<kRows, kShapeS.rowBytes(), kBytes>;
  using LoaderV = SliceLoader<kVectors, kShapeV.rowBytes(), kBytes>;
  using ReaderS = FragmentReader<kShapeS, FragmentOf::A>;
  using ReaderV = FragmentReader<kShapeV, FragmentOf::B>;
  using Sum = ProductSum<kSignature>;
  using Accumulators = Sum[kTilesS][kTilesV][4];

  /// Two sets of fragments of one step of k.
  struct Fragments {
    unsigned rows[2][kTilesS][4];
    unsigned vectors[2][(kTilesV + 1) / 2][4];
  };

public:
  static void run(const GemmParams &params) {
    extern __shared__ __align__(128) unsigned char sharedMemory[];
    Sum *staged = reinterpret_cast<Sum *>(sharedMemory);
    allowSuccessor();
    StreamWork work = streamWork(params, kConfig, splitsOf<kConfig>(params));
    prefetchSums<kSignature, kStaged>(params, work);
    Accumulators accumulators = {};
    unsigned ring = ptx::sharedAddress(sharedMemory) +
                    warp() * kConfig.ringBytes(kSignature);
    multiply(params, work, ring, accumulators);
    // The sums take the place of all warps' rings.
    __syncthreads();
    stage(accumulators, staged + warp() * kStaged.floats());
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

private:
  static int warp() { return threadIdx.x / 32; }

  /// The slices of one warp, from the first of its block's range of k on.
  class Producer {
  public:
    Producer(const GemmParams &params, const StreamWork &work)
        : range(params, work.split, splitsOf<kConfig>(params)),
          kBegin(range.begin() + warp() * kWarpK), kLeft(params.k - kBegin),
          rows(streamedRows<kSignature, kStreamsA>(params, work),
               kBegin * kBytes),
          vectors(vectorRows<kSignature, kStreamsA>(params, work),
                  kBegin * kBytes) {}

    /// Tiles of the block.
    int tiles() const { return range.count; }
    /// Start of the warp's slice of tile \p tile.
    long long beginOf(int tile) const {
      return kBegin + static_cast<long long>(tile) * kBlockK;
    }

    /// Issues the copies of the warp's slice of tile \p tile, which may not
    /// exist, and closes their group.
    void load(int tile, unsigned stage) const {
      copy(tile, stage, true, true);
      // Committed even when empty: the wait counts groups.
      ptx::cpAsyncCommit();
    }

    /// The copies of one operand or both, in an open group.
    void copy(int tile, unsigned stage, bool ofRows, bool ofVectors) const {
      if (tile >= range.count)
        return;
      long long offset = static_cast<long long>(tile) * kBlockK;
      long long rest = kLeft - offset;
      int left = rest >= kWarpK ? kWarpK : static_cast<int>(max(rest, 0ll));
      if (ofRows)
        rows.copy(stage, offset * kBytes, left);
      if (ofVectors)
        vectors.copy(stage + kShapeS.bytes(), offset * kBytes, left);
    }

  private:
    KRange<kBlockK> range;
    long long kBegin, kLeft;
    LoaderS rows;
    LoaderV vectors;
  };

  /// Issues the copies of the first tiles. With \p isEarly the rows of the
  /// large operand are copied before the kernel ahead has ended, in the group
  /// of the first tile.
  static void fillRing(const Producer &producer, unsigned ring, bool isEarly) {
#pragma unroll 1
    for (int pass = isEarly ? 0 : 1; pass < 2; ++pass) {
      if (pass == 1)
        awaitPredecessor();
#pragma unroll 1
      for (int tile = 0; tile < kStages - 1; ++tile) {
        producer.copy(tile, ring + tile * kStageBytes, pass == 0 || !isEarly,
                      pass == 1);
        if (pass == 1)
          ptx::cpAsyncCommit();
      }
    }
  }

  /// Sums the products of the warp's slices, with the ring at \p ring.
  static void multiply(const GemmParams &params, const StreamWork &work,
                       unsigned ring, Accumulators &accumulators) {
    Producer producer(params, work);
    ReaderS readerS(0);
    ReaderV readerV(0);
    Fragments fragments;
    [[maybe_unused]] Accumulators partial = {};
    fillRing(producer, ring, isStreamedEarly<kStreamsA>(params));
    unsigned ringEnd = ring + kStages * kStageBytes;
    unsigned reading = ring, writing = ringEnd - kStageBytes;
    [[maybe_unused]] Scales scales[kScaledBlocks], next[kScaledBlocks];
    [[maybe_unused]] auto readNextScales = [&](int tile) {
      if constexpr (kSignature.hasBlockScales()) {
        // The object is small, and is made again from values that the block has
        // anyway.
        const ScaleReader reader = scaleReader(params, work);
#pragma unroll
        for (int i = 0; i < kScaledBlocks; ++i)
          reader.read(next[i], producer.beginOf(tile) + i * kPromotedDepth);
      }
    };
    if (producer.tiles() > 0)
      readNextScales(0);
#pragma unroll 1
    for (int tile = 0; tile < producer.tiles(); ++tile) {
      // Beyond this point the warp's next slice is visible to all its lanes,
      // and none of them reads the one before any more.
      ptx::cpAsyncWait<kStages - 2>();
      __syncwarp();
      producer.load(tile + kStages - 1, writing);
      if constexpr (kSignature.hasBlockScales()) {
#pragma unroll
        for (int i = 0; i < kScaledBlocks; ++i)
          scales[i] = next[i];
        readNextScales(tile + 1);
      }
      readFragments(fragments, readerS, readerV, reading, 0);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if (step + 1 < kSteps)
          readFragments(fragments, readerS, readerV, reading, step + 1);
        if constexpr (kPartialSteps == 0)
          multiplyStep(fragments, step % 2, accumulators);
        else {
          multiplyStep(fragments, step % 2, partial);
          if ((step + 1) % kPartialSteps == 0)
            promote(accumulators, partial, scales[step * 32 / kPromotedDepth]);
        }
      }
      writing = reading;
      reading += kStageBytes;
      if (reading == ringEnd)
        reading = ring;
    }
    // No copy may arrive where the sums are staged.
    ptx::cpAsyncWait<0>();
  }

  /// Loads the fragments of \p step into the set of its parity.
  static void readFragments(Fragments &fragments, const ReaderS &readerS,
                            const ReaderV &readerV, unsigned stage, int step) {
#pragma unroll
    for (int i = 0; i < kTilesS; ++i)
      readerS.read(fragments.rows[step % 2][i], stage, i, step);
    stage += kShapeS.bytes();
#pragma unroll
    for (int j = 0; j < kPairsV; ++j)
      readerV.read(fragments.vectors[step % 2][j], stage, j, step);
    if constexpr (kTilesV % 2 != 0)
      readerV.readHalf(fragments.vectors[step % 2][kPairsV], stage, kPairsV,
                       step);
  }

  static void multiplyStep(Fragments &fragments, int set,
                           Accumulators &accumulators) {
    if constexpr (kBytes == 1) {
      multiplyBytes<kProduct, kTypeS, kTypeV>(accumulators, fragments.rows[set],
                                              fragments.vectors[set]);
    } else {
#pragma unroll
      for (int i = 0; i < kTilesS; ++i)
#pragma unroll
        for (int j = 0; j < kTilesV; ++j) {
          unsigned(&pair)[4] = fragments.vectors[set][j / 2];
          multiplyAdd(accumulators[i][j], fragments.rows[set][i],
                      pair[j % 2 * 2], pair[j % 2 * 2 + 1]);
        }
    }
  }

  /// Reads scales for rows of A, which are the vectors or, with kStreamsA, the
  /// rows of the large operand. The block's part of B has one scale at a time.
  static ScaleReader scaleReader(const GemmParams &params,
                                 const StreamWork &work) {
    int lane = threadIdx.x % 32;
    return {params, work.batch, kStreamsA ? work.vector : work.row, [&](int i) {
              return kStreamsA ? work.row + i / 2 * 16 + i % 2 * 8 + lane / 4
                               : work.vector + i / 2 * 8 + i % 2 + lane % 4 * 2;
            }};
  }

  /// Adds the partial sums to the others, times \p scales if there are any, and
  /// clears them.
  static void promote(Accumulators &accumulators, Accumulators &partial,
                      const Scales &scales) {
    float factors[kLaneScales];
    if constexpr (kSignature.hasBlockScales())
#pragma unroll
      for (int i = 0; i < kLaneScales; ++i)
        factors[i] = scales.of(i);
#pragma unroll
    for (int i = 0; i < kTilesS; ++i)
#pragma unroll
      for (int j = 0; j < kTilesV; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float &sum = accumulators[i][j][e];
          if constexpr (kSignature.hasBlockScales())
            sum = fmaf(partial[i][j][e],
                       factors[kStreamsA ? i * 2 + e / 2 : j * 2 + e % 2], sum);
          else
            sum += partial[i][j][e];
          partial[i][j][e] = 0;
        }
  }

  static void multiplyAdd(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                          unsigned b1) {
    if constexpr (kSignature.in == DType::BF16)
      ptx::mmaBf16(d, a, b0, b1);
    else
      ptx::mmaFp16(d, a, b0, b1);
  }

  /// Writes the warp's sums in the layout of D.
  static void stage(const Accumulators &accumulators, Sum *staged) {
    int lane = threadIdx.x % 32;
    int row = lane / 4, vector = lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kTilesS; ++i)
#pragma unroll
      for (int j = 0; j < kTilesV; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          staged[kStaged.offset(i * 16 + row + e / 2 * 8,
                                j * 8 + vector + e % 2)] =
              scaled(accumulators[i][j][e]);
  }

  static Sum scaled(Sum sum) {
    constexpr float kFactor = byteFactor<kSignature>();
    if constexpr (kFactor != 1.0f)
      return sum * kFactor;
    else
      return sum;
  }

  /// Publishes this split's sums. True in the block that arrived last: the
  /// first staged part then holds the sum over all splits.
  static bool reduceSplits(const GemmParams &params, const StreamWork &work,
                           Sum *staged) {
    constexpr int kGroups = kRows * kVectors / 4;
    auto *tile = reinterpret_cast<float4 *>(params.partials) +
                 work.tile * params.splitK * kGroups;
#pragma unroll 1
    for (int i = threadIdx.x; i < kGroups; i += kConfig.threads())
      ptx::stGlobalCg(tile + work.split * kGroups + i,
                      sumParts(staged + stagedGroup(i)));
    if (!isLastSplit(params, work.tile))
      return false;
#pragma unroll 1
    for (int i = threadIdx.x; i < kGroups; i += kConfig.threads()) {
      float4 sum = {};
#pragma unroll 1
      for (int split = 0; split < params.splitK; ++split)
        add(sum, ptx::ldGlobalCg(tile + split * kGroups + i));
      *reinterpret_cast<float4 *>(staged + stagedGroup(i)) = sum;
    }
    __syncthreads();
    return true;
  }

  /// Place of four staged sums of a row of D; the groups cover the tile.
  static int stagedGroup(int group) {
    constexpr int kPerRow = kStaged.width() / 4;
    return group / kPerRow * kStaged.pitch + group % kPerRow * 4;
  }

  /// The sum of the warps' parts, in their order.
  static float4 sumParts(const Sum *staged) {
    float4 sum = {};
#pragma unroll
    for (int part = 0; part < kWarps; ++part)
      add(sum,
          *reinterpret_cast<const float4 *>(staged + part * kStaged.floats()));
    return sum;
  }

  /// Adds four sums; int32 sums are the bits of these floats.
  static void add(float4 &sum, const float4 &part) {
    add(sum.x, part.x);
    add(sum.y, part.y);
    add(sum.z, part.z);
    add(sum.w, part.w);
  }
  static void add(float &sum, float part) {
    if constexpr (kSignature.in == DType::INT8)
      sum = __int_as_float(__float_as_int(sum) + __float_as_int(part));
    else
      sum += part;
  }
};

/// D = pointwise(alpha * A B^T + beta * C) on a one-dimensional grid of
/// kConfig.grid().blocks(m, n, batch) blocks.
template <GemmSignature kSignature, SkinnyGemmConfig kConfig>
void skinnyGemm(const GemmParams &params) {
  SkinnyGemm<kSignature, kConfig>::run(params);
}

} // namespace kiln
