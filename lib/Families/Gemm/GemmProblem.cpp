//===- GemmProblem.cpp ----------------------------------------------------===//
#include "Families/Gemm/GemmProblem.h"

#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"
#include "Model/MathUtil.h"
#include "Support/Format.h"
#include "kiln/gemm.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace kiln {

static constexpr int64_t code(auto value) {
  return static_cast<int64_t>(value);
}

static constexpr FieldName kTypeNames[] = {
    {code(DType::BF16), "bf16"}, {code(DType::FP16), "fp16"},
    {code(DType::FP32), "fp32"}, {code(DType::E4M3), "e4m3"},
    {code(DType::E5M2), "e5m2"}, {code(DType::INT8), "int8"}};
static constexpr FieldName kTypeNamesB[] = {
    {code(DType::BF16), "bf16"}, {code(DType::FP16), "fp16"},
    {code(DType::FP32), "fp32"}, {code(DType::E4M3), "e4m3"},
    {code(DType::E5M2), "e5m2"}, {code(DType::INT8), "int8"},
    {code(DType::INT4), "int4"}, {code(DType::E2M1), "e2m1"}};
static constexpr FieldName kScaleTypeNames[] = {{code(DType::FP32), "fp32"},
                                                {code(DType::FP16), "fp16"},
                                                {code(DType::BF16), "bf16"},
                                                {code(DType::E8M0), "e8m0"}};
static constexpr FieldName kOrderNames[] = {
    {code(WeightOrder::Plain), "plain"}, {code(WeightOrder::K64R16), "k64r16"}};
static constexpr FieldName kOutNames[] = {{code(DType::BF16), "bf16"},
                                          {code(DType::FP16), "fp16"},
                                          {code(DType::FP32), "fp32"},
                                          {code(DType::E4M3), "e4m3"}};
static constexpr FieldName kComputeNames[] = {
    {code(ComputeMode::Native), "native"},
    {code(ComputeMode::TF32), "tf32"},
    {code(ComputeMode::FastFp8), "fast_fp8"}};
static constexpr FieldName kScaleNames[] = {
    {code(ScaleKind::None), "none"},
    {code(ScaleKind::Tensor), "tensor"},
    {code(ScaleKind::Row), "row"},
    {code(ScaleKind::Block1x128), "1x128"},
    {code(ScaleKind::Block128x128), "128x128"},
    {kScale1x32, "1x32"},
    {kScale1x64, "1x64"}};
static constexpr FieldName kScaleNamesA[] = {
    {code(ScaleKind::None), "none"},
    {code(ScaleKind::Tensor), "tensor"},
    {code(ScaleKind::Row), "row"},
    {code(ScaleKind::Block1x128), "1x128"}};
static constexpr FieldName kZeroNames[] = {{code(ScaleKind::None), "none"},
                                           {code(ScaleKind::Tensor), "tensor"},
                                           {code(ScaleKind::Row), "row"}};
static constexpr FieldName kScaleOrderNames[] = {{0, "k"}, {1, "rows"}};
static constexpr FieldName kLayoutNames[] = {{code(Layout::NN), "NN"},
                                             {code(Layout::NT), "NT"},
                                             {code(Layout::TN), "TN"},
                                             {code(Layout::TT), "TT"}};
static constexpr FieldName kGroupNames[] = {
    {code(GroupKind::None), "none"},
    {code(GroupKind::Ends), "ends"},
    {code(GroupKind::Masked), "masked"}};
static constexpr FieldName kPointwiseNames[] = {
    {code(PointwiseOp::Bias), "bias"},
    {code(PointwiseOp::Residual), "residual"},
    {code(PointwiseOp::Relu), "relu"},
    {code(PointwiseOp::GeluErf), "gelu_erf"},
    {code(PointwiseOp::GeluTanh), "gelu_tanh"},
    {code(PointwiseOp::Silu), "silu"},
    {code(PointwiseOp::SwiGlu), "swiglu"}};

