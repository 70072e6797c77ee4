//===- GemmScales.cpp -----------------------------------------------------===//
#include "Families/Gemm/GemmScales.h"

#include "Families/Gemm/GemmOperands.h"
#include "Families/Gemm/GemmProblem.h"
#include "Families/ProblemFields.h"
#include "Kernel/TypeName.h"
#include "Support/Error.h"

#include "kiln/gemm.h"

#include <utility>

namespace kiln {

void GemmScales::addFields(llvm::MutableArrayRef<Field> fields) {
  using F = GemmField;
  fields[F::ScaleA] = enumField("scale_a", false, kGemmScaleNamesA);
  fields[F::ScaleB] = enumField("scale_b", false, kGemmScaleNames);
  fields[F::ScaleOrderA] =
      enumField("scale_order_a", false, kGemmScaleOrderNames);
  fields[F::ScaleOrderB] =
      enumField("scale_order_b", false, kGemmScaleOrderNames);
  fields[F::LdScaleA] = leadingDimensionField("ldsa");
  fields[F::LdScaleB] = leadingDimensionField("ldsb");
  fields[F::ZeroA] = enumField("zero_a", false, kGemmZeroNames);
}

/// GemmSignature::hasGoodZeroPointsA().
static llvm::Error checkZeroPointsA(const GemmProblem &p,
                                    const GemmSignature &signature) {
  if (signature.hasGoodZeroPointsA())
    return llvm::Error::success();
  if (p.hasGroups())
    return makeError(ErrorCode::Unsupported,
                     "gemm: zero_a is not available with groups");
  return makeError(ErrorCode::Unsupported,
                   "gemm: zero_a is for dtype=int8 and rows of elements");
}

/// Scales that the family computes with: GemmSignature::hasScales().
static llvm::Error checkKinds(const GemmProblem &p,
                              const GemmSignature &signature) {
  if (signature.hasScales())
    return llvm::Error::success();
  if (bytesOf(p.dtype) != 1)
    return makeError(ErrorCode::Unsupported,
                     "gemm: {} takes no scales, types of one byte do",
                     nameOf(p.dtype));
  if (!signature.isPromoted())
    return makeError(ErrorCode::Unsupported,
                     "gemm: block scales need e4m3 or e5m2 and fp32 sums");
  return makeError(ErrorCode::Unsupported,
                   "gemm: block scales are scale_a=1x128 with "
                   "scale_b=128x128");
}

/// Whether the order and the ld of \p scales are read: scales of packed
/// weights are stored as PackedB says.
static bool hasLines(const GemmProblem &p, const OperandScales &scales) {
  return isBlockScale(scales.kind) && !p.isPacked();
}

llvm::Error GemmScales::check(const GemmProblem &p) {
  const GemmSignature signature = signatureOf(p);
  if (auto error = checkZeroPointsA(p, signature))
    return error;
  if (auto error = checkKinds(p, signature))
    return error;
  auto checkLines = [&](llvm::StringRef key, const OperandScales &scales,
                        int64_t extent) -> llvm::Error {
    if (!hasLines(p, scales))
      return llvm::Error::success();
    return scales.checkLines("gemm", key, extent, p.k, p.batch);
  };
  if (auto error = checkLines("ldsa", p.scaleA, p.scaledRowsA()))
    return error;
  return checkLines("ldsb", p.scaleB, p.n);
}

void GemmScales::reset(const GemmProblem &p, Values &values) {
  auto resetLines = [&](int order, int ld, const OperandScales &scales,
                        int64_t extent) {
    const bool isRead = hasLines(p, scales);
    resetIf(!isRead, order, values);
    resetIf(!isRead || scales.ld == scales.packedLd(extent, p.k), ld, values);
  };
  resetLines(GemmField::ScaleOrderA, GemmField::LdScaleA, p.scaleA,
             p.scaledRowsA());
  resetLines(GemmField::ScaleOrderB, GemmField::LdScaleB, p.scaleB, p.n);
}

/// \p scales of \p extent rows, as \p matrix, whose sizes are not set yet.
static OperandSpec &describeScales(const GemmProblem &p, int index,
                                   GemmMatrix matrix,
                                   const OperandScales &scales, int64_t extent,
                                   OperandTable &table) {
  matrix.rows = scales.rowsOf(extent);
  matrix.cols = scales.depthsOf(p.k);
  if (scales.alongRows)
    std::swap(matrix.rows, matrix.cols);
  // Scales of rows are one line.
  if (!isBlockScale(scales.kind))
    std::swap(matrix.rows, matrix.cols);
  matrix.ld = isBlockScale(scales.kind) ? scales.ld : matrix.cols;
  matrix.isPresent = scales.kind != ScaleKind::None;
  OperandSpec &spec = describeMatrix(p, index, matrix, table);
  alignToElement(spec);
  fillWithScales(spec);
  return spec;
}

/// \p count integers of -most - 1 to \p most, where A has zero points.
static void describeIntegers(const GemmProblem &p, int index, GemmMatrix matrix,
                             int64_t count, int most, OperandTable &table) {
  matrix.type = DType::INT32;
  matrix.rows = 1;
  matrix.cols = matrix.ld = count;
  matrix.isPresent = p.zeroA != ScaleKind::None;
  OperandSpec &spec = describeMatrix(p, index, matrix, table);
  alignToElement(spec);
  spec.usual.integers =
      spec.outliers.integers = {IntegerData::Values, -most - 1, most};
}

void GemmScales::describe(const GemmProblem &p, OperandTable &table) {
  OperandSpec &scalesA = describeScales(
      p, GemmOperand::ScaleA, {.name = "scale_a", .slot = KILN_GEMM_SCALE_A},
      p.scaleA, p.scaledRowsA(), table);
  shareAmongGroups(p, scalesA.rows, scalesA);
  describeScales(p, GemmOperand::ScaleB,
                 {.name = "scale_b",
                  .slot = KILN_GEMM_SCALE_B,
                  .role = OperandRole::Constant},
                 p.scaleB, p.n, table);
  constexpr int kMostZero = 127;
  describeIntegers(p, GemmOperand::ZeroA,
                   {.name = "zero_a", .slot = KILN_GEMM_ZERO_A},
                   p.zeroA == ScaleKind::Row ? p.m : 1, kMostZero, table);
  // Such that fp16 has what they make. Kernels work with any sums.
  constexpr int kMostSum = 199;
  describeIntegers(p, GemmOperand::ColumnSumsB,
                   {.name = "column_sums_b",
                    .slot = KILN_GEMM_COLUMN_SUMS_B,
                    .role = OperandRole::Constant},
                   p.n, kMostSum, table);
}

} // namespace kiln
