//===- GemmFamily.cpp -----------------------------------------------------===//
#include "Families/Gemm/GemmFamily.h"

#include "Families/Gemm/GemmCall.h"
#include "Families/Gemm/GemmOperands.h"
#include "Families/Gemm/GemmProblem.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Families/ProblemFields.h"
#include "Kernel/TypeName.h"
#include "Support/Error.h"

namespace kiln {

namespace {

class GemmFamily final : public KernelFamily {
public:
  GemmFamily() {
    addTemplate(makeSm90GemmTemplate());
    addTemplate(makeMmaGemmTemplate());
    addTemplate(makePackedGemmTemplate());
    addTemplate(makeSm90PackedGemmTemplate());
    addTemplate(makeGemvTemplate());
    addTemplate(makeSkinnyGemmTemplate());
    addTemplate(makeFfmaGemmTemplate());
    addTemplate(makeSimtGemmTemplate());
    addTemplate(makeNaiveGemmTemplate());
  }

  llvm::StringRef name() const override { return "gemm"; }
  const Schema &problemSchema() const override { return gemmProblemSchema(); }

  const CallReader *call() const override { return &kGemmCall; }
  llvm::Expected<Problem> canonicalise(Values values) const override;

  bool isEmpty(const Problem &problem) const override {
    GemmProblem p = read(problem);
    return p.m == 0 || p.n == 0 || p.batch == 0;
  }

  OperandTable operands(const Problem &problem) const override {
    return gemmOperands(read(problem));
  }

  llvm::StringRef example() const override {
    return "m=4096 n=4096 k=4096 dtype=bf16 layout=NT";
  }
  llvm::ArrayRef<llvm::StringRef> combinations() const override {
    static constexpr llvm::StringRef kCombinations[] = {
        "dtype=e4m3 scale_a=1x128 scale_b=128x128",
        "dtype=e4m3 b=e5m2 scale_a=1x128 scale_b=128x128 scale_order_a=rows "
        "scale_order_b=rows",
        "dtype=e5m2 b=e4m3 scale_a=row scale_b=row compute=fast_fp8",
        "dtype=int8 scale_a=row scale_b=tensor",
        "dtype=int8 scale_a=row scale_b=row zero_a=row",
        "dtype=int8 scale_a=tensor scale_b=row zero_a=tensor",
        "dtype=bf16 b=bf16 scale_a=none scale_b=none order_b=plain zero_b=0 "
        "scale_type_b=fp32 zero_a=none",
        "dtype=fp32 b=fp32 compute=tf32 scale_a=none scale_b=none "
        "order_b=plain zero_b=0 scale_type_b=fp32",
        "dtype=fp16 b=fp16 scale_a=none scale_b=none order_b=plain zero_b=0 "
        "scale_type_b=fp32 zero_a=none",
        "dtype=bf16 layout=NT b=int4 order_b=k64r16 scale_b=1x128 "
        "scale_type_b=bf16 zero_b=1 batch=1 scale_a=none compute=native "
        "zero_a=none",
        "dtype=fp16 layout=NT b=int4 order_b=k64r16 scale_b=1x64 "
        "scale_type_b=fp16 batch=1 scale_a=none compute=native zero_a=none",
        "dtype=fp16 layout=NT b=int8 order_b=k64r16 scale_b=1x32 "
        "scale_type_b=fp32 batch=1 scale_a=none compute=native zero_a=none",
        "dtype=bf16 layout=NT b=e2m1 order_b=k64r16 scale_b=1x32 "
        "scale_type_b=e8m0 zero_b=0 batch=1 scale_a=none compute=native "
        "zero_a=none",
        "layout=NT groups=ends beta=0 compute=native zero_a=none",
        "layout=NT groups=ends beta=0 compute=native zero_a=none gather=1 "
        "scatter=1 divisor=2 row_weights=1 pointwise=",
        "layout=NT groups=masked beta=0 compute=native zero_a=none gather=0 "
        "scatter=0 row_weights=0",
        "dtype=bf16 b=bf16 out=e4m3 scale_d=1x128 scatter=0 scale_a=none "
        "scale_b=none order_b=plain zero_b=0 scale_type_b=fp32 zero_a=none "
        "compute=native",
        "dtype=e4m3 b=e4m3 out=e4m3 scale_d=1x128 scale_order_d=rows scatter=0 "
        "scale_a=1x128 scale_b=128x128 order_b=plain compute=native",
        "dtype=fp16 b=fp16 out=e4m3 scale_d=row scatter=0 scale_a=none "
        "scale_b=none order_b=plain zero_b=0 scale_type_b=fp32 zero_a=none "
        "compute=native",
        "dtype=int8 b=int8 out=e4m3 scale_d=tensor scatter=0 order_b=plain"};
    return kCombinations;
  }
  PoolDraws poolDraws(const Values &described) const override;
  std::optional<MatrixProduct>
  matrixProduct(const Problem &problem) const override;

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return read(problem).quantizes()
               ? makeQuantizedReference(GemmProduct(problem).signature,
                                        read(problem).scaleD.kind, device)
               : makeGemmReference(readGemmSignature(problem.signature),
                                   device);
  }

