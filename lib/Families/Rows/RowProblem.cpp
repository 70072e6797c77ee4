//===- RowProblem.cpp -----------------------------------------------------===//
#include "Families/Rows/RowProblem.h"

#include "Families/Chain.h"
#include "Families/Elementwise/ElementwiseProblem.h"
#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"
#include "Support/EnumName.h"

namespace kiln {

static constexpr int64_t code(auto value) {
  return static_cast<int64_t>(value);
}

llvm::StringRef nameOf(RowKind kind) {
  using enum RowKind;
  static constexpr EnumName<RowKind> kNames[] = {{RmsNorm, "rmsnorm"},
                                                 {LayerNorm, "layernorm"},
                                                 {Softmax, "softmax"},
                                                 {Quantize, "rowquant"},
                                                 {Reduce, "reduce"}};
  return nameIn(kNames, kind, {});
}

//===----------------------------------------------------------------------===//
// Schemas
//===----------------------------------------------------------------------===//

static constexpr FieldName kTypeNames[] = {{code(DType::BF16), "bf16"},
                                           {code(DType::FP16), "fp16"},
                                           {code(DType::FP32), "fp32"},
                                           {code(DType::E4M3), "fp8_e4m3"},
                                           {code(DType::INT8), "int8"}};
/// The types above that need no scale.
static constexpr llvm::ArrayRef<FieldName> kFloatNames(kTypeNames, 3);

/// A quantisation is named after its result: its value is the result's type.
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
  if (kind == RowKind::Quantize) {
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
  case RowField::Mask: // 1: a term for each element, 2: for each column
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
  case RowField::ScaleY:
    return scaleKindField(/*mayBeNone=*/false);
  case RowField::ScaleOrderY:
    return scaleOrderField();
  case RowField::LdScaleY:
    return scaleLdField();
  default:
    return alignField();
  }
}

static Schema makeSchema(RowKind kind) {
  std::vector<Field> fields;
  const RowFieldList &list = fieldsOf(kind);
  for (int field : llvm::ArrayRef(list.fields, size_t(list.count)))
    fields.push_back(describe(kind, field));
  return Schema(nameOf(kind), TextStyle::Spaced, std::move(fields));
}

const Schema &rowProblemSchema(RowKind kind) {
  if (kind == RowKind::Pointwise)
    return elementwiseProblemSchema();
  static const Schema *const schemas =
      new Schema[]{makeSchema(RowKind::RmsNorm), makeSchema(RowKind::LayerNorm),
                   makeSchema(RowKind::Softmax), makeSchema(RowKind::Quantize),
                   makeSchema(RowKind::Reduce)};
  return schemas[static_cast<int>(kind)];
}

//===----------------------------------------------------------------------===//
// Values to structs and back
//===----------------------------------------------------------------------===//

static RowOp operationOf(RowKind kind, int64_t op) {
  switch (kind) {
  case RowKind::RmsNorm:
    return RowOp::RmsNorm;
  case RowKind::LayerNorm:
    return RowOp::LayerNorm;
  case RowKind::Softmax:
    return RowOp::Softmax;
  case RowKind::Quantize:
  case RowKind::Pointwise:
    return RowOp::Quantize;
  case RowKind::Reduce:
    break;
  }
  return static_cast<RowOp>(op);
}

/// A quantisation behind the chain of the elementwise problem \p values.
static RowProblem readPointwise(const int64_t *values) {
  const ElementwiseProblem from = readElementwiseProblem(values);
  RowProblem p;
  p.op = RowOp::Quantize;
  p.rows = from.rows;
  p.cols = from.cols;
  p.dtype = from.dtype;
  p.out = from.out;
  p.chain = from.chain;
  p.scale = from.scale;
  p.ldx = from.ldx;
  p.ldy = from.ldy;
  p.ldLink = from.ldOperand;
  p.scaleY = from.scaleY;
  p.align = from.align;
  return p;
}

RowProblem readRowProblem(RowKind kind, const int64_t *values) {
  if (kind == RowKind::Pointwise)
    return readPointwise(values);
  const RowFieldList &list = fieldsOf(kind);
  auto has = [&](int field) { return list.indexOf[field] >= 0; };
  // The value of a field, or 0 if the family lacks it.
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
  p.out = static_cast<DType>(kind == RowKind::Quantize
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
  if (p.quantizes()) {
    p.scaleY.kind =
        static_cast<ScaleKind>(resolve(RowField::ScaleY, code(ScaleKind::Row)));
    p.scaleY.alongRows = get(RowField::ScaleOrderY) != 0;
    p.scaleY.ld =
        resolve(RowField::LdScaleY, p.scaleY.packedLd(p.rows, p.cols));
  }
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
          .mask = p.mask,
          .scales = p.quantizes() ? p.scaleY.kind : ScaleKind::Row,
          .chain = p.chain};
}

