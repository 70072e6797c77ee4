//===- prepack/PrepackParams.h - run-time parameters ----------------------===//
//
// Filled by the host, passed by value as the one parameter of every kernel of
// the family. Compiled by the host compiler and by NVRTC: plain types only.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// Operands of one launch: a weight as in a checkpoint (PrepackSource.h), and
/// packed (common/PackedWeights.h). n, k >= 1.
struct PrepackParams {
  const void *weights = nullptr, *scales = nullptr, *zeros = nullptr;
  void *packed = nullptr, *packedScales = nullptr, *packedZeros = nullptr;
  long long n = 0, k = 0;
};

/// Parameters of the reference: rows [rowBegin, rowEnd) of one result; a row
/// stands for 64 rows of the weight.
struct ReferencePrepackParams {
  PrepackParams prepack;
  int operand = 0;       ///< 0: the weights, 1: their scales, 2: their zeros
  long long columns = 0; ///< of a row of the result
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr; ///< (rowEnd - rowBegin) x columns, packed
  double *bound = nullptr;     ///< same shape; 0: a copy makes no error
};

} // namespace kiln
