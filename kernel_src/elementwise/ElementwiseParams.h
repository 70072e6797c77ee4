//===- elementwise/ElementwiseParams.h - run-time parameters --------------===//
//
// Filled by the host, passed by value as the one parameter of the family's
// kernels. Compiled by the host compiler and by NVRTC: plain types only.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// Operands and extents of one launch. Leading dimensions count elements of
/// their operand's type. y may be x where their elements are equally wide and
/// their leading dimensions equal. A launch needs rows, cols >= 1.
struct ElementwiseParams {
  const void *x = nullptr; ///< rows x cols
  void *y = nullptr;       ///< rows x cols
  /// Operand of each link; ignored where a link has none.
  const void *operands[PointwiseChain::kMaxOps] = {};

  long long rows = 0, cols = 0;
  long long ldx = 0, ldy = 0;
  long long ldOperand = 0; ///< of every matrix that a link reads

  /// The factor of the `Scale` link. A non-null pointer to device memory wins.
  const float *scalePtr = nullptr;
  float scale = 1.0f;
};

/// Parameters of flatElementwise: the operands, and the launch counted in
/// vectors of the config's elements. FlatElementwiseConfig::fillGeometry makes
/// them.
struct FlatElementwiseParams {
  // These come first, so that a small chain reads one line of parameters only.
  long long chunks = 0;     ///< pieces of threads * items vectors
  long long fullChunks = 0; ///< the first ones, in which all vectors exist

  /// For a line: whole vectors.
  long long vectors = 0;

  ElementwiseParams operands;

  /// For runs of rows: a thread's items lie below each other, rowStep rows
  /// apart, and form a run. A group has vectorsPerRow runs side by side, and
  /// each group begins groupRows rows below the one before.
  long long runs = 0;
  unsigned vectorsPerRow = 1;
  unsigned rowStep = 1, groupRows = 1;
};

/// Parameters of referenceElementwise: rows [rowBegin, rowEnd).
struct ReferenceElementwiseParams {
  ElementwiseParams operands;
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr; ///< (rowEnd - rowBegin, cols), packed
  double *bound = nullptr;     ///< same shape: the error scale of each element
};

} // namespace kiln
