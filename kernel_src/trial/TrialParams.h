//===- trial/TrialParams.h - parameters of the tuner's own kernels --------===//
//
// The kernels of trial/TrialTools.cuh prepare and judge the operands of a trial
// of any family. Each takes one of these structs, on a one-dimensional grid of
// any number of blocks of kTrialThreads threads: every kernel strides over its
// elements by its grid. Compiled by the host compiler and by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/RowLayout.h"
#include "common/Types.h"
#include "trial/IntegerValues.h"

namespace kiln {

/// Threads of a block of every trial kernel.
constexpr int kTrialThreads = 256;

/// kilnFillNormal: element i becomes a sample of a normal distribution, a
/// function of (seed, i) alone, or a replacement that a later field names. It
/// is rounded to its type: to nearest even, saturating where the type has no
/// infinity. fp64 (with fp32's digits), fp32, fp16, bf16, e4m3, e5m2, int8.
/// Later fields take precedence over earlier ones.
struct FillNormalParams {
  void *data = nullptr;
  long long count = 0; ///< elements
  unsigned long long seed = 0;
  DType type = DType::BF16;
  float mean = 0, deviation = 1;
  bool isLogarithmic = false; ///< the sample is an exponent of 2
  /// Above 0, about one element in this many is +outlier or -outlier.
  int outlierPeriod = 0;
  float outlier = 0;
  /// Above 0, about one element in this many is minus infinity.
  int minusInfinityPeriod = 0;
  /// Above 0, every element of the last row of each period of this many rows is
  /// rowValue. Rows are counted on through batches, so batches are whole
  /// numbers of rows apart.
  int rowPeriod = 0;
  float rowValue = 0;
  long long rowLength = 0; ///< elements from row to row
  /// fp32 only: 10 rounds to tf32's mantissa; 0 keeps all bits.
  int mantissaBits = 0;
};

/// kilnFillIntegers: each element becomes values.at() of its index, counted row
/// by row. No two rows of the layout may coincide.
struct FillIntegersParams {
  void *data = nullptr;
  DType type = DType::INT32; ///< or INT64
  RowLayout layout;
  IntegerValues values;
};

/// kilnFillPattern: repeats the four bytes of `pattern`, lowest first, from
/// data on; data must be aligned to 4 bytes, the count need not be.
struct FillPatternParams {
  void *data = nullptr;
  long long bytes = 0;
  unsigned pattern = 0;
};

/// kilnCheckRedZone: adds to *differing the number of bytes around an operand
/// that differ from the pattern. Any alignment; begins with the pattern's
/// lowest byte.
struct CheckRedZoneParams {
  const void *data = nullptr;
  long long bytes = 0;
  unsigned pattern = 0;
  unsigned long long *differing = nullptr;
};

/// kilnCheckGaps: adds to *differing the number of changed bytes between the
/// rows of an operand, in elements that belong to no row. The grid has
/// isApart().
struct CheckGapsParams {
  const void *data = nullptr;
  DType type = DType::BF16;
  RowGrid grid;
  unsigned pattern = 0; ///< the same byte four times
  unsigned long long *differing = nullptr;
};

/// kilnCountDifferences: adds the number of bytes in which two buffers differ
/// to *differing. Both are aligned to 4 bytes; bytes is a multiple of 4.
struct CountDifferencesParams {
  const void *left = nullptr, *right = nullptr;
  long long bytes = 0;
  unsigned long long *differing = nullptr;
};

/// kilnFlushL2: reads and writes back every 16 bytes of a buffer that should be
/// at least twice the L2; bytes is a multiple of 16.
struct FlushL2Params {
  void *data = nullptr;
  long long bytes = 0;
};

/// Results of kilnCompareTolerance. The host first sets them to the values
/// below; slabs add up.
struct CompareResult {
  unsigned long long checked = 0;
  unsigned long long mismatches = 0;
  /// Smallest flat index (row * cols + column) of a mismatch; all ones without
  /// one.
  unsigned long long firstBad = ~0ull;
  /// Undefined elements that have changed, and the first of them.
  unsigned long long disturbed = 0, firstDisturbed = ~0ull;
  /// Largest |d - ref| / tolerance, infinite where d is NaN and ref is not.
  double maxRatio = 0;
};

/// kilnCompareTolerance: for rows [rowBegin, rowEnd) of D, as RowLayout counts
/// them, checks
///   |d - ref| <= relEps * |ref| + absScale * bound + absolute.
/// A d that equals ref rounded to D's type passes (so an overflow to infinity
/// passes, and an infinity in both); a NaN passes only where ref is NaN. Where
/// the bound is below 0, D is undefined and has to keep its earlier value. The
/// types are those of kilnFillNormal.
struct CompareToleranceParams {
  const void *d = nullptr;
  /// D before it was written, in the same layout; null: `pattern`, the same
  /// byte four times, everywhere.
  const void *before = nullptr;
  unsigned pattern = 0;
  DType type = DType::BF16;
  RowLayout layout;
  long long rowBegin = 0, rowEnd = 0;
  const double *reference = nullptr; ///< (rowEnd - rowBegin, cols), contiguous
  const double *bound = nullptr;     ///< same shape
  double relEps = 0, absScale = 0, absolute = 1e-30;
  CompareResult *result = nullptr;
};

} // namespace kiln
