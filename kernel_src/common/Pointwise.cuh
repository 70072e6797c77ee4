//===- common/Pointwise.cuh - pointwise chains on registers ---------------===//
//
// The chain is part of a kernel's signature, so it unrolls into straight code.
// It works on float in kernels and on double in references. In float the smooth
// activations cost one ex2 and one rcp, at an eighth of the rate of additions.
// Apart from memory accesses that is most of a kernel's time, so elements can
// be processed in pairs that share the rcp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "common/Types.h"

namespace kiln {

namespace detail {

inline float erfOf(float x) { return erff(x); }
inline double erfOf(double x) { return erf(x); }

/// x / (1 + 2^exponent). In float the error is that of ex2 and rcp, 4 units of
/// the last place in all. Where 2^exponent overflows or its reciprocal
/// underflows, a finite x gives 0 with its sign; an infinite x gives NaN, as
/// the quotient does.
inline float overOnePlusExp2(float x, float exponent) {
  return x * ptx::rcpApproxFtz(1.0f + ptx::ex2ApproxFtz(exponent));
}
inline double overOnePlusExp2(double x, double exponent) {
  return x / (1.0 + exp2(exponent));
}

/// overOnePlusExp2 of two values that share one reciprocal, 1 / (a * b) with a
/// = 1 + 2^exponent0 and b = 1 + 2^exponent1. The error is 6 units of the last
/// place. a and b are kept below 2^63 so that their product and its reciprocal
/// are normal numbers: a result is never smaller than 2^-62 of its x, an
/// infinite x stays infinite, and a NaN does not reach the other value.
inline void pairOverOnePlusExp2(float &x0, float &x1, float exponent0,
                                float exponent1) {
  constexpr float kMost = 62.0f;
  float power = ptx::ex2ApproxFtz(fminf(exponent0, kMost)); // a - 1
  float b = 1.0f + ptx::ex2ApproxFtz(fminf(exponent1, kMost));
  float reciprocal = ptx::rcpApproxFtz(fmaf(power, b, b));
  x0 *= reciprocal * b;
  x1 *= fmaf(reciprocal, power, reciprocal);
}

constexpr double kLog2E = 1.4426950408889634074;

} // namespace detail

/// The constants of SwiGluClamped (gpt-oss).
constexpr double kClampedAlpha = 1.702, kClampedLimit = 7;

/// x * Phi(x), with the exact error function.
template <class Value> Value geluErf(Value x) {
  constexpr Value kInvSqrt2 = Value(0.70710678118654752440);
  return Value(0.5) * x * (Value(1) + detail::erfOf(x * kInvSqrt2));
}

/// The exponent of an activation of the form x / (1 + 2^exponent):
/// - GeluTanh, the tanh approximation of gelu (Hendrycks and Gimpel, arXiv
///   1606.08415): x/2 * (1 + tanh(u)) with u = sqrt(2/pi) * (x + 0.044715 x^3)
///   is x / (1 + exp(-2u));
/// - Silu: x * sigmoid(x).
template <PointwiseOp kOp, class Value> Value sigmoidExponent(Value x) {
  if constexpr (kOp == PointwiseOp::GeluTanh) {
    constexpr double kSqrt2OverPi = 0.79788456080286535588;
    constexpr Value kLinear = Value(-2 * detail::kLog2E * kSqrt2OverPi);
    constexpr Value kCubic =
        Value(-2 * detail::kLog2E * kSqrt2OverPi * 0.044715);
    return x * (kLinear + kCubic * (x * x));
  } else {
    static_assert(kOp == PointwiseOp::Silu, "no sigmoid in this operation");
    return x * Value(-detail::kLog2E);
  }
}

/// Whether sigmoidExponent supports \p op.
constexpr bool hasSigmoid(PointwiseOp op) {
  return op == PointwiseOp::GeluTanh || op == PointwiseOp::Silu;
}

/// How a link combines x with its operand.
enum class LinkKind { Add, Multiply, Unary };

constexpr LinkKind kindOf(PointwiseOp op) {
  switch (op) {
  case PointwiseOp::Bias:
  case PointwiseOp::Residual:
  case PointwiseOp::RowBias:
    return LinkKind::Add;
  case PointwiseOp::Mul:
  case PointwiseOp::Scale:
  case PointwiseOp::ColumnScale:
  case PointwiseOp::RowScale:
    return LinkKind::Multiply;
  default:
    return LinkKind::Unary;
  }
}

/// Applies one link to \p x; \p operand is its scalar, or its vector's or
/// matrix's element.
template <PointwiseOp kOp, class Value>
Value applyPointwise(Value x, Value operand) {
  static_assert(!joinsColumns(kOp), "this operation takes two columns");
  if constexpr (kindOf(kOp) == LinkKind::Add)
    return x + operand;
  else if constexpr (kindOf(kOp) == LinkKind::Multiply)
    return x * operand;
  else if constexpr (kOp == PointwiseOp::Relu)
    return x < Value(0) ? Value(0) : x; // keeps NaN
  else if constexpr (kOp == PointwiseOp::GeluErf)
    return geluErf(x);
  else if constexpr (hasSigmoid(kOp))
    return detail::overOnePlusExp2(x, sigmoidExponent<kOp>(x));
  else {
    static_assert(kOp == PointwiseOp::None, "unknown pointwise operation");
    return x;
  }
}

/// The factors of a link that joins columns: the activation of the even
/// column's \p x, and what the odd column's \p y becomes.
template <PointwiseOp kOp, class Value> Value gateOf(Value x) {
  if constexpr (kOp == PointwiseOp::SwiGlu)
    return applyPointwise<PointwiseOp::Silu>(x, Value(0));
  else {
    static_assert(kOp == PointwiseOp::SwiGluClamped, "no join of columns");
    constexpr Value kSlope = Value(-detail::kLog2E * kClampedAlpha);
    x = x > Value(kClampedLimit) ? Value(kClampedLimit) : x; // keeps NaN
    return detail::overOnePlusExp2(x, x * kSlope);
  }
}
template <PointwiseOp kOp, class Value> Value upOf(Value y) {
  if constexpr (kOp == PointwiseOp::SwiGluClamped) {
    constexpr Value kMost = Value(kClampedLimit);
    y = y > kMost ? kMost : y; // keeps NaN
    return (y < -kMost ? -kMost : y) + Value(1);
  } else {
    return y;
  }
}

/// The result of a link that joins columns, for the even column's \p x and the
/// odd column's \p y.
template <PointwiseOp kOp, class Value> Value joinColumns(Value x, Value y) {
  static_assert(joinsColumns(kOp), "no operation on two columns");
  return gateOf<kOp>(x) * upOf<kOp>(y);
}

/// The operands of one element, indexed by link; links without operand ignore
/// theirs.
template <class Value> struct LinkOperands {
  Value link[PointwiseChain::kMaxOps] = {};
};

/// The operands of a chain whose links share one bias and one residual.
template <PointwiseChain kChain, class Value>
LinkOperands<Value> sharedOperands(Value bias, Value residual) {
  LinkOperands<Value> operands;
#pragma unroll
  for (int i = 0; i < kChain.size(); ++i)
    operands.link[i] = kChain.ops[i] == PointwiseOp::Bias ? bias : residual;
  return operands;
}

/// Applies links [kFirst, kLast) of the chain to an element with its operands.
/// None of them joins columns.
template <PointwiseChain kChain, int kFirst = 0, int kLast = kChain.size(),
          class Value>
Value applyChain(Value x, const LinkOperands<Value> &operands) {
  if constexpr (kFirst == kLast)
    return x;
  else
    return applyChain<kChain, kFirst + 1, kLast>(
        applyPointwise<kChain.ops[kFirst]>(x, operands.link[kFirst]), operands);
}

/// Applies a whole chain that joins columns to the even column's \p x and the
/// odd column's \p y. Links before the join take the operands of each column,
/// links behind it the operands of the result.
template <PointwiseChain kChain, class Value>
Value applyChainToColumns(Value x, Value y, const LinkOperands<Value> &ofX,
                          const LinkOperands<Value> &ofY,
                          const LinkOperands<Value> &ofResult) {
  constexpr int kJoin = kChain.joinAt();
  x = applyChain<kChain, 0, kJoin>(x, ofX);
  y = applyChain<kChain, 0, kJoin>(y, ofY);
  return applyChain<kChain, kJoin + 1>(joinColumns<kChain.ops[kJoin]>(x, y),
                                       ofResult);
}

/// applyChain on two elements in place. Links with a reciprocal share it
/// between both, with the error of detail::pairOverOnePlusExp2.
template <PointwiseChain kChain, int kFirst = 0>
void applyChainToPair(float &x0, float &x1,
                      const LinkOperands<float> &operands0,
                      const LinkOperands<float> &operands1) {
  if constexpr (kFirst < kChain.size()) {
    constexpr PointwiseOp kOp = kChain.ops[kFirst];
    if constexpr (hasSigmoid(kOp))
      detail::pairOverOnePlusExp2(x0, x1, sigmoidExponent<kOp>(x0),
                                  sigmoidExponent<kOp>(x1));
    else {
      x0 = applyPointwise<kOp>(x0, operands0.link[kFirst]);
      x1 = applyPointwise<kOp>(x1, operands1.link[kFirst]);
    }
    applyChainToPair<kChain, kFirst + 1>(x0, x1, operands0, operands1);
  }
}

/// Applies the chain to an element with its bias and its residual.
template <PointwiseChain kChain, class Value>
Value applyChain(Value x, Value bias, Value residual) {
  return applyChain<kChain>(x, sharedOperands<kChain>(bias, residual));
}

/// A bound of all activations' slopes: 1.1289 for gelu, 1.0999 for silu and for
/// the gate of SwiGluClamped, which is a scaled silu.
constexpr double kSteepest = 1.13;

/// Bounds the error behind the links [kFirst, kLast), given an error of
/// \p scale before them: factors and the slopes of activations scale it, added
/// operands add their own magnitude.
template <PointwiseChain kChain, int kFirst = 0, int kLast = kChain.size()>
double chainErrorScale(double scale, const LinkOperands<double> &operands) {
  if constexpr (kFirst == kLast)
    return scale;
  else {
    constexpr PointwiseOp kOp = kChain.ops[kFirst];
    static_assert(!joinsColumns(kOp), "this operation takes two columns");
    if constexpr (kindOf(kOp) == LinkKind::Add)
      scale += fabs(operands.link[kFirst]);
    else if constexpr (kindOf(kOp) == LinkKind::Multiply)
      scale *= fabs(operands.link[kFirst]);
    else if constexpr (kOp != PointwiseOp::Relu)
      scale *= kSteepest;
    return chainErrorScale<kChain, kFirst + 1, kLast>(scale, operands);
  }
}

/// The error scale of joinColumns: that of a product, to first order, with the
/// slope of the activation in the even column's factor.
template <PointwiseOp kOp>
double joinErrorScale(double x, double y, double scaleX, double scaleY) {
  return kSteepest * scaleX * fabs(upOf<kOp>(y)) +
         fabs(gateOf<kOp>(x)) * scaleY;
}

} // namespace kiln
