//===- gemm/GemmScales.cuh - scales of A and B ----------------------------===//
//
// Scales of a tensor are a part of alpha, those of rows are applied to sums,
// those of blocks inside the loop over k.
//
// Zero points of A are subtracted from finished sums of int32, before these
// become float: sum (a - z) b = sum a b - z sum b, whose last factor a caller
// has. int32 wraps, so what lies between may be greater than the result.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/GemmParams.h"
#include "gemm/GemmSignature.h"

namespace kiln {

/// The scale of an element: of row \p row of op(A), or column \p row of op(B),
/// and of step \p k; 1 where the operand has none.
template <ScaleKind kKind>
float scaleOf(const ScaleParams &scales, long long batch, long long row,
              long long k) {
  if constexpr (kKind == ScaleKind::None)
    return 1.0f;
  else {
    constexpr int kRows = scaledRows(kKind), kDepth = scaledDepth(kKind);
    long long at = batch * scales.batchStride;
    if constexpr (kRows > 0)
      at += row / kRows * scales.rowStride;
    if constexpr (kDepth > 0)
      at += k / kDepth * scales.depthStride;
    return scales.data[at];
  }
}

/// What the scales of tensors make of alpha.
template <GemmSignature kSignature>
float scaledAlpha(const GemmParams &params, long long batch, float alpha) {
  if constexpr (kSignature.scaleA == ScaleKind::Tensor)
    alpha *= scaleOf<ScaleKind::Tensor>(params.scaleA, batch, 0, 0);
  if constexpr (kSignature.scaleB == ScaleKind::Tensor)
    alpha *= scaleOf<ScaleKind::Tensor>(params.scaleB, batch, 0, 0);
  return alpha;
}

/// A sum of int32 without what the zero point of its row and the sum of its
/// column of B make of it.
inline int withoutZeroPoint(int sum, int zeroPoint, int columnSum) {
  return static_cast<int>(static_cast<unsigned>(sum) -
                          static_cast<unsigned>(zeroPoint) *
                              static_cast<unsigned>(columnSum));
}

/// What a sum that is exact has too much for the zero point of A's row \p row;
/// 0 where there are none.
template <GemmSignature kSignature>
double zeroPointShare(const GemmParams &params, long long batch, long long row,
                      long long column) {
  if constexpr (!kSignature.hasZeroPointsA())
    return 0;
  else {
    const ZeroPointParams &zero = params.zeroA;
    long long at = kSignature.zeroA == ScaleKind::Row ? row : 0;
    return static_cast<double>(zero.data[batch * zero.batchStride + at]) *
           static_cast<double>(
               zero.columnSums[batch * zero.sumsBatchStride + column]);
  }
}

} // namespace kiln
