//===- gemm/GemmScales.cuh - scales of A and B ----------------------------===//
//
// Per-tensor scales are a part of alpha, per-token and per-channel scales are
// applied to sums, and block scales inside the loop over k.
//
// Zero points of A are subtracted from finished int32 sums, before these become
// float: sum (a - z) b = sum a b - z sum b, where the caller provides sum b.
// int32 wraps, so intermediate values may exceed the range of the result.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/GemmParams.h"
#include "gemm/GemmSignature.h"

namespace kiln {

/// The scale of an element: row \p row of op(A) or column \p row of op(B), at
/// step \p k; 1 where the operand has no scales.
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

/// alpha times the per-tensor scales.
template <GemmSignature kSignature>
float scaledAlpha(const GemmParams &params, long long batch, float alpha) {
  if constexpr (kSignature.scaleA == ScaleKind::Tensor)
    alpha *= scaleOf<ScaleKind::Tensor>(params.scaleA, batch, 0, 0);
  if constexpr (kSignature.scaleB == ScaleKind::Tensor)
    alpha *= scaleOf<ScaleKind::Tensor>(params.scaleB, batch, 0, 0);
  return alpha;
}

/// An int32 sum less the product of its row's zero point and its column's sum
/// of B.
inline int withoutZeroPoint(int sum, int zeroPoint, int columnSum) {
  return static_cast<int>(static_cast<unsigned>(sum) -
                          static_cast<unsigned>(zeroPoint) *
                              static_cast<unsigned>(columnSum));
}

/// The excess of an exact sum that comes from the zero point of A's row \p row;
/// 0 without zero points.
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
