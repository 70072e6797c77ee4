//===- transpose/TransposeParams.h - run-time parameters ------------------===//
//
// Filled by the host, passed by value as the one parameter of every kernel of
// the family. Compiled by the host compiler and by NVRTC: plain types only.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// Operands and extents of one launch: y[c, r] = x[r, c]. Leading dimensions
/// count elements. x and y do not overlap. A launch needs rows, cols >= 1.
struct TransposeParams {
  const void *x = nullptr; ///< rows x cols
  void *y = nullptr;       ///< cols x rows

  long long rows = 0, cols = 0;
  long long ldx = 0, ldy = 0;

  /// Consecutive blocks cover this many tile rows of x before the next tile
  /// column; at least 1 and at most the number of tile rows.
  int rasterGroup = 1;
};

/// Parameters of referenceTranspose: rows [rowBegin, rowEnd) of y.
struct ReferenceTransposeParams {
  TransposeParams transpose;
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr; ///< (rowEnd - rowBegin) x rows, packed
  double *bound = nullptr;     ///< same shape; 0: a copy makes no error
};

} // namespace kiln
