//===- gemm/ReferenceGemm.cuh - what a GEMM is compared with --------------===//
//
// The fp64 result before it is rounded to D's type, and beside it the scale of
// the error that fp32 sums may make: sum |alpha * a * b| + |beta * c|, carried
// through the chain. Works on a slab of rows, so that its two fp64 matrices
// stay small, and on small tiles, so that a validation costs little.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "common/Pointwise.cuh"
#include "gemm/GemmParams.h"
#include "gemm/NaiveGemmConfig.h"

namespace kiln {

template <GemmSignature kSignature, ReferenceGemmConfig kConfig>
class ReferenceGemm {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kBlock = kConfig.kBlock, kBlockK = kConfig.kBlockK;
  static constexpr int kMicro = kConfig.kMicro;
  static constexpr int kPerSide = kBlock / kMicro;
  static constexpr int kThreads = kPerSide * kPerSide;
  static constexpr int kPitch = kBlock + 1; // columns fall into other banks
  using In = Storage<kSignature.in>;
  using Out = Storage<kSignature.out>;

  /// Sums of a thread's elements: rows threadRow + kPerSide * i, columns
  /// likewise.
  struct Sums {
    double value[kMicro][kMicro] = {};
    double magnitude[kMicro][kMicro] = {};
  };

public:
  static void run(const ReferenceGemmParams &params) {
    __shared__ double tileA[kBlockK][kPitch], tileB[kBlockK][kPitch];
    const GemmParams &gemm = params.gemm;
    long long tilesN = (gemm.n + kBlock - 1) / kBlock;
    long long row = params.rowBegin + blockIdx.x / tilesN * kBlock;
    long long column = blockIdx.x % tilesN * kBlock;
    Sums sums;
    for (long long k = 0; k < gemm.k; k += kBlockK) {
      loadA(tileA, gemm, row, params.rowEnd, k);
      // A slab may cross batches: rows of another one need another B.
      forEachBatch(gemm, row, min(row + kBlock, params.rowEnd),
                   [&](long long batch, long long begin, long long end) {
                     loadB(tileB, gemm, batch, column, k);
                     __syncthreads();
                     add(sums, tileA, tileB, row, begin, end);
                     __syncthreads();
                   });
    }
    finish(params, sums, row, column);
  }

private:
  /// Calls body(batch, first row, end row) for each batch that the flattened
  /// rows [begin, end) touch.
  template <class Body>
  static void forEachBatch(const GemmParams &gemm, long long begin,
                           long long end, Body body) {
    while (begin < end) {
      long long batch = begin / gemm.m;
      long long next = min((batch + 1) * gemm.m, end);
      body(batch, begin, next);
      begin = next;
    }
  }

  static void loadA(double (&tile)[kBlockK][kPitch], const GemmParams &gemm,
                    long long row, long long rowEnd, long long k) {
    constexpr bool kMajor = kSignature.isKMajorA();
    const In *a = static_cast<const In *>(gemm.a);
    for (int i = threadIdx.x; i < kBlock * kBlockK; i += kThreads) {
      int r = kMajor ? i / kBlockK : i % kBlock;
      int depth = kMajor ? i % kBlockK : i / kBlock;
      double value = 0;
      if (row + r < rowEnd && k + depth < gemm.k) {
        long long batch = (row + r) / gemm.m;
        long long within = row + r - batch * gemm.m;
        long long at = kMajor ? within * gemm.lda + k + depth
                              : (k + depth) * gemm.lda + within;
        value = toFloat<kSignature.in>(a[batch * gemm.strideA + at]);
      }
      tile[depth][r] = value;
    }
  }

  static void loadB(double (&tile)[kBlockK][kPitch], const GemmParams &gemm,
                    long long batch, long long column, long long k) {
    constexpr bool kMajor = kSignature.isKMajorB();
    const In *b = static_cast<const In *>(gemm.b) + batch * gemm.strideB;
    for (int i = threadIdx.x; i < kBlock * kBlockK; i += kThreads) {
      int c = kMajor ? i / kBlockK : i % kBlock;
      int depth = kMajor ? i % kBlockK : i / kBlock;
      double value = 0;
      if (column + c < gemm.n && k + depth < gemm.k)
        value = toFloat<kSignature.in>(
            b[kMajor ? (column + c) * gemm.ldb + k + depth
                     : (k + depth) * gemm.ldb + column + c]);
      tile[depth][c] = value;
    }
  }

