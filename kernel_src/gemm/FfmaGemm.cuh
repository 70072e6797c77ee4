//===- gemm/FfmaGemm.cuh - multistage GEMM on plain FMA -------------------===//
//
// Problem: exact fp32 products cannot use tensor cores. An SM issues one FFMA
// per clock and sub-core, and every other instruction takes the slot of one. So
// tiles are loaded by cp.async, in the order of their matrix, without registers
// and conversions; 16 x 8 sums a thread use each vector of four floats read
// from shared memory 32 or 64 times; and vectors along k need no transposition.
//
// Each warp holds the fragment of B for a step of four along k twice: one
// multiplies while the other is loaded. The fragment of A passes through a few
// vectors, each used at once for four rows or four steps of k. One barrier for
// each tile publishes it and frees the tile before for new copies.
//
// Where a tile is small, groups of warps divide its steps of k and add their
// sums in shared memory in a fixed order. Blocks may share a tile by split-K,
// too (SplitK.cuh).
//
// Limits: sm_80 and up; at most 2^31 - 1 blocks.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "gemm/FfmaGemmConfig.h"
#include "gemm/FfmaTiles.cuh"
#include "gemm/GemmEpilogue.cuh"
#include "gemm/Groups.cuh"
#include "gemm/SplitK.cuh"

namespace kiln {

template <GemmSignature kSignature, FfmaGemmConfig kConfig> class FfmaGemm {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ >= 800, "cp.async needs sm_80");

  static constexpr int kBlockM = kConfig.blockM, kBlockN = kConfig.blockN;
  static constexpr int kBlockK = kConfig.blockK, kStages = kConfig.stages;
  static constexpr int kMicroM = kConfig.microM, kMicroN = kConfig.microN;
  static constexpr int kLanesM = kConfig.lanesM, kLanesN = kConfig.lanesN();
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kGroupThreads = kConfig.groupThreads();
  static constexpr int kWarpsK = kConfig.warpsK;
  static constexpr int kSteps = kConfig.steps();
  static constexpr int kStageBytes = kConfig.stageBytes(kSignature);
  static constexpr int kAhead = kConfig.ahead();

  static constexpr bool kTransposesA =
      kConfig.transposes != 0 && kSignature.isKMajorA();
  static constexpr bool kTransposesB =
      kConfig.transposes != 0 && kSignature.isKMajorB();
  static constexpr FfmaTile kTileA = {kSignature.isKMajorA() && !kTransposesA,
                                      kBlockM, kBlockK,
                                      kConfig.padding(kTransposesA)};
  static constexpr FfmaTile kTileB = {kSignature.isKMajorB() && !kTransposesB,
                                      kBlockN, kBlockK,
                                      kConfig.padding(kTransposesB)};

  using LoaderA = FfmaLoader<kTileA, kSignature.alignA, kThreads, kTransposesA>;
  using LoaderB = FfmaLoader<kTileB, kSignature.alignB, kThreads, kTransposesB>;
  using ReaderA = FfmaReader<kTileA, kMicroM, kLanesM>;
  using ReaderB = FfmaReader<kTileB, kMicroN, kLanesN>;
  using Range = KRange<kBlockK>;
  using Accumulators = float[kMicroM][kMicroN];

public:
  static void run(const GemmParams &params) {
    extern __shared__ __align__(128) unsigned char sharedMemory[];
    if constexpr (kSignature.hasGroups())
      return runGroups(params, sharedMemory);
    Accumulators accumulators = {};
    multiply(params, {splitWork<kConfig>(blockIdx.x, params)},
             ptx::sharedAddress(sharedMemory), accumulators);
    // This is computed again, since the sums leave no registers to keep it in.
    unsigned block = blockIdx.x;
    ptx::opaque(block);
    finish(params, {splitWork<kConfig>(block, params)}, sharedMemory,
           accumulators);
  }

private:
  /// A tile of D. Rows of a group do not start where the matrix's rows do.
  struct Tile : SplitWork {
    GroupRows group = {0, 0};
  };

