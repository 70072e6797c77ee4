//===- AllReduceProblem.h - an all-reduce, typed --------------------------===//
//
// The typed form of the values "allreduce rows=.. cols=.. ranks=.." and of
// their signature. Which rank a launch is for is not a part of the problem: all
// ranks of a group have the same one, and so take the same kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Values.h"
#include "allreduce/AllReduceSignature.h"
#include "allreduce/ExchangeLayout.h"

namespace kiln {

/// Sizes and leading dimensions in elements. Derived defaults are resolved.
struct AllReduceProblem {
  int64_t rows = 0, cols = 0;
  int64_t ranks = 2;
  DType dtype = DType::BF16;
  bool residual = false, norm = false;
  double epsilon = 0;
  int64_t ldx = 0, ldy = 0, ldResidual = 0, ldResidualOut = 0;
  /// Operands are multiples of this many bytes, and of their own elements'.
  int64_t align = 16;

  bool hasResidualOut() const { return residual && norm; }
  double elements() const { return double(rows) * double(cols); }
  int64_t rowBytes() const { return cols * bytesOf(dtype); }
  /// Bytes from row to row in exchange memory.
  int64_t pitch() const { return ExchangeLayout::roundedUp(rowBytes()); }
};

/// Indices of the fields of allReduceProblemSchema(), in its order.
struct AllReduceField {
  enum : int {
    Rows,
    Cols,
    Ranks,
    DType,
    Residual,
    Norm,
    Epsilon,
    LdX,
    LdY,
    LdResidual,
    LdResidualOut,
    Align,
    Count
  };
};

/// Operands in the order of Arguments::operands. The exchange memories, one for
/// each rank, are not in the operand table: a trial has none, and its rank is
/// alone. The first has its bytes as the leading dimension, and as the batch
/// stride the rank of the launch.
struct AllReduceOperand {
  enum : int {
    X,
    Y,
    Weight,
    Residual,
    ResidualOut,
    InTable,
    Exchange = InTable,
    Count = Exchange + kMostRanks
  };
};

/// Scalars in the order of Arguments::scalars.
struct AllReduceScalar {
  enum : int { Epsilon };
};

/// Schema of the family's problems. Made at the first use and kept;
/// thread-safe.
const Schema &allReduceProblemSchema();

/// Reads the values of a problem in schema order, and resolves derived
/// defaults. Nanoseconds: called on every launch.
AllReduceProblem readAllReduceProblem(const int64_t *values);

/// The part of \p problem that is fixed at compile time.
AllReduceSignature signatureOf(const AllReduceProblem &problem);

/// Converts a signature to values, and back.
Values toValues(const AllReduceSignature &signature);
AllReduceSignature readAllReduceSignature(const Values &values);

/// A designated initialiser: "{.type = kiln::DType::BF16, ...}".
std::string initializerText(const AllReduceSignature &signature);

} // namespace kiln
