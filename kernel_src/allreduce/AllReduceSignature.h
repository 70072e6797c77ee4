//===- allreduce/AllReduceSignature.h - the signature of allreduce --------===//
//
// A sum over the ranks of a group, alone or followed by a residual add and an
// RMSNorm. Shared by the host and every kernel of the family.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// The most ranks of a group: the GPUs of one host.
inline constexpr int kMostRanks = 8;

/// The part of an all-reduce that its kernels are specialised for.
struct AllReduceSignature {
  DType type = DType::BF16; ///< of all operands
  int ranks = 2;
  bool residual = false; ///< the sum is added to a residual
  bool norm = false;     ///< the result is normalised and weighted
  /// A power of two, an element to 16 bytes: addresses, leading dimensions and
  /// the length of a row are multiples of it. So an access of that size is
  /// inside of a row or outside, never across its end.
  int align = 16;

  /// Whether what is normalised is stored as well.
  constexpr bool hasResidualOut() const { return residual && norm; }

  constexpr bool isWellFormed() const {
    return (type == DType::BF16 || type == DType::FP16 ||
            type == DType::FP32) &&
           ranks >= 2 && ranks <= kMostRanks && align >= bytesOf(type) &&
           align <= 16 && (align & (align - 1)) == 0;
  }

  friend constexpr bool operator==(const AllReduceSignature &,
                                   const AllReduceSignature &) = default;
};

} // namespace kiln
