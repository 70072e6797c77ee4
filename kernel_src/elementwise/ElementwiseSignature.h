//===- elementwise/ElementwiseSignature.h - the signature -----------------===//
//
// y = chain(x), element by element, fp32 arithmetic. Each link of the chain
// that reads an operand has one of its own. Shared by the host and every
// kernel of the family.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// The part of an elementwise problem for which its kernels are specialised.
/// Sizes, strides and scalars are run-time parameters; alignment belongs to the
/// config.
struct ElementwiseSignature {
  DType in = DType::BF16;  ///< of x and of all operands of links
  DType out = DType::BF16; ///< of y
  PointwiseChain chain{};  ///< empty: a cast, or a copy
  /// Every matrix is packed, so that all are one run of rows * cols elements.
  bool contiguous = false;

  /// Links whose operand has \p shape.
  constexpr int count(LinkShape shape) const {
    int found = 0;
    for (PointwiseOp op : chain.ops)
      found += shapeOf(op) == shape;
    return found;
  }
  /// True when a kernel has to know an element's row or column.
  constexpr bool needsPosition() const {
    return !contiguous || count(LinkShape::Row) + count(LinkShape::Column) > 0;
  }

  /// True for the combinations that every template accepts.
  constexpr bool isWellFormed() const {
    return isType(in) && isType(out) && count(LinkShape::Scalar) <= 1;
  }

  friend constexpr bool operator==(const ElementwiseSignature &,
                                   const ElementwiseSignature &) = default;

private:
  static constexpr bool isType(DType type) {
    return type == DType::FP32 || type == DType::FP16 || type == DType::BF16 ||
           type == DType::E4M3;
  }
};

} // namespace kiln
