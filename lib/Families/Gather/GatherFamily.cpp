//===- GatherFamily.cpp ---------------------------------------------------===//
#include "Families/Gather/GatherFamily.h"

#include "Families/Families.h"
#include "Families/ProblemFields.h"
#include "Families/Rounding.h"
#include "Kernel/TypeName.h"
#include "Support/Error.h"

#include <llvm/Support/CheckedArithmetic.h>

#include <algorithm>

namespace kiln {

namespace {

class GatherFamily final : public KernelFamily {
public:
  GatherFamily() { addTemplate(makeLaneGatherTemplate()); }

  llvm::StringRef name() const override { return "gather"; }
  const Schema &problemSchema() const override { return gatherProblemSchema(); }

  const CallReader *call() const override { return &kGatherCall; }
  llvm::Expected<Problem> canonicalise(Values values) const override;

  bool isEmpty(const Problem &problem) const override {
    GatherProblem p = read(problem);
    return p.batch == 0 || p.rows == 0 || p.cols == 0;
  }

  OperandTable operands(const Problem &problem) const override;

  llvm::StringRef example() const override {
    return "rows=64 cols=4096 xrows=128256 dtype=bf16";
  }
  PoolDraws poolDraws(const Values &described) const override;
  Peer peer(const Problem &) const override { return Peer::Stream; }

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return makeGatherReference(read(problem), device);
  }

  double flops(const Problem &) const override { return 0; }
  /// The rows that are moved, and their indices, but not all of a table.
  double compulsoryBytes(const Problem &problem) const override {
    GatherProblem p = read(problem);
    const double different =
        double(p.batch) * double(p.differentRows()) * double(p.cols);
    return different * bytesOf(p.dtype) + p.elements() * bytesOf(p.out) +
           p.arrayBytes();
  }

private:
  static GatherProblem read(const Problem &problem) {
    return readGatherProblem(problem.values.array().data());
  }
};

} // namespace

/// Rows of any length and number; the arrays, their type and the batch are the
/// described problem's.
PoolDraws GatherFamily::poolDraws(const Values &described) const {
  using F = GatherField;
  const GatherProblem p = readGatherProblem(described.array().data());
  const int64_t step =
      std::max(elementsOfVector(p.dtype), elementsOfVector(p.out));
  PoolDraws draws;
  draws.layer = {{.field = F::Cols, .high = kMostDrawn, .step = step}};
  draws.extents = {{.field = F::Rows, .high = kMostDrawn}};
  return draws;
}

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

static bool isOutOf(DType out, DType in) {
  if (out == in)
    return true;
  return in != DType::INT8 &&
         (out == DType::BF16 || out == DType::FP16 || out == DType::FP32);
}

static llvm::Error checkGather(const GatherProblem &p) {
  llvm::StringRef family = "gather";
  if (!isOutOf(p.out, p.dtype))
    return makeError(ErrorCode::Unsupported,
                     "gather: out={} from dtype={}: y has x's type or, unless "
                     "that is int8, bf16, fp16 or fp32",
                     nameOf(p.out), nameOf(p.dtype));
  if (auto error = checkAlign(family, p.align,
                              std::min(bytesOf(p.dtype), bytesOf(p.out))))
    return error;
  if (auto error = checkScalar(family, "scale", p.scale))
    return error;
  if (auto error = checkMatrix(family, "ldx", p.xRows, p.cols, p.ldx, p.batch))
    return error;
  if (auto error = checkMatrix(family, "ldy", p.yRows, p.cols, p.ldy, p.batch))
    return error;
  // A row of x may be moved to many of y.
  return checkMatrix(family, "ldx", p.rows, p.cols, p.ldx, p.batch);
}

