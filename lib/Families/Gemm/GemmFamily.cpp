//===- GemmFamily.cpp -----------------------------------------------------===//
#include "Families/Gemm/GemmFamily.h"

#include "Families/Families.h"
#include "Families/Gemm/GemmOperands.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Families/ProblemFields.h"
#include "Support/Error.h"

namespace kiln {

namespace {

class GemmFamily final : public KernelFamily {
public:
  GemmFamily() {
    addTemplate(makeSm90GemmTemplate());
    addTemplate(makeMmaGemmTemplate());
    addTemplate(makePackedGemmTemplate());
    addTemplate(makePackedGemvTemplate());
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

  double compulsoryBytes(const Problem &problem) const override;

  double DeviceModel::*peakRate(const Problem &problem,
                                const DeviceModel &device) const override {
    const GemmProblem p = read(problem);
    return peakRateOf(device, rateTypeOf(p.dtype, p.compute));
  }

private:
  static GemmProblem read(const Problem &problem) {
    return readGemmProblem(problem.values.array().data());
  }
};

} // namespace

/// Masked groups move the rows that are expected of their room, and all groups
/// the weights only where there are rows.
double GemmFamily::compulsoryBytes(const Problem &problem) const {
  GemmProblem p = read(problem);
  if (p.groups == GroupKind::Masked)
    p.room = p.m;
  if (p.groups == GroupKind::Ends)
    p.batch = p.batchB = typicalProduct(p).batch;
  double bytes = 0;
  for (const OperandSpec &operand : gemmOperands(p).operands)
    bytes += operand.elementBytes();
  return bytes;
}

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

// Where several parts are at fault, the part that asks for the rarer feature
// says so first.
static llvm::Error checkParts(const GemmProblem &p) {
  if (auto error = QuantizedD::check(p))
    return error;
  if (auto error = PackedB::check(p))
    return error;
  if (auto error = GemmGroups::check(p))
    return error;
  if (auto error = GemmShape::check(p))
    return error;
  if (auto error = GemmScales::check(p))
    return error;
  if (auto error = GemmEpilogue::check(p))
    return error;
  return GemmMatrices::check(p);
}

llvm::Expected<Problem> GemmFamily::canonicalise(Values values) const {
  if (auto error = values.check())
    return error;
  const GemmProblem p = readGemmProblem(values.array().data());
  if (auto error = checkParts(p))
    return error;
  GemmShape::reset(p, values);
  GemmGroups::reset(p, values);
  GemmEpilogue::reset(p, values);
  PackedB::reset(p, values);
  GemmMatrices::reset(p, values);
  GemmScales::reset(p, values);
  QuantizedD::reset(p, values);
  Values signature =
      toValues(signatureOf(readGemmProblem(values.array().data())));
  return Problem{std::move(values), std::move(signature)};
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
  auto scalesOf = [](const OperandScales &scales, int operand) {
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
