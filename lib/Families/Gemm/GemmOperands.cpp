//===- GemmOperands.cpp ---------------------------------------------------===//
#include "Families/Gemm/GemmOperands.h"

#include "Families/Gemm/GemmProblem.h"
#include "Families/ProblemFields.h"

namespace kiln {

OperandSpec &describeMatrix(const GemmProblem &p, int index,
                            const GemmMatrix &matrix, OperandTable &table) {
  OperandSpec &spec = table.operands[index];
  spec.name = matrix.name;
  spec.slot = matrix.slot;
  spec.role = matrix.role;
  spec.type = matrix.type;
  spec.rows = matrix.rows;
  spec.cols = matrix.cols;
  spec.leadingDimension = matrix.ld;
  spec.batch = p.batch;
  spec.batchStride = matrix.rows * matrix.ld;
  spec.misalignment = misalignmentOf(p.align, matrix.type);
  spec.present = matrix.isPresent;
  // Large beside the rest, yet a sum of such products is finite in fp16.
  spec.outliers.outlierPeriod = 1000;
  spec.outliers.outlier = 64;
  constexpr int kTf32Mantissa = 10;
  if (p.compute == ComputeMode::TF32)
    spec.usual.mantissaBits = spec.outliers.mantissaBits = kTf32Mantissa;
  return spec;
}

void shareAmongGroups(const GemmProblem &p, int64_t rows, OperandSpec &spec) {
  if (!p.hasGroups())
    return;
  spec.rows = rows;
  spec.batch = p.batchA;
  spec.batchStride = spec.batch > 1 ? rows * spec.leadingDimension : 0;
}

void alignToElement(OperandSpec &spec) {
  spec.alignment = spec.misalignment = bytesOf(spec.type);
}

void fillWithScales(OperandSpec &spec) {
  spec.usual = {.mean = -2, .isLogarithmic = true};
  spec.outliers = {.mean = -2, .deviation = 2, .isLogarithmic = true};
}

OperandTable gemmOperands(const GemmProblem &p) {
  OperandTable table;
  table.operands.resize(GemmOperand::Count);
  GemmMatrices::describe(p, table);
  GemmEpilogue::describe(p, table);
  GemmScales::describe(p, table);
  GemmGroups::describe(p, table);
  // Packed weights and their scales take the places of plain ones, and an e4m3
  // D has another tolerance.
  PackedB::describe(p, table);
  QuantizedD::describe(p, table);
  return table;
}

} // namespace kiln
