//===- route/RouteScatter.cuh - a route in two kernels, the second --------===//
//
// Every block adds up the rows of all blocks, by expert, and places the choices
// of its own tokens. The first kernel has as many blocks, with the same tokens.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "route/RouteBlock.cuh"
#include "route/RouteScatterConfig.h"

namespace kiln {

template <RouteScatterSignature, RouteScatterConfig kConfig>
void routeScatter(const RouteParams &params) {
  extern __shared__ __align__(16) unsigned char routeMemory[];
  constexpr int kThreads = kConfig.threads();
  const ExpertWords totals{reinterpret_cast<unsigned *>(routeMemory)};
  const ExpertWords bases{totals.words + expertWord(kRouteExperts)};
  const int experts = params.experts;
  const auto blocks = static_cast<int>(gridDim.x);
  allowSuccessor();
  for (int expert = threadIdx.x; expert < experts; expert += kThreads)
    totals[expert] = bases[expert] = 0;
  __syncthreads();
  awaitPredecessor();
  // Threads of an expert have a part of the blocks each.
  const int parts = max(kThreads / experts, 1);
  const int each = (blocks + parts - 1) / parts;
  for (int i = threadIdx.x; i < parts * experts; i += kThreads) {
    const int expert = i % experts;
    const int first = i / experts * each;
    const int last = min(first + each, blocks);
    unsigned all = 0, before = 0;
#pragma unroll 8
    for (int block = first; block < last; ++block) {
      const unsigned rows =
          params.counts[static_cast<long long>(block) * experts + expert];
      all += rows;
      before += block < static_cast<int>(blockIdx.x) ? rows : 0;
    }
    atomicAdd(&totals[expert], all);
    atomicAdd(&bases[expert], before);
  }
  __syncthreads();
  if (threadIdx.x / 32 == 0)
    routeGroups(params, totals, bases, blockIdx.x == 0);
  __syncthreads();
  const long long first =
      static_cast<long long>(blockIdx.x) * params.blockTokens * params.topK;
  const long long all = static_cast<long long>(params.tokens) * params.topK;
  const long long last = min(
      first + static_cast<long long>(params.blockTokens) * params.topK, all);
  for (long long choice = first + threadIdx.x; choice < last;
       choice += kThreads) {
    const unsigned rank = params.ranks[choice];
    if (rank != RouteRank::kNone)
      params
          .index[bases[RouteRank::expertOf(rank)] + RouteRank::placeOf(rank)] =
          static_cast<int>(choice);
  }
}

} // namespace kiln
