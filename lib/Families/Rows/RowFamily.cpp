//===- RowFamily.cpp ------------------------------------------------------===//
//
// One class serves five families, told apart by a RowKind. RowOperands.cpp has
// the operands of trials and their tolerances.
//
//===----------------------------------------------------------------------===//
#include "Families/Rows/RowFamily.h"

#include "Families/Families.h"
#include "Families/ProblemFields.h"
#include "Families/Rows/RowTemplate.h"
#include "Support/Error.h"

#include <algorithm>
#include <cassert>

namespace kiln {

namespace {

class RowFamily final : public KernelFamily {
public:
  explicit RowFamily(RowKind kind) : kind(kind) {
    addTemplate(makeResidentRowsTemplate(kind));
    if (kind == RowKind::Reduce)
      addTemplate(makeSplitRowsTemplate(kind));
    else
      addTemplate(makeSpreadRowsTemplate(kind));
    addTemplate(makeReloadRowsTemplate(kind));
  }

  llvm::StringRef name() const override { return nameOf(kind); }
  const Schema &problemSchema() const override {
    return rowProblemSchema(kind);
  }

  const CallReader *call() const override { return &rowCall(kind); }
  llvm::Expected<Problem> canonicalise(Values values) const override;

  /// canonicalise() refuses reductions of no values, so a problem without
  /// inputs has no outputs either.
  bool isEmpty(const Problem &problem) const override {
    RowProblem p = read(problem);
    return p.rows == 0 || p.cols == 0;
  }

  OperandTable operands(const Problem &problem) const override {
    return rowOperands(read(problem));
  }

  llvm::StringRef example() const override {
    return kind == RowKind::Reduce ? "rows=4096 cols=8192 dtype=fp32 op=sum"
                                   : "rows=4096 cols=8192 dtype=bf16";
  }
  llvm::ArrayRef<llvm::StringRef> combinations() const override {
    static constexpr llvm::StringRef kBlocks[] = {
        "out=fp8_e4m3 scale_y=1x128",
        "out=int8 scale_y=1x128 scale_order_y=rows"};
    if (kind == RowKind::RmsNorm || kind == RowKind::LayerNorm)
      return kBlocks;
    return {};
  }
  PoolDraws poolDraws(const Values &described) const override;
  Peer peer(const Problem &) const override { return Peer::Stream; }

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return makeRowReference(kind, read(problem), device);
  }

  double flops(const Problem &problem) const override;

private:
  RowProblem read(const Problem &problem) const {
    return readRowProblem(kind, problem.values.array().data());
  }

  RowKind kind;
};

} // namespace

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

/// One leading dimension: its field and its resolved value.
struct LeadingDimension {
  int field;
  int64_t value;
  bool isRead; ///< false: the problem has no such operand
};

static llvm::SmallVector<LeadingDimension, 5>
leadingDimensions(const RowProblem &p) {
  return {{RowField::LdX, p.ldx, true},
          {RowField::LdY, p.ldy, !isReduction(p.op)},
          {RowField::LdResidual, p.ldResidual, p.residual},
          {RowField::LdResidualOut, p.ldResidualOut, p.residual},
          {RowField::LdMask, p.ldMask, p.mask == RowMask::Matrix}};
}

static llvm::Error checkValues(const Schema &schema, const RowProblem &p) {
  if (p.epsilon < kLeastEpsilon)
    return makeError(ErrorCode::InvalidArgument, "{}: eps={} is below {}",
                     schema.name(), p.epsilon, kLeastEpsilon);
  if (auto error = checkScalar(schema.name(), "eps", p.epsilon))
    return error;
  if (auto error = checkScalar(schema.name(), "scale", p.scale))
    return error;
  // A maximum or a mean of no values is undefined.
  if (isReduction(p.op) && (p.cols == 0 || (p.allRows && p.rows == 0)))
    return makeError(ErrorCode::InvalidArgument,
                     "{}: rows={} cols={} leave nothing to reduce",
                     schema.name(), p.rows, p.cols);
  // Every pointer is a multiple of its own element in any case.
  return checkAlign(schema.name(), p.align,
                    std::min(bytesOf(p.dtype), bytesOf(p.out)));
}

static llvm::Error checkMemory(RowKind kind, const RowProblem &p) {
  const Schema &schema = rowProblemSchema(kind);
  for (const LeadingDimension &ld : leadingDimensions(p)) {
    if (!ld.isRead)
      continue;
    int index = fieldIndex(kind, ld.field);
    assert(index >= 0 && "an operand that is read has a field");
    if (auto error = checkMatrix(schema.name(), schema.fields()[index].key,
                                 p.rows, p.cols, ld.value))
      return error;
  }
  return p.scaleY.checkLines(schema.name(), "ldsy", p.rows, p.cols);
}

