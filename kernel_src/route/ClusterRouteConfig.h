//===- route/ClusterRouteConfig.h - knobs of a route in one kernel --------===//
#pragma once

#include "route/RouteLayout.h"

namespace kiln {

/// One block, or one cluster (sm_90), for all tokens. Where these do not fit at
/// once, each is routed twice: to count rows, and to place them.
struct ClusterRouteConfig {
  int blockThreads = 256;
  int items = 4;  ///< experts of a lane
  int chunks = 1; ///< of a pass
  int cluster = 1;

  static constexpr const char *kName = "cluster";

  template <class F> static constexpr void forEachField(F &&f) {
    using C = ClusterRouteConfig;
    f("t", "blockThreads", &C::blockThreads, 256);
    f("i", "items", &C::items, 4);
    f("n", "chunks", &C::chunks, 1);
    f("c", "cluster", &C::cluster, 1);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  constexpr int threads() const { return blockThreads; }
  constexpr int passTokens() const { return chunks * kRouteChunk; }
  constexpr RouteLayout layout(const RouteSignature &signature) const {
    return routeLayout(signature, 32 * items, chunks, blockThreads / 32,
                       cluster);
  }
  constexpr int sharedBytes(const RouteSignature &signature) const {
    return layout(signature).bytes;
  }
  constexpr bool isValid(const RouteSignature &signature) const {
    return signature.isWellFormed() && isRouteShape(*this) && cluster >= 1 &&
           cluster <= kRouteBlocks && (cluster & (cluster - 1)) == 0;
  }

  friend constexpr bool operator==(const ClusterRouteConfig &,
                                   const ClusterRouteConfig &) = default;
};

} // namespace kiln
