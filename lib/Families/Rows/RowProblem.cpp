//===- RowProblem.cpp -----------------------------------------------------===//
#include "Families/Rows/RowProblem.h"

#include "Families/KernelUnit.h"
#include "Families/ProblemFields.h"
#include "Support/Format.h"

namespace kiln {

static constexpr int64_t code(auto value) {
  return static_cast<int64_t>(value);
}

llvm::StringRef nameOf(RowKind kind) {
  switch (kind) {
  case RowKind::RmsNorm:
    return "rmsnorm";
  case RowKind::LayerNorm:
    return "layernorm";
  case RowKind::Softmax:
    return "softmax";
  case RowKind::Rowquant:
    return "rowquant";
  case RowKind::Reduce:
    return "reduce";
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Schemas
//===----------------------------------------------------------------------===//

static constexpr FieldName kTypeNames[] = {{code(DType::BF16), "bf16"},
                                           {code(DType::FP16), "fp16"},
                                           {code(DType::FP32), "fp32"},
                                           {code(DType::E4M3), "fp8_e4m3"},
                                           {code(DType::INT8), "int8"}};
/// The types of the above that need no scale.
static constexpr llvm::ArrayRef<FieldName> kFloatNames(kTypeNames, 3);

/// A quantisation is named after what it makes: the type is its value.
static constexpr FieldName kQuantizationNames[] = {
    {code(DType::E4M3), "quant_fp8_per_row"},
    {code(DType::INT8), "quant_int8_per_row"}};
static constexpr FieldName kOpNames[] = {
    {code(RowOp::Sum), "sum"},         {code(RowOp::Max), "max"},
    {code(RowOp::Mean), "mean"},       {code(RowOp::SumSquares), "sumsq"},
    {code(RowOp::RmsNorm), "rmsnorm"}, {code(RowOp::LayerNorm), "layernorm"},
    {code(RowOp::Softmax), "softmax"}, {code(RowOp::Quantize), "quantize"}};
static constexpr llvm::ArrayRef<FieldName> kReductionNames(kOpNames, 4);

static constexpr int64_t kAxisCols = 0, kAxisAll = 10;
static constexpr FieldName kAxisNames[] = {{kAxisCols, "cols"},
                                           {kAxisAll, "all"}};

static Field flag(llvm::StringRef key, int64_t maximum = 1) {
  return {.key = key, .role = FieldRole::Signature, .maximum = maximum};
}

static Field operation(RowKind kind) {
  Field field = enumField("op", true, kReductionNames);
  if (kind == RowKind::Rowquant) {
    field.required = false;
    field.defaultValue = code(DType::E4M3);
    field.names = kQuantizationNames;
  }
  return field;
}

static Field describe(RowKind kind, int field) {
  bool norm = kind == RowKind::RmsNorm || kind == RowKind::LayerNorm;
  switch (field) {
  case RowField::Rows:
    return extentField("rows", FieldRole::DynamicExtent);
  case RowField::Cols:
    return extentField("cols", FieldRole::Extent);
  case RowField::DType:
    return enumField("dtype", true, kFloatNames);
  case RowField::Out:
    return enumField("out", false,
                     norm ? llvm::ArrayRef(kTypeNames) : kFloatNames);
  case RowField::Op:
    return operation(kind);
  case RowField::Axis:
    return enumField("axis", false, kAxisNames);
  case RowField::Weight:
    return flag("weight");
  case RowField::Bias:
    return flag("bias");
  case RowField::Residual:
    return flag("residual");
  case RowField::Mask: // 1: a term of each element, 2: of each column
    return flag("mask", 2);
  case RowField::Epsilon:
    return scalarField("eps", 1e-5);
  case RowField::Scale:
    return scalarField("scale", 1.0);
  case RowField::LdX:
    return leadingDimensionField("ldx");
  case RowField::LdY:
    return leadingDimensionField("ldy");
  case RowField::LdResidual:
    return leadingDimensionField("ldr");
  case RowField::LdResidualOut:
    return leadingDimensionField("ldh");
  case RowField::LdMask:
    return leadingDimensionField("ldmask");
  default:
    return alignField();
  }
}

static RecordSchema makeSchema(RowKind kind) {
  std::vector<Field> fields;
  const RowFieldList &list = fieldsOf(kind);
  for (int field : llvm::ArrayRef(list.fields, size_t(list.count)))
    fields.push_back(describe(kind, field));
  return RecordSchema(nameOf(kind), TextStyle::Spaced, std::move(fields));
}

const RecordSchema &rowProblemSchema(RowKind kind) {
  static const RecordSchema schemas[] = {
      makeSchema(RowKind::RmsNorm), makeSchema(RowKind::LayerNorm),
      makeSchema(RowKind::Softmax), makeSchema(RowKind::Rowquant),
      makeSchema(RowKind::Reduce)};
  return schemas[static_cast<int>(kind)];
}

const RecordSchema &rowSignatureSchema() {
  static const RecordSchema schema(
      "rows", TextStyle::Spaced,
      {enumField("op", true, kOpNames), enumField("in", true, kFloatNames),
       enumField("out", true, kTypeNames), flag("weight"), flag("bias"),
       flag("residual"), flag("mask", 2)});
  return schema;
}

//===----------------------------------------------------------------------===//
// Records to structs and back
//===----------------------------------------------------------------------===//

static RowOp operationOf(RowKind kind, int64_t op) {
  switch (kind) {
  case RowKind::RmsNorm:
    return RowOp::RmsNorm;
  case RowKind::LayerNorm:
    return RowOp::LayerNorm;
  case RowKind::Softmax:
    return RowOp::Softmax;
  case RowKind::Rowquant:
    return RowOp::Quantize;
  case RowKind::Reduce:
    break;
  }
  return static_cast<RowOp>(op);
}

RowProblem readRowProblem(RowKind kind, const int64_t *values) {
  const RowFieldList &list = fieldsOf(kind);
  auto has = [&](int field) { return list.indexOf[field] >= 0; };
  // The value of a field, or 0 where the family has no such field.
  auto get = [&](int field) {
    return has(field) ? values[list.indexOf[field]] : 0;
  };
  auto resolve = [&](int field, int64_t derived) {
    int64_t value = get(field);
    return value ? value : derived;
  };
  RowProblem p;
  p.op = operationOf(kind, get(RowField::Op));
  p.rows = get(RowField::Rows);
  p.cols = get(RowField::Cols);
  p.dtype = static_cast<DType>(get(RowField::DType));
  p.out = static_cast<DType>(kind == RowKind::Rowquant
                                 ? get(RowField::Op)
                                 : resolve(RowField::Out, code(p.dtype)));
  p.weight = get(RowField::Weight) != 0;
  p.bias = get(RowField::Bias) != 0;
  p.residual = get(RowField::Residual) != 0;
  p.mask = static_cast<RowMask>(get(RowField::Mask));
  p.allRows = get(RowField::Axis) == kAxisAll;
  if (has(RowField::Epsilon))
    p.epsilon = decodeReal(get(RowField::Epsilon));
  if (has(RowField::Scale))
    p.scale = decodeReal(get(RowField::Scale));
  p.ldx = resolve(RowField::LdX, p.cols);
  p.ldy = resolve(RowField::LdY, isReduction(p.op) ? 1 : p.cols);
  p.ldResidual = resolve(RowField::LdResidual, p.cols);
  p.ldResidualOut = resolve(RowField::LdResidualOut, p.cols);
  p.ldMask = p.mask == RowMask::Row ? 0 : resolve(RowField::LdMask, p.cols);
  p.align = get(RowField::Align);
  return p;
}

RowSignature signatureOf(const RowProblem &p) {
  return {.op = p.op,
          .in = p.dtype,
          .out = p.out,
          .weight = p.weight,
          .bias = p.bias,
          .residual = p.residual,
          .mask = p.mask};
}

Record toRecord(const RowSignature &signature) {
  Record record(rowSignatureSchema());
  int field = 0;
  for (int64_t value :
       {code(signature.op), code(signature.in), code(signature.out),
        code(signature.weight), code(signature.bias), code(signature.residual),
        code(signature.mask)})
    record.set(field++, value);
  return record;
}

RowSignature readRowSignature(const Record &record) {
  RowSignature signature;
  signature.op = static_cast<RowOp>(record[0]);
  signature.in = static_cast<DType>(record[1]);
  signature.out = static_cast<DType>(record[2]);
  signature.weight = record[3] != 0;
  signature.bias = record[4] != 0;
  signature.residual = record[5] != 0;
  signature.mask = static_cast<RowMask>(record[6]);
  return signature;
}

//===----------------------------------------------------------------------===//
// Text of the signature
//===----------------------------------------------------------------------===//

static llvm::StringRef enumeratorOf(RowOp op) {
  switch (op) {
  case RowOp::RmsNorm:
    return "RmsNorm";
  case RowOp::LayerNorm:
    return "LayerNorm";
  case RowOp::Softmax:
    return "Softmax";
  case RowOp::Quantize:
    return "Quantize";
  case RowOp::Sum:
    return "Sum";
  case RowOp::Max:
    return "Max";
  case RowOp::Mean:
    return "Mean";
  case RowOp::SumSquares:
    return "SumSquares";
  }
  return {};
}

static llvm::StringRef enumeratorOf(RowMask mask) {
  switch (mask) {
  case RowMask::None:
    return "None";
  case RowMask::Matrix:
    return "Matrix";
  case RowMask::Row:
    return "Row";
  }
  return {};
}

std::string initializerText(const RowSignature &s) {
  return fmt::format(
      "{{.op = kiln::RowOp::{}, .in = kiln::DType::{}, .out = kiln::DType::{}, "
      ".weight = {}, .bias = {}, .residual = {}, .mask = kiln::RowMask::{}}}",
      enumeratorOf(s.op), enumeratorOf(s.in), enumeratorOf(s.out), s.weight,
      s.bias, s.residual, enumeratorOf(s.mask));
}

} // namespace kiln
