//===- route/ReferenceRouteConfig.h - shape of the reference --------------===//
#pragma once

#include "route/RouteParams.h"
#include "route/RouteSignature.h"

namespace kiln {

/// A thread for each token. One block sorts. The tuner does not choose it, so
/// it has no fields.
struct ReferenceRouteConfig {
  static constexpr long long kMaxBlocks = 1ll << 20;

  constexpr int threads() const { return 256; }
  constexpr int sharedBytes(const RouteSignature &) const { return 0; }
  constexpr bool isValid(const RouteSignature &) const { return true; }
  /// Blocks of the one-dimensional grid for \p rows of the slab: the kernel
  /// strides over them by its grid.
  constexpr long long blocks(long long rows) const {
    const long long wanted = (rows + threads() - 1) / threads();
    return wanted < kMaxBlocks ? wanted : kMaxBlocks;
  }

  friend constexpr bool operator==(const ReferenceRouteConfig &,
                                   const ReferenceRouteConfig &) = default;
};

} // namespace kiln
