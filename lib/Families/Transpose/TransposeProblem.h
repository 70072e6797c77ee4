//===- TransposeProblem.h - a transposition, typed ------------------------===//
//
// The typed form of the values "transpose2d rows=.. cols=.." and of their
// signature. y[c, r] = x[r, c].
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Values.h"
#include "common/Types.h"
#include "transpose/TransposeSignature.h"

namespace kiln {

/// Sizes and leading dimensions in elements. Leading dimensions are resolved:
/// never 0 after canonicalise(), except where a row is empty.
struct TransposeProblem {
  int64_t rows = 0, cols = 0; ///< of x
  DType dtype = DType::BF16;
  int64_t ldx = 0, ldy = 0;
  /// Every pointer is a multiple of this many bytes, and of its own element's.
  int64_t align = 16;

  /// Bytes of the elements of x, or of y, without gaps between rows.
  double bytes() const { return double(rows) * double(cols) * bytesOf(dtype); }
};

/// Indices of the fields of transposeProblemSchema(), in its order.
struct TransposeField {
  enum : int { Rows, Cols, DType, Ldx, Ldy, Align };
};

/// Operands in the order of Arguments::operands.
struct TransposeOperand {
  enum : int { X, Y, Count };
};

/// Schema of the family's problems. Made at the first use and kept;
/// thread-safe.
const Schema &transposeProblemSchema();

/// Reads the values of a problem in schema order, and resolves derived
/// defaults. Nanoseconds: called on every launch.
TransposeProblem readTransposeProblem(const int64_t *values);

/// Signature of a problem: the alignment that pointers, leading dimensions and
/// extents have in common.
TransposeSignature signatureOf(const TransposeProblem &problem);

/// Converts a signature to values, and back.
Values toValues(const TransposeSignature &signature);
TransposeSignature readTransposeSignature(const Values &values);

/// A designated initialiser: "{.elementBytes = 2, .align = 16}".
std::string initializerText(const TransposeSignature &signature);

} // namespace kiln
