//===- TransposeFamily.cpp ------------------------------------------------===//
#include "Families/Transpose/TransposeFamily.h"

#include "Families/Families.h"
#include "Families/ProblemFields.h"
#include "Families/Transpose/TransposeProblem.h"

#include <utility>

namespace kiln {

namespace {

class TransposeFamily final : public KernelFamily {
public:
  TransposeFamily() {
    addTemplate(makeTiledTransposeTemplate());
    addTemplate(makeShiftedTransposeTemplate());
    addTemplate(makeLineTransposeTemplate());
  }

  llvm::StringRef name() const override { return "transpose2d"; }
  const Schema &problemSchema() const override {
    return transposeProblemSchema();
  }

  const CallReader *call() const override { return &kTransposeCall; }
  llvm::Expected<Problem> canonicalise(Values values) const override;

  bool isEmpty(const Problem &problem) const override {
    TransposeProblem p = read(problem);
    return p.rows == 0 || p.cols == 0;
  }

  OperandTable operands(const Problem &problem) const override;

  llvm::StringRef example() const override {
    return "rows=4096 cols=8192 dtype=bf16";
  }
  PoolDraws poolDraws(const Values &described) const override;
  Peer peer(const Problem &) const override { return Peer::Stream; }

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return makeTransposeReference(read(problem).dtype, device);
  }

  double flops(const Problem &) const override { return 0; }

private:
  static TransposeProblem read(const Problem &problem) {
    return readTransposeProblem(problem.values.array().data());
  }
};

} // namespace

/// Matrices of any size; the alignment follows from both sides.
PoolDraws TransposeFamily::poolDraws(const Values &described) const {
  using F = TransposeField;
  const int64_t step =
      elementsOfVector(readTransposeProblem(described.array().data()).dtype);
  PoolDraws draws;
  draws.layer = {{.field = F::Cols, .high = kMostDrawn, .step = step}};
  draws.extents = {{.field = F::Rows, .high = kMostDrawn, .step = step}};
  return draws;
}

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

llvm::Expected<Problem> TransposeFamily::canonicalise(Values values) const {
  if (auto error = values.check())
    return error;
  TransposeProblem p = readTransposeProblem(values.array().data());
  if (auto error = checkAlign(name(), p.align, bytesOf(p.dtype)))
    return error;
  if (auto error = checkMatrix(name(), "ldx", p.rows, p.cols, p.ldx))
    return error;
  if (auto error = checkMatrix(name(), "ldy", p.cols, p.rows, p.ldy))
    return error;
  // Values that equal a derived default become the default.
  if (p.ldx == p.cols)
    values.set(TransposeField::Ldx, 0);
  if (p.ldy == p.rows)
    values.set(TransposeField::Ldy, 0);
  return Problem{std::move(values), toValues(signatureOf(p))};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

OperandTable TransposeFamily::operands(const Problem &problem) const {
  TransposeProblem p = read(problem);
  OperandSpec x;
  x.name = "x";
  x.role = OperandRole::In;
  x.type = p.dtype;
  x.rows = p.rows;
  x.cols = p.cols;
  x.leadingDimension = p.ldx;
  x.misalignment = misalignmentOf(p.align, p.dtype);
  // All of a byte's values should occur, not only those next to zero.
  constexpr double kInt8Deviation = 40;
  if (p.dtype == DType::INT8)
    x.usual.deviation = kInt8Deviation;
  // No arithmetic is done, so no value can break it: large ones serve as
  // outliers.
  x.outliers = x.usual;
  x.outliers.outlierPeriod = 64;
  x.outliers.outlier = bytesOf(p.dtype) == 1 ? 100 : 10000;

  OperandSpec y = x;
  y.name = "y";
  y.role = OperandRole::Out;
  std::swap(y.rows, y.cols);
  y.leadingDimension = p.ldy;
  y.tolerance = {0, 0, 0};
  OperandTable table;
  table.operands = {x, y};
  return table;
}

std::unique_ptr<KernelFamily> makeTransposeFamily() {
  return std::make_unique<TransposeFamily>();
}

} // namespace kiln
