//===- route/SpreadRoute.cuh - a route in two kernels, the first ----------===//
//
// Stores the rows of each block by expert, and the rank of each choice within
// its block. RouteScatter.cuh is the second kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "route/RouteBlock.cuh"
#include "route/SpreadRouteConfig.h"

namespace kiln {

template <RouteSignature kSignature, SpreadRouteConfig kConfig>
void spreadRoute(const RouteParams &params) {
  extern __shared__ __align__(16) unsigned char routeMemory[];
  using Block = RouteBlock<kSignature, kConfig>;
  allowSuccessor();
  Block block(params, routeMemory, static_cast<int>(blockIdx.x));
  block.clearBases();
  awaitPredecessor();
  block.begins();
  for (int pass = 0; pass < block.passes(); ++pass) {
    block.route(pass, true);
    block.number(pass);
    block.forEachChoice(
        pass,
        [&](long long choice, unsigned expert, unsigned place) {
          params.ranks[choice] = RouteRank::of(expert, place);
        },
        [&](long long choice) { params.ranks[choice] = RouteRank::kNone; });
  }
  unsigned *to =
      params.counts + static_cast<long long>(blockIdx.x) * params.experts;
  for (int expert = threadIdx.x; expert < params.experts;
       expert += Block::kThreads)
    to[expert] = block.bases()[expert];
}

} // namespace kiln
