//===- rows/RowGroup.cuh - reductions over the threads of a row -----------===//
//
// A row is the work of a group: a power of two of lanes, some warps of a block,
// a whole block, or a cluster of blocks. Statistics are reduced in up to three
// steps: shuffles within a warp, shared memory between the warps of a block,
// distributed shared memory between the blocks of a cluster. Every thread of
// the group gets the result. The order of merging is fixed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/PtxSm90.cuh"
#include "rows/RowStats.cuh"

namespace kiln {

/// Reduces kRows rows at once. A row has kGroup of a block's kThreads threads,
/// times kCluster blocks. kEqual: all threads have statistics of equally many
/// values.
template <int kThreads, int kGroup, int kRows = 1, int kCluster = 1,
          bool kEqual = false>
class RowGroup {
  static_assert(kThreads % kGroup == 0, "groups fill the block");
  static_assert(kGroup % 32 == 0 || (kGroup < 32 && 32 % kGroup == 0),
                "a group is whole warps or a part of one");
  static_assert(kCluster == 1 || kGroup == kThreads,
                "blocks of a cluster work on one row");
  static constexpr int kWarps = kGroup > 32 ? kGroup / 32 : 1;

public:
  /// Tells the other blocks of a cluster that this one runs, and that its
  /// barriers are ready. No block may write into another's shared memory before
  /// all of them have called begin().
  static void begin() {
    if constexpr (kCluster > 1) {
      if (threadIdx.x == 0) {
#pragma unroll
        for (int stage = 0; stage < kStages; ++stage)
          ptx::mbarrierInit(barrierAt(stage), 1);
        ptx::fenceMbarrierInit();
      }
      __syncwarp(); // the barrier needs converged warps
      ptx::barrierClusterArriveRelaxed();
    }
  }

  /// Merges the statistics of all threads of each row's group. \p kStage tells
  /// the reductions of one kernel apart: each has shared memory of its own, so
  /// that it may be used once without a barrier behind it.
  template <int kStage = 0, class Stats>
  static void reduce(Stats (&stats)[kRows]) {
    reduceWarp<(kGroup < 32 ? kGroup : 32)>(stats);
    if constexpr (kWarps > 1)
      reduceBlock<kStage>(stats);
    if constexpr (kCluster > 1)
      reduceCluster<kStage>(stats);
  }

private:
  static constexpr int kStages = 2; ///< reductions of one kernel

  /// The mbarrier of a stage: counts what the blocks of the cluster send.
  static unsigned barrierAt(int stage) {
    __shared__ unsigned long long barriers[kStages];
    return ptx::sharedAddress(barriers) + stage * 8;
  }

  template <int kLanes, class Stats>
  static void reduceWarp(Stats (&stats)[kRows]) {
    if constexpr (requires { stats[0].rescale(0.0f); })
      reduceScaled<kLanes>(stats);
    else if constexpr (!kEqual && requires { stats[0].sums(); })
      reduceCentered<kLanes>(stats);
    else
      mergeLanes<kLanes>(stats);
  }

  /// Statistics with a maximum: one exponential in all, not two for each step.
  template <int kLanes, class Stats>
  static void reduceScaled(Stats (&stats)[kRows]) {
    MaximumOf maxima[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      maxima[r].max = stats[r].max;
    mergeLanes<kLanes>(maxima);
    SumStats sums[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      stats[r].rescale(maxima[r].max);
      sums[r].sum = stats[r].sum;
    }
    mergeLanes<kLanes>(sums);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      stats[r].sum = sums[r].sum;
  }

  /// Moments: one division in all, not one for each step.
  template <int kLanes, class Stats>
  static void reduceCentered(Stats (&stats)[kRows]) {
    typename Stats::Sums sums[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      sums[r] = stats[r].sums();
    mergeLanes<kLanes>(sums);
    SumStats deviations[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      stats[r].center(sums[r]);
      deviations[r].sum = stats[r].deviations;
    }
    mergeLanes<kLanes>(deviations);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      stats[r].deviations = deviations[r].sum;
  }

  /// A maximum that ignores NaN, because NaN shows in the sum.
  struct MaximumOf {
    float max;
    void merge(const MaximumOf &other) { max = fmaxf(max, other.max); }
  };

  template <int kLanes, class Stats>
  static void mergeLanes(Stats (&stats)[kRows]) {
    using Words = StatsWords<Stats>;
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if constexpr (kEqual && requires { stats[r].mergeEqual(0.0f, 0.0f); }) {
          stats[r].mergeEqual(
              __shfl_xor_sync(~0u, stats[r].mean, distance),
              __shfl_xor_sync(~0u, stats[r].deviations, distance));
          continue;
        }
        Words words = Words::of(stats[r]);
#pragma unroll
        for (int w = 0; w < Words::kCount; ++w)
          words.word[w] = __shfl_xor_sync(~0u, words.word[w], distance);
        stats[r].merge(words.stats());
      }
    }
  }