/// 0 or 1, fixed at compile time.
static Field flagField(llvm::StringRef key) {
  return {.key = key, .role = FieldRole::Signature, .maximum = 1};
}

const Schema &gemmProblemSchema() {
  static const Schema &schema = *new Schema(
      "gemm", TextStyle::Spaced,
      {extentField("m", FieldRole::DynamicExtent),
       extentField("n", FieldRole::Extent),
       extentField("k", FieldRole::Extent),
       enumField("dtype", true, kTypeNames),
       enumField("out", false, kOutNames),
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
       alignField(),
       enumField("b", false, kTypeNamesB),
       enumField("scale_a", false, kScaleNamesA),
       enumField("scale_b", false, kScaleNames),
       enumField("scale_order_a", false, kScaleOrderNames),
       enumField("scale_order_b", false, kScaleOrderNames),
       leadingDimensionField("ldsa"),
       leadingDimensionField("ldsb"),
       enumField("order_b", false, kOrderNames),
       enumField("scale_type_b", false, kScaleTypeNames),
       flagField("zero_b"),
       enumField("groups", false, kGroupNames),
       {.key = "room", .role = FieldRole::Capacity, .maximum = kMaxExtent},
       {.key = "group_align",
        .role = FieldRole::Extent,
        .defaultValue = 1,
        .minimum = 1,
        .maximum = kMaxGroupAlign},
       flagField("gather"),
       {.key = "divisor",
        .role = FieldRole::Extent,
        .defaultValue = 1,
        .minimum = 1,
        .maximum = kMaxExtent},
       flagField("scatter"),
       flagField("row_weights"),
       enumField("zero_a", false, kZeroNames),
       enumField("scale_d", false, kScaleNamesA),
       enumField("scale_order_d", false, kScaleOrderNames),
       leadingDimensionField("ldsd")});
  return schema;
}