  static void runGroups(const GemmParams &params, unsigned char *sharedMemory) {
    const GroupTable<kSignature.groups> table(
        params,
        reinterpret_cast<int *>(sharedMemory + kConfig.tileBytes(kSignature)));
    if (threadIdx.x < 32)
      table.build(kBlockM);
    __syncthreads();
    const unsigned count = table.tiles() * tileCount(params.n, kBlockN);
    auto tileOf = [&](unsigned index) -> Tile {
      const GroupTile tile = table.tile(index, tileCount(params.n, kBlockN),
                                        params.rasterGroup, false);
      return {{tile.work, 1, 0}, tile.rows};
    };
#pragma unroll 1
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
      Accumulators accumulators = {};
      multiply(params, tileOf(i), ptx::sharedAddress(sharedMemory),
               accumulators);
      unsigned again = i;
      ptx::opaque(again);
      finish(params, tileOf(again), sharedMemory, accumulators);
      __syncthreads(); // the ring is filled again for the next tile
    }
  }

  /// Turns a thread's sums into elements of D.
  static void finish(const GemmParams &params, const Tile &work,
                     unsigned char *sharedMemory, Accumulators &accumulators) {
    if constexpr (kWarpsK > 1)
      joinGroups(reinterpret_cast<float4 *>(sharedMemory), accumulators);
    if constexpr (kConfig.splits != 0)
      if (work.splits > 1 && !reduceSplits(params, work, accumulators))
        return;
    if (hasSums())
      store(params, work, accumulators);
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
  static long long columnBegin(const SplitWork &work) {
    return static_cast<long long>(work.tileN) * kBlockN;
  }

  /// The lane's place in its warp's tile. Neighbours share columns, and so do
  /// lanes 16 apart as long as there are rows for them: reads of 16 bytes by
  /// half a warp then touch 128 bytes at most, which is one pass.
  static int laneRow() {
    int lane = threadIdx.x % 32;
    return kLanesM == 1 ? 0 : lane % 2 + lane / (2 * kLanesN) * 2;
  }
  static int laneColumn() {
    int lane = threadIdx.x % 32;
    return kLanesM == 1 ? lane : lane / 2 % kLanesN;
  }
  static int groupWarp() { return threadIdx.x % kGroupThreads / 32; }
  static int warpRow() {
    return groupWarp() / kConfig.warpsN() * kConfig.warpTileM();
  }
  static int warpColumn() {
    return groupWarp() % kConfig.warpsN() * kConfig.warpTileN();
  }

  /// Loads the tiles of both operands to the ring, in the order of k.
  class Producer {
  public:
    Producer(const GemmParams &params, const Tile &work, const Range &range)
        : range(range),
          a(operandStart<4>(params.a, work.batch * params.strideA,
                            kSignature.isKMajorA(), rowBegin(work),
                            range.begin(), params.lda),
            params.lda, leftOf(rowEnd(params, work), rowBegin(work))),
          b(operandStart<4>(params.b, work.batch * params.strideB,
                            kSignature.isKMajorB(), columnBegin(work),
                            range.begin(), params.ldb),
            params.ldb, leftOf(params.n, columnBegin(work))) {}

    /// Advances to the block's tile \p tile, which may not exist.
    void begin(int tile, unsigned stage) {
      bool exists = tile < range.count;
      int kLeft = range.leftOf(tile);
      a.begin(stage, kLeft, exists);
      b.begin(stage + kTileA.bytes(), kLeft, exists);
    }
    /// Issues the copies that belong to step \p step of the tile before.
    void copy(int step) {
      a.template copy<kSteps>(step);
      b.template copy<kSteps>(step);
    }

  private:
    const Range &range;
    LoaderA a;
    LoaderB b;
  };

  /// Sums the products of the block's range of k.
  static void multiply(const GemmParams &params, const Tile &work,
                       unsigned shared, Accumulators &accumulators) {
    Range range(params, work.split, work.splits);
    Producer producer(params, work, range);
    ReaderA readerA(warpRow(), laneRow());
    ReaderB readerB(warpColumn(), laneColumn());
#pragma unroll 1
    for (int tile = 0; tile < kStages - 1; ++tile) {
      producer.begin(tile, shared + tile * kStageBytes);
#pragma unroll 1
      for (int step = 0; step < kSteps; ++step)
        producer.copy(step);
      ptx::cpAsyncCommit();
    }
    unsigned ringEnd = shared + kStages * kStageBytes;
    unsigned reading = shared, writing = ringEnd - kStageBytes;
#pragma unroll 1
    for (int tile = 0; tile < range.count; ++tile) {
      // Beyond this point the tile is visible to all warps, and no warp reads
      // the one before any more.
      ptx::cpAsyncWait<kStages - 2>();
      __syncthreads();
      producer.begin(tile + kStages - 1, writing);
      multiplyTile(producer, readerA, readerB, reading, accumulators);
      // Committed even when empty: the wait counts groups.
      ptx::cpAsyncCommit();
      writing = reading;
      reading += kStageBytes;
      if (reading == ringEnd)
        reading = shared;
    }
    // The sums of the groups of warps reuse the ring; also no copy outlives the
    // block.
    ptx::cpAsyncWait<0>();
  }

  /// The fragments of B of a step, by k and column.
  using Held = float[4][kMicroN];

  static void multiplyTile(Producer &producer, const ReaderA &readerA,
                           const ReaderB &readerB, unsigned stage,
                           Accumulators &accumulators) {
    int group = threadIdx.x / kGroupThreads;
    // Steps behind the last one wrap to the first ones, and are read but not
    // used.
    auto stepA = [&](int step) {
      return readerA.step(stage, step % kSteps * kWarpsK + group);
    };
    auto stepB = [&](int step) {
      return readerB.step(stage + kTileA.bytes(),
                          step % kSteps * kWarpsK + group);
    };
    Held held[2];
    float ahead[kAhead][4];
    typename ReaderA::Step a = stepA(0);
#pragma unroll
    for (int i = 0; i < kMicroN; ++i)
      readHeld(held[0], stepB(0), i);
#pragma unroll
    for (int i = 0; i < kAhead - 1; ++i)
      ReaderA::read(ahead[i], a, i);
#pragma unroll 1
    for (int pair = 0; pair < kSteps; pair += 2)
#pragma unroll
      for (int set = 0; set < 2; ++set) {
        typename ReaderA::Step nextA = stepA(pair + set + 1);
        typename ReaderB::Step nextB = stepB(pair + set + 1);
#pragma unroll
        for (int i = 0; i < kMicroM; ++i) {
          constexpr int kSpread = (kMicroN + kMicroM - 1) / kMicroM;
          int later = i + kAhead - 1;
          ReaderA::read(ahead[later % kAhead], later < kMicroM ? a : nextA,
                        later % kMicroM);
          if (i * kSpread < kMicroN)
#pragma unroll
            for (int j = 0; j < kSpread; ++j)
              if (i * kSpread + j < kMicroN)
                readHeld(held[1 - set], nextB, i * kSpread + j);
          if (i == kMicroM / 2)
            producer.copy(pair + set);
          multiplyVector(ahead[i % kAhead], i, held[set], accumulators);
        }
        a = nextA;
      }
  }

  /// Reads vector \p i of a step of B.
  static void readHeld(Held &held, const typename ReaderB::Step &step, int i) {
    float vector[4];
    ReaderB::read(vector, step, i);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if constexpr (kTileB.alongK)
        held[e][i] = vector[e];
      else
        held[i / (kMicroN / 4)][i % (kMicroN / 4) * 4 + e] = vector[e];
  }

  /// Adds all products with vector \p i of a step of A.
  static void multiplyVector(const float (&vector)[4], int i, const Held &held,
                             Accumulators &accumulators) {
    // Back and forth along n: neighbours share an operand, which the register
    // file then need not deliver again.
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
      for (int column = 0; column < kMicroN; ++column) {
        int j = e % 2 == 0 ? column : kMicroN - 1 - column;
        if constexpr (kTileA.alongK)
          accumulators[i][j] = fmaf(vector[e], held[e][j], accumulators[i][j]);
        else {
          float &sum = accumulators[i % (kMicroM / 4) * 4 + e][j];
          sum = fmaf(vector[e], held[i / (kMicroM / 4)][j], sum);
        }
      }
  }

  /// Calls \p use with each four sums of a row and their number.
  template <class F>
  static void forEachFour(Accumulators &accumulators, F &&use) {
#pragma unroll
    for (int i = 0; i < kMicroM; ++i)
#pragma unroll
      for (int j = 0; j < kMicroN; j += 4)
        use(&accumulators[i][j], (i * kMicroN + j) / 4);
  }

  /// Four sums as a vector, with the sums of each pair swapped. A vector is
  /// loaded to and stored from consecutive registers, even and odd ones
  /// alternating, and an FFMA that reads two even or two odd registers takes
  /// two clocks. So the sum of an even column, which multiplies an even
  /// register of B, needs an odd one. (Unswapped, the loop takes up to a
  /// quarter longer, H100.)
  static float4 crossed(const float *sums) {
    return {sums[1], sums[0], sums[3], sums[2]};
  }
  static void addCrossed(float *sums, const float4 &part) {
    sums[1] += part.x;
    sums[0] += part.y;
    sums[3] += part.z;
    sums[2] += part.w;
  }

  /// True in the first group of warps, which holds the total in the end.
  static bool hasSums() { return kWarpsK == 1 || threadIdx.x < kGroupThreads; }

  /// Adds the sums of all groups of warps in a fixed order.
  static void joinGroups(float4 *shared, Accumulators &accumulators) {
    constexpr int kFours = kMicroM * kMicroN / 4;
    int group = threadIdx.x / kGroupThreads;
    float4 *own = shared + threadIdx.x % kGroupThreads;
    __syncthreads();
    if (group > 0)
      forEachFour(accumulators, [&](const float *sums, int four) {
        own[((group - 1) * kFours + four) * kGroupThreads] = crossed(sums);
      });
    __syncthreads();
    if (group > 0)
      return;
#pragma unroll 1
    for (int other = 0; other < kWarpsK - 1; ++other)
      forEachFour(accumulators, [&](float *sums, int four) {
        addCrossed(sums, own[(other * kFours + four) * kGroupThreads]);
      });
  }

  /// Publishes this split's sums. True in the block that arrived last: its
  /// accumulators then hold the sum over all splits.
  static bool reduceSplits(const GemmParams &params, const Tile &work,
                           Accumulators &accumulators) {
    constexpr long long kTileVectors = kBlockM * kBlockN / 4;
    auto *tile = reinterpret_cast<float4 *>(params.partials) +
                 work.shared * work.splits * kTileVectors + threadIdx.x;
    float4 *mine = tile + work.split * kTileVectors;
    if (hasSums())
      forEachFour(accumulators, [&](const float *sums, int four) {
        ptx::stGlobalCg(mine + four * kGroupThreads, crossed(sums));
      });
    if (!isLastSplit(params, work.shared))
      return false;
    if (!hasSums())
      return true;
    forEachFour(accumulators, [](float *sums, int) {
      sums[0] = sums[1] = sums[2] = sums[3] = 0.0f;
    });
#pragma unroll 1
    for (int split = 0; split < work.splits; ++split, tile += kTileVectors)
      forEachFour(accumulators, [&](float *sums, int four) {
        addCrossed(sums, ptx::ldGlobalCg(tile + four * kGroupThreads));
      });
    return true;
  }

  static void store(const GemmParams &params, const Tile &work,
                    Accumulators &accumulators) {
    finishGroups<kSignature, kLanesM * 4, kLanesN * 4>(
        params, work.batch, rowBegin(work) + warpRow() + laneRow() * 4,
        rowEnd(params, work),
        columnBegin(work) + warpColumn() + laneColumn() * 4, accumulators);
  }
};

/// D = pointwise(alpha * op(A) op(B) + beta * C) on a one-dimensional grid of
/// kConfig.grid().blocks(m, n, batch) blocks.
template <GemmSignature kSignature, FfmaGemmConfig kConfig>
void ffmaGemm(const GemmParams &params) {
  allowSuccessor();
  awaitPredecessor();
  FfmaGemm<kSignature, kConfig>::run(params);
}

} // namespace kiln
