//===- TransposeProblem.cpp -----------------------------------------------===//
#include "Families/Transpose/TransposeProblem.h"

#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"

namespace kiln {

static constexpr int64_t code(auto value) {
  return static_cast<int64_t>(value);
}

static constexpr FieldName kTypeNames[] = {
    {code(DType::BF16), "bf16"}, {code(DType::FP16), "fp16"},
    {code(DType::FP32), "fp32"}, {code(DType::E4M3), "fp8_e4m3"},
    {code(DType::INT8), "int8"},
};

const Schema &transposeProblemSchema() {
  static const Schema &schema = *new Schema(
      "transpose2d", TextStyle::Spaced,
      {extentField("rows", FieldRole::DynamicExtent),
       extentField("cols", FieldRole::Extent),
       enumField("dtype", true, kTypeNames), leadingDimensionField("ldx"),
       leadingDimensionField("ldy"), alignField()});
  return schema;
}

TransposeProblem readTransposeProblem(const int64_t *values) {
  TransposeProblem p;
  p.rows = values[TransposeField::Rows];
  p.cols = values[TransposeField::Cols];
  p.dtype = static_cast<DType>(values[TransposeField::DType]);
  int64_t ldx = values[TransposeField::Ldx], ldy = values[TransposeField::Ldy];
  p.ldx = ldx ? ldx : p.cols;
  p.ldy = ldy ? ldy : p.rows;
  p.align = values[TransposeField::Align];
  return p;
}

TransposeSignature signatureOf(const TransposeProblem &p) {
  int64_t element = bytesOf(p.dtype), combined = 16 | p.align;
  for (int64_t elements : {p.rows, p.cols, p.ldx, p.ldy})
    combined |= elements * element;
  TransposeSignature signature;
  signature.elementBytes = static_cast<int>(element);
  // The greatest power of two that divides all of them.
  signature.align = static_cast<int>(combined & -combined);
  return signature;
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

static constexpr SignatureFields kSignatureFields(
    SignatureField{"bytes",
                   "elementBytes",
                   &TransposeSignature::elementBytes,
                   true,
                   {},
                   4},
    SignatureField{
        "align", "align", &TransposeSignature::align, false, {}, 16});

Values toValues(const TransposeSignature &signature) {
  static const Schema &schema =
      *new Schema(kSignatureFields.schema("transpose2d"));
  return kSignatureFields.toValues(signature, schema);
}

TransposeSignature readTransposeSignature(const Values &values) {
  return kSignatureFields.fromValues(values);
}

std::string initializerText(const TransposeSignature &signature) {
  return kSignatureFields.initializer(signature);
}

} // namespace kiln