GemmProblem readGemmProblem(const int64_t *values) {
  GemmProblem p;
  p.m = values[GemmField::M];
  p.n = values[GemmField::N];
  p.k = values[GemmField::K];
  p.dtype = static_cast<DType>(values[GemmField::DType]);
  auto type = [&](int field, DType otherwise) {
    return values[field] ? static_cast<DType>(values[field]) : otherwise;
  };
  p.typeB = type(GemmField::TypeB, p.dtype);
  p.out = type(GemmField::Out, defaultOut(p.dtype));
  p.compute = static_cast<ComputeMode>(values[GemmField::Compute]);
  p.layout = static_cast<Layout>(values[GemmField::Layout]);
  p.batch = values[GemmField::Batch];
  p.pointwise = decodeChain(values[GemmField::Pointwise]);
  p.alpha = decodeReal(values[GemmField::Alpha]);
  p.beta = decodeReal(values[GemmField::Beta]);
  auto resolve = [&](int field, int64_t packed) {
    return values[field] ? values[field] : packed;
  };
  p.groups = static_cast<GroupKind>(values[GemmField::Groups]);
  p.batchA = p.groups == GroupKind::Ends ? 1 : p.batch;
  p.batchB = p.batch;
  p.room = p.groups == GroupKind::Masked ? resolve(GemmField::Room, p.m) : p.m;
  p.allRows = p.m;
  if (p.groups == GroupKind::Ends) {
    p.groupAlign = values[GemmField::GroupAlign];
    p.firstRow = values[GemmField::FirstRow];
    p.allRows = resolve(GemmField::AllRows, p.m);
  }
  p.gathers = values[GemmField::Gather] != 0;
  if (p.gathers)
    p.divisor = values[GemmField::Divisor];
  p.scatters = values[GemmField::Scatter] != 0;
  p.hasRowWeights = values[GemmField::RowWeights] != 0;
  p.lda = resolve(GemmField::Lda, p.colsA());
  p.ldb = resolve(GemmField::Ldb, p.colsB());
  p.ldc = resolve(GemmField::Ldc, p.n);
  p.ldd = resolve(GemmField::Ldd, p.outCols());
  p.ldResidual =
      resolve(GemmField::LdResidual, p.linkCols(PointwiseOp::Residual));
  p.align = values[GemmField::Align];
  auto scales = [&](int kind, int order, int ld, int64_t extent) {
    GemmScales s;
    const bool isNarrow =
        values[kind] == kScale1x32 || values[kind] == kScale1x64;
    s.kind =
        isNarrow ? ScaleKind::Block1x128 : static_cast<ScaleKind>(values[kind]);
    if (s.kind == ScaleKind::None) [[likely]]
      return s;
    s.alongRows = values[order] != 0;
    s.ld = resolve(ld, s.alongRows ? GemmProblem::scaleRows(s, extent)
                                   : p.scaleDepths(s));
    return s;
  };
  p.scaleA = scales(GemmField::ScaleA, GemmField::ScaleOrderA,
                    GemmField::LdScaleA, p.scaledRowsA());
  p.scaleB = scales(GemmField::ScaleB, GemmField::ScaleOrderB,
                    GemmField::LdScaleB, p.n);
  p.orderB = static_cast<WeightOrder>(values[GemmField::OrderB]);
  p.scaleTypeB =
      type(GemmField::ScaleTypeB, defaultScaleType(p.orderB, p.typeB));
  const int64_t scaleB = values[GemmField::ScaleB];
  p.groupB = scaleB == kScale1x32                                     ? 32
             : scaleB == kScale1x64                                   ? 64
             : p.isPacked() && p.scaleB.kind == ScaleKind::Block1x128 ? 128
                                                                      : 0;
  p.zeroB = values[GemmField::ZeroB] != 0;
  p.zeroA = static_cast<ScaleKind>(values[GemmField::ZeroA]);
  p.scaleD.kind = static_cast<ScaleKind>(values[GemmField::ScaleD]);
  if (p.quantizes()) [[unlikely]] {
    p.scaleD.alongRows = values[GemmField::ScaleOrderD] != 0;
    p.scaleD.ld = resolve(GemmField::LdScaleD,
                          p.scaleD.alongRows ? p.room : p.rowScalesD());
  }
  return p;
}

void toProduct(int64_t *values) {
  const GemmProblem p = readGemmProblem(values);
  assert(p.quantizes() && "the problem is the product");
  constexpr int64_t kVector = 16;
  const int64_t each = kVector / bytesOf(p.sideType());
  const int64_t ld = roundUp(p.outCols(), each);
  values[GemmField::Out] = 0;
  values[GemmField::Ldd] = ld == p.outCols() ? 0 : ld;
  for (int field :
       {GemmField::ScaleD, GemmField::ScaleOrderD, GemmField::LdScaleD})
    values[field] = 0;
}

/// Blocks of \p size in \p extent; one for all where size is 0.
static int64_t blocksOf(int64_t extent, int size) {
  return size ? ceilDiv(extent, size) : 1;
}
int64_t GemmProblem::scaleRows(const GemmScales &scales, int64_t extent) {
  return blocksOf(extent, scaledRows(scales.kind));
}
int64_t GemmProblem::scaleDepths(const GemmScales &scales) const {
  return blocksOf(k, scaledDepth(scales.kind));
}

int64_t GemmProblem::rowScalesD() const {
  return blocksOf(outCols(), scaledDepth(scaleD.kind));
}

/// Sizes of groups differ by so much of their mean, as those that trials draw
/// (IntegerInit.h).
static constexpr double kSpread = 0.3;