int64_t RowProblem::matrices() const { return signatureOf(*this).matrices(); }
int64_t RowProblem::sharedRows() const {
  return signatureOf(*this).sharedRows();
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

llvm::StringRef enumeratorText(RowOp op) {
  using enum RowOp;
  static constexpr EnumName<RowOp> kNames[] = {
      {RmsNorm, "kiln::RowOp::RmsNorm"},
      {LayerNorm, "kiln::RowOp::LayerNorm"},
      {Softmax, "kiln::RowOp::Softmax"},
      {Quantize, "kiln::RowOp::Quantize"},
      {Sum, "kiln::RowOp::Sum"},
      {Max, "kiln::RowOp::Max"},
      {Mean, "kiln::RowOp::Mean"},
      {SumSquares, "kiln::RowOp::SumSquares"}};
  return nameIn(kNames, op, {});
}

llvm::StringRef enumeratorText(RowMask mask) {
  using enum RowMask;
  static constexpr EnumName<RowMask> kNames[] = {
      {None, "kiln::RowMask::None"},
      {Matrix, "kiln::RowMask::Matrix"},
      {Row, "kiln::RowMask::Row"}};
  return nameIn(kNames, mask, {});
}

static constexpr SignatureFields kSignatureFields(
    SignatureField{"op", "op", &RowSignature::op, true, kOpNames},
    SignatureField{"in", "in", &RowSignature::in, true, kFloatNames},
    SignatureField{"out", "out", &RowSignature::out, true, kTypeNames},
    SignatureField{"weight", "weight", &RowSignature::weight},
    SignatureField{"bias", "bias", &RowSignature::bias},
    SignatureField{"residual", "residual", &RowSignature::residual},
    SignatureField{"mask", "mask", &RowSignature::mask, false, {}, 2},
    SignatureField{"scales", "scales", &RowSignature::scales, false,
                   kScaleNamesY},
    SignatureField{"chain", "chain", &RowSignature::chain, false, kLinkNames});

Values toValues(const RowSignature &signature) {
  static const Schema &schema = *new Schema(kSignatureFields.schema("rows"));
  return kSignatureFields.toValues(signature, schema);
}

RowSignature readRowSignature(const Values &values) {
  return kSignatureFields.fromValues(values);
}

std::string initializerText(const RowSignature &signature) {
  return kSignatureFields.initializer(signature);
}

/// Fills in the operands of an elementwise problem.
static void fillPointwise(const RowProblem &problem, const Arguments &arguments,
                          RowParams &params) {
  const OperandArgument *operands = arguments.operands;
  for (int i = 0; i < PointwiseChain::kMaxOps; ++i)
    params.links[i] = reinterpret_cast<const void *>(
        operands[ElementwiseOperand::FirstLink + i].address);
  params.scales =
      reinterpret_cast<float *>(operands[ElementwiseOperand::Scales].address);
  params.ldLink = problem.ldLink;
  params.scale =
      static_cast<float>(arguments.scalars[ElementwiseScalar::Scale]);
  params.scalePtr = reinterpret_cast<const float *>(
      arguments.scalarAddresses[ElementwiseScalar::Scale]);
}

/// Fills in the operands and the scalar of the other families' problems, except
/// for x and y.
static void fillOperands(const RowProblem &problem, const Arguments &arguments,
                         RowParams &params) {
  const OperandArgument *operands = arguments.operands;
  auto pointer = [&](int index) {
    return reinterpret_cast<void *>(operands[index].address);
  };
  params.weight = pointer(RowOperand::Weight);
  params.bias = pointer(RowOperand::Bias);
  params.residual = pointer(RowOperand::Residual);
  params.residualOut = pointer(RowOperand::ResidualOut);
  params.mask = pointer(RowOperand::Mask);
  params.scales = static_cast<float *>(pointer(RowOperand::Scales));
  params.ldResidual = operands[RowOperand::Residual].leadingDimension;
  params.ldResidualOut = operands[RowOperand::ResidualOut].leadingDimension;
  params.ldMask = operands[RowOperand::Mask].leadingDimension;
  if (problem.isNorm())
    params.epsilon = static_cast<float>(arguments.scalars[0]);
  else if (problem.op == RowOp::Softmax)
    params.scale = static_cast<float>(arguments.scalars[0]);
}

static_assert(int(RowOperand::X) == int(ElementwiseOperand::X) &&
              int(RowOperand::Y) == int(ElementwiseOperand::Y));

RowParams makeRowParams(RowKind kind, const RowProblem &problem,
                        const Arguments &arguments) {
  const OperandArgument &x = arguments.operands[RowOperand::X];
  const OperandArgument &y = arguments.operands[RowOperand::Y];
  RowParams params;
  params.x = reinterpret_cast<const void *>(x.address);
  params.y = reinterpret_cast<void *>(y.address);
  params.ldx = x.leadingDimension;
  params.ldy = y.leadingDimension;
  params.rows = problem.rows;
  params.cols = problem.cols;
  params.allRows = problem.allRows;
  const OperandScales &scales = problem.scaleY;
  params.scaleRowStride = scales.alongRows ? 1 : scales.ld;
  params.scaleBlockStride = scales.alongRows ? scales.ld : 1;
  if (kind == RowKind::Pointwise)
    fillPointwise(problem, arguments, params);
  else
    fillOperands(problem, arguments, params);
  return params;
}

} // namespace kiln
