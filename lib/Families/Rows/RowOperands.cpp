//===- RowOperands.cpp - operands, data and tolerances over rows ----------===//
//
// Usual data is N(0, 1). Outliers break careless arithmetic: a mean far above
// the deviation (a variance from sums of squares cancels), exponents far beyond
// the range of exp, rows that are masked out or zero.
//
//===----------------------------------------------------------------------===//
#include "Families/Rows/RowFamily.h"

#include "Families/ProblemFields.h"
#include "Families/Rounding.h"
#include "rows/RowParams.h"

#include <limits>

namespace kiln {

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Rare enough that many rows of usual length have no outlier, and so differ.
static constexpr int kRare = 10007, kFrequent = 1009, kVeryFrequent = 61;
/// The period of rows that are all zeros, or all minus infinity.
static constexpr int kRowPeriod = 3;

static OperandInit outliersOfX(const RowProblem &p) {
  OperandInit init;
  switch (p.op) {
  case RowOp::RmsNorm:
  case RowOp::LayerNorm:
    init.mean = 300;
    init.outlierPeriod = kRare;
    init.outlier = p.quantizes() ? 1e4 : 1e3;
    init.rowPeriod = p.quantizes() ? kRowPeriod : 0;
    break;
  case RowOp::Softmax:
    init.outlierPeriod = kRare;
    init.outlier = 1e4;
    init.minusInfinityPeriod = kVeryFrequent;
    init.rowPeriod = kRowPeriod;
    init.rowValue = -kInfinity;
    break;
  case RowOp::Max:
    init.outlierPeriod = kFrequent;
    init.outlier = 1e4;
    init.minusInfinityPeriod = kVeryFrequent;
    init.rowPeriod = kRowPeriod;
    init.rowValue = -kInfinity;
    break;
  case RowOp::Quantize:
    init.rowPeriod = kRowPeriod;
    [[fallthrough]];
  case RowOp::Sum:
  case RowOp::Mean:
  case RowOp::SumSquares:
    init.outlierPeriod = kFrequent;
    init.outlier = 1e4;
    break;
  }
  return init;
}

/// Zero in the rows in which x is zero, so that the sum of both is zero, too.
static OperandInit outliersOfResidual(const RowProblem &p) {
  OperandInit init;
  init.rowPeriod = p.quantizes() ? kRowPeriod : 0;
  return init;
}

static OperandInit outliersOfMask() {
  OperandInit init;
  init.minusInfinityPeriod = 7;
  return init;
}

//===----------------------------------------------------------------------===//
// Tolerances
//===----------------------------------------------------------------------===//

/// Ten roundings of fp32 lead to an element: statistics, root, products.
static constexpr double kElement = 6e-7;
/// The error of sums of any length, relative to the sum of magnitudes.
static constexpr double kSum = 1e-6;

static Tolerance toleranceOfY(const RowProblem &p) {
  if (p.op == RowOp::Max) // computes nothing
    return {1.01 * halfUlp(p.out), 0, roundingFloor(p.out)};
  return roundedTolerance(p.out, isReduction(p.op) ? kSum : kElement);
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {
/// Builds the table of one problem.
class TableBuilder {
public:
  TableBuilder(const RowProblem &p, OperandTable &table)
      : p(p), next(table.operands.begin()) {}

  OperandSpec &add(llvm::StringRef name, OperandRole role, DType type,
                   bool present) {
    OperandSpec &spec = *next++;
    spec.name = name;
    spec.role = role;
    spec.type = type;
    spec.present = present;
    spec.misalignment = misalignmentOf(p.align, type);
    return spec;
  }
  OperandSpec &addMatrix(llvm::StringRef name, OperandRole role, DType type,
                         int64_t leadingDimension, bool present) {
    OperandSpec &spec = add(name, role, type, present);
    spec.rows = p.rows;
    spec.cols = p.cols;
    spec.leadingDimension = leadingDimension;
    return spec;
  }
  /// Adds one row for all rows.
  OperandSpec &addRow(llvm::StringRef name, bool present) {
    OperandSpec &spec = add(name, OperandRole::Constant, p.dtype, present);
    spec.rows = 1;
    spec.cols = p.cols;
    return spec;
  }
  /// Adds a column of one value for each of \p rows rows.
  OperandSpec &addColumn(llvm::StringRef name, DType type, int64_t rows,
                         bool present) {
    OperandSpec &spec = add(name, OperandRole::Out, type, present);
    spec.rows = rows;
    spec.cols = spec.leadingDimension = 1;
    return spec;
  }

  void addY() {
    if (isReduction(p.op)) {
      addColumn("y", p.out, p.allRows ? 1 : p.rows, true).tolerance =
          toleranceOfY(p);
      return;
    }
    OperandSpec &y = addMatrix("y", OperandRole::Out, p.out, p.ldy, true);
    y.tolerance = toleranceOfY(p);
    if (bytesOf(p.out) == bytesOf(p.dtype) && p.ldy == p.ldx)
      y.mayBe = RowOperand::X;
  }

private:
  const RowProblem &p;
  OperandSpec *next;
};
} // namespace

OperandTable rowOperands(const RowProblem &p) {
  OperandTable table;
  table.operands.resize(RowOperand::Count);
  TableBuilder builder(p, table);
  builder.addMatrix("x", OperandRole::In, p.dtype, p.ldx, true).outliers =
      outliersOfX(p);
  builder.addY();
  builder.addRow("weight", p.weight);
  builder.addRow("bias", p.bias);
  builder
      .addMatrix("residual", OperandRole::In, p.dtype, p.ldResidual, p.residual)
      .outliers = outliersOfResidual(p);
  OperandSpec &sum = builder.addMatrix("residual_out", OperandRole::Out,
                                       p.dtype, p.ldResidualOut, p.residual);
  sum.tolerance = roundedTolerance(p.dtype, kElement);
  if (p.ldResidualOut == p.ldResidual)
    sum.mayBe = RowOperand::Residual;
  OperandSpec &mask =
      p.mask == RowMask::Row
          ? builder.addRow("mask", true)
          : builder.addMatrix("mask", OperandRole::In, p.dtype, p.ldMask,
                              p.mask == RowMask::Matrix);
  mask.outliers = outliersOfMask();
  OperandSpec &scales =
      builder.addColumn("scales", DType::FP32, p.rows, p.quantizes());
  scales.tolerance = roundedTolerance(DType::FP32, kElement);
  p.scaleY.describe(p.rows, p.cols, scales);
  return table;
}

} // namespace kiln
