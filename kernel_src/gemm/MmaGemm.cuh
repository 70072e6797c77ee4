//===- gemm/MmaGemm.cuh - multistage mma.sync GEMM ------------------------===//
//
// Problem: the tensor cores need their operands in registers every few cycles,
// while memory answers after hundreds. Each block keeps a ring of `stages`
// k-tiles in shared memory, filled by cp.async while the warps multiply, and
// each warp keeps two sets of fragments, one loading while the other
// multiplies. The one barrier of a k-tile both publishes the next tile and
// frees the one before for new copies.
//
// Blocks may share a tile by split-K (SplitK.cuh).
//
// Types of one byte are stored as they are in shared memory, and multiplied by
// ByteFragments.cuh. Sums of int8 are int32 until they are complete, and block
// scales are applied to the sums of each 128 of k.
//
// In a grouped GEMM the tiles are divided among as many blocks as run at once
// (Groups.cuh).
//
// Limits: sm_80 and up; at most 2^31 - 1 blocks. On Hopper mma.sync reaches
// about 0.62 of the tensor cores' rate.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "gemm/ByteFragments.cuh"
#include "gemm/GemmEpilogue.cuh"
#include "gemm/MmaGemmConfig.h"
#include "gemm/MmaTiles.cuh"
#include "gemm/PartialScales.cuh"
#include "gemm/SplitK.cuh"

namespace kiln {

template <GemmSignature kSignature, MmaGemmConfig kConfig> class MmaGemm {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ >= 800, "mma.sync with cp.async needs sm_80");

  static constexpr int kBlockM = kConfig.blockM, kBlockN = kConfig.blockN;
  static constexpr int kBlockK = kConfig.blockK, kStages = kConfig.stages;
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kElementBytes = bytesOf(kSignature.in);
  static constexpr int kWarpM = kConfig.warpTileM();
  static constexpr int kWarpN = kConfig.warpTileN();
  static constexpr int kTilesM = kWarpM / 16; // fragments of A a warp
  static constexpr int kTilesN = kWarpN / 16; // pairs of fragments of B
  static constexpr int kSteps = kBlockK * kElementBytes / 32;

  static constexpr TileShape kShapeA = {kSignature.isKMajorA(), kBlockM,
                                        kBlockK, kElementBytes};
  static constexpr TileShape kShapeB = {kSignature.isKMajorB(), kBlockN,
                                        kBlockK, kElementBytes};
  static constexpr int kStageBytes = kShapeA.bytes() + kShapeB.bytes();

  using LoaderA = TileLoader<kShapeA, kSignature.alignA, kThreads>;
  using LoaderB = TileLoader<kShapeB, kSignature.alignB, kThreads>;
  using ReaderA = FragmentReader<kShapeA, FragmentOf::A>;
  using ReaderB = FragmentReader<kShapeB, FragmentOf::B>;
  using Range = KRange<kBlockK>;
  using Sum = ProductSum<kSignature>;

  static constexpr ByteProduct kProduct =
      byteProductOf(kSignature, kByteCapability);
  /// Steps after which partial sums are added to the others; 0: no partial
  /// sums.
  static constexpr int kPartialSteps =
      !hasPartialSums(kSignature, kByteCapability) ? 0
      : kBlockK < kPromotedDepth                   ? kSteps
                                                   : kPromotedDepth / 32;

  /// Blocks of k of a tile that share a scale, and scales of rows of A that a
  /// lane needs for each.
  static constexpr int kScaledBlocks =
      kBlockK < kPromotedDepth ? 1 : kBlockK / kPromotedDepth;
  using Scales = PartialScales<2 * kTilesM>;
  using ScaleReader = PartialScaleReader<2 * kTilesM>;

  /// Two sets of fragments of one step of k.
  struct Fragments {
    unsigned a[2][kTilesM][4];
    unsigned b[2][kTilesN][4];
  };

public:
  static void run(const GemmParams &params) {
    extern __shared__ __align__(128) unsigned char sharedMemory[];
    allowSuccessor();
    if constexpr (kSignature.hasGroups())
      return runGroups(params, sharedMemory);
    TileWork work = tileWork(blockIdx.x, tileCount(params.m, kBlockM),
                             tileCount(params.n, kBlockN),
                             splitsOf<kConfig>(params), params.rasterGroup);
    runTile(params, {work}, sharedMemory);
  }

private:
  using Accumulators = Sum[kTilesM][kTilesN * 2][4];

  /// A tile of D. Rows of a group do not start where the matrix's rows do.
  struct Tile : TileWork {
    GroupRows group = {0, 0};
  };

