//===- CombineProblem.cpp -------------------------------------------------===//
#include "Families/Combine/CombineProblem.h"

#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"
#include "kiln/moe.h"

#include <algorithm>
#include <cassert>

namespace kiln {

static constexpr FieldName kCombineTypes[] = {{int64_t(DType::BF16), "bf16"},
                                              {int64_t(DType::FP16), "fp16"},
                                              {int64_t(DType::FP32), "fp32"}};
static constexpr FieldName kCombineWeights[] = {
    {int64_t(CombineWeights::None), "none"},
    {int64_t(CombineWeights::Present), "present"},
    {int64_t(CombineWeights::Applied), "applied"}};

static std::vector<Field> combineFields() {
  return {
      extentField("tokens", FieldRole::DynamicExtent),
      extentField("cols", FieldRole::Extent),
      // Models fix it, although no kernel is made for it.
      {.key = "topk",
       .role = FieldRole::Signature,
       .required = true,
       .minimum = 1,
       .maximum = KILN_ROUTE_MAX_TOP_K},
      enumField("dtype", true, kCombineTypes),
      enumField("weights", false, kCombineWeights),
      flagField("shared"),
      flagField("residual"),
      flagField("norm"),
      scalarField("eps", 0),
      leadingDimensionField("ldx"),
      leadingDimensionField("ldy"),
      leadingDimensionField("ldshared"),
      leadingDimensionField("ldresidual"),
      leadingDimensionField("ldresidualout"),
      alignField(),
  };
}

const Schema &combineProblemSchema() {
  static const Schema &schema =
      *new Schema("combine", TextStyle::Spaced, combineFields());
  assert(schema.fields().size() == CombineField::Count);
  return schema;
}

CombineProblem readCombineProblem(const int64_t *values) {
  using F = CombineField;
  CombineProblem p;
  p.tokens = values[F::Tokens];
  p.cols = values[F::Cols];
  p.topK = values[F::TopK];
  p.dtype = static_cast<DType>(values[F::DType]);
  p.weights = static_cast<CombineWeights>(values[F::Weights]);
  p.shared = values[F::Shared] != 0;
  p.residual = values[F::Residual] != 0;
  p.norm = values[F::Norm] != 0;
  p.epsilon = decodeReal(values[F::Epsilon]);
  auto row = [&](int field) { return values[field] ? values[field] : p.cols; };
  p.ldx = row(F::LdX);
  p.ldy = row(F::LdY);
  p.ldShared = row(F::LdShared);
  p.ldResidual = row(F::LdResidual);
  p.ldResidualOut = row(F::LdResidualOut);
  p.align = values[F::Align];
  return p;
}

CombineSignature signatureOf(const CombineProblem &p) {
  CombineSignature signature;
  signature.in = p.dtype;
  signature.weighted = p.isWeighted();
  signature.shared = p.shared;
  signature.residual = p.residual;
  signature.norm = p.norm;
  const int64_t element = bytesOf(p.dtype);
  int64_t combined = 16 | std::max(p.align, element);
  for (int64_t elements :
       {p.cols, p.ldx, p.ldy, p.ldShared, p.ldResidual, p.ldResidualOut})
    combined |= elements * element;
  // The greatest power of two that divides all of them.
  signature.align = static_cast<int>(combined & -combined);
  return signature;
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

static constexpr SignatureFields kCombineSignatureFields(
    SignatureField{"in", "in", &CombineSignature::in, true, kCombineTypes},
    SignatureField{"weighted", "weighted", &CombineSignature::weighted},
    SignatureField{"shared", "shared", &CombineSignature::shared},
    SignatureField{"residual", "residual", &CombineSignature::residual},
    SignatureField{"norm", "norm", &CombineSignature::norm},
    SignatureField{"align", "align", &CombineSignature::align, false, {}, 16});

Values toValues(const CombineSignature &signature) {
  static const Schema &schema =
      *new Schema(kCombineSignatureFields.schema("combine"));
  return kCombineSignatureFields.toValues(signature, schema);
}

CombineSignature readCombineSignature(const Values &values) {
  return kCombineSignatureFields.fromValues(values);
}

std::string initializerText(const CombineSignature &signature) {
  return kCombineSignatureFields.initializer(signature);
}

} // namespace kiln
