//===- PackedB.cpp --------------------------------------------------------===//
#include "Families/Gemm/PackedB.h"

#include "Families/Gemm/GemmOperands.h"
#include "Families/Gemm/GemmProblem.h"
#include "Families/ProblemFields.h"
#include "Kernel/TypeName.h"
#include "Support/Error.h"
#include "kiln/gemm.h"

namespace kiln {

void PackedB::addFields(llvm::MutableArrayRef<Field> fields) {
  using F = GemmField;
  fields[F::OrderB] = enumField("order_b", false, kGemmOrderNames);
  fields[F::ScaleTypeB] = enumField("scale_type_b", false, kGemmScaleTypeNames);
  fields[F::ZeroB] = flagField("zero_b");
}

/// Fields that only packed weights have.
static llvm::Error checkPlainB(const GemmProblem &p) {
  if (p.typeB == DType::INT4 || p.typeB == DType::E2M1)
    return makeError(ErrorCode::Unsupported, "gemm: b={} needs order_b=k64r16",
                     nameOf(p.typeB));
  if (p.zeroB)
    return makeError(ErrorCode::Unsupported,
                     "gemm: zero_b=1 needs order_b=k64r16");
  if (p.groupB != 0)
    return makeError(ErrorCode::Unsupported,
                     "gemm: scale_b=1x{} needs order_b=k64r16", p.groupB);
  if (p.scaleTypeB != DType::FP32)
    return makeError(ErrorCode::Unsupported,
                     "gemm: scale_type_b={} needs order_b=k64r16",
                     nameOf(p.scaleTypeB));
  return llvm::Error::success();
}

llvm::Error PackedB::check(const GemmProblem &p) {
  if (!p.isPacked())
    return checkPlainB(p);
  GemmSignature signature = signatureOf(p);
  // QuantizedD and GemmScales report these.
  signature.out = p.sideType();
  signature.zeroA = ScaleKind::None;
  if (!signature.hasTypes())
    return makeError(ErrorCode::Unsupported,
                     "gemm: order_b=k64r16 is for dtype=bf16 or fp16 with b of "
                     "int4, int8, e4m3 or e2m1");
  if (p.layout != Layout::NT)
    return makeError(ErrorCode::Unsupported,
                     "gemm: order_b=k64r16 needs layout=NT");
  if (p.batch != 1 && !p.hasGroups())
    return makeError(
        ErrorCode::Unsupported,
        "gemm: batch={} without groups: packed weights have no batch", p.batch);
  if (!signature.hasScales())
    return makeError(ErrorCode::Unsupported,
                     "gemm: packed weights have scales of rows or of groups, "
                     "1x32, 1x64 or 1x128, e2m1 those of 1x32 as e8m0, and "
                     "int4 alone zero points");
  return llvm::Error::success();
}

void PackedB::reset(const GemmProblem &p, Values &values) {
  resetIf(p.scaleTypeB == defaultScaleType(p.orderB, p.typeB),
          GemmField::ScaleTypeB, values);
}

/// Operand \p index, as bytes with a row for every 64 rows of W[n, k].
static OperandSpec &describePackedRows(const GemmProblem &p, int index,
                                       llvm::StringRef name, int slot,
                                       DType type, int64_t cols,
                                       OperandTable &table) {
  OperandSpec &spec = table.operands[index];
  spec = OperandSpec();
  spec.name = name;
  spec.slot = slot;
  spec.role = OperandRole::Constant;
  // Codes of 4 bits, and powers of two, are bytes here.
  spec.type = type == DType::E4M3 || bitsOf(type) > 8 ? type : DType::INT8;
  spec.rows = PackedWeights::blocksOf(p.n) * p.batch;
  spec.cols = spec.leadingDimension = cols;
  constexpr int kAlign = 16;
  spec.alignment = kAlign;
  return spec;
}

void PackedB::describe(const GemmProblem &p, OperandTable &table) {
  OperandSpec &zeros = table.operands[GemmOperand::ZeroB];
  zeros.slot = KILN_GEMM_ZERO_B;
  zeros.present = false;
  if (!p.isPacked())
    return;
  const int64_t rowBytes =
      PackedWeights::blocksOf(p.k) * PackedWeights::blockBytes(bitsOf(p.typeB));
  const int64_t rowScales =
      PackedWeights::groups(p.k, p.groupB) * PackedWeights::kRows;
  OperandSpec &weights = describePackedRows(p, GemmOperand::B, "b", KILN_GEMM_B,
                                            p.typeB, rowBytes, table);
  constexpr double kAllBytes = 50;
  if (weights.type == DType::INT8)
    weights.usual.deviation = weights.outliers.deviation = kAllBytes;
  OperandSpec &scales =
      describePackedRows(p, GemmOperand::ScaleB, "scale_b", KILN_GEMM_SCALE_B,
                         p.scaleTypeB, rowScales, table);
  fillWithScales(scales);
  if (p.scaleTypeB == DType::E8M0)
    scales.usual = scales.outliers = {.mean = 118, .deviation = 3};
  describePackedRows(p, GemmOperand::ZeroB, "zero_b", KILN_GEMM_ZERO_B,
                     DType::INT8, rowScales, table);
  zeros.present = p.zeroB;
  zeros.usual = zeros.outliers = {.mean = 8, .deviation = 1.4};
}

} // namespace kiln
