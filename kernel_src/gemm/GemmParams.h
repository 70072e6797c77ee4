//===- gemm/GemmParams.h - run-time parameters of the GEMM kernels --------===//
//
// Filled by the host, passed by value as the one parameter of every GEMM
// kernel. Compiled by the host compiler and by NVRTC: plain types only.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// Scales of one operand. The scale for the r-th block of rows and the d-th
/// block of steps of k is data[batch * batchStride + r * rowStride + d *
/// depthStride]; a stride of 0 serves all.
struct ScaleParams {
  const float *data = nullptr;
  long long rowStride = 0, depthStride = 0, batchStride = 0;
};

/// Groups of rows of a grouped GEMM, and the places of rows. m is the room for
/// the rows of all groups together, or of each masked group. Sizes beyond it
/// count as m. Groups with ends may be seen in part: m rows from `first` on of
/// `all`; A, D and the index begin at `first`.
struct GroupParams {
  const int *sizes = nullptr; ///< for each group its end or, masked, its number
                              ///< of rows
  /// A group begins at the first multiple of this at or behind the end before
  /// it.
  int align = 1;
  int divisor = 1; ///< the row of A is the index divided by this
  int first = 0, all = 0;
  /// For m rows; an index outside of [0, all) stands for no row.
  const int *index = nullptr;
  const float *weights = nullptr; ///< by the index or, without one, by the row
};

/// Zero points of A, of type int32. Row r has data[batch * batchStride + r], or
/// data[batch * batchStride] where the tensor has one zero point. The sums of
/// op(B)'s columns come with them: column c has columnSums[batch *
/// sumsBatchStride + c].
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
/// even, and D and the operands of links behind the join are half as wide.
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

  /// Non-null pointers to scalars in device memory win over the values below.
  const float *alphaPtr = nullptr;
  const float *betaPtr = nullptr;
  float alpha = 1.0f;
  float beta = 0.0f; ///< 0 (also through betaPtr): C is ignored

  /// Consecutive blocks cover this many tile rows before the next tile column;
  /// at least 1.
  int rasterGroup = 8;
  /// k is cut into this many ranges, each processed by its own block; at least
  /// 1. Above 1 the workspaces are needed. Templates with a compiled-in number
  /// of ranges ignore it.
  int splitK = 1;
  /// The number of leading tiles that are not split.
  int wholeTiles = 0;
  /// Partial sums, aligned to 16. With counters they are the config's
  /// partialBytes, content ignored; without, its zeroedBytes, as below.
  float *partials = nullptr;
  /// Counters of the tiles, the config's zeroedBytes; zero at the start, and
  /// left at zero.
  unsigned *counters = nullptr;
  /// Operands that the kernel may read before its predecessor in the stream has
  /// ended (Dependent.cuh): kEarlyA, kEarlyB.
  int early = 0;
  /// For signatures with scales.
  ScaleParams scaleA{}, scaleB{};
  /// For packed weights; their scales have the signature's type.
  const void *zeroB = nullptr;
  GroupParams groups{};
  /// For signatures with zero points of A.
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
