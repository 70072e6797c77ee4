//===- attention/Softcap.cuh - the tanh of a softcap ----------------------===//
#pragma once

#include "common/Ptx.cuh"

namespace kiln::detail {

/// tanh x for \p exponent = 2 x log2(e), with a relative error below 2^-17. The
/// hardware's approximation would be off by a hundredth for a score of 20.
///
/// 1 - 2 / (1 + e^2x) has an absolute error of some 2^-22, which a cap far
///   above the scores would multiply. So x - x^3 / 3 replaces it near 0.
inline float tanhOfExponent(float exponent) {
  constexpr float kLn2 = 0.6931471805599453f;
  constexpr float kLinear = kLn2 / 2; // x of the exponent
  constexpr float kCubic = -kLinear * kLinear * kLinear / 3;
  // Both errors are 3e-6 at this point.
  constexpr float kSmall = 0.2f;
  float far = 1 - 2 * ptx::rcpApproxFtz(1 + ptx::ex2ApproxFtz(exponent));
  float near = exponent * fmaf(kCubic, exponent * exponent, kLinear);
  return fabsf(exponent) < kSmall ? near : far;
}

} // namespace kiln::detail
