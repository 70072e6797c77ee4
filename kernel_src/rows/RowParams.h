//===- rows/RowParams.h - run-time parameters of kernels over rows --------===//
//
// Filled by the host, passed by value as the one parameter of every kernel over
// rows. Compiled by the host compiler and by NVRTC: plain types only.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// Operands and extents of one launch. Leading dimensions count elements of
/// their operand's type. Pointers that the signature does not use are ignored.
/// y may be x, and residualOut may be residual, with the same leading
/// dimension. A launch needs rows, cols >= 1.
struct RowParams {
  // The fields that most kernels read come first: a launch's parameters reach
  // an SM by lines of 64 bytes, and small kernels wait for each of them.
  const void *x = nullptr;      ///< rows x cols
  void *y = nullptr;            ///< rows x cols; for a reduction rows values,
                                ///< or one
  const void *weight = nullptr; ///< cols values
  long long rows = 0, cols = 0;
  long long ldx = 0, ldy = 0;
  float epsilon = 0; ///< for norms
  float scale = 1;   ///< for softmax, or of the `Scale` link

  const void *bias = nullptr;     ///< cols values
  const void *residual = nullptr; ///< rows x cols
  void *residualOut = nullptr;    ///< rows x cols
  const void *mask = nullptr;     ///< rows x cols, or cols values
  float *scales = nullptr; ///< a value for each row, or for each of its blocks
  long long ldResidual = 0, ldResidualOut = 0;
  long long ldMask = 0; ///< 0: one row of the mask for all rows

  /// Reductions whose rows are cut into ranges: partial results, zeroed
  /// counters, the number of ranges of a row, and whether all rows count as
  /// one. Rows that blocks all over the GPU keep: a zeroed exchange, and the
  /// number of blocks of a row.
  float *partials = nullptr;
  unsigned *counters = nullptr;
  int ranges = 1;
  int allRows = 0;

  /// The chain's operands, by link: rows x cols, or cols values. A non-null
  /// pointer to the factor of the `Scale` link wins over `scale`.
  const void *links[PointwiseChain::kMaxOps] = {};
  long long ldLink = 0; ///< of every matrix among them
  const float *scalePtr = nullptr;
  /// Block scales: from row to row, and from block to block of a row.
  long long scaleRowStride = 0, scaleBlockStride = 0;
};

/// Parameters of the reference: rows [rowBegin, rowEnd) of one output.
struct ReferenceRowParams {
  RowParams row;
  int output = 0; ///< index of the operand, see RowOperand
  /// A line of block scales has one scale of each row.
  bool scalesAlongRows = false;
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr; ///< (rowEnd - rowBegin) x columns, packed
  double *bound = nullptr;     ///< same shape: the error scale of each element
};

/// The operands of a problem over rows, in the order of Arguments::operands.
struct RowOperand {
  enum : int { X, Y, Weight, Bias, Residual, ResidualOut, Mask, Scales, Count };
};

} // namespace kiln