  double flops(const Problem &problem) const override {
    return read(problem).flops();
  }

private:
  static GemmProblem read(const Problem &problem) {
    return readGemmProblem(problem.values.array().data());
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

/// Chains that the family computes.
static llvm::Error checkChain(const GemmProblem &p) {
  int biases = 0, residuals = 0, joins = 0;
  for (PointwiseOp op : p.pointwise.ops) {
    biases += op == PointwiseOp::Bias;
    residuals += op == PointwiseOp::Residual;
    joins += joinsColumns(op);
  }
  if (biases > 1 || residuals > 1)
    return makeError(ErrorCode::Unsupported,
                     "gemm: pointwise has more than one bias or residual");
  if (joins > 1)
    return makeError(ErrorCode::Unsupported,
                     "gemm: pointwise has more than one swiglu");
  if (joins == 1 && p.n % 2 != 0)
    return makeError(ErrorCode::InvalidArgument,
                     "gemm: n={} is odd, swiglu joins columns in pairs", p.n);
  if (joins == 1 && p.beta != 0)
    return makeError(ErrorCode::Unsupported,
                     "gemm: beta is set with swiglu, which takes no C");
  return llvm::Error::success();
}

/// Zero points of A, before what else may be wrong with packed weights.
static llvm::Error checkZeroPointsA(const GemmProblem &p) {
  if (signatureOf(p).hasGoodZeroPointsA())
    return llvm::Error::success();
  if (p.hasGroups())
    return makeError(ErrorCode::Unsupported,
                     "gemm: zero_a is not available with groups");
  return makeError(ErrorCode::Unsupported,
                   "gemm: zero_a is for dtype=int8 and rows of elements");
}

/// What is to be said of an e4m3 D and its scales.
static llvm::Error checkQuantized(const GemmProblem &p) {
  if (!p.quantizes()) {
    if (p.out == DType::E4M3)
      return makeError(ErrorCode::Unsupported, "gemm: out=e4m3 needs scale_d");
    return llvm::Error::success();
  }
  if (p.out != DType::E4M3)
    return makeError(ErrorCode::Unsupported, "gemm: scale_d needs out=e4m3");
  if (p.dtype == DType::FP32)
    return makeError(ErrorCode::Unsupported,
                     "gemm: out=e4m3 needs dtype=bf16, fp16, e4m3, e5m2 or "
                     "int8");
  if (p.scatters)
    return makeError(ErrorCode::Unsupported,
                     "gemm: out=e4m3 is not available with scatter");
  // How much room a launch has for results, its plan does not know.
  if (p.groups == GroupKind::Masked)
    return makeError(ErrorCode::Unsupported,
                     "gemm: out=e4m3 is not available with groups=masked");
  return llvm::Error::success();
}

/// What is to be said of packed weights alone.
static llvm::Error checkPacked(const GemmProblem &p) {
  const bool isSmall = p.typeB == DType::INT4 || p.typeB == DType::E2M1;
  if (!p.isPacked()) {
    if (isSmall)
      return makeError(ErrorCode::Unsupported,
                       "gemm: b={} needs order_b=k64r16", nameOf(p.typeB));
    if (p.zeroB)
      return makeError(ErrorCode::Unsupported,
                       "gemm: zero_b=1 needs order_b=k64r16");
    if (p.groupB != 0)
      return makeError(ErrorCode::Unsupported,
                       "gemm: scale_b=1x{} needs order_b=k64r16", p.groupB);
    if (p.scaleTypeB != DType::FP32)
      return makeError(ErrorCode::Unsupported,
                       "gemm: scale_type_b={} needs order_b=k64r16",
                       nameOf(p.scaleTypeB));
    return llvm::Error::success();
  }
  GemmSignature signature = signatureOf(p);
  signature.out = p.sideType();
  if (!signature.hasTypes())
    return makeError(ErrorCode::Unsupported,
                     "gemm: order_b=k64r16 is for dtype=bf16 or fp16 with b of "
                     "int4, int8, e4m3 or e2m1");
  if (p.layout != Layout::NT)
    return makeError(ErrorCode::Unsupported,
                     "gemm: order_b=k64r16 needs layout=NT");
  if (p.batch != 1 && !p.hasGroups())
    return makeError(
        ErrorCode::Unsupported,
        "gemm: batch={} without groups: packed weights have no batch", p.batch);
  if (!signature.hasScales())
    return makeError(ErrorCode::Unsupported,
                     "gemm: packed weights have scales of rows or of groups, "
                     "1x32, 1x64 or 1x128, e2m1 those of 1x32 as e8m0, and "
                     "int4 alone zero points");
  return llvm::Error::success();
}

/// What is to be said of groups of rows: GemmSignature::areGroupsValid().
static llvm::Error checkGroups(const GemmProblem &p) {
  const bool mapsRows = p.gathers || p.scatters;
  if (p.groups != GroupKind::Ends) {
    if (mapsRows)
      return makeError(ErrorCode::Unsupported,
                       "gemm: gather and scatter need groups=ends");
    if (p.hasRowWeights)
      return makeError(ErrorCode::Unsupported,
                       "gemm: row_weights=1 needs groups=ends");
  }
  if (!p.hasGroups())
    return llvm::Error::success();
  if (p.batch > kMostGroups)
    return makeError(ErrorCode::Unsupported,
                     "gemm: batch={} groups, at most {} work", p.batch,
                     kMostGroups);
  if (isTransposedA(p.layout))
    return makeError(ErrorCode::Unsupported,
                     "gemm: groups need rows of A along k, layout=NT or NN");
  if (p.beta != 0)
    return makeError(ErrorCode::Unsupported,
                     "gemm: beta is set with groups, which take no C");
  if (p.compute == ComputeMode::TF32)
    return makeError(ErrorCode::Unsupported,
                     "gemm: compute=tf32 is not available with groups");
  if (p.scatters && p.pointwise.contains(PointwiseOp::Residual))
    return makeError(ErrorCode::Unsupported,
                     "gemm: a residual is not available with scatter");
  if (p.groups == GroupKind::Masked && p.m == 0 && p.room > 0)
    return makeError(ErrorCode::InvalidArgument,
                     "gemm: m=0, of masked groups m is how many rows to expect "
                     "of each");
  if (p.groups == GroupKind::Masked && p.room < p.m)
    return makeError(ErrorCode::InvalidArgument,
                     "gemm: room={} is less than m={}", p.room, p.m);
  return llvm::Error::success();
}

/// Types that the family computes.
static llvm::Error checkTypes(const GemmProblem &p) {
  bool isByte = bytesOf(p.dtype) == 1;
  if (!p.isPacked() && // checkPacked() has its words
      (isFp8(p.dtype) ? !isFp8(p.typeB) : p.typeB != p.dtype))
    return makeError(ErrorCode::Unsupported,
                     "gemm: b={} does not go with dtype={}", nameOf(p.typeB),
                     nameOf(p.dtype));
  if (!p.quantizes() && !isByte && p.out != p.dtype && p.out != DType::FP32)
    return makeError(ErrorCode::Unsupported,
                     "gemm: out is neither dtype nor fp32");
  if (p.compute == ComputeMode::TF32 && p.dtype != DType::FP32)
    return makeError(ErrorCode::InvalidArgument,
                     "gemm: compute=tf32 needs dtype=fp32");
  if (p.compute == ComputeMode::FastFp8 && !isFp8(p.dtype))
    return makeError(ErrorCode::InvalidArgument,
                     "gemm: compute=fast_fp8 needs dtype=e4m3 or e5m2");
  return llvm::Error::success();
}

/// Scales that the family computes with: GemmSignature::hasScales().
static llvm::Error checkScales(const GemmProblem &p) {
  const GemmSignature signature = signatureOf(p);
  if (signature.hasScales())
    return llvm::Error::success();
  if (bytesOf(p.dtype) != 1)
    return makeError(ErrorCode::Unsupported,
                     "gemm: {} takes no scales, types of one byte do",
                     nameOf(p.dtype));
  if (!signature.isPromoted())
    return makeError(ErrorCode::Unsupported,
                     "gemm: scales of blocks need e4m3 or e5m2 and fp32 sums");
  return makeError(ErrorCode::Unsupported,
                   "gemm: scales of blocks are scale_a=1x128 with "
                   "scale_b=128x128");
}

static llvm::Error checkMemory(const GemmProblem &p) {
  if (auto error =
          checkAlign("gemm", p.align, p.quantizes() ? 1 : bytesOf(p.dtype)))
    return error;
  auto check = [&](llvm::StringRef key, int64_t rows, int64_t cols,
                   int64_t ld) {
    return checkMatrix("gemm", key, rows, cols, ld, p.batch);
  };
  auto checkFlat = [&](llvm::StringRef key, int64_t rows, int64_t cols,
                       int64_t ld) {
    return checkMatrix("gemm", key, rows, cols, ld, p.batchA);
  };
  if (auto error = checkFlat("lda", p.rowsA(), p.colsA(), p.lda))
    return error;
  // Packed weights have no leading dimension.
  if (auto error =
          check("ldb", p.rowsB(), p.colsB(), p.isPacked() ? p.colsB() : p.ldb))
    return error;
  if (auto error = checkFlat("ldd", p.room, p.outCols(), p.ldd))
    return error;
  if (p.beta != 0)
    if (auto error = check("ldc", p.m, p.n, p.ldc))
      return error;
  auto checkScale = [&](llvm::StringRef key, const GemmScales &scales,
                        int64_t extent) -> llvm::Error {
    if (!isBlockScale(scales.kind) || p.isPacked())
      return llvm::Error::success();
    int64_t rows = GemmProblem::scaleRows(scales, extent);
    int64_t depths = p.scaleDepths(scales);
    return scales.alongRows ? check(key, depths, rows, scales.ld)
                            : check(key, rows, depths, scales.ld);
  };
  if (auto error = checkScale("ldsa", p.scaleA, p.scaledRowsA()))
    return error;
  if (auto error = checkScale("ldsb", p.scaleB, p.n))
    return error;
  if (isBlockScale(p.scaleD.kind)) {
    const bool alongRows = p.scaleD.alongRows;
    if (auto error =
            checkFlat("ldsd", alongRows ? p.rowScalesD() : p.room,
                      alongRows ? p.room : p.rowScalesD(), p.scaleD.ld))
      return error;
  }
  if (!p.pointwise.contains(PointwiseOp::Residual))
    return llvm::Error::success();
  return checkFlat("ldr", p.room, p.linkCols(PointwiseOp::Residual),
                   p.ldResidual);
}

llvm::Expected<Problem> GemmFamily::canonicalise(Values values) const {
  if (auto error = values.check())
    return error;
  GemmProblem p = readGemmProblem(values.array().data());
  if (auto error = checkZeroPointsA(p))
    return error;
  if (auto error = checkQuantized(p))
    return error;
  if (auto error = checkPacked(p))
    return error;
  if (auto error = checkGroups(p))
    return error;
  if (auto error = checkTypes(p))
    return error;
  if (auto error = checkScales(p))
    return error;
  if (auto error = checkChain(p))
    return error;
  if (auto error = checkMemory(p))
    return error;
  if (auto error = checkScalar("gemm", "alpha", p.alpha))
    return error;
  if (auto error = checkScalar("gemm", "beta", p.beta))
    return error;
  // What equals a derived default, or is never read, is the default.
  auto reset = [&](int field, bool isDefault) {
    if (isDefault)
      values.set(field, 0);
  };
  reset(GemmField::Out, p.out == defaultOut(p.dtype));
  reset(GemmField::TypeB, p.typeB == p.dtype);
  reset(GemmField::Lda, p.lda == p.colsA());
  reset(GemmField::Ldb, p.ldb == p.colsB() || p.isPacked());
  reset(GemmField::ScaleTypeB,
        p.scaleTypeB == defaultScaleType(p.orderB, p.typeB));
  reset(GemmField::Ldc, p.ldc == p.n || p.beta == 0);
  reset(GemmField::Ldd, p.ldd == p.outCols());
  reset(GemmField::LdResidual,
        p.ldResidual == p.linkCols(PointwiseOp::Residual) ||
            !p.pointwise.contains(PointwiseOp::Residual));
  auto resetScales = [&](int order, int ld, const GemmScales &scales,
                         int64_t extent) {
    const bool isOfBlocks = isBlockScale(scales.kind) && !p.isPacked();
    reset(order, !isOfBlocks);
    reset(ld, !isOfBlocks ||
                  scales.ld == (scales.alongRows
                                    ? GemmProblem::scaleRows(scales, extent)
                                    : p.scaleDepths(scales)));
  };
  resetScales(GemmField::ScaleOrderA, GemmField::LdScaleA, p.scaleA,
              p.scaledRowsA());
  resetScales(GemmField::ScaleOrderB, GemmField::LdScaleB, p.scaleB, p.n);
  reset(GemmField::ScaleOrderD, !isBlockScale(p.scaleD.kind));
  reset(GemmField::LdScaleD,
        !isBlockScale(p.scaleD.kind) ||
            p.scaleD.ld == (p.scaleD.alongRows ? p.room : p.rowScalesD()));
  reset(GemmField::Room, p.groups != GroupKind::Masked || p.room == p.m);
  if (p.groups != GroupKind::Ends)
    values.set(GemmField::GroupAlign, 1);
  if (!p.gathers)
    values.set(GemmField::Divisor, 1);
  Problem problem;
  problem.signature =
      toValues(signatureOf(readGemmProblem(values.array().data())));
  problem.values = std::move(values);
  return problem;
}

//===----------------------------------------------------------------------===//
// Pools and peers
//===----------------------------------------------------------------------===//

/// Weights of models: from a router's few columns to a vocabulary. One product
/// in ten is a batch, one in twenty has rows with gaps.
PoolDraws GemmFamily::poolDraws(const Values &described) const {
  using F = GemmField;
  const GemmProblem p = readGemmProblem(described.array().data());
  const int64_t stepIn =
      std::max(elementsOfVector(p.dtype),
               elementsOfVector(p.isPacked() ? p.dtype : p.typeB));
  const int64_t stepN = std::max(elementsOfVector(p.sideType()), stepIn) *
                        p.pointwise.columnsPerResult() *
                        (p.quantizes() ? 2 : 1);
  constexpr int64_t kLeast = 64, kWidest = 131072, kDeepest = 32768,
                    kMostGap = 256;
  constexpr unsigned kGaps = 5;
  PoolDraws draws;
  draws.layer = {
      {.field = F::N, .low = kLeast, .high = kWidest, .step = stepN},
      {.field = F::K, .low = kLeast, .high = kDeepest, .step = stepIn}};
  auto addGap = [&](int ld, int extent, int64_t step) {
    draws.layer.push_back({.field = ld,
                           .low = step,
                           .high = kMostGap,
                           .step = step,
                           .percent = kGaps,
                           .addendTo = extent});
  };
  if (!isTransposedA(p.layout))
    addGap(F::Lda, F::K, stepIn);
  if (!p.isPacked())
    addGap(F::Ldb, isTransposedB(p.layout) ? F::K : F::N, stepIn);
  constexpr int64_t kMostExperts = 512;
  constexpr unsigned kBatches = 10;
  if (p.hasGroups())
    draws.layer.push_back({.field = F::Batch, .low = 2, .high = kMostExperts});
  else if (!p.isPacked())
    draws.layer.push_back({.field = F::Batch,
                           .low = 2,
                           .high = kMostExperts,
                           .percent = kBatches});
  draws.extents = {{.field = F::M,
                    .high = kMostDrawn,
                    .step = isTransposedA(p.layout) ? stepIn : 1}};
  constexpr int64_t kMostRoom = 8; // times what is expected
  if (p.groups == GroupKind::Masked)
    draws.extents.push_back(
        {.field = F::Room, .high = kMostRoom, .factorOf = F::M});
  return draws;
}

std::optional<MatrixProduct>
GemmFamily::matrixProduct(const Problem &problem) const {
  GemmProblem p = read(problem);
  if (p.isPacked() || p.hasGroups() || p.quantizes())
    return std::nullopt;
  MatrixProduct product;
  product.type = p.dtype;
  product.typeB = p.typeB;
  product.out = p.out;
  product.m = p.m;
  product.n = p.n;
  product.k = p.k;
  product.batch = p.batch;
  product.layout = p.layout;
  product.compute = p.compute;
  product.alpha = p.alpha;
  product.beta = p.beta;
  product.epilogue = p.pointwise;
  product.a = GemmOperand::A;
  product.b = GemmOperand::B;
  product.c = GemmOperand::C;
  product.d = GemmOperand::D;
  product.bias = GemmOperand::Bias;
  product.residual = GemmOperand::Residual;
  auto scalesOf = [](const GemmScales &scales, int operand) {
    return ProductScales{scales.kind, scales.alongRows, scales.ld, operand};
  };
  product.scalesA = scalesOf(p.scaleA, GemmOperand::ScaleA);
  product.scalesB = scalesOf(p.scaleB, GemmOperand::ScaleB);
  return product;
}

std::unique_ptr<KernelFamily> makeGemmFamily() {
  return std::make_unique<GemmFamily>();
}

} // namespace kiln
