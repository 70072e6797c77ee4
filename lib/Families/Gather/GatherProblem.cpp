//===- GatherProblem.cpp --------------------------------------------------===//
#include "Families/Gather/GatherProblem.h"

#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"

namespace kiln {

namespace {

constexpr int64_t codeOf(auto value) { return static_cast<int64_t>(value); }

constexpr FieldName kGatherTypes[] = {
    {codeOf(DType::BF16), "bf16"}, {codeOf(DType::FP16), "fp16"},
    {codeOf(DType::FP32), "fp32"}, {codeOf(DType::E4M3), "fp8_e4m3"},
    {codeOf(DType::INT8), "int8"},
};
constexpr FieldName kGatherArrays[] = {
    {codeOf(GatherBy::Indices), "indices"},
    {codeOf(GatherBy::Targets), "targets"},
    {codeOf(GatherBy::Both), "both"},
};
constexpr FieldName kIndexTypes[] = {{codeOf(DType::INT32), "int32"},
                                     {codeOf(DType::INT64), "int64"}};

Field indexField() {
  Field field = enumField("index", false, kIndexTypes);
  field.defaultValue = codeOf(DType::INT32);
  return field;
}

/// A number that no choice depends on, and kernels are told at launch.
Field launchField(llvm::StringRef key) {
  return {.key = key, .role = FieldRole::Capacity, .maximum = kMaxExtent};
}

} // namespace

const Schema &gatherProblemSchema() {
  static const Schema &schema =
      *new Schema("gather", TextStyle::Spaced,
                  {extentField("rows", FieldRole::DynamicExtent),
                   extentField("cols", FieldRole::Extent),
                   enumField("dtype", true, kGatherTypes),
                   enumField("out", false, kGatherTypes),
                   {.key = "batch",
                    .role = FieldRole::Batch,
                    .defaultValue = 1,
                    .maximum = kMaxExtent},
                   enumField("by", false, kGatherArrays),
                   indexField(),
                   launchField("xrows"),
                   launchField("yrows"),
                   launchField("first"),
                   {.key = "divisor",
                    .role = FieldRole::Extent,
                    .defaultValue = 1,
                    .minimum = 1,
                    .maximum = kMaxExtent},
                   scalarField("scale", 0),
                   leadingDimensionField("ldx"),
                   leadingDimensionField("ldy"),
                   alignField()});
  return schema;
}

GatherProblem readGatherProblem(const int64_t *values) {
  using F = GatherField;
  auto resolve = [&](int field, int64_t otherwise) {
    return values[field] ? values[field] : otherwise;
  };
  GatherProblem p;
  p.batch = values[F::Batch];
  p.rows = values[F::Rows];
  p.cols = values[F::Cols];
  p.dtype = static_cast<DType>(values[F::DType]);
  p.out = values[F::Out] ? static_cast<DType>(values[F::Out]) : p.dtype;
  p.by = static_cast<GatherBy>(values[F::By]);
  p.index = static_cast<DType>(values[F::Index]);
  p.divisor = values[F::Divisor];
  p.xRows = resolve(F::XRows, namedRows(p.rows, p.divisor));
  p.yRows = resolve(F::YRows, p.rows);
  p.first = values[F::First];
  p.scale = decodeReal(values[F::Scale]);
  p.ldx = resolve(F::LdX, p.cols);
  p.ldy = resolve(F::LdY, p.cols);
  p.align = values[F::Align];
  return p;
}

GatherSignature signatureOf(const GatherProblem &p) {
  const int64_t wider = p.widerBytes();
  int64_t combined = 16 | std::max(p.align, wider);
  for (int64_t elements : {p.cols, p.ldx, p.ldy})
    combined |= elements * wider;
  GatherSignature signature;
  if (!p.moves()) {
    signature.in = p.dtype;
    signature.out = p.out;
  }
  // The greatest power of two that divides all of them.
  signature.align = static_cast<int>(combined & -combined);
  return signature;
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

static constexpr SignatureFields kGatherSignatureFields(
    SignatureField{"in", "in", &GatherSignature::in, false, kGatherTypes},
    SignatureField{"out", "out", &GatherSignature::out, false, kGatherTypes},
    SignatureField{"align", "align", &GatherSignature::align, false, {}, 16});

Values toValues(const GatherSignature &signature) {
  static const Schema &schema =
      *new Schema(kGatherSignatureFields.schema("gather"));
  return kGatherSignatureFields.toValues(signature, schema);
}

GatherSignature readGatherSignature(const Values &values) {
  return kGatherSignatureFields.fromValues(values);
}

std::string initializerText(const GatherSignature &signature) {
  return kGatherSignatureFields.initializer(signature);
}

} // namespace kiln
