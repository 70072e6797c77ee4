//===- allreduce/AllReduceParams.h - run-time parameters ------------------===//
//
// Filled by the host, passed by value as the one parameter of every kernel of
// the family. Compiled by the host compiler and by NVRTC: plain types only.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "allreduce/AllReduceSignature.h"

namespace kiln {

/// Operands of one launch; leading dimensions in elements. Pointers that the
/// signature does not use are ignored. y may be x, and residualOut residual. A
/// launch needs rows, cols >= 1.
struct AllReduceParams {
  const void *x = nullptr, *residual = nullptr;
  void *y = nullptr, *residualOut = nullptr;
  const void *weight = nullptr; ///< cols values
  long long rows = 0, cols = 0;
  long long ldx = 0, ldResidual = 0, ldy = 0, ldResidualOut = 0;
  float epsilon = 0;
};

/// Parameters of pushRows.
struct PushRowsParams {
  AllReduceParams operands;
  /// Exchange memory of each rank as this one sees it.
  char *exchange[kMostRanks] = {};
  int rank = 0;
  /// There is no exchange memory: the rank's own input stands for those of its
  /// peers.
  int isAlone = 0;
  /// Each row is summed by one rank, its owner (row % ranks), which sends the
  /// sum to all.
  int hasOwners = 0;
  /// Bytes of a half of exchange memory, of one rank's inputs in it, and from
  /// row to row of these.
  long long halfBytes = 0, inboxBytes = 0, pitch = 0;
  /// Nanoseconds after which a rank that does not come is an error.
  unsigned long long limitNs = 0;
};

/// Parameters of the reference, for a rank that is alone: rows [rowBegin,
/// rowEnd) of y or of residualOut.
struct ReferenceAllReduceParams {
  AllReduceParams operands;
  int ranks = 2;
  int hasResidual = 0, hasNorm = 0;
  int ofResidualOut = 0;
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr; ///< (rowEnd - rowBegin) x cols, packed
  double *bound = nullptr;     ///< same shape: the error scale of each element
};

} // namespace kiln