llvm::Expected<Problem> GatherFamily::canonicalise(Values values) const {
  using F = GatherField;
  if (auto error = values.check())
    return error;
  const GatherProblem p = readGatherProblem(values.array().data());
  if (auto error = checkGather(p))
    return error;
  // Values that equal a derived default, or are never read, become the default.
  auto reset = [&](int field, bool isDefault) {
    if (isDefault)
      values.set(field, 0);
  };
  reset(F::Out, p.out == p.dtype);
  reset(F::XRows, p.xRows == namedRows(p.rows, p.divisor));
  reset(F::YRows, p.yRows == p.rows || !p.hasTargets());
  reset(F::LdX, p.ldx == p.cols);
  reset(F::LdY, p.ldy == p.cols);
  return Problem{std::move(values), toValues(signatureOf(p))};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// The greatest integer that trials write.
static constexpr int64_t kMostIndex = 2147483647;

/// Indices whose rows all lie in x and, in the outliers, also before the first
/// and behind the last.
static void describeIndices(const GatherProblem &p, OperandSpec &spec) {
  auto indexOf = [&](int64_t row) {
    auto index = llvm::checkedMul(row, p.divisor);
    return index ? std::min(*index, kMostIndex) : kMostIndex;
  };
  const int64_t least = indexOf(p.first);
  const int64_t most = std::max(least, indexOf(p.first + p.xRows) - 1);
  const int64_t behind = indexOf(p.first + p.xRows + p.xRows / 4 + 1);
  spec.usual.integers = {IntegerData::Indices, least, most};
  spec.outliers.integers = {IntegerData::Indices, -1, std::max(most, behind)};
}

/// Targets are all different, so they reach beyond y where it has fewer rows
/// than are moved. The outliers have one more on each side.
static void describeTargets(const GatherProblem &p, OperandSpec &spec) {
  const int64_t places = std::max(p.yRows, p.rows);
  spec.usual.integers = {IntegerData::Indices, 0,
                         std::max<int64_t>(places, 1) - 1};
  spec.outliers.integers = {IntegerData::Indices, -1,
                            std::min(places, kMostIndex)};
}

OperandTable GatherFamily::operands(const Problem &problem) const {
  const GatherProblem p = read(problem);
  OperandTable table;
  table.operands.resize(GatherOperand::Count);
  auto describe = [&](int index, llvm::StringRef name, DType type, int64_t rows,
                      int64_t ld) -> OperandSpec & {
    OperandSpec &spec = table.operands[index];
    spec.name = name;
    spec.type = type;
    spec.rows = rows;
    spec.cols = p.cols;
    spec.leadingDimension = ld;
    spec.batch = p.batch;
    spec.batchStride = rows * ld;
    spec.misalignment = misalignmentOf(p.align, type);
    return spec;
  };
  OperandSpec &x = describe(GatherOperand::X, "x", p.dtype, p.xRows, p.ldx);
  // All of a byte's values should occur, not only those next to zero.
  constexpr double kInt8Deviation = 40;
  if (p.dtype == DType::INT8)
    x.usual.deviation = kInt8Deviation;
  x.outliers = x.usual;
  x.outliers.outlierPeriod = 64;
  x.outliers.outlier = bytesOf(p.dtype) == 1 ? 100 : 10000;

  OperandSpec &y = describe(GatherOperand::Y, "y", p.out, p.yRows, p.ldy);
  y.role = OperandRole::Out;
  constexpr double kProductError = 1.2e-7;
  y.tolerance =
      p.moves() ? Tolerance{0, 0, 0} : roundedTolerance(p.out, kProductError);
  if (p.hasTargets() && p.xRows == p.yRows && p.ldx == p.ldy &&
      bytesOf(p.dtype) == bytesOf(p.out))
    y.mayBe = GatherOperand::X;

  auto describeArray = [&](int index, llvm::StringRef name,
                           bool isPresent) -> OperandSpec & {
    OperandSpec &spec = table.operands[index];
    spec.name = name;
    spec.type = p.index;
    spec.rows = 1;
    spec.cols = spec.leadingDimension = isPresent ? p.rows : 0;
    spec.alignment = spec.misalignment = bytesOf(p.index);
    spec.present = isPresent;
    return spec;
  };
  describeIndices(
      p, describeArray(GatherOperand::Indices, "indices", p.hasIndices()));
  describeTargets(
      p, describeArray(GatherOperand::Targets, "targets", p.hasTargets()));
  return table;
}

std::unique_ptr<KernelFamily> makeGatherFamily() {
  return std::make_unique<GatherFamily>();
}

} // namespace kiln
