//===- CombineFamily.cpp --------------------------------------------------===//
#include "Families/Combine/CombineFamily.h"

#include "Families/Families.h"
#include "Families/ProblemFields.h"
#include "Support/Error.h"

namespace kiln {

namespace {

class CombineFamily final : public KernelFamily {
public:
  CombineFamily() { addTemplate(makeRowCombineTemplate()); }

  llvm::StringRef name() const override { return "combine"; }
  const Schema &problemSchema() const override {
    return combineProblemSchema();
  }
  const CallReader *call() const override { return &kCombineCall; }

  llvm::Expected<Problem> canonicalise(Values values) const override;

  bool isEmpty(const Problem &problem) const override {
    return read(problem).isEmpty();
  }

  OperandTable operands(const Problem &problem) const override;

  /// The number of tokens is in no signature.
  int64_t signaturePeriod() const override { return 1; }

  llvm::StringRef example() const override {
    return "tokens=64 cols=4096 topk=8 dtype=bf16 residual=1 norm=1 eps=1e-6";
  }
  PoolDraws poolDraws(const Values &described) const override;
  Peer peer(const Problem &) const override { return Peer::Stream; }

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return makeCombineReference(problem, device);
  }

  double flops(const Problem &) const override { return 0; }

private:
  static CombineProblem read(const Problem &problem) {
    return readCombineProblem(problem.values.array().data());
  }
};

} // namespace

/// Rows of models, and batches of decoding and of prefill.
PoolDraws CombineFamily::poolDraws(const Values &described) const {
  using F = CombineField;
  constexpr int64_t kMostCols = 16384;
  const int64_t step =
      elementsOfVector(readCombineProblem(described.array().data()).dtype);
  PoolDraws draws;
  draws.layer = {{.field = F::Cols, .high = kMostCols, .step = step}};
  draws.extents = {{.field = F::Tokens, .high = kMostDrawn}};
  return draws;
}

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

static llvm::Error checkEpsilon(double epsilon) {
  if (epsilon < 0)
    return makeError(ErrorCode::InvalidArgument, "combine: eps={} is negative",
                     epsilon);
  return checkScalar("combine", "eps", epsilon);
}

static llvm::Error checkCombine(const CombineProblem &p) {
  llvm::StringRef family = "combine";
  if (p.choices() > kMaxExtent)
    return makeError(ErrorCode::InvalidArgument,
                     "combine: tokens={} topk={}: x has at most 2^31 - 1 rows",
                     p.tokens, p.topK);
  if (auto error = checkAlign(family, p.align, bytesOf(p.dtype)))
    return error;
  if (auto error = checkMatrix(family, "ldx", p.choices(), p.cols, p.ldx))
    return error;
  if (auto error = checkMatrix(family, "ldy", p.tokens, p.cols, p.ldy))
    return error;
  if (auto error =
          checkMatrix(family, "ldshared", p.tokens, p.cols, p.ldShared))
    return error;
  if (auto error =
          checkMatrix(family, "ldresidual", p.tokens, p.cols, p.ldResidual))
    return error;
  return checkMatrix(family, "ldresidualout", p.tokens, p.cols,
                     p.ldResidualOut);
}

llvm::Expected<Problem> CombineFamily::canonicalise(Values values) const {
  using F = CombineField;
  if (auto error = values.check())
    return error;
  CombineProblem p = readCombineProblem(values.array().data());
  if (auto error = checkEpsilon(p.epsilon))
    return error;
  // Values that are never read, or equal a derived default, become the default.
  auto reset = [&](int field, bool isDefault) {
    if (isDefault)
      values.set(field, 0);
  };
  reset(F::Epsilon, !p.norm);
  reset(F::LdShared, !p.shared || p.ldShared == p.cols);
  reset(F::LdResidual, !p.residual || p.ldResidual == p.cols);
  reset(F::LdResidualOut, !p.storesSum() || p.ldResidualOut == p.cols);
  reset(F::LdX, p.ldx == p.cols);
  reset(F::LdY, p.ldy == p.cols);
  p = readCombineProblem(values.array().data());
  if (auto error = checkCombine(p))
    return error;
  return Problem{std::move(values), toValues(signatureOf(p))};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

OperandTable CombineFamily::operands(const Problem &problem) const {
  using Operand = CombineOperand;
  const CombineProblem p = read(problem);
  OperandTable table;
  table.operands.resize(Operand::Count);
  auto describe = [&](int index, llvm::StringRef name, bool present,
                      int64_t rows, int64_t ld) -> OperandSpec & {
    OperandSpec &spec = table.operands[index];
    spec.name = name;
    spec.type = p.dtype;
    spec.present = present;
    spec.rows = rows;
    spec.cols = p.cols;
    spec.leadingDimension = ld;
    spec.misalignment = misalignmentOf(p.align, p.dtype);
    // Results are what the reference says, within its bound.
    spec.tolerance = {0, 1, 0};
    spec.outliers.outlierPeriod = 1009;
    spec.outliers.outlier = 300;
    return spec;
  };
  describe(Operand::X, "x", true, p.choices(), p.ldx);
  OperandSpec &y = describe(Operand::Y, "y", true, p.tokens, p.ldy);
  y.role = OperandRole::Out;
  describe(Operand::Shared, "shared", p.shared, p.tokens, p.ldShared);
  describe(Operand::Residual, "residual", p.residual, p.tokens, p.ldResidual);
  OperandSpec &sum = describe(Operand::ResidualOut, "residual_out",
                              p.storesSum(), p.tokens, p.ldResidualOut);
  sum.role = OperandRole::Out;
  if (p.residual && !p.norm && p.ldy == p.ldResidual)
    y.mayBe = Operand::Residual;
  if (p.storesSum() && p.ldResidualOut == p.ldResidual)
    sum.mayBe = Operand::Residual;
  describe(Operand::NormWeight, "norm_weight", p.norm, 1, p.cols);
  OperandSpec &weights =
      describe(Operand::Weights, "weights", p.isWeighted(), p.tokens, p.topK);
  weights.type = DType::FP32;
  weights.cols = p.topK;
  weights.alignment = bytesOf(DType::FP32);
  weights.misalignment = misalignmentOf(weights.alignment, DType::FP32);
  // Choices that have no row, some of them -0.
  weights.outliers.outlierPeriod = 3;
  weights.outliers.outlier = 0;
  return table;
}

std::unique_ptr<KernelFamily> makeCombineFamily() {
  return std::make_unique<CombineFamily>();
}

} // namespace kiln
