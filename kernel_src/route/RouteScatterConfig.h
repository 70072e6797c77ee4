//===- route/RouteScatterConfig.h - shape of a route's second kernel ------===//
#pragma once

#include "route/RouteLayout.h"

namespace kiln {

/// The second kernel is the same for every route.
struct RouteScatterSignature {
  friend constexpr bool operator==(const RouteScatterSignature &,
                                   const RouteScatterSignature &) = default;
};

/// The tuner does not choose it, so it has no fields.
struct RouteScatterConfig {
  constexpr int threads() const { return 512; }
  constexpr int sharedBytes(const RouteScatterSignature &) const {
    constexpr int kWordBytes = 4;
    return 2 * expertWord(kRouteExperts) * kWordBytes;
  }
  constexpr bool isValid(const RouteScatterSignature &) const { return true; }

  friend constexpr bool operator==(const RouteScatterConfig &,
                                   const RouteScatterConfig &) = default;
};

} // namespace kiln
