//===- ElementwiseFamily.cpp ----------------------------------------------===//
#include "Families/Elementwise/ElementwiseFamily.h"

#include "Families/Families.h"
#include "Families/ProblemFields.h"
#include "Families/Rounding.h"
#include "Families/Rows/RowFamily.h"
#include "Support/EnumName.h"
#include "Support/Error.h"

#include <algorithm>

namespace kiln {

namespace {

class ElementwiseFamily final : public KernelFamily {
public:
  ElementwiseFamily() {
    addTemplate(makeFlatElementwiseTemplate());
    addTemplate(makeResidentRowsTemplate(RowKind::Pointwise));
    addTemplate(makeSpreadRowsTemplate(RowKind::Pointwise));
    addTemplate(makeReloadRowsTemplate(RowKind::Pointwise));
  }

  llvm::StringRef name() const override { return "elementwise"; }
  const Schema &problemSchema() const override {
    return elementwiseProblemSchema();
  }

  const CallReader *call() const override { return &kElementwiseCall; }
  llvm::Expected<Problem> canonicalise(Values values) const override;

  bool isEmpty(const Problem &problem) const override {
    ElementwiseProblem p = read(problem);
    return p.rows == 0 || p.cols == 0;
  }

  OperandTable operands(const Problem &problem) const override;

  llvm::StringRef example() const override {
    return "op=silu,mul rows=4096 cols=8192 dtype=bf16";
  }
  llvm::ArrayRef<llvm::StringRef> combinations() const override {
    static constexpr llvm::StringRef kQuantized[] = {
        "dtype=bf16 out=fp8_e4m3 scale_y=row",
        "op=silu,mul dtype=bf16 out=fp8_e4m3 scale_y=1x128",
        "op=gelu_tanh,mul dtype=fp16 out=int8 scale_y=row",
        "op=bias,silu dtype=fp32 out=int8 scale_y=1x128 scale_order_y=rows"};
    return kQuantized;
  }
  PoolDraws poolDraws(const Values &described) const override;
  Peer peer(const Problem &) const override { return Peer::Stream; }

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    if (read(problem).quantizes())
      return makeRowReference(
          RowKind::Pointwise,
          readRowProblem(RowKind::Pointwise, problem.values.array().data()),
          device);
    return makeElementwiseReference(readElementwiseSignature(problem.signature),
                                    device);
  }

