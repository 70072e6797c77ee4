//===- GatherProblem.h - a gather, typed ----------------------------------===//
//
// The typed form of the values "gather rows=.. cols=.. xrows=.." and of their
// signature. y[targets[i]] = scale * x[indices[i] / divisor - first].
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Values.h"
#include "common/Types.h"
#include "gather/GatherSignature.h"

#include <algorithm>

namespace kiln {

/// The arrays that a problem has. Values are in texts and keys.
enum class GatherBy : int { Indices = 0, Targets = 1, Both = 2 };

/// Sizes and leading dimensions in elements. Derived defaults are resolved.
struct GatherProblem {
  int64_t batch = 1;
  int64_t rows = 0, cols = 0; ///< rows that are moved
  DType dtype = DType::BF16, out = DType::BF16;
  GatherBy by = GatherBy::Indices;
  DType index = DType::INT32; ///< of both arrays
  int64_t xRows = 0, yRows = 0;
  int64_t first = 0, divisor = 1;
  double scale = 0; ///< 0: none
  int64_t ldx = 0, ldy = 0;
  /// x and y are multiples of this many bytes, and of their own elements'.
  int64_t align = 16;

  bool hasIndices() const { return by != GatherBy::Targets; }
  bool hasTargets() const { return by != GatherBy::Indices; }
  /// Bits, without arithmetic.
  bool moves() const { return out == dtype && scale == 0; }
  /// Bytes of an element of the wider type.
  int64_t widerBytes() const { return std::max(bytesOf(dtype), bytesOf(out)); }
  /// Elements of all rows that are moved.
  double elements() const {
    return double(batch) * double(rows) * double(cols);
  }
  /// The rows of x that as many indices name, where these differ.
  int64_t differentRows() const;
  /// Bytes of the arrays.
  double arrayBytes() const {
    const int arrays = hasIndices() + hasTargets();
    return double(rows) * arrays * bytesOf(index);
  }
};

/// Indices of the fields of gatherProblemSchema(), in its order.
struct GatherField {
  enum : int {
    Rows,
    Cols,
    DType,
    Out,
    Batch,
    By,
    Index,
    XRows,
    YRows,
    First,
    Divisor,
    Scale,
    LdX,
    LdY,
    Align,
    Count
  };
};

/// Operands in the order of Arguments::operands.
struct GatherOperand {
  enum : int { X, Y, Indices, Targets, Count };
};

/// Scalars in the order of Arguments::scalars.
struct GatherScalar {
  enum : int { Scale };
};

/// Schema of the family's problems. Made at the first use and kept;
/// thread-safe.
const Schema &gatherProblemSchema();

/// The default of xrows: the rows of x that as many indices name in turn. Any
/// number for values that no problem has.
constexpr int64_t namedRows(int64_t rows, int64_t divisor) {
  return rows > 0 && divisor > 0 ? (rows - 1) / divisor + 1 : rows;
}

inline int64_t GatherProblem::differentRows() const {
  return namedRows(rows, divisor);
}

/// Reads the values of a problem in schema order, and resolves derived
/// defaults. Nanoseconds: called on every launch.
GatherProblem readGatherProblem(const int64_t *values);

/// The part of \p problem that is fixed at compile time.
GatherSignature signatureOf(const GatherProblem &problem);

/// Converts a signature to values, and back.
Values toValues(const GatherSignature &signature);
GatherSignature readGatherSignature(const Values &values);

/// A designated initialiser: "{.in = kiln::DType::None, ...}".
std::string initializerText(const GatherSignature &signature);

} // namespace kiln
