//===- gemm/GemmScales.cuh - scales of A and B ----------------------------===//
//
// Scales of a tensor are a part of alpha, those of rows are applied to sums,
// those of blocks inside the loop over k.
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

} // namespace kiln