  /// Adds the products of the tile's rows [begin, end), tile row 0 being
  /// \p row.
  static void add(Sums &sums, const double (&tileA)[kBlockK][kPitch],
                  const double (&tileB)[kBlockK][kPitch], long long row,
                  long long begin, long long end) {
    int threadRow = threadIdx.x / kPerSide,
        threadColumn = threadIdx.x % kPerSide;
    for (int depth = 0; depth < kBlockK; ++depth) {
      double a[kMicro], b[kMicro];
#pragma unroll
      for (int i = 0; i < kMicro; ++i) {
        long long at = row + threadRow + kPerSide * i;
        bool mine = at >= begin && at < end;
        a[i] = mine ? tileA[depth][threadRow + kPerSide * i] : 0.0;
        b[i] = tileB[depth][threadColumn + kPerSide * i];
      }
#pragma unroll
      for (int i = 0; i < kMicro; ++i)
#pragma unroll
        for (int j = 0; j < kMicro; ++j) {
          sums.value[i][j] = fma(a[i], b[j], sums.value[i][j]);
          sums.magnitude[i][j] =
              fma(fabs(a[i]), fabs(b[j]), sums.magnitude[i][j]);
        }
    }
  }

  static void finish(const ReferenceGemmParams &params, const Sums &sums,
                     long long row, long long column) {
#pragma unroll
    for (int i = 0; i < kMicro; ++i)
#pragma unroll
      for (int j = 0; j < kMicro; ++j) {
        long long r = row + threadIdx.x / kPerSide + kPerSide * i;
        long long c = column + threadIdx.x % kPerSide + kPerSide * j;
        if (r < params.rowEnd && c < params.gemm.n)
          finishElement(params, r, c, sums.value[i][j], sums.magnitude[i][j]);
      }
  }

  static double outAt(const void *matrix, long long index) {
    return toFloat<kSignature.out>(static_cast<const Out *>(matrix)[index]);
  }

  static void finishElement(const ReferenceGemmParams &params, long long row,
                            long long column, double value, double magnitude) {
    constexpr PointwiseChain kChain = kSignature.pointwise;
    const GemmParams &gemm = params.gemm;
    long long batch = row / gemm.m, within = row - batch * gemm.m;
    double alpha = gemm.alphaPtr ? *gemm.alphaPtr : gemm.alpha;
    double beta = gemm.betaPtr ? *gemm.betaPtr : gemm.beta;
    value *= alpha;
    magnitude *= fabs(alpha);
    if (kSignature.readsC && beta != 0) {
      double c = beta * outAt(gemm.c, batch * gemm.strideC + within * gemm.ldc +
                                          column);
      value += c;
      magnitude += fabs(c);
    }
    double bias = 0, residual = 0;
    if constexpr (kChain.contains(PointwiseOp::Bias))
      bias = outAt(gemm.bias, batch * gemm.strideBias + column);
    if constexpr (kChain.contains(PointwiseOp::Residual))
      residual = outAt(gemm.residual, batch * gemm.strideResidual +
                                          within * gemm.ldResidual + column);
    long long at = (row - params.rowBegin) * gemm.n + column;
    params.reference[at] = applyChain<kChain>(value, bias, residual);
    params.bound[at] = chainErrorScale<kChain>(magnitude, bias, residual);
  }
};

/// Writes reference and bound of the rows [rowBegin, rowEnd) of the flattened
/// batch * m rows, on kConfig.blocks(rowEnd - rowBegin, n) blocks.
template <GemmSignature kSignature, ReferenceGemmConfig kConfig>
void referenceGemm(const ReferenceGemmParams &params) {
  ReferenceGemm<kSignature, kConfig>::run(params);
}

} // namespace kiln
