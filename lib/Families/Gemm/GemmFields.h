//===- GemmFields.h - the order of a GEMM's fields and operands -----------===//
//
// A GEMM problem is made of parts (GemmProblem.h). The order of their fields
// and operands is that in which the features came: texts and keys keep it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Values.h"
#include "common/Types.h"

#include <cstdint>

namespace kiln {

/// Indices of the fields of gemmProblemSchema(): the order of a problem's text.
/// Each part says what its own fields are.
struct GemmField {
  enum : int {
    M,
    N,
    K,
    DType,
    Out,
    Compute,
    Layout,
    Batch,
    Pointwise,
    Alpha,
    Beta,
    Lda,
    Ldb,
    Ldc,
    Ldd,
    LdResidual,
    Align,
    TypeB,
    ScaleA,
    ScaleB,
    ScaleOrderA,
    ScaleOrderB,
    LdScaleA,
    LdScaleB,
    OrderB,
    ScaleTypeB,
    ZeroB,
    Groups,
    Room,
    GroupAlign,
    Gather,
    Divisor,
    Scatter,
    RowWeights,
    ZeroA,
    ScaleD,
    ScaleOrderD,
    LdScaleD,
    Count,
    // Values that only a part of the rows of groups with ends has: such
    // problems have neither a C nor a room.
    FirstRow = Ldc,
    AllRows = Room,
  };
};

/// Operands in the order of Arguments::operands. Each part describes its own.
struct GemmOperand {
  enum : int {
    A,
    B,
    C,
    D,
    Bias,
    Residual,
    ScaleA,
    ScaleB,
    ZeroB,
    GroupSizes,
    RowIndex,
    RowWeights,
    ZeroA,
    ColumnSumsB, ///< where A has zero points
    ScaleD,
    Count
  };
};

/// Scalars in the order of Arguments::scalars.
struct GemmScalar {
  enum : int { Alpha, Beta };
};

/// The value of \p field, or \p otherwise where it is 0, the default.
inline int64_t valueOr(const int64_t *values, int field, int64_t otherwise) {
  return values[field] ? values[field] : otherwise;
}

/// As valueOr(), of types.
inline DType typeOr(const int64_t *values, int field, DType otherwise) {
  return values[field] ? static_cast<DType>(values[field]) : otherwise;
}

/// Sets \p field to 0, its default, where \p isDefault: it equals a default
/// that follows from other fields, or is never read.
inline void resetIf(bool isDefault, int field, Values &values) {
  if (isDefault)
    values.set(field, 0);
}

} // namespace kiln
