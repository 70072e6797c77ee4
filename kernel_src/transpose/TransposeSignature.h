//===- transpose/TransposeSignature.h - the signature of transpose2d ------===//
//
// y[c, r] = x[r, c]. Shared by the host and every kernel of the family, so it
// includes nothing.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// The part of a transposition that its kernels are specialised for. Bits are
/// moved and never looked at, so types of one width are one signature.
struct TransposeSignature {
  int elementBytes = 2; ///< 1, 2 or 4
  /// A power of two, at least the element and at most 16: both pointers, both
  /// leading dimensions and both extents, in bytes, are multiples of it. So a
  /// vector of that size is inside of a row or outside, never across its end.
  int align = 16;

  constexpr bool isWellFormed() const {
    bool elementOk =
        elementBytes == 1 || elementBytes == 2 || elementBytes == 4;
    return elementOk && align >= elementBytes && align <= 16 &&
           (align & (align - 1)) == 0;
  }

  friend constexpr bool operator==(const TransposeSignature &,
                                   const TransposeSignature &) = default;
};

} // namespace kiln
