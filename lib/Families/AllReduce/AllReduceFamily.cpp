//===- AllReduceFamily.cpp ------------------------------------------------===//
#include "Families/AllReduce/AllReduceFamily.h"

#include "Families/Families.h"
#include "Families/ProblemFields.h"
#include "Families/Rounding.h"
#include "Support/Error.h"

namespace kiln {

namespace {

class AllReduceFamily final : public KernelFamily {
public:
  AllReduceFamily() { addTemplate(makePushRowsTemplate()); }

  llvm::StringRef name() const override { return "allreduce"; }
  const Schema &problemSchema() const override {
    return allReduceProblemSchema();
  }
  const CallReader *call() const override { return &kAllReduceCall; }
  llvm::Expected<Problem> canonicalise(Values values) const override;

  bool isEmpty(const Problem &problem) const override {
    const AllReduceProblem p = read(problem);
    return p.rows == 0 || p.cols == 0;
  }

  OperandTable operands(const Problem &problem) const override;

  llvm::StringRef example() const override {
    return "rows=64 cols=4096 ranks=2 dtype=bf16 residual=1 norm=1";
  }
  PoolDraws poolDraws(const Values &described) const override;
  Peer peer(const Problem &) const override { return Peer::Stream; }

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return makeAllReduceReference(read(problem), device);
  }

  /// The operations of one rank: sum, residual, square, mean, two products.
  double flops(const Problem &problem) const override {
    const AllReduceProblem p = read(problem);
    return p.elements() * (double(p.ranks) - 1 + p.residual + (p.norm ? 4 : 0));
  }

private:
  static AllReduceProblem read(const Problem &problem) {
    return readAllReduceProblem(problem.values.array().data());
  }
};

} // namespace

/// Rows of models, and batches of decoding and of prefill.
PoolDraws AllReduceFamily::poolDraws(const Values &described) const {
  using F = AllReduceField;
  constexpr int64_t kMostCols = 16384;
  const int64_t step =
      elementsOfVector(readAllReduceProblem(described.array().data()).dtype);
  PoolDraws draws;
  draws.layer = {{.field = F::Cols, .high = kMostCols, .step = step}};
  draws.extents = {{.field = F::Rows, .high = kMostDrawn}};
  return draws;
}

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

namespace {
/// One leading dimension: its field and its resolved value.
struct RowPitch {
  int field;
  int64_t value;
  bool isRead; ///< false: the problem has no such operand
};
} // namespace

static llvm::SmallVector<RowPitch, 4> pitchesOf(const AllReduceProblem &p) {
  using F = AllReduceField;
  return {{F::LdX, p.ldx, true},
          {F::LdY, p.ldy, true},
          {F::LdResidual, p.ldResidual, p.residual},
          {F::LdResidualOut, p.ldResidualOut, p.hasResidualOut()}};
}

static llvm::Error checkAllReduce(const AllReduceProblem &p) {
  const Schema &schema = allReduceProblemSchema();
  if (p.epsilon < 0)
    return makeError(ErrorCode::InvalidArgument, "{}: eps={} is below 0",
                     schema.name(), p.epsilon);
  if (auto error = checkScalar(schema.name(), "eps", p.epsilon))
    return error;
  if (auto error = checkAlign(schema.name(), p.align, bytesOf(p.dtype)))
    return error;
  for (const RowPitch &ld : pitchesOf(p))
    if (ld.isRead)
      if (auto error =
              checkMatrix(schema.name(), schema.fields()[size_t(ld.field)].key,
                          p.rows, p.cols, ld.value))
        return error;
  return llvm::Error::success();
}

llvm::Expected<Problem> AllReduceFamily::canonicalise(Values values) const {
  if (auto error = values.check())
    return error;
  const AllReduceProblem p = readAllReduceProblem(values.array().data());
  if (auto error = checkAllReduce(p))
    return error;
  // Values that equal a derived default, or are never read, become the default.
  for (const RowPitch &ld : pitchesOf(p))
    if (!ld.isRead || ld.value == p.cols)
      values.set(size_t(ld.field), 0);
  return Problem{std::move(values), toValues(signatureOf(p))};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

OperandTable AllReduceFamily::operands(const Problem &problem) const {
  using O = AllReduceOperand;
  const AllReduceProblem p = read(problem);
  OperandTable table;
  table.operands.resize(O::InTable);
  auto describe = [&](int index, llvm::StringRef name, OperandRole role,
                      int64_t ld, bool isPresent) -> OperandSpec & {
    OperandSpec &spec = table.operands[size_t(index)];
    spec.name = name;
    spec.role = role;
    spec.type = p.dtype;
    spec.rows = p.rows;
    spec.cols = p.cols;
    spec.leadingDimension = ld;
    spec.misalignment = misalignmentOf(p.align, p.dtype);
    spec.present = isPresent;
    return spec;
  };
  // Ten roundings of fp32 lead to an element: statistics, root, products.
  constexpr double kElement = 6e-7;
  OperandSpec &x = describe(O::X, "x", OperandRole::In, p.ldx, true);
  x.outliers.outlierPeriod = 64;
  x.outliers.outlier = 1e4;
  OperandSpec &y = describe(O::Y, "y", OperandRole::Out, p.ldy, true);
  y.tolerance = roundedTolerance(p.dtype, kElement);
  if (p.ldy == p.ldx)
    y.mayBe = O::X;
  OperandSpec &weight =
      describe(O::Weight, "weight", OperandRole::Constant, 0, p.norm);
  weight.rows = 1;
  describe(O::Residual, "residual", OperandRole::In, p.ldResidual, p.residual);
  OperandSpec &sum = describe(O::ResidualOut, "residual_out", OperandRole::Out,
                              p.ldResidualOut, p.hasResidualOut());
  sum.tolerance = roundedTolerance(p.dtype, kElement);
  if (p.ldResidualOut == p.ldResidual)
    sum.mayBe = O::Residual;
  return table;
}

std::unique_ptr<KernelFamily> makeAllReduceFamily() {
  return std::make_unique<AllReduceFamily>();
}

} // namespace kiln
