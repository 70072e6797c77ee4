//===- gemm/ReferenceQuantizedConfig.h - shape of referenceQuantized ------===//
#pragma once

#include "gemm/GemmParams.h"
#include "gemm/GemmSignature.h"

namespace kiln {

/// A block for each set of elements that share a scale. The tuner does not
/// choose it.
struct ReferenceQuantizedConfig {
  ScaleKind scale = ScaleKind::Block1x128; ///< of D, or Row or Tensor

  static constexpr int kGroup = 128; ///< columns of a block scale
  static constexpr long long kMaxBlocks = 1ll << 20;

  constexpr int threads() const { return 128; }
  constexpr int sharedBytes(const GemmSignature &) const { return 0; }
  /// \p signature: the signature of the product.
  constexpr bool isValid(const GemmSignature &signature) const {
    return signature.isWellFormed() && !signature.scatters &&
           (scale == ScaleKind::Tensor || scale == ScaleKind::Row ||
            scale == ScaleKind::Block1x128);
  }
  /// Blocks of the one-dimensional grid for \p scales; the kernel strides by
  /// its grid.
  constexpr long long blocks(long long scales) const {
    return scales < kMaxBlocks ? scales : kMaxBlocks;
  }

  friend constexpr bool operator==(const ReferenceQuantizedConfig &,
                                   const ReferenceQuantizedConfig &) = default;
};

/// Parameters of referenceQuantized: a slab of the flattened rows of D or of
/// its scales. A line of scales holds `lineScales`: the scales of a row, or one
/// scale of each row of a matrix.
struct ReferenceQuantizedParams {
  GemmParams gemm; ///< for the product; its D is not written
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr; ///< packed
  double *bound = nullptr;     ///< same shape: the error scale of each element
  long long columns = 0;       ///< of D
  bool ofScales = false, linesAreRows = true;
  long long lineScales = 1;
  const float *scale = nullptr; ///< for a tensor
  long long scaleStride = 0;    ///< from one matrix to the next
};

} // namespace kiln
