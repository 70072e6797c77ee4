//===- PrepackProblem.cpp -------------------------------------------------===//
#include "Families/Prepack/PrepackProblem.h"

#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"
#include "Support/EnumName.h"

#include <cassert>

namespace kiln {

static constexpr int64_t code(auto value) {
  return static_cast<int64_t>(value);
}

static constexpr FieldName kSources[] = {
    {code(WeightSource::Gptq), "gptq"},
    {code(WeightSource::GptqV2), "gptq_v2"},
    {code(WeightSource::Awq), "awq"},
    {code(WeightSource::CompressedTensors), "compressed_tensors"},
    {code(WeightSource::Int8), "int8"},
    {code(WeightSource::E4m3), "e4m3"},
    {code(WeightSource::Mxfp4), "mxfp4"},
};
static constexpr FieldName kScaleTypes[] = {{code(DType::FP16), "fp16"},
                                            {code(DType::BF16), "bf16"},
                                            {code(DType::FP32), "fp32"}};
/// Scale types of signatures, where the bits of e8m0 are moved.
static constexpr FieldName kMovedTypes[] = {{code(DType::FP16), "fp16"},
                                            {code(DType::BF16), "bf16"},
                                            {code(DType::FP32), "fp32"},
                                            {code(DType::INT8), "e8m0"}};
static constexpr int64_t kMostGroup = 128;

const Schema &prepackProblemSchema() {
  // Every address is a multiple of 16: results are stored by whole accesses.
  Field align = alignField();
  align.minimum = align.maximum;
  static const Schema &schema = *new Schema(
      "prepack", TextStyle::Spaced,
      {extentField("n", FieldRole::DynamicExtent),
       extentField("k", FieldRole::Extent),
       enumField("source", true, kSources),
       {.key = "group", .role = FieldRole::Signature, .maximum = kMostGroup},
       enumField("scale_type", false, kScaleTypes),
       {.key = "zeros", .role = FieldRole::Signature, .maximum = 1},
       align});
  assert(schema.fields().size() == PrepackField::Count);
  return schema;
}

PrepackProblem readPrepackProblem(const int64_t *values) {
  using F = PrepackField;
  PrepackProblem p;
  p.n = values[F::N];
  p.k = values[F::K];
  p.source = static_cast<WeightSource>(values[F::Source]);
  p.group =
      values[F::Group] ? static_cast<int>(values[F::Group]) : groupOf(p.source);
  p.scaleType = values[F::ScaleType] ? static_cast<DType>(values[F::ScaleType])
                                     : scaleTypeOf(p.source);
  p.zeros = values[F::Zeros] != 0;
  return p;
}

int64_t rowCountOf(const PrepackProblem &p, int index) {
  const PrepackSource from = p.from();
  switch (index) {
  case PrepackOperand::Weights:
    return from.weightRows();
  case PrepackOperand::Scales:
    return from.hasGroupRows() ? from.groups() : p.n;
  case PrepackOperand::Zeros:
    return p.source == WeightSource::CompressedTensors ? from.rowWords()
                                                       : from.groups();
  default:
    return p.blockRows();
  }
}

int64_t rowLengthOf(const PrepackProblem &p, int index) {
  const PrepackSource from = p.from();
  switch (index) {
  case PrepackOperand::Weights:
    return from.weightRowBytes();
  case PrepackOperand::Scales:
    return from.hasGroupRows() ? p.n : from.groups();
  case PrepackOperand::Zeros:
    return 4 * (p.source == WeightSource::CompressedTensors ? from.groups()
                                                            : from.rowWords());
  case PrepackOperand::Packed:
    return p.rowBytes();
  default:
    return p.rowScales();
  }
}

PrepackSignature signatureOf(const PrepackProblem &p) {
  PrepackSignature signature;
  signature.source = p.source;
  signature.scale = p.scaleType;
  signature.group = p.group;
  signature.zeros = p.zeros;
  signature.wordRows = bitsOf(p.source) == 4 || p.k % 4 == 0;
  return signature;
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

llvm::StringRef enumeratorText(WeightSource source) {
  using enum WeightSource;
  static constexpr EnumName<WeightSource> kNames[] = {
      {Gptq, "kiln::WeightSource::Gptq"},
      {GptqV2, "kiln::WeightSource::GptqV2"},
      {Awq, "kiln::WeightSource::Awq"},
      {CompressedTensors, "kiln::WeightSource::CompressedTensors"},
      {Int8, "kiln::WeightSource::Int8"},
      {E4m3, "kiln::WeightSource::E4m3"},
      {Mxfp4, "kiln::WeightSource::Mxfp4"}};
  return nameIn(kNames, source);
}

static constexpr SignatureFields kSignatureFields(
    SignatureField{"source", "source", &PrepackSignature::source, true,
                   kSources},
    SignatureField{"scale", "scale", &PrepackSignature::scale, true,
                   kMovedTypes},
    SignatureField{
        "group", "group", &PrepackSignature::group, false, {}, kMostGroup},
    SignatureField{"zeros", "zeros", &PrepackSignature::zeros},
    SignatureField{"words", "wordRows", &PrepackSignature::wordRows});

Values toValues(const PrepackSignature &signature) {
  static const Schema &schema = *new Schema(kSignatureFields.schema("prepack"));
  return kSignatureFields.toValues(signature, schema);
}

PrepackSignature readPrepackSignature(const Values &values) {
  return kSignatureFields.fromValues(values);
}

std::string initializerText(const PrepackSignature &signature) {
  return kSignatureFields.initializer(signature);
}

PrepackParams makePrepackParams(const PrepackProblem &p,
                                const Arguments &arguments) {
  auto address = [&](int index) {
    return reinterpret_cast<void *>(arguments.operands[index].address);
  };
  PrepackParams params;
  params.weights = address(PrepackOperand::Weights);
  params.scales = address(PrepackOperand::Scales);
  params.zeros = address(PrepackOperand::Zeros);
  params.packed = address(PrepackOperand::Packed);
  params.packedScales = address(PrepackOperand::PackedScales);
  params.packedZeros = address(PrepackOperand::PackedZeros);
  params.n = p.n;
  params.k = p.k;
  return params;
}

} // namespace kiln