  static void runTile(const GemmParams &params, const Tile &work,
                      unsigned char *sharedMemory) {
    Accumulators accumulators = {};
    multiply(params, work, ptx::sharedAddress(sharedMemory), accumulators);
    if constexpr (kConfig.splits != 0)
      if (params.splitK > 1 && !reduceSplits(params, work, accumulators))
        return;
    store(params, work, reinterpret_cast<float *>(sharedMemory), accumulators);
  }

  static void runGroups(const GemmParams &params, unsigned char *sharedMemory) {
    awaitPredecessor();
    const GroupTable<kSignature.groups> table(
        params,
        reinterpret_cast<int *>(sharedMemory + kConfig.tileBytes(kSignature)));
    if (threadIdx.x < 32)
      table.build(kBlockM);
    __syncthreads();
    const int across = tileCount(params.n, kBlockN);
    const unsigned count = table.tiles() * across;
#pragma unroll 1
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
      GroupTile tile = table.tile(i, across, params.rasterGroup, false);
      runTile(params, {tile.work, tile.rows}, sharedMemory);
      __syncthreads(); // the ring is filled again for the next tile
    }
  }

  static long long rowBegin(const Tile &work) {
    return static_cast<long long>(work.tileM) * kBlockM + work.group.begin;
  }
  static long long rowEnd(const GemmParams &params, const Tile &work) {
    if constexpr (kSignature.hasGroups())
      return work.group.end;
    else
      return params.m;
  }
  static long long columnBegin(const Tile &work) {
    return static_cast<long long>(work.tileN) * kBlockN;
  }
  static int warpRow() { return threadIdx.x / 32 / kConfig.warpsN * kWarpM; }
  static int warpColumn() { return threadIdx.x / 32 % kConfig.warpsN * kWarpN; }

  /// Loads the tiles of both operands to the ring, in the order of k.
  class Producer {
  public:
    Producer(const GemmParams &params, const Tile &work, const Range &range)
        : range(range), a(startA(params, work, range), params.lda),
          b(startB(params, work, range), params.ldb),
          rowsLeft(leftOf(rowEnd(params, work), rowBegin(work))),
          columnsLeft(leftOf(params.n, columnBegin(work))) {}

    /// Advances to the block's tile \p tile, which may not exist.
    void begin(int tile, unsigned stage) {
      bool exists = tile < range.count;
      int kLeft = range.leftFrom(tile);
      a.begin(stage, rowsLeft, kLeft, exists);
      b.begin(stage + kShapeA.bytes(), columnsLeft, kLeft, exists);
    }
    void copy(int part, int parts) {
      a.copy(part, parts);
      b.copy(part, parts);
    }
    void stash() {
      a.stash();
      b.stash();
    }

    /// Loads the first kStages - 1 tiles to \p ring. Operands of \p early are
    /// loaded before the kernel ahead has ended, in the group of the first
    /// tile.
    void fill(unsigned ring, int early) {
#pragma unroll 1
      for (int pass = early ? 0 : 1; pass < 2; ++pass) {
        if (pass == 1)
          awaitPredecessor();
        int operands = pass == 0 ? early : ~early;
#pragma unroll 1
        for (int tile = 0; tile < kStages - 1; ++tile) {
          bool exists = tile < range.count;
          int kLeft = range.leftFrom(tile);
          unsigned stage = ring + tile * kStageBytes;
          if (operands & kEarlyA) {
            a.begin(stage, rowsLeft, kLeft, exists);
            a.copy(0, 1);
          }
          if (operands & kEarlyB) {
            b.begin(stage + kShapeA.bytes(), columnsLeft, kLeft, exists);
            b.copy(0, 1);
          }
          if (pass == 1)
            ptx::cpAsyncCommit();
          if (operands & kEarlyA)
            a.stash();
          if (operands & kEarlyB)
            b.stash();
        }
      }
    }

  private:
    static const char *startA(const GemmParams &params, const Tile &work,
                              const Range &range) {
      return operandStart<kElementBytes>(params.a, work.batch * params.strideA,
                                         kShapeA.kMajor, rowBegin(work),
                                         range.begin(), params.lda);
    }
    static const char *startB(const GemmParams &params, const Tile &work,
                              const Range &range) {
      return operandStart<kElementBytes>(params.b, work.batch * params.strideB,
                                         kShapeB.kMajor, columnBegin(work),
                                         range.begin(), params.ldb);
    }

    const Range &range;
    LoaderA a;
    LoaderB b;
    int rowsLeft, columnsLeft;
  };

  /// Sums the products of the block's range of k.
  static void multiply(const GemmParams &params, const Tile &work,
                       unsigned shared, Accumulators &accumulators) {
    Range range(params, work.split, splitsOf<kConfig>(params));
    Producer producer(params, work, range);
    ReaderA readerA(warpRow());
    ReaderB readerB(warpColumn());
    Fragments fragments;
    [[maybe_unused]] Accumulators partial = {};

    producer.fill(shared, params.early);
    ptx::cpAsyncWait<kStages - 2>();
    __syncthreads();
    unsigned ringEnd = shared + kStages * kStageBytes;
    unsigned reading = shared, writing = ringEnd - kStageBytes;
    readFragments(fragments, readerA, readerB, reading, 0);
    [[maybe_unused]] Scales scales[kScaledBlocks], next[kScaledBlocks];
    [[maybe_unused]] auto readNextScales = [&](int tile) {
      if constexpr (kSignature.hasBlockScales()) {
        const ScaleReader reader = scaleReader(params, work);
#pragma unroll
        for (int i = 0; i < kScaledBlocks; ++i)
          reader.read(next[i], range.begin() +
                                   static_cast<long long>(tile) * kBlockK +
                                   i * kPromotedDepth);
      }
    };
    if (range.count > 0)
      readNextScales(0);
#pragma unroll 1
    for (int tile = 0; tile < range.count; ++tile) {
      producer.begin(tile + kStages - 1, writing);
      if constexpr (kSignature.hasBlockScales()) {
#pragma unroll
        for (int i = 0; i < kScaledBlocks; ++i)
          scales[i] = next[i];
        readNextScales(tile + 1);
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if (step == kSteps - 1) {
          // Beyond this point the next tile is visible to all warps, and no
          // warp reads this one any more.
          producer.stash();
          ptx::cpAsyncWait<kStages - 2>();
          __syncthreads();
          writing = reading;
          reading += kStageBytes;
          if (reading == ringEnd)
            reading = shared;
        }
        readFragments(fragments, readerA, readerB, reading,
                      (step + 1) % kSteps);
        if (step < kSteps - 1)
          producer.copy(step, kSteps - 1);
        // Committed even when empty: the wait counts groups.
        if (step == kSteps - 2)
          ptx::cpAsyncCommit();
        if constexpr (kPartialSteps == 0)
          multiplyStep(fragments, step % 2, accumulators);
        else {
          multiplyStep(fragments, step % 2, partial);
          if ((step + 1) % kPartialSteps == 0)
            promote(accumulators, partial, scales[step * 32 / kPromotedDepth]);
        }
      }
    }
    // The epilogue reuses the ring; also no copy outlives the block.
    ptx::cpAsyncWait<0>();
    __syncthreads();
  }

  /// Loads the fragments of \p step into the set of its parity.
  static void readFragments(Fragments &fragments, const ReaderA &readerA,
                            const ReaderB &readerB, unsigned stage, int step) {
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
      readerA.read(fragments.a[step % 2][i], stage, i, step);
#pragma unroll
    for (int j = 0; j < kTilesN; ++j)
      readerB.read(fragments.b[step % 2][j], stage + kShapeA.bytes(), j, step);
  }

  static void multiplyStep(Fragments &fragments, int set,
                           Accumulators &accumulators) {
    auto &a = fragments.a[set];
    auto &b = fragments.b[set];
    if constexpr (kSignature.compute == ComputeMode::TF32) {
      roundFragments(a);
      roundFragments(b);
    }
    if constexpr (kElementBytes == 1)
      multiplyBytes<kProduct, kSignature.in, kSignature.typeB()>(accumulators,
                                                                 a, b);
    else {
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
#pragma unroll
        for (int step = 0; step < kTilesN * 2; ++step) {
          // Back and forth along n: neighbours share a fragment of B.
          int j = i % 2 == 0 ? step : kTilesN * 2 - 1 - step;
          multiplyAdd(accumulators[i][j], a[i], b[j / 2][j % 2 * 2],
                      b[j / 2][j % 2 * 2 + 1]);
        }
    }
  }

  /// A warp's columns lie in one block of B.
  static ScaleReader scaleReader(const GemmParams &params, const Tile &work) {
    long long row = rowBegin(work) + warpRow() + laneRow(threadIdx.x % 32);
    return {params, work.batch, columnBegin(work) + warpColumn(),
            [&](int i) { return row + i / 2 * 16 + i % 2 * kUpperRow; }};
  }

  /// Adds the partial sums to the others, times \p scales if there are any, and
  /// clears them.
  static void promote(Accumulators &accumulators, Accumulators &partial,
                      const Scales &scales) {
    float factors[2 * kTilesM];
    if constexpr (kSignature.hasBlockScales())
#pragma unroll
      for (int i = 0; i < 2 * kTilesM; ++i)
        factors[i] = scales.of(i);
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < kTilesN * 2; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          Sum &sum = accumulators[i][j][e];
          if constexpr (kSignature.hasBlockScales())
            sum = fmaf(partial[i][j][e], factors[i * 2 + e / 2], sum);
          else
            sum += partial[i][j][e];
          partial[i][j][e] = 0;
        }
  }

  static void multiplyAdd(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                          unsigned b1) {
    if constexpr (kSignature.in == DType::BF16)
      ptx::mmaBf16(d, a, b0, b1);
    else if constexpr (kSignature.in == DType::FP16)
      ptx::mmaFp16(d, a, b0, b1);
    else
      ptx::mmaTf32(d, a, b0, b1);
  }

  /// The tensor cores cut off the bits below tf32. Growing each value by about
  /// half of the bits that are cut off, 2^-11.5 of it, centres the error: at
  /// most 0.71 units in the last place of tf32, and none for values that are
  /// tf32 already. (The instruction that rounds runs at a quarter of this
  /// rate.)
  template <int kCount>
  static void roundFragments(unsigned (&fragments)[kCount][4]) {
    constexpr float kGrowth = 1.0f + 0.000345266983f;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        fragments[i][j] =
            __float_as_uint(__uint_as_float(fragments[i][j]) * kGrowth);
  }

  /// Publishes this split's sums. True in the block that arrived last: its
  /// accumulators then hold the sum over all splits.
  static bool reduceSplits(const GemmParams &params, const Tile &work,
                           Accumulators &accumulators) {
    constexpr long long kTileVectors = kBlockM * kBlockN / 4;
    auto *tile = reinterpret_cast<float4 *>(params.partials) +
                 work.tile * params.splitK * kTileVectors + threadIdx.x;
    float4 *mine = tile + work.split * kTileVectors;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < kTilesN * 2; ++j) {
        Sum(&d)[4] = accumulators[i][j];
        ptx::stGlobalCg(mine + (i * kTilesN * 2 + j) * kThreads,
                        {bitsOfSum(d[0]), bitsOfSum(d[1]), bitsOfSum(d[2]),
                         bitsOfSum(d[3])});
      }
    if (!isLastSplit(params, work.tile))
      return false;
    clear(accumulators);
