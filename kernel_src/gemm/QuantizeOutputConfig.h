//===- gemm/QuantizeOutputConfig.h - geometry of quantizeOutput -----------===//
#pragma once

#include "common/Types.h"
#include "gemm/GemmParams.h"

namespace kiln {

/// The quantisation to e4m3. A scale is shared by all elements (where it is
/// given), by a row, or by 128 columns of a row.
struct QuantizeOutputSignature {
  DType in = DType::BF16;
  ScaleKind scale = ScaleKind::Block1x128;
  GroupKind groups = GroupKind::None; ///< with groups, only their rows exist

  friend constexpr bool operator==(const QuantizeOutputSignature &,
                                   const QuantizeOutputSignature &) = default;
};

/// The tuner does not choose quantizeOutput, so it has no fields.
struct QuantizeOutputConfig {
  static constexpr int kGroup = 128; ///< columns of a block scale
  static constexpr int kWarps = 8;

  constexpr int threads() const { return kWarps * 32; }
  constexpr int sharedBytes(const QuantizeOutputSignature &) const { return 0; }
  constexpr bool isValid(const QuantizeOutputSignature &s) const {
    return (s.in == DType::BF16 || s.in == DType::FP16 ||
            s.in == DType::FP32) &&
           (s.scale == ScaleKind::Tensor || s.scale == ScaleKind::Row ||
            s.scale == ScaleKind::Block1x128);
  }

  /// Blocks of the one-dimensional grid for \p rows of \p columns. The kernel
  /// strides by its grid, so any number works.
  constexpr long long blocks(const QuantizeOutputSignature &signature,
                             long long rows, long long columns) const {
    long long groups = (columns + kGroup - 1) / kGroup;
    long long wanted = signature.scale == ScaleKind::Row
                           ? rows
                           : (rows * groups + kWarps - 1) / kWarps;
    return wanted < kMaxBlocks ? wanted : kMaxBlocks;
  }

  friend constexpr bool operator==(const QuantizeOutputConfig &,
                                   const QuantizeOutputConfig &) = default;

  static constexpr long long kMaxBlocks = 1 << 16;
};

/// Rows of `columns` elements, `rowsPerBatch` in each matrix of a batch. The
/// source's rows are contiguous over all batches, `sourcePitch` elements apart,
/// and begin at multiples of 16 bytes. The scale of row r of a matrix and group
/// g of its columns is scales[batch * scaleBatchStride + r * scaleRowStride +
/// g * scaleGroupStride].
struct QuantizeOutputParams {
  const void *source = nullptr;
  void *d = nullptr;
  float *scales = nullptr;              ///< of a tensor, which are read
  long long rows = 0, rowsPerBatch = 1; ///< rows: over all batches
  long long columns = 0;
  long long sourcePitch = 0, ldd = 0, strideD = 0;
  long long scaleRowStride = 0, scaleGroupStride = 0, scaleBatchStride = 0;
  GroupParams rowGroups{}; ///< used with groups, `groupCount` of them
  long long groupCount = 0;
};

} // namespace kiln
