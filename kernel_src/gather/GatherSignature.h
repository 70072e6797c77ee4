//===- gather/GatherSignature.h - the signature of gather -----------------===//
//
// y[targets[i]] = scale * x[indices[i] / divisor - first], row by row. Shared
// by the host and every kernel of the family.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// The part of a gather that its kernels are specialised for. A gather of one
/// type without a scale moves bits and never looks at them, so it is the same
/// for all types. Which arrays there are, the width of their integers and the
/// batch are run-time parameters: they take some instructions a row.
struct GatherSignature {
  /// Types of x and y where elements are converted or scaled; None: bits are
  /// moved.
  DType in = DType::None, out = DType::None;
  /// A power of two, at most 16, in bytes of the wider type: addresses, leading
  /// dimensions and the length of a row are multiples of as many elements, or
  /// bytes that are moved. So a vector of that size is inside of a row or
  /// outside, never across its end.
  int align = 16;

  constexpr bool moves() const { return in == DType::None; }
  /// Bytes of an element of the wider type; 1 where bits are moved.
  constexpr int widerBytes() const {
    if (moves())
      return 1;
    return bytesOf(in) > bytesOf(out) ? bytesOf(in) : bytesOf(out);
  }

  constexpr bool isWellFormed() const {
    return isKnown(in) && isKnown(out) && moves() == (out == DType::None) &&
           align >= widerBytes() && align <= 16 && (align & (align - 1)) == 0;
  }

  friend constexpr bool operator==(const GatherSignature &,
                                   const GatherSignature &) = default;

private:
  static constexpr bool isKnown(DType type) {
    return type == DType::None || type == DType::BF16 || type == DType::FP16 ||
           type == DType::FP32 || type == DType::E4M3 || type == DType::INT8;
  }
};

} // namespace kiln