#pragma unroll 1
    for (int split = 0; split < params.splitK; ++split, tile += kTileVectors)
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
#pragma unroll
        for (int j = 0; j < kTilesN * 2; ++j) {
          float4 part =
              ptx::ldGlobalCg(tile + (i * kTilesN * 2 + j) * kThreads);
          Sum(&d)[4] = accumulators[i][j];
          d[0] += sumOfBits(part.x);
          d[1] += sumOfBits(part.y);
          d[2] += sumOfBits(part.z);
          d[3] += sumOfBits(part.w);
        }
    return true;
  }

  /// Splits exchange floats; int32 sums are exchanged as their bits.
  static float bitsOfSum(float sum) { return sum; }
  static float bitsOfSum(int sum) { return __int_as_float(sum); }
  static Sum sumOfBits(float bits) {
    if constexpr (kSignature.in == DType::INT8)
      return __float_as_int(bits);
    else
      return bits;
  }

  static void clear(Accumulators &accumulators) {
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < kTilesN * 2; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          accumulators[i][j][e] = 0;
  }

  /// Writes the tile. kRows rows at a time pass through the warp's own part of
  /// shared memory, from the layout of mma.sync to whole rows.
  static void store(const GemmParams &params, const Tile &work, float *shared,
                    Accumulators &accumulators) {
    constexpr int kPitch = kConfig.epiloguePitch();
    constexpr int kRows = kConfig.epilogueRows(kSignature);
    int lane = threadIdx.x % 32;
    float *staging = shared + threadIdx.x / 32 * kRows * kPitch;
    float *writing = staging + laneRow(lane) * kPitch + laneColumn(lane);
    long long row = rowBegin(work) + warpRow();
    long long column = columnBegin(work) + warpColumn();
    EpilogueOperands operands =
        epilogueOperands<kSignature>(params, work.batch);
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
      float *at = writing + i * 16 % kRows * kPitch;
#pragma unroll
      for (int j = 0; j < kTilesN * 2; ++j) {
        Sum(&d)[4] = accumulators[i][j];
        stage(at, j, d[0], d[1]);
        stage(at + kUpperRow * kPitch, j, d[2], d[3]);
      }
      if ((i + 1) * 16 % kRows == 0) {
        __syncwarp();
        storeRows(params, operands, rowEnd(params, work),
                  row + (i + 1) * 16 - kRows, column, staging);
        __syncwarp();
      }
    }
  }

  /// Place of a lane's first sum of a fragment, and the distances to the row of
  /// its upper half and to the other column of its pair.
  static int laneRow(int lane) { return lane / 4 * (kUpperRow == 1 ? 2 : 1); }
  static int laneColumn(int lane) { return lane % 4 * 2 * kColumnStep; }
  static constexpr int kUpperRow = ReaderA::joinsNeighbours() ? 1 : 8;
  static constexpr int kColumnStep = ReaderB::joinsNeighbours() ? 2 : 1;

  /// Stages two neighbours of fragment \p j of a row.
  static void stage(float *row, int j, Sum first, Sum second) {
    if constexpr (kColumnStep == 1)
      *reinterpret_cast<float2 *>(row + j * 8) = {finished(first),
                                                  finished(second)};
    else {
      float *at = row + j / 2 * 16 + j % 2;
      at[0] = finished(first);
      at[kColumnStep] = finished(second);
    }
  }

  /// The staged form of a sum: its bits if it still includes zero points.
  static float finished(Sum sum) {
    constexpr float kFactor = byteFactor<kSignature>();
    if constexpr (kSignature.hasZeroPointsA())
      return bitsOfSum(sum);
    else if constexpr (kFactor != 1.0f)
      return sum * kFactor;
    else
      return static_cast<float>(sum);
  }

  template <int kCount>
  static void readStaged(float (&values)[kCount], const float *staged) {
    constexpr int kPiece = kCount < 4 ? kCount : 4;
#pragma unroll
    for (int i = 0; i < kCount; i += kPiece) {
      float piece[kPiece];
      loadFloats<DType::FP32>(piece, staged + i);
#pragma unroll
      for (int j = 0; j < kPiece; ++j)
        values[i + j] = piece[j];
    }
  }

  /// fp32 of the sums whose bits are \p values, with zero points subtracted.
  template <int kCount>
  static void subtractZeroPoints(const EpilogueOperands &operands,
                                 long long row, long long column, int valid,
                                 float (&values)[kCount]) {
    int sums[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      sums[i] = __float_as_int(values[i]);
    kiln::subtractZeroPoints<kSignature>(operands, row, column, valid, sums);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      values[i] = static_cast<float>(sums[i]);
  }

  /// Finishes the staged rows, which begin at (row, column) of D, up to
  /// \p rowEnd.
  static void storeRows(const GemmParams &params,
                        const EpilogueOperands &operands, long long rowEnd,
                        long long row, long long column, const float *staging) {
    constexpr int kPitch = kConfig.epiloguePitch();
    constexpr int kVector = epilogueVector<kSignature>();
    constexpr int kRunsPerRow = kWarpN / kVector;
    constexpr int kRows = kConfig.epilogueRows(kSignature);
    constexpr int kPasses = (kRows * kRunsPerRow + 31) / 32;
    static_assert(kWarpN % kVector == 0, "a run crosses the warp's tile");
    int rowsLeft = leftOf(rowEnd, row);
    // In the last pass some lanes may have no row.
    if constexpr (kRows * kRunsPerRow % 32 != 0)
      rowsLeft = min(rowsLeft, kRows);
    int columnsLeft = leftOf(params.n, column);
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass) {
      int run = pass * 32 + threadIdx.x % 32;
      int r = run / kRunsPerRow, c = run % kRunsPerRow * kVector;
      if (r >= rowsLeft || c >= columnsLeft)
        continue;
      float values[kVector];
      readStaged(values, staging + r * kPitch + c);
      if constexpr (kSignature.hasZeroPointsA())
        subtractZeroPoints(operands, row + r, column + c, columnsLeft - c,
                           values);
      finishRun<kSignature>(operands, params, row + r, column + c,
                            columnsLeft - c, values);
    }
  }
};

/// D = pointwise(alpha * op(A) op(B) + beta * C) on a one-dimensional grid of
/// kConfig.grid().blocks(m, n, batch) blocks.
template <GemmSignature kSignature, MmaGemmConfig kConfig>
void mmaGemm(const GemmParams &params) {
  MmaGemm<kSignature, kConfig>::run(params);
}

} // namespace kiln
