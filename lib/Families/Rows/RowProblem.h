//===- RowProblem.h - a problem over rows, typed --------------------------===//
//
// rmsnorm, layernorm, softmax, rowquant and reduce are families of their own to
// users, with only the fields that each needs, but one kind of problem to the
// kernels. A RowKind names a family's fields; the schema, the operands and the
// reading of values follow from it. To the kernels a chain whose result is
// quantised, a problem of the family elementwise, is a quantisation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/OperandScales.h"
#include "Families/Rows/RowFields.h"
#include "Kernel/Operand.h"
#include "Kernel/Values.h"
#include "rows/RowParams.h"
#include "rows/RowSignature.h"

namespace kiln {

/// Sizes and leading dimensions in elements. Leading dimensions are resolved: a
/// mask of one row has 0.
struct RowProblem {
  RowOp op = RowOp::RmsNorm;
  int64_t rows = 0, cols = 0;
  DType dtype = DType::BF16, out = DType::BF16;
  bool weight = false, bias = false, residual = false;
  RowMask mask = RowMask::None;
  bool allRows = false; ///< a reduction of all rows to one value
  double epsilon = 0, scale = 1;
  int64_t ldx = 0, ldy = 0, ldResidual = 0, ldResidualOut = 0, ldMask = 0;
  OperandScales scaleY; ///< of a quantised y, which always has some
  PointwiseChain chain; ///< of a quantisation
  int64_t ldLink = 0;   ///< of every matrix that the chain reads
  /// Every pointer is a multiple of this many bytes, and of its own element's.
  int64_t align = 16;

  bool isNorm() const { return op == RowOp::RmsNorm || op == RowOp::LayerNorm; }
  bool quantizes() const { return out == DType::E4M3 || out == DType::INT8; }
  /// RowSignature::matrices() and sharedRows().
  int64_t matrices() const;
  int64_t sharedRows() const;
};

/// The family's name, and its schema's: "rmsnorm". Not for Pointwise.
llvm::StringRef nameOf(RowKind kind);

/// Schema of a family's problems: the fields that fieldIndex() finds, or for
/// Pointwise those of elementwise problems. Made at the first use and kept;
/// thread-safe.
const Schema &rowProblemSchema(RowKind kind);

/// Reads the values of a problem, in its schema's order, and resolves derived
/// defaults. Nanoseconds: called on every launch.
RowProblem readRowProblem(RowKind kind, const int64_t *values);

/// The part of \p problem that is fixed at compile time.
RowSignature signatureOf(const RowProblem &problem);
/// Converts a signature to values, and back.
Values toValues(const RowSignature &signature);
RowSignature readRowSignature(const Values &values);
/// A designated initialiser: "{.op = kiln::RowOp::RmsNorm, ...}".
std::string initializerText(const RowSignature &signature);

/// Fills in the parameters that no config changes: operands, extents, scalars,
/// and whether all rows count as one. Nanoseconds; allocates nothing.
RowParams makeRowParams(RowKind kind, const RowProblem &problem,
                        const Arguments &arguments);

} // namespace kiln
