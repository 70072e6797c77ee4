//===- elementwise/ElementwiseItem.cuh - a chain on one vector ------------===//
//
// Every kernel of the family processes the bits that it has loaded in this way.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Access.cuh"
#include "common/Pointwise.cuh"
#include "elementwise/ElementwiseSignature.h"

namespace kiln {

/// The bits of kVector elements: x and the operands of the links. The one
/// element of a column of values lies in the place of a vector's first element.
/// With kCrosses the elements from `left` on are in the next row.
template <ElementwiseSignature kSignature, int kVector, bool kCrosses = false>
struct ElementwiseItem {
  static constexpr DType kIn = kSignature.in, kOut = kSignature.out;
  static constexpr PointwiseChain kChain = kSignature.chain;
  static constexpr int kLinks = kChain.size();
  static constexpr int kInBytes = kVector * bytesOf(kIn);
  static constexpr int kOutBytes = kVector * bytesOf(kOut);
  /// Two elements share a reciprocal where its error is far below that of y.
  static constexpr bool kPairs = kVector > 1 && kOut != DType::FP32;

  Words<kInBytes> x;
  Words<kInBytes> link[kLinks > 0 ? kLinks : 1];
  unsigned next[kCrosses ? kLinks : 1]; ///< of the next row, for columns
  int left = kVector;

  /// Applies the chain to one vector.
  Words<kOutBytes> compute(float scale) const {
    float values[kVector];
    LinkOperands<float> operands[kVector];
    unpackFloats<kIn>(values, x);
    if constexpr (kLinks > 0)
      unpackLink<0>(operands, scale);
    if constexpr (kPairs) {
#pragma unroll
      for (int e = 0; e < kVector; e += 2)
        applyChainToPair<kChain>(values[e], values[e + 1], operands[e],
                                 operands[e + 1]);
    } else {
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        values[e] = applyChain<kChain>(values[e], operands[e]);
    }
    return packFloats<kOut>(values);
  }

private:
  /// Operands of link kLink for each element of the vector.
  template <int kLink>
  void unpackLink(LinkOperands<float> (&values)[kVector], float scale) const {
    constexpr LinkShape kShape = shapeOf(kChain.ops[kLink]);
    float operand[kVector] = {};
    if constexpr (kShape == LinkShape::Matrix || kShape == LinkShape::Row)
      unpackFloats<kIn>(operand, link[kLink]);
    else if constexpr (kShape == LinkShape::Column) {
      float one[1];
      unpackFloats<kIn>(one, Words<bytesOf(kIn)>{link[kLink].word[0]});
      fill(operand, one[0]);
      if constexpr (kCrosses) {
        unpackFloats<kIn>(one, Words<bytesOf(kIn)>{next[kLink]});
#pragma unroll
        for (int e = 1; e < kVector; ++e)
          operand[e] = e < left ? operand[e] : one[0];
      }
    } else if constexpr (kShape == LinkShape::Scalar)
      fill(operand, scale);
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      values[e].link[kLink] = operand[e];
    if constexpr (kLink + 1 < kLinks)
      unpackLink<kLink + 1>(values, scale);
  }

  static void fill(float (&values)[kVector], float value) {
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      values[e] = value;
  }
};

} // namespace kiln
