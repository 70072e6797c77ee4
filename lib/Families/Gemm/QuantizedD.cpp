//===- QuantizedD.cpp -----------------------------------------------------===//
#include "Families/Gemm/QuantizedD.h"

#include "Families/Gemm/GemmOperands.h"
#include "Families/Gemm/GemmProblem.h"
#include "Families/ProblemFields.h"
#include "Model/MathUtil.h"
#include "Support/Error.h"
#include "kiln/gemm.h"

#include <cassert>
#include <cmath>

namespace kiln {

void QuantizedD::addFields(llvm::MutableArrayRef<Field> fields) {
  using F = GemmField;
  fields[F::ScaleD] = enumField("scale_d", false, kGemmScaleNamesA);
  fields[F::ScaleOrderD] =
      enumField("scale_order_d", false, kGemmScaleOrderNames);
  fields[F::LdScaleD] = leadingDimensionField("ldsd");
}

llvm::Error QuantizedD::check(const GemmProblem &p) {
  if (!p.quantizes()) {
    if (p.out == DType::E4M3)
      return makeError(ErrorCode::Unsupported, "gemm: out=e4m3 needs scale_d");
    return llvm::Error::success();
  }
  if (p.out != DType::E4M3)
    return makeError(ErrorCode::Unsupported, "gemm: scale_d needs out=e4m3");
  if (p.dtype == DType::FP32)
    return makeError(ErrorCode::Unsupported,
                     "gemm: out=e4m3 needs dtype=bf16, fp16, e4m3, e5m2 or "
                     "int8");
  if (p.scatters)
    return makeError(ErrorCode::Unsupported,
                     "gemm: out=e4m3 is not available with scatter");
  // A plan does not know how much room a launch has for results.
  if (p.groups == GroupKind::Masked)
    return makeError(ErrorCode::Unsupported,
                     "gemm: out=e4m3 is not available with groups=masked");
  return p.scaleD.checkLines("gemm", "ldsd", p.room, p.outCols(), p.batchA);
}

void QuantizedD::reset(const GemmProblem &p, Values &values) {
  const bool hasLines = isBlockScale(p.scaleD.kind);
  resetIf(!hasLines, GemmField::ScaleOrderD, values);
  resetIf(!hasLines || p.scaleD.ld == p.scaleD.packedLd(p.room, p.outCols()),
          GemmField::LdScaleD, values);
}

/// Scales of rows are one line. Scales of 128 columns are a matrix with a line
/// for each row, or the other way round.
void QuantizedD::describe(const GemmProblem &p, OperandTable &table) {
  OperandSpec &spec = table.operands[GemmOperand::ScaleD];
  spec.name = "scale_d";
  spec.slot = KILN_GEMM_SCALE_D;
  spec.type = DType::FP32;
  spec.present = p.quantizes();
  if (!spec.present) // then it follows no extent
    return;
  alignToElement(spec);
  spec.role = p.writesScalesD() ? OperandRole::Out : OperandRole::In;
  const bool isOfBlocks = isBlockScale(p.scaleD.kind);
  const bool areLinesRows = isOfBlocks && !p.scaleD.alongRows;
  spec.rows = areLinesRows ? p.room : isOfBlocks ? p.rowScalesD() : 1;
  spec.cols = areLinesRows                         ? p.rowScalesD()
              : p.scaleD.kind == ScaleKind::Tensor ? 1
                                                   : p.room;
  spec.leadingDimension = isOfBlocks ? p.scaleD.ld : spec.cols;
  spec.batch = p.batchA;
  spec.batchStride = spec.batch > 1 ? spec.rows * spec.leadingDimension : 0;
  fillWithScales(spec);
  OperandSpec &d = table.operands[GemmOperand::D];
  spec.tolerance.relative = std::ldexp(1.0, -7);
  spec.tolerance.scaled = d.tolerance.scaled;
  // One step of e4m3, normal or not: behind a rounding to 16 bits a result may
  // fall to the next one.
  d.tolerance.relative = std::ldexp(1.0, -3);
  d.tolerance.absolute = std::ldexp(1.0, -9);
}

void toProduct(int64_t *values) {
  const GemmProblem p = readGemmProblem(values);
  assert(p.quantizes() && "the problem is the product");
  constexpr int64_t kVector = 16;
  const int64_t each = kVector / bytesOf(p.sideType());
  const int64_t ld = roundUp(p.outCols(), each);
  values[GemmField::Out] = 0;
  values[GemmField::Ldd] = ld == p.outCols() ? 0 : ld;
  for (int field :
       {GemmField::ScaleD, GemmField::ScaleOrderD, GemmField::LdScaleD})
    values[field] = 0;
}

} // namespace kiln