  double flops(const Problem &problem) const override;

private:
  static ElementwiseProblem read(const Problem &problem) {
    return readElementwiseProblem(problem.values.array().data());
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

/// The rules of a quantised y, and of the kernels that make it.
static llvm::Error checkQuantized(const ElementwiseProblem &p) {
  llvm::StringRef family = "elementwise";
  if (!p.quantizes()) {
    if (p.out == DType::INT8)
      return makeError(ErrorCode::Unsupported, "{}: out=int8 needs scale_y",
                       family);
    return llvm::Error::success();
  }
  if (bytesOf(p.out) != 1)
    return makeError(ErrorCode::Unsupported,
                     "{}: scale_y needs out=fp8_e4m3 or int8", family);
  if (bytesOf(p.dtype) == 1)
    return makeError(ErrorCode::Unsupported,
                     "{}: scale_y needs dtype=bf16, fp16 or fp32", family);
  if (p.reads(LinkShape::Column))
    return makeError(ErrorCode::Unsupported,
                     "{}: scale_y is not available with row_bias or row_scale "
                     "in op",
                     family);
  return p.scaleY.checkLines(family, "ldsy", p.rows, p.cols);
}

static llvm::Error check(const ElementwiseProblem &p) {
  llvm::StringRef family = "elementwise";
  if (auto error = checkQuantized(p))
    return error;
  if (auto error = checkAlign(family, p.align,
                              std::min(bytesOf(p.dtype), bytesOf(p.out))))
    return error;
  int scales = 0;
  for (PointwiseOp op : p.chain.ops)
    scales += op == PointwiseOp::Scale;
  if (scales > 1)
    return makeError(ErrorCode::Unsupported,
                     "elementwise: op has {} scales, at most one is served",
                     scales);
  if (auto error = checkScalar(family, "scale", p.scale))
    return error;
  if (auto error = checkMatrix(family, "ldx", p.rows, p.cols, p.ldx))
    return error;
  if (auto error = checkMatrix(family, "ldy", p.rows, p.cols, p.ldy))
    return error;
  if (!p.reads(LinkShape::Matrix))
    return llvm::Error::success();
  return checkMatrix(family, "ldo", p.rows, p.cols, p.ldOperand);
}

llvm::Expected<Problem> ElementwiseFamily::canonicalise(Values values) const {
  if (auto error = values.check())
    return error;
  if (auto error = resolveCast(values))
    return error;
  ElementwiseProblem p = readElementwiseProblem(values.array().data());
  if (auto error = check(p))
    return error;
  // Values that equal a derived default, or are never read, become the default.
  auto reset = [&](int field, bool isDefault, int64_t value = 0) {
    if (isDefault)
      values.set(field, value);
  };
  reset(ElementwiseField::Out, p.out == p.dtype);
  reset(ElementwiseField::Scale, !p.reads(LinkShape::Scalar), encodeReal(1.0));
  reset(ElementwiseField::LdX, p.ldx == p.cols);
  reset(ElementwiseField::LdY, p.ldy == p.cols);
  reset(ElementwiseField::LdOperand,
        p.ldOperand == p.cols || !p.reads(LinkShape::Matrix));
  const bool hasLines = isBlockScale(p.scaleY.kind);
  reset(ElementwiseField::ScaleOrderY, !hasLines);
  reset(ElementwiseField::LdScaleY,
        !hasLines || p.scaleY.ld == p.scaleY.packedLd(p.rows, p.cols));
  const int64_t *array = values.array().data();
  Values signature =
      p.quantizes()
          ? toValues(signatureOf(readRowProblem(RowKind::Pointwise, array)))
          : toValues(signatureOf(readElementwiseProblem(array)));
  return Problem{std::move(values), std::move(signature)};
}

/// Matrices of any size; one in ten has rows with gaps.
PoolDraws ElementwiseFamily::poolDraws(const Values &) const {
  using F = ElementwiseField;
  // A step for the narrowest type, since a cast names its own types.
  constexpr int64_t kStep = elementsOfVector(DType::E4M3), kMostGap = 1024;
  constexpr unsigned kGaps = 10;
  PoolDraws draws;
  draws.layer = {{.field = F::Cols, .high = kMostDrawn, .step = kStep},
                 {.field = F::LdX,
                  .high = kMostGap,
                  .step = kStep,
                  .percent = kGaps,
                  .addendTo = F::Cols}};
  draws.extents = {{.field = F::Rows, .high = kMostDrawn}};
  return draws;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// The error of a few fp32 operations; the reference knows its scale.
static constexpr double kChainError = 4e-7;

/// Name of the operand of \p op.
static llvm::StringRef operandName(PointwiseOp op) {
  using enum PointwiseOp;
  static constexpr EnumName<PointwiseOp> kNames[] = {{Residual, "add"},
                                                     {Mul, "mul"},
                                                     {Bias, "bias"},
                                                     {RowBias, "row_bias"},
                                                     {ColumnScale, "col_scale"},
                                                     {RowScale, "row_scale"}};
  return nameIn(kNames, op, "none");
}

static void setMatrix(OperandSpec &spec, llvm::StringRef name, OperandRole role,
                      DType type, int64_t rows, int64_t cols, int64_t ld) {
  spec.name = name;
  spec.role = role;
  spec.type = type;
  spec.rows = rows;
  spec.cols = cols;
  spec.leadingDimension = ld;
  // Outliers lie beyond the point where every activation has settled.
  spec.outliers.outlierPeriod = 100;
  spec.outliers.outlier = 1e4;
}

/// The scales of y, which only a quantised one has.
static void describeScales(const ElementwiseProblem &p, OperandSpec &spec) {
  spec.name = "scales";
  spec.role = OperandRole::Out;
  spec.type = DType::FP32;
  spec.present = p.quantizes();
  p.scaleY.describe(p.rows, p.cols, spec);
  spec.tolerance = roundedTolerance(DType::FP32, kChainError);
}

OperandTable ElementwiseFamily::operands(const Problem &problem) const {
  static_assert(ElementwiseOperand::Count <= Arguments::kMaxOperands);
  ElementwiseProblem p = read(problem);
  OperandTable table;
  table.operands.resize(ElementwiseOperand::Count);
  OperandSpec &x = table.operands[ElementwiseOperand::X];
  setMatrix(x, "x", OperandRole::In, p.dtype, p.rows, p.cols, p.ldx);
  if (p.quantizes())
    x.outliers.rowPeriod = 3; // rows of zeros
  OperandSpec &y = table.operands[ElementwiseOperand::Y];
  setMatrix(y, "y", OperandRole::Out, p.out, p.rows, p.cols, p.ldy);
  y.tolerance = roundedTolerance(p.out, kChainError);
  if (bytesOf(p.out) == bytesOf(p.dtype) && p.ldx == p.ldy)
    y.mayBe = ElementwiseOperand::X;
  for (int link = 0; link < PointwiseChain::kMaxOps; ++link) {
    PointwiseOp op = p.chain.ops[link];
    OperandSpec &spec = table.operands[ElementwiseOperand::FirstLink + link];
    llvm::StringRef name = operandName(op);
    switch (shapeOf(op)) {
    case LinkShape::Matrix:
      setMatrix(spec, name, OperandRole::In, p.dtype, p.rows, p.cols,
                p.ldOperand);
      break;
    case LinkShape::Row:
      setMatrix(spec, name, OperandRole::Constant, p.dtype, 1, p.cols, 0);
      break;
    case LinkShape::Column: // its elements are contiguous
      setMatrix(spec, name, OperandRole::In, p.dtype, 1, p.rows, 0);
      break;
    default:
      spec.name = name;
      spec.present = false;
    }
  }
  for (OperandSpec &spec : table.operands)
    if (spec.present)
      spec.misalignment = misalignmentOf(p.align, spec.type);
  describeScales(p, table.operands[ElementwiseOperand::Scales]);
  return table;
}

/// Operations of a formula as written; a function counts as one.
static double operationsOf(PointwiseOp op) {
  switch (op) {
  case PointwiseOp::None:
    return 0;
  case PointwiseOp::GeluErf:
    return 5;
  case PointwiseOp::GeluTanh:
    return 8;
  case PointwiseOp::Silu:
    return 4;
  default:
    return 1;
  }
}

double ElementwiseFamily::flops(const Problem &problem) const {
  ElementwiseProblem p = read(problem);
  // The greatest magnitude, and the division by the scale.
  double operations = p.quantizes() ? 2 : 0;
  for (PointwiseOp op : p.chain.ops)
    operations += operationsOf(op);
  return operations * p.rows * p.cols;
}

std::unique_ptr<KernelFamily> makeElementwiseFamily() {
  return std::make_unique<ElementwiseFamily>();
}

} // namespace kiln
