//===- GemmFamily.cpp -----------------------------------------------------===//
#include "Families/Gemm/GemmFamily.h"

#include "Families/Gemm/GemmCall.h"
#include "Families/Gemm/GemmProblem.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Families/ProblemFields.h"
#include "Kernel/TypeName.h"
#include "Model/MathUtil.h"
#include "Support/Error.h"

#include <algorithm>
#include <cmath>

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
  const RecordSchema &problemSchema() const override {
    return gemmProblemSchema();
  }

  const CallReader *call() const override { return &kGemmCall; }
  llvm::Expected<Problem> canonicalise(Record record) const override;

  bool isEmpty(const Problem &problem) const override {
    GemmProblem p = read(problem);
    return p.m == 0 || p.n == 0 || p.batch == 0;
  }

  OperandTable operands(const Problem &problem) const override;

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
    return readGemmProblem(problem.record.values().data());
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

llvm::Expected<Problem> GemmFamily::canonicalise(Record record) const {
  if (auto error = record.check())
    return error;
  GemmProblem p = readGemmProblem(record.values().data());
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
  // What equals a derived default, or is never read, is the default.
  auto reset = [&](int field, bool isDefault) {
    if (isDefault)
      record.set(field, 0);
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
    record.set(GemmField::GroupAlign, 1);
  if (!p.gathers)
    record.set(GemmField::Divisor, 1);
  Problem problem;
  problem.signature =
      toRecord(signatureOf(readGemmProblem(record.values().data())));
  problem.record = std::move(record);
  return problem;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Data of A and B that their types have digits for.
static void describeInput(OperandSpec &spec) {
  if (spec.type == DType::INT8)
    spec.usual.deviation = spec.outliers.deviation = 40;
  // Sums of one sign grow beyond what a narrow accumulator keeps of products.
  if (isFp8(spec.type)) {
    spec.outliers.mean = 1;
    spec.outliers.deviation = 0.25;
  }
}

/// Sizes of groups, and what belongs to rows that are elsewhere.
static void describeGroups(const GemmProblem &p, OperandTable &table) {
  auto describe = [&](int index, llvm::StringRef name, DType type,
                      int64_t count, bool present) -> OperandSpec & {
    OperandSpec &spec = table.operands[index];
    spec = OperandSpec();
    spec.name = name;
    spec.type = type;
    spec.rows = 1;
    // What is not there follows no extent.
    spec.cols = spec.leadingDimension = present ? count : 0;
    spec.alignment = spec.misalignment = bytesOf(type);
    spec.present = present;
    return spec;
  };
  const bool isMasked = p.groups == GroupKind::Masked;
  OperandSpec &sizes = describe(GemmOperand::GroupSizes, "group_sizes",
                                DType::INT32, p.batch, p.hasGroups());
  sizes.usual.integers = {isMasked ? IntegerData::Counts : IntegerData::Ends, 0,
                          isMasked       ? p.room
                          : p.batch == 1 ? p.m
                                         : ceilDiv(p.m, 2),
                          isMasked ? p.m * p.batch : p.m, p.groupAlign};
  sizes.outliers = sizes.usual;
  OperandSpec &index = describe(GemmOperand::RowIndex, "row_index",
                                DType::INT32, p.m, p.gathers || p.scatters);
  index.usual.integers = {IntegerData::Indices, 0,
                          std::max<int64_t>(p.m - 1, 0)};
  index.outliers = index.usual;
  describe(GemmOperand::RowWeights, "row_weights", DType::FP32, p.m,
           p.hasRowWeights);
}

/// Packed weights, their scales and zero points: bytes in rows of blocks.
static void describePacked(const GemmProblem &p, OperandTable &table) {
  auto describe = [&](int index, llvm::StringRef name, DType type, int64_t cols,
                      bool present) -> OperandSpec & {
    OperandSpec &spec = table.operands[index];
    spec = OperandSpec();
    spec.name = name;
    spec.role = OperandRole::Constant;
    // Codes of 4 bits, and powers of two, are bytes here.
    spec.type = type == DType::E4M3 || bitsOf(type) > 8 ? type : DType::INT8;
    spec.rows = p.packedRows() * p.batch;
    spec.cols = spec.leadingDimension = cols;
    constexpr int kAlign = 16;
    spec.alignment = kAlign;
    spec.present = present;
    return spec;
  };
  OperandSpec &weights =
      describe(GemmOperand::B, "b", p.typeB, p.packedRowBytes(), true);
  constexpr double kAllBytes = 50;
  if (weights.type == DType::INT8)
    weights.usual.deviation = weights.outliers.deviation = kAllBytes;
  OperandSpec &scales = describe(GemmOperand::ScaleB, "scale_b", p.scaleTypeB,
                                 p.packedRowScales(), true);
  scales.usual = {.mean = -2, .isLogarithmic = true};
  scales.outliers = {.mean = -2, .deviation = 2, .isLogarithmic = true};
  if (p.scaleTypeB == DType::E8M0)
    scales.usual = scales.outliers = {.mean = 118, .deviation = 3};
  OperandSpec &zeros = describe(GemmOperand::ZeroB, "zero_b", DType::INT8,
                                p.packedRowScales(), p.zeroB);
  zeros.usual = zeros.outliers = {.mean = 8, .deviation = 1.4};
}

/// The scales of an e4m3 D: one line of those of rows, or rows of those of 128
/// columns, or the other way round.
static void describeScalesD(const GemmProblem &p, OperandTable &table) {
  OperandSpec &spec = table.operands[GemmOperand::ScaleD];
  spec.name = "scale_d";
  spec.type = DType::FP32;
  spec.present = p.quantizes();
  if (!spec.present) // then it follows no extent
    return;
  spec.alignment = spec.misalignment = bytesOf(DType::FP32);
  spec.role = p.writesScalesD() ? OperandRole::Out : OperandRole::In;
  const bool isOfBlocks = isBlockScale(p.scaleD.kind);
  const bool areLinesRows = isOfBlocks && !p.scaleD.alongRows;
  spec.rows = areLinesRows ? p.room : isOfBlocks ? p.rowScalesD() : 1;
  spec.cols = areLinesRows                         ? p.rowScalesD()
              : p.scaleD.kind == ScaleKind::Tensor ? 1
                                                   : p.room;
  spec.leadingDimension = isOfBlocks ? p.scaleD.ld : spec.cols;
  spec.batch = p.batchA;
  spec.batchStride = spec.batch > 1 ? spec.rows * spec.leadingDimension : 0;
  spec.usual = {.mean = -2, .isLogarithmic = true};
  spec.outliers = {.mean = -2, .deviation = 2, .isLogarithmic = true};
  spec.tolerance.relative = std::ldexp(1.0, -7);
  spec.tolerance.scaled = table.operands[GemmOperand::D].tolerance.scaled;
}

OperandTable GemmFamily::operands(const Problem &problem) const {
  GemmProblem p = read(problem);
  OperandTable table;
  table.operands.resize(GemmOperand::Count);
  auto set = [&](int index, llvm::StringRef name, OperandRole role, DType type,
                 int64_t rows, int64_t cols, int64_t ld,
                 bool present) -> OperandSpec & {
    OperandSpec &spec = table.operands[index];
    spec.name = name;
    spec.role = role;
    spec.type = type;
    spec.rows = rows;
    spec.cols = cols;
    spec.leadingDimension = ld;
    spec.batch = p.batch;
    spec.batchStride = rows * ld;
    spec.misalignment = misalignmentOf(p.align, type);
    spec.present = present;
    // Large beside the rest, yet a sum of such products is finite in fp16.
    spec.outliers.outlierPeriod = 1000;
    spec.outliers.outlier = 64;
    constexpr int kTf32Mantissa = 10;
    if (p.compute == ComputeMode::TF32)
      spec.usual.mantissaBits = spec.outliers.mantissaBits = kTf32Mantissa;
    return spec;
  };
  // Groups with ends share what has a row for each of the product's.
  auto setFlat = [&](OperandSpec &spec, int64_t rows) -> OperandSpec & {
    spec.rows = rows;
    spec.batch = p.batchA;
    spec.batchStride = spec.batch > 1 ? rows * spec.leadingDimension : 0;
    return spec;
  };
  OperandSpec &a = set(GemmOperand::A, "a", OperandRole::In, p.dtype, p.rowsA(),
                       p.colsA(), p.lda, true);
  if (p.hasGroups())
    setFlat(a, p.scaledRowsA());
  describeInput(a);
  describeInput(set(GemmOperand::B, "b", OperandRole::Constant, p.typeB,
                    p.rowsB(), p.colsB(), p.ldb, true));
  set(GemmOperand::C, "c", OperandRole::In, p.sideType(), p.m, p.n, p.ldc,
      p.beta != 0);
  OperandSpec &d = set(GemmOperand::D, "d", OperandRole::Out, p.out, p.m,
                       p.outCols(), p.ldd, true);
  if (p.hasGroups())
    setFlat(d, p.room);
  if (p.beta != 0 && !p.quantizes())
    d.mayBe = GemmOperand::C;
  // Rounding of the output, and of k products summed in fp32 in any order.
  int mantissa = p.out == DType::BF16 ? 7 : p.out == DType::FP16 ? 10 : 23;
  d.tolerance.relative = 2 * std::ldexp(1.0, -mantissa);
  d.tolerance.scaled =
      4 * std::sqrt(std::max<double>(p.k, 1)) * std::ldexp(1.0, -24);
  // An fp8 tensor core keeps 13 bits of a sum, of 128 products or of all.
  if (isFp8(p.dtype))
    d.tolerance.scaled = p.compute == ComputeMode::FastFp8
                             ? std::min(1.0, std::max<double>(p.k, 128) / 32768)
                             : std::ldexp(1.0, -8);
  // One step of e4m3, normal or not: behind a rounding to 16 bits a result may
  // fall to the next one.
  if (p.quantizes()) {
    d.tolerance.relative = std::ldexp(1.0, -3);
    d.tolerance.absolute = std::ldexp(1.0, -9);
  }
  int64_t biasCols = p.linkCols(PointwiseOp::Bias);
  OperandSpec &bias =
      set(GemmOperand::Bias, "bias", OperandRole::Constant, p.sideType(), 1,
          biasCols, biasCols, p.pointwise.contains(PointwiseOp::Bias));
  // Groups have a bias each.
  if (!p.hasGroups()) {
    bias.batch = 1;
    bias.batchStride = 0;
  }
  OperandSpec &residual =
      set(GemmOperand::Residual, "residual", OperandRole::In, p.sideType(), p.m,
          p.linkCols(PointwiseOp::Residual), p.ldResidual,
          p.pointwise.contains(PointwiseOp::Residual));
  if (p.hasGroups())
    setFlat(residual, p.room);
  auto setScales = [&](int index, llvm::StringRef name, OperandRole role,
                       const GemmScales &scales, int64_t extent) {
    int64_t rows = GemmProblem::scaleRows(scales, extent);
    int64_t depths = p.scaleDepths(scales);
    if (scales.alongRows)
      std::swap(rows, depths);
    // Those of rows are one line.
    if (!isBlockScale(scales.kind))
      std::swap(rows, depths);
    OperandSpec &spec = set(index, name, role, DType::FP32, rows, depths,
                            isBlockScale(scales.kind) ? scales.ld : depths,
                            scales.kind != ScaleKind::None);
    spec.alignment = bytesOf(DType::FP32);
    spec.misalignment = misalignmentOf(spec.alignment, DType::FP32);
    // Neighbours differ, by factors of 2 and more.
    spec.usual = {.mean = -2, .isLogarithmic = true};
    spec.outliers = {.mean = -2, .deviation = 2, .isLogarithmic = true};
  };
  setScales(GemmOperand::ScaleA, "scale_a", OperandRole::In, p.scaleA,
            p.scaledRowsA());
  if (p.hasGroups())
    setFlat(table.operands[GemmOperand::ScaleA],
            table.operands[GemmOperand::ScaleA].rows);
  setScales(GemmOperand::ScaleB, "scale_b", OperandRole::Constant, p.scaleB,
            p.n);
  table.operands[GemmOperand::ZeroB].present = false;
  describeGroups(p, table);
  if (p.isPacked())
    describePacked(p, table);
  describeScalesD(p, table);
  const bool hasZeroA = p.zeroA != ScaleKind::None;
  auto setIntegers = [&](int index, llvm::StringRef name, OperandRole role,
                         int64_t count, int most) {
    OperandSpec &spec =
        set(index, name, role, DType::INT32, 1, count, count, hasZeroA);
    spec.alignment = bytesOf(DType::INT32);
    spec.misalignment = misalignmentOf(spec.alignment, DType::INT32);
    spec.usual.integers =
        spec.outliers.integers = {IntegerData::Values, -most - 1, most};
  };
  setIntegers(GemmOperand::ZeroA, "zero_a", OperandRole::In,
              p.zeroA == ScaleKind::Row ? p.m : 1, 127);
  // Such that fp16 has what they make. Kernels do not mind whose sums they are.
  setIntegers(GemmOperand::ColumnSumsB, "column_sums_b", OperandRole::Constant,
              p.n, 199);
  auto slotOf = [&](PointwiseOp op) {
    return int(KILN_GEMM_POINTWISE) + p.pointwise.find(op);
  };
  const int slots[] = {KILN_GEMM_A,
                       KILN_GEMM_B,
                       KILN_GEMM_C,
                       KILN_GEMM_D,
                       slotOf(PointwiseOp::Bias),
                       slotOf(PointwiseOp::Residual),
                       KILN_GEMM_SCALE_A,
                       KILN_GEMM_SCALE_B,
                       KILN_GEMM_ZERO_B,
                       KILN_GEMM_GROUP_SIZES,
                       KILN_GEMM_ROW_INDEX,
                       KILN_GEMM_ROW_WEIGHTS,
                       KILN_GEMM_ZERO_A,
                       KILN_GEMM_COLUMN_SUMS_B,
                       KILN_GEMM_SCALE_D};
  for (int i = 0; i < GemmOperand::Count; ++i)
    table.operands[i].slot = slots[i];
  return table;
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
