//===- GemmEpilogue.cpp ---------------------------------------------------===//
#include "Families/Gemm/GemmEpilogue.h"

#include "Families/Gemm/GemmOperands.h"
#include "Families/Gemm/GemmProblem.h"
#include "Families/ProblemFields.h"
#include "Support/Error.h"
#include "kiln/gemm.h"

namespace kiln {

void GemmEpilogue::addFields(llvm::MutableArrayRef<Field> fields) {
  fields[GemmField::Pointwise] = {.key = "pointwise",
                                  .kind = FieldKind::Chain,
                                  .role = FieldRole::Signature,
                                  .names = kGemmPointwiseNames};
  fields[GemmField::Alpha] = scalarField("alpha", 1, KILN_GEMM_ALPHA);
  fields[GemmField::Beta] = scalarField("beta", 0, KILN_GEMM_BETA);
  fields[GemmField::Ldc] = leadingDimensionField("ldc");
  fields[GemmField::LdResidual] = leadingDimensionField("ldr");
}

/// Chains that the family computes.
static llvm::Error checkChain(const GemmProblem &p) {
  int biases = 0, residuals = 0, joins = 0;
  for (PointwiseOp op : p.pointwise.ops) {
    biases += op == PointwiseOp::Bias;
    residuals += op == PointwiseOp::Residual;
    joins += joinsColumns(op);
  }
  if (biases > 1 || residuals > 1)
    return makeError(ErrorCode::Unsupported,
                     "gemm: pointwise has more than one bias or residual");
  if (joins > 1)
    return makeError(ErrorCode::Unsupported,
                     "gemm: pointwise has more than one swiglu");
  if (joins == 1 && p.n % 2 != 0)
    return makeError(ErrorCode::InvalidArgument,
                     "gemm: n={} is odd, swiglu joins columns in pairs", p.n);
  if (joins == 1 && p.beta != 0)
    return makeError(ErrorCode::Unsupported,
                     "gemm: beta is set with swiglu, which takes no C");
  return llvm::Error::success();
}

llvm::Error GemmEpilogue::check(const GemmProblem &p) {
  if (auto error = checkChain(p))
    return error;
  if (p.beta != 0)
    if (auto error = checkMatrix("gemm", "ldc", p.m, p.n, p.ldc, p.batch))
      return error;
  if (p.pointwise.contains(PointwiseOp::Residual))
    if (auto error = checkMatrix("gemm", "ldr", p.room,
                                 p.linkCols(PointwiseOp::Residual),
                                 p.ldResidual, p.batchA))
      return error;
  if (auto error = checkScalar("gemm", "alpha", p.alpha))
    return error;
  return checkScalar("gemm", "beta", p.beta);
}

void GemmEpilogue::reset(const GemmProblem &p, Values &values) {
  resetIf(p.ldc == p.n || p.beta == 0, GemmField::Ldc, values);
  resetIf(p.ldResidual == p.linkCols(PointwiseOp::Residual) ||
              !p.pointwise.contains(PointwiseOp::Residual),
          GemmField::LdResidual, values);
}

void GemmEpilogue::describe(const GemmProblem &p, OperandTable &table) {
  auto slotOf = [&](PointwiseOp op) {
    return int(KILN_GEMM_POINTWISE) + p.pointwise.find(op);
  };
  describeMatrix(p, GemmOperand::C,
                 {.name = "c",
                  .slot = KILN_GEMM_C,
                  .type = p.sideType(),
                  .rows = p.m,
                  .cols = p.n,
                  .ld = p.ldc,
                  .isPresent = p.beta != 0},
                 table);
  const int64_t biasCols = p.linkCols(PointwiseOp::Bias);
  OperandSpec &bias =
      describeMatrix(p, GemmOperand::Bias,
                     {.name = "bias",
                      .slot = slotOf(PointwiseOp::Bias),
                      .role = OperandRole::Constant,
                      .type = p.sideType(),
                      .rows = 1,
                      .cols = biasCols,
                      .ld = biasCols,
                      .isPresent = p.pointwise.contains(PointwiseOp::Bias)},
                     table);
  // Groups have a bias each.
  if (!p.hasGroups()) {
    bias.batch = 1;
    bias.batchStride = 0;
  }
  OperandSpec &residual =
      describeMatrix(p, GemmOperand::Residual,
                     {.name = "residual",
                      .slot = slotOf(PointwiseOp::Residual),
                      .type = p.sideType(),
                      .rows = p.m,
                      .cols = p.linkCols(PointwiseOp::Residual),
                      .ld = p.ldResidual,
                      .isPresent = p.pointwise.contains(PointwiseOp::Residual)},
                     table);
  shareAmongGroups(p, p.room, residual);
}

} // namespace kiln
