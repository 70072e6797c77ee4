//===- gemm/Sm90Exchange.cuh - sums between the splits of a tile ----------===//
//
// Each split of a tile finishes the pieces that it owns. It publishes its sums
// of all other pieces through L2. To its own pieces it adds the sums that the
// others published, in a fixed order: from the next split around to the one
// before.
//
// A place is +0 until its sum is there, so a reader waits only for the sum's
// own latency: there is no fence or counter, whose round trips took 0.2 to 1.6
// us more on an H200. Readers leave +0, the state in which a launch begins.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/PtxSm90.cuh"
#include "gemm/Sm90Tiles.cuh"

namespace kiln {

/// The exchange of one piece between the threads with the same number in all
/// splits: kPiece / 2 sums a thread, stored as vectors of four, kThreads apart.
template <Sm90GemmConfig kConfig, int kPiece> class Sm90Exchange {
  static constexpr int kSplits = kConfig.splitK(), kOthers = kSplits - 1;
  static constexpr int kVectors = kPiece / 8;
  static constexpr int kThreads = Sm90GemmConfig::kWarpgroup;
  static constexpr unsigned kSplitVectors = kConfig.blockM * kConfig.blockN / 4;

public:
  /// The exchange of piece \p piece of \p tile, counted over all consumers, for
  /// split \p rank.
  Sm90Exchange(const Sm90GemmParams &params, const Sm90Tile &tile, int piece,
               int rank)
      : places(reinterpret_cast<float4 *>(params.gemm.partials) +
               tile.index * kSplits * kSplitVectors +
               piece * (kVectors * kThreads) + threadIdx.x % kThreads),
        rank(rank) {}

  /// Has the addresses translated before they are needed; thread n does so for
  /// split n.
  void warmUp() const {
    unsigned split = threadIdx.x % kThreads;
    if (split < kSplits)
      ptx::prefetchL2(places + split * kSplitVectors);
  }

  /// Publishes this split's sums of a piece that another split owns.
  void publish(const float *sums) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      ptx::stRelaxed(places + rank * kSplitVectors + v * kThreads,
                     {published(sums[4 * v]), published(sums[4 * v + 1]),
                      published(sums[4 * v + 2]), published(sums[4 * v + 3])});
  }

  /// Adds the others' sums of a piece that this split owns. It loads as many
  /// splits at once as registers allow, in equal rounds: each round takes the
  /// latency of L2.
  void addOthers(float *sums) const {
    constexpr int kRegisters = kConfig.consumers > 2 ? 96 : 144;
    constexpr int kFree =
        (kRegisters - kConfig.accumulators() - kPiece / 2) / 4;
    // With more than 16, compilation takes longer than the rounds saved.
    constexpr int kMostVectors = kFree < 16 ? kFree : 16;
    constexpr int kMost = kMostVectors < kVectors ? 1 : kMostVectors / kVectors;
    constexpr int kRounds = (kOthers + kMost - 1) / kMost;
    constexpr int kAtOnce = (kOthers + kRounds - 1) / kRounds;
#pragma unroll 1
    for (int first = 1; first <= kOthers; first += kAtOnce) {
      float4 parts[kAtOnce][kVectors] = {};
      unsigned least;
      do {
        // Only sums that are not there yet are loaded again.
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
          for (int v = 0; v < kVectors; ++v)
            if (first + i <= kOthers && leastBits(parts[i][v]) == 0)
              parts[i][v] = ptx::ldRelaxed(placeOf(first + i, v));
        least = ~0u;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
          for (int v = 0; v < kVectors; ++v)
            if (first + i <= kOthers)
              least = min(least, leastBits(parts[i][v]));
      } while (least == 0);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          sums[4 * v] += parts[i][v].x;
          sums[4 * v + 1] += parts[i][v].y;
          sums[4 * v + 2] += parts[i][v].z;
          sums[4 * v + 3] += parts[i][v].w;
        }
    }
  }

  /// Resets to +0 the places in which addOthers found sums.
  void clearOthers() const {
#pragma unroll 1
    for (int other = 1; other <= kOthers; ++other)
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
        ptx::stRelaxed(placeOf(other, v), {});
  }

private:
  /// Vector \p v of the split that is \p other places after this one.
  float4 *placeOf(int other, int v) const {
    int split = rank + other;
    split = split < kSplits ? split : split - kSplits;
    return places + (split * kSplitVectors + v * kThreads);
  }

  /// A sum of +0 is sent as -0: added to another sum both give the same result,
  /// except for the sign of a zero.
  static float published(float sum) {
    return __float_as_uint(sum) == 0 ? -0.0f : sum;
  }

  /// 0 if any of the four is +0.
  static unsigned leastBits(const float4 &vector) {
    return min(min(__float_as_uint(vector.x), __float_as_uint(vector.y)),
               min(__float_as_uint(vector.z), __float_as_uint(vector.w)));
  }

  float4 *places; ///< this thread's, from the first split on
  int rank;
};

} // namespace kiln