  template <int kStage, class Stats>
  static void reduceBlock(Stats (&stats)[kRows]) {
    using Words = StatsWords<Stats>;
    constexpr int kPieces = kThreads / 32; // warps of the block
    __shared__ float scratch[kRows][Words::kCount][kPieces];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0)
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int w = 0; w < Words::kCount; ++w)
          scratch[r][w][warp] = Words::of(stats[r]).word[w];
    __syncthreads();
    // Each warp reads the statistics of its group's warps, one for each lane.
    int piece = warp / kWarps * kWarps + lane % kWarps;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      Words words;
#pragma unroll
      for (int w = 0; w < Words::kCount; ++w)
        words.word[w] = scratch[r][w][piece];
      stats[r] = words.stats();
    }
    if constexpr ((kWarps & (kWarps - 1)) == 0)
      reduceWarp<kWarps>(stats);
    else
      gatherWarps(stats);
  }

  /// As above for a number of warps that is not a power of two: lane after
  /// lane.
  template <class Stats> static void gatherWarps(Stats (&stats)[kRows]) {
    using Words = StatsWords<Stats>;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      Words mine = Words::of(stats[r]);
      Stats all = Stats::empty();
      for (int i = 0; i < kWarps; ++i) {
        Words words;
#pragma unroll
        for (int w = 0; w < Words::kCount; ++w)
          words.word[w] = __shfl_sync(~0u, mine.word[w], i);
        all.merge(words.stats());
      }
      stats[r] = all;
    }
  }

  /// Each block sends its statistics to all blocks and waits for those of all.
  /// This takes half the time of a barrier of the cluster, which needs a round
  /// trip.
  template <int kStage, class Stats>
  static void reduceCluster(Stats (&stats)[kRows]) {
    static_assert(kStage < kStages, "this stage has no mbarrier");
    using Words = StatsWords<Stats>;
    __shared__ float scratch[kRows][kCluster][Words::kCount];
    const unsigned barrier = barrierAt(kStage);
    if (threadIdx.x == 0)
      ptx::mbarrierArriveExpectTx(barrier, sizeof(scratch));
    if constexpr (kStage == 0)
      ptx::barrierClusterWait(); // of begin()
    // Offsets within the window of shared memory, instead of pointers: for
    // arithmetic on generic addresses ptxas 13.0 made code for sm_90 that
    // occasionally stored to an address made of the window's upper half.
    unsigned mine = ptx::sharedAddress(scratch) +
                    ptx::clusterCtaRank() * Words::kCount * sizeof(float);
    if (threadIdx.x < kCluster)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int w = 0; w < Words::kCount; ++w)
          ptx::stAsyncClusterF32(ptx::mapaSharedCluster(mine, threadIdx.x) +
                                     (r * kCluster * Words::kCount + w) *
                                         sizeof(float),
                                 Words::of(stats[r]).word[w],
                                 ptx::mapaSharedCluster(barrier, threadIdx.x));
    ptx::mbarrierWait(barrier, 0);
    // Each warp merges what the blocks sent, with a block for each lane.
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      Words words;
#pragma unroll
      for (int w = 0; w < Words::kCount; ++w)
        words.word[w] = scratch[r][threadIdx.x % kCluster][w];
      stats[r] = words.stats();
    }
    reduceWarp<kCluster>(stats);
  }
};

} // namespace kiln
