//===- GemmProblem.cpp ----------------------------------------------------===//
#include "Families/Gemm/GemmProblem.h"

#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"
#include "Support/Format.h"
#include "kiln/types.h"

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
                                    scalarField("alpha", 1, KILN_GEMM_ALPHA),
                                    scalarField("beta", 0, KILN_GEMM_BETA),
                                    leadingDimensionField("lda"),
                                    leadingDimensionField("ldb"),
                                    leadingDimensionField("ldc"),
                                    leadingDimensionField("ldd"),
                                    leadingDimensionField("ldr"),
                                    alignField()});
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
  signature.alignD = alignmentClass({std::max(p.align, outBytes),
                                     p.ldd * outBytes, p.outCols() * outBytes,
                                     signature.readsC ? p.ldc * outBytes : 0,
                                     residual ? p.ldResidual * outBytes : 0});
  return signature;
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

static std::string enumeratorText(ComputeMode mode) {
  return mode == ComputeMode::TF32 ? "kiln::ComputeMode::TF32"
                                   : "kiln::ComputeMode::Native";
}

static std::string enumeratorText(Layout layout) {
  return fmt::format("kiln::Layout::{}{}", isTransposedA(layout) ? 'T' : 'N',
                     isTransposedB(layout) ? 'T' : 'N');
}

static constexpr SignatureFields kSignatureFields(
    SignatureField{"in", "in", &GemmSignature::in, true, kTypeNames},
    SignatureField{"out", "out", &GemmSignature::out, true, kTypeNames},
    SignatureField{"compute", "compute", &GemmSignature::compute, false,
                   kComputeNames},
    SignatureField{"layout", "layout", &GemmSignature::layout, true,
                   kLayoutNames},
    SignatureField{"pointwise", "pointwise", &GemmSignature::pointwise, false,
                   kPointwiseNames},
    SignatureField{"readsc", "readsC", &GemmSignature::readsC},
    SignatureField{"aligna", "alignA", &GemmSignature::alignA, false, {}, 16},
    SignatureField{"alignb", "alignB", &GemmSignature::alignB, false, {}, 16},
    SignatureField{"alignd", "alignD", &GemmSignature::alignD, false, {}, 16});

const RecordSchema &gemmSignatureSchema() {
  static const RecordSchema schema = kSignatureFields.schema("gemm");
  return schema;
}

Record toRecord(const GemmSignature &signature) {
  return kSignatureFields.toRecord(signature, gemmSignatureSchema());
}

GemmSignature readGemmSignature(const Record &record) {
  return kSignatureFields.fromRecord(record);
}

std::string initializerText(const GemmSignature &signature) {
  return kSignatureFields.initializer(signature);
}

} // namespace kiln
