//===- combine/CombineParams.h - run-time parameters of combine -----------===//
//
// Filled by the host, passed by value as the one parameter of every kernel of
// the family. Compiled by the host compiler and by NVRTC: plain types only.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// Operands and extents of one launch; include/kiln/moe.h has their meaning.
/// Operands that the problem does not have are null.
struct CombineParams {
  const void *x = nullptr; ///< tokens * topK x cols
  void *y = nullptr;
  const void *shared = nullptr, *residual = nullptr;
  void *residualOut = nullptr;
  const void *normWeight = nullptr;
  const float *weights = nullptr; ///< tokens x topK
  int applies = 0;                ///< weights are factors
  long long ldx = 0, ldy = 0, ldShared = 0, ldResidual = 0, ldResidualOut = 0;
  long long tokens = 0;
  int cols = 0, topK = 1;
  float epsilon = 0;
  int pieces = 1; ///< of a token, each of a block
};

/// Parameters of the reference: rows [rowBegin, rowEnd) of one output.
struct ReferenceCombineParams {
  CombineParams combine;
  int isSum = 0; ///< the output is the sum, not its norm
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr; ///< (rowEnd - rowBegin) x cols, packed
  double *bound = nullptr;     ///< same shape
};

} // namespace kiln
