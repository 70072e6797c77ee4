//===- attention/ReferenceAttentionConfig.h - shape of the reference ------===//
#pragma once

#include "attention/AttentionParams.h"
#include "attention/AttentionSignature.h"

namespace kiln {

/// The error of an LSE over e4m3, relative to the reference's bound.
inline constexpr double kE4M3LseError = 0x1p-9;

/// One block for each row. The tuner does not choose it, so it has no fields.
struct ReferenceAttentionConfig {
  static constexpr long long kMaxBlocks = 1ll << 20;

  constexpr int threads() const { return 256; }
  constexpr int sharedBytes(const AttentionSignature &) const { return 0; }
  constexpr bool isValid(const AttentionSignature &) const { return true; }
  /// Blocks of the one-dimensional grid for \p rows of the slab: the kernel
  /// strides over them by its grid.
  constexpr long long blocks(long long rows) const {
    return rows < kMaxBlocks ? rows : kMaxBlocks;
  }

  friend constexpr bool operator==(const ReferenceAttentionConfig &,
                                   const ReferenceAttentionConfig &) = default;
};

/// Rows [rowBegin, rowEnd) of O or of the LSE. Row r is row r % rows of head r
/// / rows % heads of sequence r / (rows * heads), where all packed sequences
/// count as one. Results are packed.
struct ReferenceAttentionParams {
  AttentionParams attention;
  bool isLse = false;
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr;
  /// The scale of the error of an element; -1: the element is undefined.
  double *bound = nullptr;
};

} // namespace kiln