GemmProblem typicalProduct(const GemmProblem &problem) {
  GemmProblem typical = problem;
  if (!problem.hasGroups() || problem.batch == 0)
    return typical;
  double each = double(problem.m);
  if (problem.groups == GroupKind::Ends) {
    const double groups = double(problem.batch);
    const double withRows =
        groups * (1 - std::pow(1 - 1 / groups, std::max(each, 1.0)));
    typical.batch = std::max<int64_t>(1, std::llround(withRows));
    each /= double(typical.batch);
    // Of one group the size is known.
    typical.meanRows = typical.batch > 1 ? each : 0;
  }
  // Sizes differ: a tile that holds the mean is too small for half of them.
  constexpr double kMostMore = 32;
  typical.m =
      std::llround(std::ceil(each + std::min(kSpread * each, kMostMore)));
  if (problem.groups == GroupKind::Ends)
    typical.m = std::min(typical.m, problem.m);
  typical.room = typical.m;
  typical.batchA = typical.batch;
  return typical;
}

/// Tiles of \p tile rows that sizes from 0 to \p most need, summed over all.
static double tilesUpTo(double most, double tile) {
  const double whole = std::floor(most / tile);
  return tile * whole * (whole + 1) / 2 + (whole + 1) * (most - whole * tile);
}

/// (Gate and up of Qwen3-235B at 4096 tokens, H200: the times of tiles of 96 to
/// 320 rows follow it within 3 %.)
double GemmProblem::tilesAlongM(int64_t tile) const {
  if (meanRows <= 0)
    return double(ceilDiv(m, tile));
  const double least = meanRows * (1 - kSpread),
               most = meanRows * (1 + kSpread);
  return (tilesUpTo(most, double(tile)) - tilesUpTo(least, double(tile))) /
         (most - least);
}

