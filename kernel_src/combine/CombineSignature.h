//===- combine/CombineSignature.h - the signature of combine --------------===//
//
// Shared by the host and every kernel of the family.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// The part of a combine that its kernels are specialised for.
struct CombineSignature {
  DType in = DType::BF16; ///< of all matrices
  bool weighted = false;  ///< there are weights, applied or not
  bool shared = false, residual = false, norm = false;
  /// A power of two, at least the element and at most 16: addresses and leading
  /// dimensions, in bytes, are multiples of it.
  int align = 16;

  /// Whether the sum is stored beside its norm.
  constexpr bool storesSum() const { return norm && residual; }

  constexpr bool isWellFormed() const {
    const bool isType =
        in == DType::BF16 || in == DType::FP16 || in == DType::FP32;
    return isType && align >= bytesOf(in) && align <= 16 &&
           (align & (align - 1)) == 0;
  }

  friend constexpr bool operator==(const CombineSignature &,
                                   const CombineSignature &) = default;
};

} // namespace kiln
