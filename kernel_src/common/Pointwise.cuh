//===- common/Pointwise.cuh - pointwise chains on registers ---------------===//
//
// The chain is part of a kernel's signature, so it unrolls into straight code.
// Works on float in kernels and on double in references.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

namespace detail {

inline float erfOf(float x) { return erff(x); }
inline double erfOf(double x) { return erf(x); }
inline float expOf(float x) { return expf(x); }
inline double expOf(double x) { return exp(x); }
inline float tanhOf(float x) { return tanhf(x); }
inline double tanhOf(double x) { return tanh(x); }
/// In float within 2 units of the last place, for divisors below 2^126; of
/// greater ones, infinity included, the quotient is 0.
inline float quotient(float x, float y) { return __fdividef(x, y); }
inline double quotient(double x, double y) { return x / y; }

} // namespace detail

/// x * Phi(x), with the exact error function.
template <class Value> Value geluErf(Value x) {
  constexpr Value kInvSqrt2 = Value(0.70710678118654752440);
  return Value(0.5) * x * (Value(1) + detail::erfOf(x * kInvSqrt2));
}

/// The tanh approximation of gelu (Hendrycks and Gimpel, arXiv 1606.08415).
template <class Value> Value geluTanh(Value x) {
  constexpr Value kSqrt2OverPi = Value(0.79788456080286535588);
  constexpr Value kCubic = Value(0.044715);
  Value inner = kSqrt2OverPi * (x + kCubic * x * x * x);
  return Value(0.5) * x * (Value(1) + detail::tanhOf(inner));
}

/// x * sigmoid(x).
template <class Value> Value silu(Value x) {
  return detail::quotient(x, Value(1) + detail::expOf(-x));
}

/// One link on \p x; \p operand is the element of its vector or matrix.
template <PointwiseOp kOp, class Value>
Value applyPointwise(Value x, Value operand) {
  if constexpr (hasOperand(kOp))
    return x + operand;
  else if constexpr (kOp == PointwiseOp::Relu)
    return x < Value(0) ? Value(0) : x; // keeps NaN
  else if constexpr (kOp == PointwiseOp::GeluErf)
    return geluErf(x);
  else if constexpr (kOp == PointwiseOp::GeluTanh)
    return geluTanh(x);
  else if constexpr (kOp == PointwiseOp::Silu)
    return silu(x);
  else {
    static_assert(kOp == PointwiseOp::None, "unknown pointwise operation");
    return x;
  }
}

/// The chain from link kFirst on, of an element with its bias and residual.
template <PointwiseChain kChain, int kFirst = 0, class Value>
Value applyChain(Value x, Value bias, Value residual) {
  if constexpr (kFirst == kChain.size())
    return x;
  else {
    constexpr PointwiseOp kOp = kChain.ops[kFirst];
    Value operand = kOp == PointwiseOp::Bias ? bias : residual;
    return applyChain<kChain, kFirst + 1>(applyPointwise<kOp>(x, operand), bias,
                                          residual);
  }
}

/// How far an error of \p scale before the chain can have grown after it: the
/// steepest slope of gelu is 1.1289, of silu 1.0999; operands add their own
/// magnitude.
template <PointwiseChain kChain, int kFirst = 0>
double chainErrorScale(double scale, double bias, double residual) {
  if constexpr (kFirst == kChain.size())
    return scale;
  else {
    constexpr PointwiseOp kOp = kChain.ops[kFirst];
    constexpr double kSteepest = 1.13;
    if constexpr (kOp == PointwiseOp::Bias)
      scale += fabs(bias);
    else if constexpr (kOp == PointwiseOp::Residual)
      scale += fabs(residual);
    else if constexpr (kOp != PointwiseOp::Relu)
      scale *= kSteepest;
    return chainErrorScale<kChain, kFirst + 1>(scale, bias, residual);
  }
}

} // namespace kiln
