//===- GemmProblem.cpp ----------------------------------------------------===//
#include "Families/Gemm/GemmProblem.h"

#include "Families/KernelUnit.h"
#include "Families/ProblemFields.h"
#include "Support/Format.h"

#include <algorithm>

namespace kiln {

static constexpr int64_t code(auto value) {
  return static_cast<int64_t>(value);
}

static constexpr FieldName kTypeNames[] = {{code(DType::BF16), "bf16"},
                                           {code(DType::FP16), "fp16"},
                                           {code(DType::FP32), "fp32"}};
static constexpr FieldName kComputeNames[] = {
    {code(ComputeMode::Native), "native"}, {code(ComputeMode::TF32), "tf32"}};
static constexpr FieldName kLayoutNames[] = {{code(Layout::NN), "NN"},
                                             {code(Layout::NT), "NT"},
                                             {code(Layout::TN), "TN"},
                                             {code(Layout::TT), "TT"}};
static constexpr FieldName kPointwiseNames[] = {
    {code(PointwiseOp::Bias), "bias"},
    {code(PointwiseOp::Residual), "residual"},
    {code(PointwiseOp::Relu), "relu"},
    {code(PointwiseOp::GeluErf), "gelu_erf"},
    {code(PointwiseOp::GeluTanh), "gelu_tanh"},
    {code(PointwiseOp::Silu), "silu"},
    {code(PointwiseOp::SwiGlu), "swiglu"}};

const RecordSchema &gemmProblemSchema() {
  static const RecordSchema schema("gemm", TextStyle::Spaced,
                                   {extentField("m", FieldRole::DynamicExtent),
                                    extentField("n", FieldRole::Extent),
                                    extentField("k", FieldRole::Extent),
                                    enumField("dtype", true, kTypeNames),
                                    enumField("out", false, kTypeNames),
                                    enumField("compute", false, kComputeNames),
                                    enumField("layout", false, kLayoutNames),
                                    {.key = "batch",
                                     .role = FieldRole::Batch,
                                     .defaultValue = 1,
                                     .maximum = kMaxExtent},
                                    {.key = "pointwise",
                                     .kind = FieldKind::Chain,
                                     .role = FieldRole::Signature,
                                     .names = kPointwiseNames},
                                    scalarField("alpha", 1),
                                    scalarField("beta", 0),
                                    leadingDimensionField("lda"),
                                    leadingDimensionField("ldb"),
                                    leadingDimensionField("ldc"),
                                    leadingDimensionField("ldd"),
                                    leadingDimensionField("ldr"),
                                    alignField()});
  return schema;
}

const RecordSchema &gemmSignatureSchema() {
  static const RecordSchema schema(
      "gemm", TextStyle::Spaced,
      {enumField("in", true, kTypeNames),
       enumField("out", true, kTypeNames),
       enumField("compute", false, kComputeNames),
       enumField("layout", true, kLayoutNames),
       {.key = "pointwise",
        .kind = FieldKind::Chain,
        .role = FieldRole::Signature,
        .names = kPointwiseNames},
       {.key = "readsc", .role = FieldRole::Signature, .maximum = 1},
       {.key = "aligna",
        .role = FieldRole::Signature,
        .defaultValue = 16,
        .maximum = 16},
       {.key = "alignb",
        .role = FieldRole::Signature,
        .defaultValue = 16,
        .maximum = 16},
       {.key = "alignd",
        .role = FieldRole::Signature,
        .defaultValue = 16,
        .maximum = 16}});
  return schema;
}

GemmProblem readGemmProblem(const int64_t *values) {
  GemmProblem p;
  p.m = values[GemmField::M];
  p.n = values[GemmField::N];
  p.k = values[GemmField::K];
  p.dtype = static_cast<DType>(values[GemmField::DType]);
  p.out = values[GemmField::Out] ? static_cast<DType>(values[GemmField::Out])
                                 : p.dtype;
  p.compute = static_cast<ComputeMode>(values[GemmField::Compute]);
  p.layout = static_cast<Layout>(values[GemmField::Layout]);
  p.batch = values[GemmField::Batch];
  p.pointwise = decodeChain(values[GemmField::Pointwise]);
  p.alpha = decodeReal(values[GemmField::Alpha]);
  p.beta = decodeReal(values[GemmField::Beta]);
  auto resolve = [&](int field, int64_t packed) {
    return values[field] ? values[field] : packed;
  };
  p.lda = resolve(GemmField::Lda, p.colsA());
  p.ldb = resolve(GemmField::Ldb, p.colsB());
  p.ldc = resolve(GemmField::Ldc, p.n);
  p.ldd = resolve(GemmField::Ldd, p.outCols());
  p.ldResidual =
      resolve(GemmField::LdResidual, p.linkCols(PointwiseOp::Residual));
  p.align = values[GemmField::Align];
  return p;
}

/// Greatest power of two, at most 16, that divides every one of \p bytes.
static int alignmentClass(std::initializer_list<int64_t> bytes) {
  int64_t combined = 16;
  for (int64_t value : bytes)
    combined |= value;
  return static_cast<int>(combined & -combined);
}

GemmSignature signatureOf(const GemmProblem &p) {
  GemmSignature signature;
  signature.in = p.dtype;
  signature.out = p.out;
  signature.compute = p.compute;
  signature.layout = p.layout;
  signature.pointwise = p.pointwise;
  signature.readsC = p.beta != 0;
  int64_t inBytes = bytesOf(p.dtype), outBytes = bytesOf(p.out);
  signature.alignA = alignmentClass({p.align, p.lda * inBytes});
  signature.alignB = alignmentClass({p.align, p.ldb * inBytes});
  bool residual = p.pointwise.contains(PointwiseOp::Residual);
  // A promise below the width of a wider output promises that width all the
  // same: every pointer is a multiple of its own element.
  signature.alignD =
      alignmentClass({std::max(p.align, outBytes), p.ldd * outBytes,
                      signature.readsC ? p.ldc * outBytes : 0,
                      residual ? p.ldResidual * outBytes : 0});
  return signature;
}

Record toRecord(const GemmSignature &signature) {
  Record record(gemmSignatureSchema());
  int field = 0;
  for (int64_t value :
       {code(signature.in), code(signature.out), code(signature.compute),
        code(signature.layout), encodeChain(signature.pointwise),
        code(signature.readsC), code(signature.alignA), code(signature.alignB),
        code(signature.alignD)})
    record.set(field++, value);
  return record;
}

GemmSignature readGemmSignature(const Record &record) {
  GemmSignature signature;
  signature.in = static_cast<DType>(record[0]);
  signature.out = static_cast<DType>(record[1]);
  signature.compute = static_cast<ComputeMode>(record[2]);
  signature.layout = static_cast<Layout>(record[3]);
  signature.pointwise = decodeChain(record[4]);
  signature.readsC = record[5] != 0;
  signature.alignA = static_cast<int>(record[6]);
  signature.alignB = static_cast<int>(record[7]);
  signature.alignD = static_cast<int>(record[8]);
  return signature;
}

std::string initializerText(const GemmSignature &s) {
  std::string layout = {isTransposedA(s.layout) ? 'T' : 'N',
                        isTransposedB(s.layout) ? 'T' : 'N'};
  return fmt::format(
      "{{.in = kiln::DType::{}, .out = kiln::DType::{}, "
      ".compute = kiln::ComputeMode::{}, .layout = kiln::Layout::{}, "
      ".pointwise = {}, .readsC = {}, .alignA = {}, .alignB = {}, "
      ".alignD = {}}}",
      enumeratorOf(s.in), enumeratorOf(s.out),
      s.compute == ComputeMode::TF32 ? "TF32" : "Native", layout,
      initializerText(s.pointwise), s.readsC, s.alignA, s.alignB, s.alignD);
}

} // namespace kiln
