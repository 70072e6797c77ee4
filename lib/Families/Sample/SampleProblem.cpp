//===- SampleProblem.cpp --------------------------------------------------===//
#include "Families/Sample/SampleProblem.h"

#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"
#include "kiln/sample.h"

#include <cassert>

namespace kiln {

static constexpr FieldName kLogitTypes[] = {{int64_t(DType::BF16), "bf16"},
                                            {int64_t(DType::FP16), "fp16"},
                                            {int64_t(DType::FP32), "fp32"}};

static Field softcapField() {
  Field field = scalarField("softcap", 0);
  field.isPositive = true;
  return field;
}

static std::vector<Field> problemFields() {
  return {
      extentField("rows", FieldRole::DynamicExtent),
      {.key = "vocab", .required = true, .minimum = 1, .maximum = kMaxVocab},
      enumField("dtype", true, kLogitTypes),
      flagField("temperature"),
      flagField("topk"),
      flagField("topp"),
      flagField("minp"),
      flagField("joint"),
      flagField("repetition"),
      flagField("frequency"),
      flagField("presence"),
      {.key = "history", .role = FieldRole::Capacity, .maximum = kMaxExtent},
      flagField("allowed"),
      flagField("logprobs"),
      {.key = "top", .maximum = KILN_SAMPLE_MAX_TOP},
      flagField("int64"),
      flagField("advance"),
      flagField("lengths"),
      scalarField("scale", 1),
      softcapField(),
      leadingDimensionField("ldx"),
      alignField(),
  };
}

const Schema &sampleProblemSchema() {
  static const Schema &schema =
      *new Schema("sample", TextStyle::Spaced, problemFields());
  assert(schema.fields().size() == SampleField::Count);
  return schema;
}

int64_t usualHistory(int64_t rows) {
  constexpr int64_t kMostRows = kMaxExtent / kUsualHistory;
  return rows < kMostRows ? rows * kUsualHistory : kMaxExtent;
}

SampleProblem readSampleProblem(const int64_t *values) {
  using F = SampleField;
  SampleProblem p;
  p.rows = values[F::Rows];
  p.vocab = values[F::Vocab];
  p.dtype = static_cast<DType>(values[F::DType]);
  p.temperature = values[F::Temperature] != 0;
  // The greatest logit wins, whatever else is given.
  p.topK = p.temperature && values[F::TopK] != 0;
  p.topP = p.temperature && values[F::TopP] != 0;
  p.minP = p.temperature && values[F::MinP] != 0;
  p.isJoint = p.topK && p.topP && values[F::Joint] != 0;
  p.repetition = values[F::Repetition] != 0;
  p.frequency = values[F::Frequency] != 0;
  p.presence = values[F::Presence] != 0;
  if (p.hasPenalties())
    p.historyCount =
        values[F::History] ? values[F::History] : usualHistory(p.rows);
  p.allowed = values[F::Allowed] != 0;
  p.logprobs = values[F::Logprobs] != 0;
  p.topCount = values[F::Top];
  p.isInt64 = values[F::Int64] != 0;
  p.advances = values[F::Advance] != 0;
  p.lengths = values[F::Lengths] != 0;
  p.scale = decodeReal(values[F::Scale]);
  p.softcap = decodeReal(values[F::Softcap]);
  p.ld = values[F::LdX] ? values[F::LdX] : p.vocab;
  p.align = values[F::Align];
  return p;
}

SampleSignature signatureOf(const SampleProblem &p) {
  SampleSignature signature;
  signature.in = p.dtype;
  signature.softcap = p.softcap != 0;
  signature.temperature = p.temperature;
  signature.cuts = p.hasCuts();
  signature.penalties = p.hasPenalties();
  signature.allowed = p.allowed;
  signature.logprobs = p.logprobs || p.topCount > 0;
  const int64_t element = bytesOf(p.dtype);
  const int64_t combined =
      16 | std::max<int64_t>(p.align, element) | (p.ld * element);
  // The greatest power of two that divides all of them.
  signature.align = static_cast<int>(combined & -combined);
  return signature;
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

static constexpr SignatureFields kSampleSignatureFields(
    SignatureField{"in", "in", &SampleSignature::in, true, kLogitTypes},
    SignatureField{"softcap", "softcap", &SampleSignature::softcap},
    SignatureField{"temperature", "temperature", &SampleSignature::temperature},
    SignatureField{"cuts", "cuts", &SampleSignature::cuts},
    SignatureField{"penalties", "penalties", &SampleSignature::penalties},
    SignatureField{"allowed", "allowed", &SampleSignature::allowed},
    SignatureField{"logprobs", "logprobs", &SampleSignature::logprobs},
    SignatureField{"align", "align", &SampleSignature::align, false, {}, 16});

Values toValues(const SampleSignature &signature) {
  static const Schema &schema =
      *new Schema(kSampleSignatureFields.schema("sample"));
  return kSampleSignatureFields.toValues(signature, schema);
}

SampleSignature readSampleSignature(const Values &values) {
  return kSampleSignatureFields.fromValues(values);
}

std::string initializerText(const SampleSignature &signature) {
  return kSampleSignatureFields.initializer(signature);
}

} // namespace kiln
