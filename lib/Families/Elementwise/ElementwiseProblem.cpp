//===- ElementwiseProblem.cpp ---------------------------------------------===//
#include "Families/Elementwise/ElementwiseProblem.h"

#include "Call/Stated.h"
#include "Families/Chain.h"
#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"
#include "Support/Error.h"

#include <array>
#include <optional>

namespace kiln {

static constexpr int64_t code(auto value) {
  return static_cast<int64_t>(value);
}

/// Types of results. The last one needs scales.
static constexpr FieldName kOutNames[] = {{code(DType::BF16), "bf16"},
                                          {code(DType::FP16), "fp16"},
                                          {code(DType::FP32), "fp32"},
                                          {code(DType::E4M3), "fp8_e4m3"},
                                          {code(DType::INT8), "int8"}};
static constexpr int kTypeCount = 4;
static constexpr llvm::ArrayRef<FieldName> kTypeNames(kOutNames, kTypeCount);

/// Codes of casts follow those of all links, and never leave resolveCast(): a
/// byte for each pair of kTypeNames.
static constexpr int64_t kFirstCast = kLinkCodes;
static constexpr int64_t castCode(int from, int to) {
  return kFirstCast + from * kTypeCount + to;
}

static constexpr FieldName kCastNames[] = {
    {castCode(0, 1), "cast_bf16_fp16"},
    {castCode(0, 2), "cast_bf16_fp32"},
    {castCode(0, 3), "cast_bf16_fp8_e4m3"},
    {castCode(1, 0), "cast_fp16_bf16"},
    {castCode(1, 2), "cast_fp16_fp32"},
    {castCode(1, 3), "cast_fp16_fp8_e4m3"},
    {castCode(2, 0), "cast_fp32_bf16"},
    {castCode(2, 1), "cast_fp32_fp16"},
    {castCode(2, 3), "cast_fp32_fp8_e4m3"},
    {castCode(3, 0), "cast_fp8_e4m3_bf16"},
    {castCode(3, 1), "cast_fp8_e4m3_fp16"},
    {castCode(3, 2), "cast_fp8_e4m3_fp32"}};

/// Links and casts.
static constexpr auto kOpNames = [] {
  std::array<FieldName, std::size(kLinkNames) + std::size(kCastNames)> names{};
  size_t count = 0;
  for (const FieldName &name : kLinkNames)
    names[count++] = name;
  for (const FieldName &name : kCastNames)
    names[count++] = name;
  return names;
}();

const Schema &elementwiseProblemSchema() {
  static const Schema &schema =
      *new Schema("elementwise", TextStyle::Spaced,
                  {{.key = "op",
                    .kind = FieldKind::Chain,
                    .role = FieldRole::Signature,
                    .names = kOpNames},
                   extentField("rows", FieldRole::DynamicExtent),
                   extentField("cols", FieldRole::Extent),
                   enumField("dtype", false, kTypeNames),
                   enumField("out", false, kOutNames),
                   scalarField("scale", 1),
                   leadingDimensionField("ldx"),
                   leadingDimensionField("ldy"),
                   leadingDimensionField("ldo"),
                   scaleKindField(/*mayBeNone=*/true),
                   scaleOrderField(),
                   scaleLdField(),
                   alignField()});
  return schema;
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

/// Sets a type that a cast implies, or checks it against a given type.
static llvm::Error imply(Values &values, int field, const FieldName &type) {
  if (values[field] != 0 && values[field] != type.value)
    return makeError(
        ErrorCode::InvalidArgument, "elementwise: op={} contradicts {}={}",
        values.valueText(ElementwiseField::Op),
        values.schema().fields()[field].key, values.valueText(field));
  values.set(field, type.value);
  return llvm::Error::success();
}

llvm::Error resolveCast(Values &values) {
  auto chain = static_cast<uint64_t>(values[ElementwiseField::Op]);
  std::optional<int64_t> cast;
  for (uint64_t rest = chain; rest != 0; rest >>= 8)
    if (int64_t(rest & 0xff) >= kFirstCast)
      cast = int64_t(rest & 0xff) - kFirstCast;
  if (cast) {
    if (chain > 0xff)
      return makeError(ErrorCode::InvalidArgument,
                       "elementwise: op={} has a cast that is not alone",
                       values.valueText(ElementwiseField::Op));
    if (auto error = imply(values, ElementwiseField::DType,
                           kTypeNames[*cast / kTypeCount]))
      return error;
    if (auto error = imply(values, ElementwiseField::Out,
                           kTypeNames[*cast % kTypeCount]))
      return error;
    values.set(ElementwiseField::Op, 0);
  }
  if (values[ElementwiseField::DType] == 0)
    return makeError(ErrorCode::InvalidArgument,
                     "elementwise: dtype is missing");
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

ElementwiseProblem readElementwiseProblem(const int64_t *values) {
  ElementwiseProblem p;
  p.chain = decodeChain(values[ElementwiseField::Op]);
  p.rows = values[ElementwiseField::Rows];
  p.cols = values[ElementwiseField::Cols];
  p.dtype = static_cast<DType>(values[ElementwiseField::DType]);
  p.out = values[ElementwiseField::Out]
              ? static_cast<DType>(values[ElementwiseField::Out])
              : p.dtype;
  p.scale = decodeReal(values[ElementwiseField::Scale]);
  auto resolve = [&](int field) {
    return values[field] ? values[field] : p.cols;
  };
  p.ldx = resolve(ElementwiseField::LdX);
  p.ldy = resolve(ElementwiseField::LdY);
  p.ldOperand = resolve(ElementwiseField::LdOperand);
  p.scaleY.kind = static_cast<ScaleKind>(values[ElementwiseField::ScaleY]);
  p.scaleY.alongRows = values[ElementwiseField::ScaleOrderY] != 0;
  p.scaleY.ld = values[ElementwiseField::LdScaleY];
  if (p.scaleY.ld == 0)
    p.scaleY.ld = p.scaleY.packedLd(p.rows, p.cols);
  p.align = values[ElementwiseField::Align];
  return p;
}

ElementwiseSignature signatureOf(const ElementwiseProblem &p) {
  ElementwiseSignature signature;
  signature.in = p.dtype;
  signature.out = p.out;
  signature.chain = p.chain;
  signature.contiguous = p.ldx == p.cols && p.ldy == p.cols &&
                         (p.ldOperand == p.cols || !p.reads(LinkShape::Matrix));
  return signature;
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

// No signature has a cast.
static constexpr SignatureFields kSignatureFields(
    SignatureField{"in", "in", &ElementwiseSignature::in, true, kTypeNames},
    SignatureField{"out", "out", &ElementwiseSignature::out, true, kTypeNames},
    SignatureField{"op", "chain", &ElementwiseSignature::chain, false,
                   kLinkNames},
    SignatureField{"contiguous", "contiguous",
                   &ElementwiseSignature::contiguous});

Values toValues(const ElementwiseSignature &signature) {
  static const Schema &schema =
      *new Schema(kSignatureFields.schema("elementwise"));
  return kSignatureFields.toValues(signature, schema);
}

ElementwiseSignature readElementwiseSignature(const Values &values) {
  return kSignatureFields.fromValues(values);
}

std::string initializerText(const ElementwiseSignature &signature) {
  return kSignatureFields.initializer(signature);
}

//===----------------------------------------------------------------------===//
// Alignment
//===----------------------------------------------------------------------===//

/// Elements of \p type in one access to matrices of leading dimension \p ld; an
/// \p ld of 0 means that all are packed. An access of 16 bytes may be followed
/// by more.
static int64_t widestAccess(DType type, int64_t align, int64_t ld) {
  constexpr int64_t kMostElements = 16, kMostBytes = 16;
  int64_t bytes = bytesOf(type);
  int64_t common = std::max(align, bytes) | kMostBytes | ld * bytes;
  int64_t aligned = common & -common;
  return aligned == kMostBytes ? kMostElements : aligned / bytes;
}

int64_t widestVector(const ElementwiseProblem &p) {
  bool contiguous = signatureOf(p).contiguous;
  auto widest = [&](DType type, int64_t ld) {
    return widestAccess(type, p.align, contiguous ? 0 : ld);
  };
  int64_t vector = std::min(widest(p.dtype, p.ldx), widest(p.out, p.ldy));
  if (p.reads(LinkShape::Matrix))
    vector = std::min(vector, widest(p.dtype, p.ldOperand));
  return vector;
}

} // namespace kiln
