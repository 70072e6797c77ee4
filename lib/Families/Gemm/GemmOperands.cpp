//===- GemmOperands.cpp ---------------------------------------------------===//
#include "Families/Gemm/GemmOperands.h"

#include "Families/Gemm/GemmCall.h"
#include "Families/ProblemFields.h"
#include "Model/MathUtil.h"

#include <algorithm>
#include <cmath>

namespace kiln {

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

/// Sizes of groups, and what belongs to rows that are elsewhere.
static void describeGroups(const GemmProblem &p, OperandTable &table) {
  auto describe = [&](int index, llvm::StringRef name, DType type,
                      int64_t count, bool present) -> OperandSpec & {
    OperandSpec &spec = table.operands[index];
    spec = OperandSpec();
    spec.name = name;
    spec.type = type;
    spec.rows = 1;
    // What is not there follows no extent.
    spec.cols = spec.leadingDimension = present ? count : 0;
    spec.alignment = spec.misalignment = bytesOf(type);
    spec.present = present;
    return spec;
  };
  const bool isMasked = p.groups == GroupKind::Masked;
  OperandSpec &sizes = describe(GemmOperand::GroupSizes, "group_sizes",
                                DType::INT32, p.batch, p.hasGroups());
  sizes.usual.integers = {isMasked ? IntegerData::Counts : IntegerData::Ends, 0,
                          isMasked       ? p.room
                          : p.batch == 1 ? p.m
                                         : ceilDiv(p.m, 2),
                          isMasked ? p.m * p.batch : p.m, p.groupAlign};
  sizes.outliers = sizes.usual;
  OperandSpec &index = describe(GemmOperand::RowIndex, "row_index",
                                DType::INT32, p.m, p.gathers || p.scatters);
  index.usual.integers = {IntegerData::Indices, 0,
                          std::max<int64_t>(p.m - 1, 0)};
  index.outliers = index.usual;
  describe(GemmOperand::RowWeights, "row_weights", DType::FP32, p.m,
           p.hasRowWeights);
}

/// Packed weights, their scales and zero points: bytes in rows of blocks.
static void describePacked(const GemmProblem &p, OperandTable &table) {
  auto describe = [&](int index, llvm::StringRef name, DType type, int64_t cols,
                      bool present) -> OperandSpec & {
    OperandSpec &spec = table.operands[index];
    spec = OperandSpec();
    spec.name = name;
    spec.role = OperandRole::Constant;
    // Codes of 4 bits, and powers of two, are bytes here.
    spec.type = type == DType::E4M3 || bitsOf(type) > 8 ? type : DType::INT8;
    spec.rows = p.packedRows() * p.batch;
    spec.cols = spec.leadingDimension = cols;
    constexpr int kAlign = 16;
    spec.alignment = kAlign;
    spec.present = present;
    return spec;
  };
  OperandSpec &weights =
      describe(GemmOperand::B, "b", p.typeB, p.packedRowBytes(), true);
  constexpr double kAllBytes = 50;
  if (weights.type == DType::INT8)
    weights.usual.deviation = weights.outliers.deviation = kAllBytes;
  OperandSpec &scales = describe(GemmOperand::ScaleB, "scale_b", p.scaleTypeB,
                                 p.packedRowScales(), true);
  scales.usual = {.mean = -2, .isLogarithmic = true};
  scales.outliers = {.mean = -2, .deviation = 2, .isLogarithmic = true};
  if (p.scaleTypeB == DType::E8M0)
    scales.usual = scales.outliers = {.mean = 118, .deviation = 3};
  OperandSpec &zeros = describe(GemmOperand::ZeroB, "zero_b", DType::INT8,
                                p.packedRowScales(), p.zeroB);
  zeros.usual = zeros.outliers = {.mean = 8, .deviation = 1.4};
}

/// The scales of an e4m3 D: one line of those of rows, or rows of those of 128
/// columns, or the other way round.
static void describeScalesD(const GemmProblem &p, OperandTable &table) {
  OperandSpec &spec = table.operands[GemmOperand::ScaleD];
  spec.name = "scale_d";
  spec.type = DType::FP32;
  spec.present = p.quantizes();
  if (!spec.present) // then it follows no extent
    return;
  spec.alignment = spec.misalignment = bytesOf(DType::FP32);
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
  spec.usual = {.mean = -2, .isLogarithmic = true};
  spec.outliers = {.mean = -2, .deviation = 2, .isLogarithmic = true};
  spec.tolerance.relative = std::ldexp(1.0, -7);
  spec.tolerance.scaled = table.operands[GemmOperand::D].tolerance.scaled;
}

OperandTable gemmOperands(const GemmProblem &p) {
  OperandTable table;
  table.operands.resize(GemmOperand::Count);
  auto set = [&](int index, llvm::StringRef name, OperandRole role, DType type,
                 int64_t rows, int64_t cols, int64_t ld,
                 bool present) -> OperandSpec & {
    OperandSpec &spec = table.operands[index];
    spec.name = name;
    spec.role = role;
    spec.type = type;
    spec.rows = rows;
    spec.cols = cols;
    spec.leadingDimension = ld;
    spec.batch = p.batch;
    spec.batchStride = rows * ld;
    spec.misalignment = misalignmentOf(p.align, type);
    spec.present = present;
    // Large beside the rest, yet a sum of such products is finite in fp16.
    spec.outliers.outlierPeriod = 1000;
    spec.outliers.outlier = 64;
    constexpr int kTf32Mantissa = 10;
    if (p.compute == ComputeMode::TF32)
      spec.usual.mantissaBits = spec.outliers.mantissaBits = kTf32Mantissa;
    return spec;
  };
  // Groups with ends share what has a row for each of the product's.
  auto setFlat = [&](OperandSpec &spec, int64_t rows) -> OperandSpec & {
    spec.rows = rows;
    spec.batch = p.batchA;
    spec.batchStride = spec.batch > 1 ? rows * spec.leadingDimension : 0;
    return spec;
  };
  OperandSpec &a = set(GemmOperand::A, "a", OperandRole::In, p.dtype, p.rowsA(),
                       p.colsA(), p.lda, true);
  if (p.hasGroups())
    setFlat(a, p.scaledRowsA());
  describeInput(a);
  describeInput(set(GemmOperand::B, "b", OperandRole::Constant, p.typeB,
                    p.rowsB(), p.colsB(), p.ldb, true));
  set(GemmOperand::C, "c", OperandRole::In, p.sideType(), p.m, p.n, p.ldc,
      p.beta != 0);
  OperandSpec &d = set(GemmOperand::D, "d", OperandRole::Out, p.out, p.m,
                       p.outCols(), p.ldd, true);
  if (p.hasGroups())
    setFlat(d, p.room);
  if (p.beta != 0 && !p.quantizes())
    d.mayBe = GemmOperand::C;
  // Rounding of the output, and of k products summed in fp32 in any order.
  int mantissa = p.out == DType::BF16 ? 7 : p.out == DType::FP16 ? 10 : 23;
  d.tolerance.relative = 2 * std::ldexp(1.0, -mantissa);
  d.tolerance.scaled =
      4 * std::sqrt(std::max<double>(p.k, 1)) * std::ldexp(1.0, -24);
  // An fp8 tensor core keeps 13 bits of a sum, of 128 products or of all.
  if (isFp8(p.dtype))
    d.tolerance.scaled = p.compute == ComputeMode::FastFp8
                             ? std::min(1.0, std::max<double>(p.k, 128) / 32768)
                             : std::ldexp(1.0, -8);
  // One step of e4m3, normal or not: behind a rounding to 16 bits a result may
  // fall to the next one.
  if (p.quantizes()) {
    d.tolerance.relative = std::ldexp(1.0, -3);
    d.tolerance.absolute = std::ldexp(1.0, -9);
  }
  int64_t biasCols = p.linkCols(PointwiseOp::Bias);
  OperandSpec &bias =
      set(GemmOperand::Bias, "bias", OperandRole::Constant, p.sideType(), 1,
          biasCols, biasCols, p.pointwise.contains(PointwiseOp::Bias));
  // Groups have a bias each.
  if (!p.hasGroups()) {
    bias.batch = 1;
    bias.batchStride = 0;
  }
  OperandSpec &residual =
      set(GemmOperand::Residual, "residual", OperandRole::In, p.sideType(), p.m,
          p.linkCols(PointwiseOp::Residual), p.ldResidual,
          p.pointwise.contains(PointwiseOp::Residual));
  if (p.hasGroups())
    setFlat(residual, p.room);
  auto setScales = [&](int index, llvm::StringRef name, OperandRole role,
                       const GemmScales &scales, int64_t extent) {
    int64_t rows = GemmProblem::scaleRows(scales, extent);
    int64_t depths = p.scaleDepths(scales);
    if (scales.alongRows)
      std::swap(rows, depths);
    // Those of rows are one line.
    if (!isBlockScale(scales.kind))
      std::swap(rows, depths);
    OperandSpec &spec = set(index, name, role, DType::FP32, rows, depths,
                            isBlockScale(scales.kind) ? scales.ld : depths,
                            scales.kind != ScaleKind::None);
    spec.alignment = bytesOf(DType::FP32);
    spec.misalignment = misalignmentOf(spec.alignment, DType::FP32);
    // Neighbours differ, by factors of 2 and more.
    spec.usual = {.mean = -2, .isLogarithmic = true};
    spec.outliers = {.mean = -2, .deviation = 2, .isLogarithmic = true};
  };
  setScales(GemmOperand::ScaleA, "scale_a", OperandRole::In, p.scaleA,
            p.scaledRowsA());
  if (p.hasGroups())
    setFlat(table.operands[GemmOperand::ScaleA],
            table.operands[GemmOperand::ScaleA].rows);
  setScales(GemmOperand::ScaleB, "scale_b", OperandRole::Constant, p.scaleB,
            p.n);
  table.operands[GemmOperand::ZeroB].present = false;
  describeGroups(p, table);
  if (p.isPacked())
    describePacked(p, table);
  describeScalesD(p, table);
  const bool hasZeroA = p.zeroA != ScaleKind::None;
  auto setIntegers = [&](int index, llvm::StringRef name, OperandRole role,
                         int64_t count, int most) {
    OperandSpec &spec =
        set(index, name, role, DType::INT32, 1, count, count, hasZeroA);
    spec.alignment = bytesOf(DType::INT32);
    spec.misalignment = misalignmentOf(spec.alignment, DType::INT32);
    spec.usual.integers =
        spec.outliers.integers = {IntegerData::Values, -most - 1, most};
  };
  setIntegers(GemmOperand::ZeroA, "zero_a", OperandRole::In,
              p.zeroA == ScaleKind::Row ? p.m : 1, 127);
  // Such that fp16 has what they make. Kernels do not mind whose sums they are.
  setIntegers(GemmOperand::ColumnSumsB, "column_sums_b", OperandRole::Constant,
              p.n, 199);
  auto slotOf = [&](PointwiseOp op) {
    return int(KILN_GEMM_POINTWISE) + p.pointwise.find(op);
  };
  const int slots[] = {KILN_GEMM_A,
                       KILN_GEMM_B,
                       KILN_GEMM_C,
                       KILN_GEMM_D,
                       slotOf(PointwiseOp::Bias),
                       slotOf(PointwiseOp::Residual),
                       KILN_GEMM_SCALE_A,
                       KILN_GEMM_SCALE_B,
                       KILN_GEMM_ZERO_B,
                       KILN_GEMM_GROUP_SIZES,
                       KILN_GEMM_ROW_INDEX,
                       KILN_GEMM_ROW_WEIGHTS,
                       KILN_GEMM_ZERO_A,
                       KILN_GEMM_COLUMN_SUMS_B,
                       KILN_GEMM_SCALE_D};
  for (int i = 0; i < GemmOperand::Count; ++i)
    table.operands[i].slot = slots[i];
  return table;
}

} // namespace kiln
