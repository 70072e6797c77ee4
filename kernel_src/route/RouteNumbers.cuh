//===- route/RouteNumbers.cuh - scores, and the order of values -----------===//
//
// Which experts are chosen must not depend on the kernel. So the values that
// decide are defined here, for kernels and the reference alike: the functions,
// and the order of the sum below a softmax.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"

namespace kiln {

inline constexpr float kRouteLog2E = 1.44269504f;
/// Added to the sum that weights are divided by.
inline constexpr float kRouteLeastSum = 1e-20f;

/// exp(x - most).
inline float routeExp(float x, float most) {
  return ptx::ex2ApproxFtz((x - most) * kRouteLog2E);
}

inline float routeSigmoid(float x) {
  return ptx::rcpApproxFtz(1.0f + ptx::ex2ApproxFtz(-x * kRouteLog2E));
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// The key of NaN. No number has a smaller one; 0 is no value's.
inline constexpr unsigned kRouteNanKey = 1;

/// A number that is greater for greater \p x; -0 and 0 have the same.
inline unsigned routeKey(float x) {
  const unsigned bits = __float_as_uint(x + 0.0f);
  const auto sign = static_cast<unsigned>(static_cast<int>(bits) >> 31);
  return x != x ? kRouteNanKey : bits ^ (sign | 0x80000000u);
}
/// The inverse; a NaN for that of NaN.
inline float routeValue(unsigned key) {
  return __uint_as_float(key >> 31 ? key ^ 0x80000000u : ~key);
}

} // namespace kiln
