//===- AllReduceProblem.cpp -----------------------------------------------===//
#include "Families/AllReduce/AllReduceProblem.h"

#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"

namespace kiln {

namespace {

constexpr int64_t codeOf(DType type) { return static_cast<int64_t>(type); }

constexpr FieldName kReducedTypes[] = {
    {codeOf(DType::BF16), "bf16"},
    {codeOf(DType::FP16), "fp16"},
    {codeOf(DType::FP32), "fp32"},
};

Field ranksField() {
  return {.key = "ranks",
          .role = FieldRole::Signature,
          .required = true,
          .minimum = 2,
          .maximum = kMostRanks};
}

} // namespace

const Schema &allReduceProblemSchema() {
  static const Schema &schema =
      *new Schema("allreduce", TextStyle::Spaced,
                  {extentField("rows", FieldRole::DynamicExtent),
                   extentField("cols", FieldRole::Extent), ranksField(),
                   enumField("dtype", true, kReducedTypes),
                   flagField("residual"), flagField("norm"),
                   scalarField("eps", 1e-5), leadingDimensionField("ldx"),
                   leadingDimensionField("ldy"), leadingDimensionField("ldr"),
                   leadingDimensionField("ldh"), alignField()});
  return schema;
}

AllReduceProblem readAllReduceProblem(const int64_t *values) {
  using F = AllReduceField;
  auto resolve = [&](int field) {
    return values[field] ? values[field] : values[F::Cols];
  };
  AllReduceProblem p;
  p.rows = values[F::Rows];
  p.cols = values[F::Cols];
  p.ranks = values[F::Ranks];
  p.dtype = static_cast<DType>(values[F::DType]);
  p.residual = values[F::Residual] != 0;
  p.norm = values[F::Norm] != 0;
  p.epsilon = decodeReal(values[F::Epsilon]);
  p.ldx = resolve(F::LdX);
  p.ldy = resolve(F::LdY);
  p.ldResidual = resolve(F::LdResidual);
  p.ldResidualOut = resolve(F::LdResidualOut);
  p.align = values[F::Align];
  return p;
}

AllReduceSignature signatureOf(const AllReduceProblem &p) {
  const int64_t bytes = bytesOf(p.dtype);
  int64_t combined = 16 | std::max(p.align, bytes) | p.rowBytes();
  combined |= (p.ldx | p.ldy) * bytes;
  if (p.residual)
    combined |= p.ldResidual * bytes;
  if (p.hasResidualOut())
    combined |= p.ldResidualOut * bytes;
  return {.type = p.dtype,
          .ranks = static_cast<int>(p.ranks),
          .residual = p.residual,
          .norm = p.norm,
          // The greatest power of two that divides all of them.
          .align = static_cast<int>(combined & -combined)};
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

static constexpr SignatureFields kAllReduceSignatureFields(
    SignatureField{"type", "type", &AllReduceSignature::type, true,
                   kReducedTypes},
    SignatureField{
        "ranks", "ranks", &AllReduceSignature::ranks, true, {}, kMostRanks},
    SignatureField{"residual", "residual", &AllReduceSignature::residual},
    SignatureField{"norm", "norm", &AllReduceSignature::norm},
    SignatureField{
        "align", "align", &AllReduceSignature::align, false, {}, 16});

Values toValues(const AllReduceSignature &signature) {
  static const Schema &schema =
      *new Schema(kAllReduceSignatureFields.schema("allreduce"));
  return kAllReduceSignatureFields.toValues(signature, schema);
}

AllReduceSignature readAllReduceSignature(const Values &values) {
  return kAllReduceSignatureFields.fromValues(values);
}

std::string initializerText(const AllReduceSignature &signature) {
  return kAllReduceSignatureFields.initializer(signature);
}

} // namespace kiln
