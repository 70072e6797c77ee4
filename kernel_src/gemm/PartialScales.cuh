//===- gemm/PartialScales.cuh - scales of a lane's partial sums -----------===//
//
// Block scales, 1 x 128 of A and 128 x 128 of B, for kernels whose lanes sum
// 128 of k at a time in registers. Each sum is multiplied by the scale of its
// row of A and by the scale of the block of B, which all sums of the warp
// share. The scales of the next 128 are loaded before the last ones are used.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/ByteProducts.h"
#include "gemm/GemmParams.h"

namespace kiln {

/// The scales of 128 of k, of kCount rows of A.
template <int kCount> struct PartialScales {
  float rows[kCount], block;

  float of(int row) const { return rows[row] * block; }
};

/// Reads the scales of a lane's rows of A, and those of the block of B with one
/// of its columns. It counts scales in 32 bits.
template <int kCount> class PartialScaleReader {
public:
  /// \p rowOf gives the row of each of the kCount scales. A row that does not
  /// exist takes the scale of the last one: its sums are not stored.
  template <class RowOf>
  PartialScaleReader(const GemmParams &params, long long batch,
                     long long column, RowOf rowOf)
      : a(params.scaleA.data + batch * params.scaleA.batchStride),
        b(params.scaleB.data + batch * params.scaleB.batchStride +
          min(column, params.n - 1) / kPromotedDepth * params.scaleB.rowStride),
        depthA(static_cast<unsigned>(params.scaleA.depthStride)),
        depthB(static_cast<unsigned>(params.scaleB.depthStride)),
        last(static_cast<unsigned>((params.k - 1) / kPromotedDepth)) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      rows[i] = static_cast<unsigned>(min(rowOf(i), params.m - 1) *
                                      params.scaleA.rowStride);
  }

  /// Loads the scales of step \p k and its neighbours, or those of the last
  /// steps where step \p k does not exist. k is not 0.
  void read(PartialScales<kCount> &scales, long long k) const {
    unsigned depth = min(static_cast<unsigned>(k / kPromotedDepth), last);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      scales.rows[i] = a[rows[i] + depth * depthA];
    scales.block = b[depth * depthB];
  }

private:
  const float *a, *b;
  unsigned depthA, depthB, last;
  unsigned rows[kCount];
};

} // namespace kiln
