//===- MathUtil.h - integer rounding for the analytic bricks --------------===//
#pragma once

#include <cassert>
#include <cstdint>

namespace kiln {

/// ceil(a / b) for a >= 0 and b > 0.
constexpr int64_t ceilDiv(int64_t a, int64_t b) {
  assert(a >= 0 && b > 0 && "ceilDiv of a negative number or by none");
  return a / b + (a % b != 0);
}

/// The least multiple of \p unit that is at least \p a.
constexpr int64_t roundUp(int64_t a, int64_t unit) {
  return ceilDiv(a, unit) * unit;
}

/// The greatest multiple of \p unit that is at most \p a.
constexpr int64_t roundDown(int64_t a, int64_t unit) {
  assert(a >= 0 && unit > 0 && "roundDown of a negative number or by none");
  return a / unit * unit;
}

} // namespace kiln
