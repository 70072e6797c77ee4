//===- gemm/GemmParams.h - run-time parameters of the GEMM kernels --------===//
//
// Filled by the host, passed by value as the one parameter of every GEMM
// kernel. Compiled by the host compiler and by NVRTC: plain types only.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// Scales of one operand: number r of what shares its rows, and d of what
/// shares its steps of k, is data[batch * batchStride + r * rowStride +
/// d * depthStride]; a stride of 0 serves all.
struct ScaleParams {
  const float *data = nullptr;
  long long rowStride = 0, depthStride = 0, batchStride = 0;
};

/// Groups of rows, and where rows are. With groups, m is how many rows there is
/// room for: of all together, or masked of each. Sizes beyond it count as m.
/// Groups with ends may be seen in part: m rows from `first` on of `all`, which
/// is where A, D and the index begin.
struct GroupParams {
  const int *sizes = nullptr; ///< of each group its end, or masked its rows
  /// A group begins at the first multiple of this from the end before on.
  int align = 1;
  int divisor = 1; ///< of the index where A's rows are
  int first = 0, all = 0;
  /// Of m rows; what is outside of [0, all) has none.
  const int *index = nullptr;
  const float *weights = nullptr; ///< by the index, or without one by the row
};

/// Zero points of A, of type int32: that of row r is data[batch * batchStride +
/// r], or data[batch * batchStride] where the tensor has one. They come with
/// the sums of op(B)'s columns, that of column c being
/// columnSums[batch * sumsBatchStride + c].
struct ZeroPointParams {
  const int *data = nullptr;
  long long batchStride = 0;
  const int *columnSums = nullptr;
  long long sumsBatchStride = 0;
};

/// Operands and extents of one GEMM launch. Leading dimensions and strides
/// count elements of their operand's type; A, B, C, D and the residual are
/// matrices of `batch` with a batch stride (0 shares an input). Pointers that
/// the signature does not use are ignored. A launch needs m, n, batch >= 1; k
/// may be 0. n is the width of the product; where the chain joins columns, n is
/// even, and D and what links behind the join read are half as wide.
struct GemmParams {
  const void *a = nullptr;
  const void *b = nullptr;
  const void *c = nullptr; ///< may be D, element for element
  void *d = nullptr;
  const void *bias = nullptr;     ///< a row, added to every row
  const void *residual = nullptr; ///< m rows, row-major

  long long m = 0, n = 0, k = 0, batch = 1;
  long long lda = 0, ldb = 0, ldc = 0, ldd = 0, ldResidual = 0;
  long long strideA = 0, strideB = 0, strideC = 0, strideD = 0;
  long long strideBias = 0, strideResidual = 0;

  /// Scalars in device memory win over the values below when not null.
  const float *alphaPtr = nullptr;
  const float *betaPtr = nullptr;
  float alpha = 1.0f;
  float beta = 0.0f; ///< 0 (also through betaPtr): C does not count

  /// Consecutive blocks cover this many tile rows before the next tile column;
  /// at least 1.
  int rasterGroup = 8;
  /// k is cut into this many ranges, each the work of its own block; at least
  /// 1. Above 1 the workspaces are needed. Of templates that are not compiled
  /// for a number of ranges.
  int splitK = 1;
  /// The first tiles, which are not cut.
  int wholeTiles = 0;
  /// Partial sums, aligned to 16. With counters they are the config's
  /// partialBytes, content ignored; without, its zeroedBytes, as below.
  float *partials = nullptr;
  /// Counters of the tiles, the config's zeroedBytes; zero at the start, and
  /// left at zero.
  unsigned *counters = nullptr;
  /// Operands that the kernel may read before the one ahead of it in the stream
  /// has ended (Dependent.cuh): kEarlyA, kEarlyB.
  int early = 0;
  /// Where the signature has them.
  ScaleParams scaleA{}, scaleB{};
  /// Of packed weights, whose scales have the signature's type.
  const void *zeroB = nullptr;
  GroupParams groups{};
  /// Where the signature has them.
  ZeroPointParams zeroA{};
};

/// Bits of GemmParams::early.
inline constexpr int kEarlyA = 1, kEarlyB = 2;

/// Parameters of referenceGemm: a slab of the flattened rows of D, row
/// r = batchIndex * m + row.
struct ReferenceGemmParams {
  GemmParams gemm;
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr; ///< (rowEnd - rowBegin, D's columns), packed
  double *bound = nullptr;     ///< same shape: the error scale of each element
};

} // namespace kiln