llvm::Expected<Problem> RowFamily::canonicalise(Values values) const {
  if (auto error = values.check())
    return error;
  RowProblem p = readRowProblem(kind, values.array().data());
  // One of rows is the default, and is not read without a quantised y.
  if (const int field = fieldIndex(kind, RowField::ScaleY);
      field >= 0 && !p.quantizes() &&
      isBlockScale(static_cast<ScaleKind>(values[field])))
    return makeError(ErrorCode::Unsupported,
                     "{}: scale_y=1x128 needs out=fp8_e4m3 or int8",
                     problemSchema().name());
  if (auto error = checkValues(problemSchema(), p))
    return error;
  if (auto error = checkMemory(kind, p))
    return error;
  // Values that equal a derived default, or are never read, become the default.
  auto reset = [&](int field, bool isDefault) {
    int index = fieldIndex(kind, field);
    if (index >= 0 && isDefault)
      values.set(index, 0);
  };
  reset(RowField::Out, p.out == p.dtype);
  const bool hasBlocks = isBlockScale(p.scaleY.kind);
  reset(RowField::ScaleY, !hasBlocks);
  reset(RowField::ScaleOrderY, !hasBlocks);
  reset(RowField::LdScaleY,
        !hasBlocks || p.scaleY.ld == p.scaleY.packedLd(p.rows, p.cols));
  for (const LeadingDimension &ld : leadingDimensions(p))
    reset(ld.field, !ld.isRead || ld.value == p.cols);
  const RowSignature signature = signatureOf(p);
  assert(signature.isWellFormed() && "the schema refuses all others");
  return Problem{std::move(values), toValues(signature)};
}

/// Rows of any length; one in ten begins behind a gap.
PoolDraws RowFamily::poolDraws(const Values &described) const {
  const RowProblem p = readRowProblem(kind, described.array().data());
  const int64_t step =
      std::max(elementsOfVector(p.dtype), elementsOfVector(p.out));
  const int cols = fieldIndex(kind, RowField::Cols);
  constexpr int64_t kMostGap = 1024;
  constexpr unsigned kGaps = 10;
  PoolDraws draws;
  draws.layer = {{.field = cols, .high = kMostDrawn, .step = step},
                 {.field = fieldIndex(kind, RowField::LdX),
                  .high = kMostGap,
                  .step = step,
                  .percent = kGaps,
                  .addendTo = cols}};
  draws.extents = {
      {.field = fieldIndex(kind, RowField::Rows), .high = kMostDrawn}};
  return draws;
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// Operations of an element, as written in a plain program.
static double flopsPerElement(const RowProblem &p) {
  double optional = p.weight + p.bias + p.residual + (p.mask != RowMask::None) +
                    (p.scale != 1);
  // The greatest magnitude, and the division by the scale.
  if (p.quantizes())
    optional += 2;
  switch (p.op) {
  case RowOp::RmsNorm: // square, add; multiply
    return optional + 3;
  case RowOp::LayerNorm: // add; subtract, square, add; multiply
    return optional + 5;
  case RowOp::Softmax: // maximum; subtract, exponential, add; multiply
    return optional + 5;
  case RowOp::Quantize:
    return optional;
  case RowOp::SumSquares:
    return 2;
  case RowOp::Sum:
  case RowOp::Max:
  case RowOp::Mean:
    return 1;
  }
  return 0;
}

double RowFamily::flops(const Problem &problem) const {
  RowProblem p = read(problem);
  return flopsPerElement(p) * p.rows * p.cols;
}

std::unique_ptr<KernelFamily> makeRmsNormFamily() {
  return std::make_unique<RowFamily>(RowKind::RmsNorm);
}
std::unique_ptr<KernelFamily> makeLayerNormFamily() {
  return std::make_unique<RowFamily>(RowKind::LayerNorm);
}
std::unique_ptr<KernelFamily> makeSoftmaxFamily() {
  return std::make_unique<RowFamily>(RowKind::Softmax);
}
std::unique_ptr<KernelFamily> makeQuantizeFamily() {
  return std::make_unique<RowFamily>(RowKind::Quantize);
}
std::unique_ptr<KernelFamily> makeReduceFamily() {
  return std::make_unique<RowFamily>(RowKind::Reduce);
}

} // namespace kiln
