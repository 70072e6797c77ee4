//===- GemmMatrices.cpp ---------------------------------------------------===//
#include "Families/Gemm/GemmMatrices.h"

#include "Families/Gemm/GemmOperands.h"
#include "Families/Gemm/GemmProblem.h"
#include "Families/ProblemFields.h"

#include "kiln/gemm.h"

#include <algorithm>
#include <cmath>

namespace kiln {

void GemmMatrices::addFields(llvm::MutableArrayRef<Field> fields) {
  fields[GemmField::Lda] = leadingDimensionField("lda");
  fields[GemmField::Ldb] = leadingDimensionField("ldb");
  fields[GemmField::Ldd] = leadingDimensionField("ldd");
  fields[GemmField::Align] = alignField();
}

llvm::Error GemmMatrices::check(const GemmProblem &p) {
  if (auto error =
          checkAlign("gemm", p.align, p.quantizes() ? 1 : bytesOf(p.dtype)))
    return error;
  if (auto error =
          checkMatrix("gemm", "lda", p.rowsA(), p.colsA(), p.lda, p.batchA))
    return error;
  // Packed weights have no leading dimension.
  const int64_t ldb = p.isPacked() ? p.colsB() : p.ldb;
  if (auto error =
          checkMatrix("gemm", "ldb", p.rowsB(), p.colsB(), ldb, p.batch))
    return error;
  return checkMatrix("gemm", "ldd", p.room, p.outCols(), p.ldd, p.batchA);
}

void GemmMatrices::reset(const GemmProblem &p, Values &values) {
  resetIf(p.lda == p.colsA(), GemmField::Lda, values);
  resetIf(p.ldb == p.colsB() || p.isPacked(), GemmField::Ldb, values);
  resetIf(p.ldd == p.outCols(), GemmField::Ldd, values);
}

/// Data of A and B that their types have digits for.
static void describeInput(OperandSpec &spec) {
  if (spec.type == DType::INT8)
    spec.usual.deviation = spec.outliers.deviation = 40;
  // Sums of one sign grow beyond what a narrow accumulator keeps of products.
  if (isFp8(spec.type)) {
    spec.outliers.mean = 1;
    spec.outliers.deviation = 0.25;
  }
}

/// Rounding of the output, and of k products summed in fp32 in any order.
static Tolerance toleranceOfD(const GemmProblem &p) {
  Tolerance tolerance;
  int mantissa = p.out == DType::BF16 ? 7 : p.out == DType::FP16 ? 10 : 23;
  tolerance.relative = 2 * std::ldexp(1.0, -mantissa);
  tolerance.scaled =
      4 * std::sqrt(std::max<double>(p.k, 1)) * std::ldexp(1.0, -24);
  // An fp8 tensor core keeps 13 bits of a sum, of 128 products or of all.
  if (isFp8(p.dtype))
    tolerance.scaled = p.compute == ComputeMode::FastFp8
                           ? std::min(1.0, std::max<double>(p.k, 128) / 32768)
                           : std::ldexp(1.0, -8);
  return tolerance;
}

void GemmMatrices::describe(const GemmProblem &p, OperandTable &table) {
  OperandSpec &a = describeMatrix(p, GemmOperand::A,
                                  {.name = "a",
                                   .slot = KILN_GEMM_A,
                                   .type = p.dtype,
                                   .rows = p.rowsA(),
                                   .cols = p.colsA(),
                                   .ld = p.lda},
                                  table);
  shareAmongGroups(p, p.scaledRowsA(), a);
  describeInput(a);
  describeInput(describeMatrix(p, GemmOperand::B,
                               {.name = "b",
                                .slot = KILN_GEMM_B,
                                .role = OperandRole::Constant,
                                .type = p.typeB,
                                .rows = p.rowsB(),
                                .cols = p.colsB(),
                                .ld = p.ldb},
                               table));
  OperandSpec &d = describeMatrix(p, GemmOperand::D,
                                  {.name = "d",
                                   .slot = KILN_GEMM_D,
                                   .role = OperandRole::Out,
                                   .type = p.out,
                                   .rows = p.m,
                                   .cols = p.outCols(),
                                   .ld = p.ldd},
                                  table);
  shareAmongGroups(p, p.room, d);
  if (p.beta != 0 && !p.quantizes())
    d.mayBe = GemmOperand::C;
  d.tolerance = toleranceOfD(p);
}

} // namespace kiln