std::string tilesAlongMText(const GemmProblem &problem, int64_t tile) {
  return fmt::format("{:.{}f}", problem.tilesAlongM(tile),
                     problem.meanRows > 0 ? 2 : 0);
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
  signature.inB = p.typeB == p.dtype ? DType::None : p.typeB;
  signature.scaleA = p.scaleA.kind;
  signature.scaleB = p.scaleB.kind;
  signature.out = p.out;
  signature.compute = p.compute;
  signature.layout = p.layout;
  signature.pointwise = p.pointwise;
  signature.readsC = p.beta != 0;
  int64_t inBytes = bytesOf(p.dtype), outBytes = bytesOf(p.sideType());
  // A promise that only an e4m3 D needs is not about A and B.
  const int64_t alignIn = std::max(p.align, inBytes);
  signature.alignA = alignmentClass({alignIn, p.lda * inBytes});
  signature.alignB = alignmentClass({alignIn, p.ldb * inBytes});
  if (p.isPacked()) {
    constexpr int kPackedAlign = 16; // whatever is promised of A
    signature.alignB = kPackedAlign;
    signature.orderB = p.orderB;
  }
  if (p.isPacked() || p.scaleTypeB != DType::FP32)
    signature.scaleTypeB = p.scaleTypeB;
  signature.groupB = p.groupB;
  signature.zeroB = p.zeroB;
  signature.groups = p.groups;
  signature.gathers = p.gathers;
  signature.scatters = p.scatters;
  signature.hasRowWeights = p.hasRowWeights;
  signature.zeroA = p.zeroA;
  signature.scaleD = p.scaleD.kind;
  bool residual = p.pointwise.contains(PointwiseOp::Residual);
  // A promise below the width of a wider output promises that width all the
  // same: every pointer is a multiple of its own element.
  // Rows of an e4m3 D are in its own bytes.
  signature.alignD = alignmentClass(
      {std::max(p.align, outBytes), p.ldd * bytesOf(p.out),
       p.outCols() * outBytes, signature.readsC ? p.ldc * outBytes : 0,
       residual ? p.ldResidual * outBytes : 0});
  return signature;
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

static std::string enumeratorText(ComputeMode mode) {
  return mode == ComputeMode::TF32      ? "kiln::ComputeMode::TF32"
         : mode == ComputeMode::FastFp8 ? "kiln::ComputeMode::FastFp8"
                                        : "kiln::ComputeMode::Native";
}

static std::string enumeratorText(ScaleKind kind) {
  switch (kind) {
  case ScaleKind::None:
    break;
  case ScaleKind::Tensor:
    return "kiln::ScaleKind::Tensor";
  case ScaleKind::Row:
    return "kiln::ScaleKind::Row";
  case ScaleKind::Block1x128:
    return "kiln::ScaleKind::Block1x128";
  case ScaleKind::Block128x128:
    return "kiln::ScaleKind::Block128x128";
  }
  return "kiln::ScaleKind::None";
}

static std::string enumeratorText(WeightOrder order) {
  return order == WeightOrder::K64R16 ? "kiln::WeightOrder::K64R16"
                                      : "kiln::WeightOrder::Plain";
}

static std::string enumeratorText(GroupKind groups) {
  return groups == GroupKind::Ends     ? "kiln::GroupKind::Ends"
         : groups == GroupKind::Masked ? "kiln::GroupKind::Masked"
                                       : "kiln::GroupKind::None";
}

static std::string enumeratorText(Layout layout) {
  return fmt::format("kiln::Layout::{}{}", isTransposedA(layout) ? 'T' : 'N',
                     isTransposedB(layout) ? 'T' : 'N');
}

static constexpr SignatureFields kSignatureFields(
    SignatureField{"in", "in", &GemmSignature::in, true, kTypeNames},
    SignatureField{"out", "out", &GemmSignature::out, true, kOutNames},
    SignatureField{"compute", "compute", &GemmSignature::compute, false,
                   kComputeNames},
    SignatureField{"layout", "layout", &GemmSignature::layout, true,
                   kLayoutNames},
    SignatureField{"pointwise", "pointwise", &GemmSignature::pointwise, false,
                   kPointwiseNames},
    SignatureField{"readsc", "readsC", &GemmSignature::readsC},
    SignatureField{"aligna", "alignA", &GemmSignature::alignA, false, {}, 16},
    SignatureField{"alignb", "alignB", &GemmSignature::alignB, false, {}, 16},
    SignatureField{"alignd", "alignD", &GemmSignature::alignD, false, {}, 16},
    SignatureField{"b", "inB", &GemmSignature::inB, false, kTypeNamesB},
    SignatureField{"scalea", "scaleA", &GemmSignature::scaleA, false,
                   kScaleNamesA},
    SignatureField{"scaleb", "scaleB", &GemmSignature::scaleB, false,
                   kScaleNames},
    SignatureField{"orderb", "orderB", &GemmSignature::orderB, false,
                   kOrderNames},
    SignatureField{"scaletypeb", "scaleTypeB", &GemmSignature::scaleTypeB,
                   false, kScaleTypeNames},
    SignatureField{"groupb", "groupB", &GemmSignature::groupB, false, {}, 128},
    SignatureField{"zerob", "zeroB", &GemmSignature::zeroB},
    SignatureField{"groups", "groups", &GemmSignature::groups, false,
                   kGroupNames},
    SignatureField{"gathers", "gathers", &GemmSignature::gathers},
    SignatureField{"scatters", "scatters", &GemmSignature::scatters},
    SignatureField{"weights", "hasRowWeights", &GemmSignature::hasRowWeights},
    SignatureField{"zeroa", "zeroA", &GemmSignature::zeroA, false, kZeroNames},
    SignatureField{"scaled", "scaleD", &GemmSignature::scaleD, false,
                   kScaleNamesA});

const Schema &gemmSignatureSchema() {
  static const Schema &schema = *new Schema(kSignatureFields.schema("gemm"));
  return schema;
}

Values toValues(const GemmSignature &signature) {
  return kSignatureFields.toValues(signature, gemmSignatureSchema());
}

GemmSignature readGemmSignature(const Values &values) {
  return kSignatureFields.fromValues(values);
}

std::string initializerText(const GemmSignature &signature) {
  return kSignatureFields.initializer(signature);
}

} // namespace kiln
