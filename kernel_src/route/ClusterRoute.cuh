//===- route/ClusterRoute.cuh - a route in one kernel ---------------------===//
//
// Each block of the cluster counts the rows of its own tokens, by expert, and
// stores them into the memory of all blocks. Behind one barrier each block
// knows where its rows of each expert begin.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "route/ClusterRouteConfig.h"
#include "route/RouteBlock.cuh"

namespace kiln {

template <RouteSignature kSignature, ClusterRouteConfig kConfig>
class ClusterRouter {
  using Block = RouteBlock<kSignature, kConfig>;
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kBlocks = kConfig.cluster;
  static constexpr RouteLayout kLayout = Block::kLayout;

public:
  ClusterRouter(const RouteParams &params, unsigned char *memory, unsigned rank)
      : params(params), rank(rank),
        block(params, memory, static_cast<int>(rank)) {}

  void run() {
    block.clearBases();
    awaitPredecessor();
    block.begins();
    count();
    exchange();
    if (threadIdx.x / 32 == 0)
      routeGroups(params, block.totals(), block.bases(), rank == 0);
    __syncthreads();
    place();
  }

private:
  /// Own rows of each expert, in bases().
  void count() {
    for (int pass = 0; pass < block.passes(); ++pass) {
      block.route(pass, true);
      block.number(pass);
    }
  }

  /// The rows of each expert in all blocks, and in the blocks before.
  void exchange() {
    const ExpertWords bases = block.bases(), totals = block.totals();
    const unsigned *counts = block.at(kLayout.counts);
    if constexpr (kBlocks > 1) {
      // A barrier of the cluster needs converged warps. Blocks without tokens
      // have had no barrier that made them so.
      __syncwarp();
      // All blocks have begun; their memory is there.
      ptx::barrierClusterWait();
      sendCounts(bases);
      __syncwarp();
      ptx::barrierClusterArriveRelease();
      ptx::barrierClusterWait();
    }
    for (int expert = threadIdx.x; expert < params.experts;
         expert += kThreads) {
      unsigned all = 0, before = 0;
      if constexpr (kBlocks == 1)
        all = bases[expert];
      else
#pragma unroll
        for (unsigned peer = 0; peer < kBlocks; ++peer) {
          const unsigned rows = counts[peer * Block::kExperts + expert];
          before += peer < rank ? rows : 0;
          all += rows;
        }
      totals[expert] = all;
      bases[expert] = before;
    }
    __syncthreads();
  }

  /// Stores own rows into the memory of all blocks. Addresses are offsets in
  /// the window of shared memory, for the reason that RowGroup.cuh gives.
  void sendCounts(ExpertWords rows) const {
    constexpr unsigned kWordBytes = 4;
    const unsigned own =
        block.windowAt(kLayout.counts) + rank * Block::kExperts * kWordBytes;
#pragma unroll
    for (unsigned peer = 0; peer < kBlocks; ++peer) {
      const unsigned to = ptx::mapaSharedCluster(own, peer);
      for (int expert = threadIdx.x; expert < params.experts;
           expert += kThreads)
        ptx::stSharedClusterF32(to + expert * kWordBytes,
                                __uint_as_float(rows[expert]));
    }
  }

  void place() {
    // The bits of a single pass are still there.
    const bool again = block.passes() > 1;
    for (int pass = 0; pass < block.passes(); ++pass) {
      if (again)
        block.route(pass, false);
      block.number(pass);
      block.forEachChoice(
          pass,
          [&](long long choice, unsigned, unsigned place) {
            params.index[place] = static_cast<int>(choice);
          },
          [](long long) {});
    }
  }

  const RouteParams &params;
  const unsigned rank;
  Block block;
};

template <RouteSignature kSignature, ClusterRouteConfig kConfig>
void clusterRoute(const RouteParams &params) {
  extern __shared__ __align__(16) unsigned char routeMemory[];
  allowSuccessor();
  unsigned rank = 0;
  if constexpr (kConfig.cluster > 1) {
    rank = ptx::clusterCtaRank();
    ptx::barrierClusterArriveRelaxed();
  }
  ClusterRouter<kSignature, kConfig>(params, routeMemory, rank).run();
}

} // namespace kiln
