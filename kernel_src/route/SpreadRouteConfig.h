//===- route/SpreadRouteConfig.h - knobs of a route in two kernels --------===//
#pragma once

#include "route/RouteLayout.h"

namespace kiln {

/// Any number of blocks, which count their rows; a second kernel places them.
struct SpreadRouteConfig {
  int blockThreads = 1024;
  int items = 4;  ///< experts of a lane
  int chunks = 4; ///< of a pass

  static constexpr const char *kName = "spread";

  template <class F> static constexpr void forEachField(F &&f) {
    using C = SpreadRouteConfig;
    f("t", "blockThreads", &C::blockThreads, 1024);
    f("i", "items", &C::items, 4);
    f("n", "chunks", &C::chunks, 4);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  constexpr int threads() const { return blockThreads; }
  constexpr int passTokens() const { return chunks * kRouteChunk; }
  constexpr RouteLayout layout(const RouteSignature &signature) const {
    return routeLayout(signature, 32 * items, chunks, blockThreads / 32, 0);
  }
  constexpr int sharedBytes(const RouteSignature &signature) const {
    return layout(signature).bytes;
  }
  constexpr bool isValid(const RouteSignature &signature) const {
    return signature.isWellFormed() && isRouteShape(*this);
  }

  friend constexpr bool operator==(const SpreadRouteConfig &,
                                   const SpreadRouteConfig &) = default;
};

} // namespace kiln
