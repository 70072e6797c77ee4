//===- PrepackFamily.cpp --------------------------------------------------===//
#include "Families/Prepack/PrepackFamily.h"

#include "Families/Families.h"
#include "Families/KernelReference.h"
#include "Families/ProblemFields.h"
#include "Support/Error.h"
#include "Support/Format.h"
#include "prepack/BlockPrepackConfig.h"

namespace kiln {

namespace {

class PrepackFamily final : public KernelFamily {
public:
  PrepackFamily() { addTemplate(makeBlockPrepackTemplate()); }

  llvm::StringRef name() const override { return "prepack"; }
  const Schema &problemSchema() const override {
    return prepackProblemSchema();
  }
  const CallReader *call() const override { return &kPrepackCall; }

  llvm::Expected<Problem> canonicalise(Values values) const override;

  bool isEmpty(const Problem &problem) const override {
    PrepackProblem p = read(problem);
    return p.n == 0 || p.k == 0;
  }

  OperandTable operands(const Problem &problem) const override;

  /// Signatures do not depend on n.
  int64_t signaturePeriod() const override { return 1; }

  llvm::StringRef example() const override {
    return "n=4096 k=4096 source=gptq group=128 zeros=1";
  }
  /// Weights of models.
  PoolDraws poolDraws(const Values &) const override {
    constexpr int64_t kLeast = 64, kGroup = 128;
    PoolDraws draws;
    draws.layer = {{.field = PrepackField::K,
                    .low = kLeast,
                    .high = kMostDrawn,
                    .step = kGroup}};
    draws.extents = {
        {.field = PrepackField::N, .high = kMostDrawn, .step = kLeast}};
    return draws;
  }
  Peer peer(const Problem &) const override { return Peer::Stream; }

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override;

  double flops(const Problem &) const override { return 0; }

private:
  static PrepackProblem read(const Problem &problem) {
    return readPrepackProblem(problem.values.array().data());
  }
};

} // namespace

std::unique_ptr<Reference>
PrepackFamily::reference(const Problem &problem,
                         const DeviceModel &device) const {
  constexpr ReferencePrepackConfig kConfig{};
  return makeReference<ReferencePrepackParams>(
      makeKernelUnit({"prepack/ReferencePrepack.cuh", "PrepackSignature",
                      "ReferencePrepackConfig", "ReferencePrepackParams",
                      "referencePrepack"},
                     referenceOf(prepackProblemSchema(),
                                 readPrepackSignature(problem.signature),
                                 kConfig),
                     device),
      kConfig.threads(),
      [=](const Arguments &arguments, const ReferencePart &part,
          ReferencePrepackParams &params) {
        PrepackProblem p = readPrepackProblem(arguments.problem);
        const bool isWeights = part.operand == PrepackOperand::Packed;
        params.prepack = makePrepackParams(p, arguments);
        params.operand = part.operand - PrepackOperand::Packed;
        params.columns = isWeights ? p.rowBytes() : p.rowScales();
        return kConfig.blocks(part.rows(), params.columns);
      });
}

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

static llvm::Error refuse(const Values &values, int field, const char *why) {
  return makeError(ErrorCode::InvalidArgument, "prepack: {}={} {}",
                   values.schema().fields()[field].key.str(),
                   values.valueText(field), why);
}

llvm::Expected<Problem> PrepackFamily::canonicalise(Values values) const {
  using F = PrepackField;
  if (auto error = values.check())
    return error;
  PrepackProblem p = readPrepackProblem(values.array().data());
  const bool isBlocks = p.source == WeightSource::Mxfp4;
  if (p.group != 0 && p.group != 32 && p.group != 64 && p.group != 128)
    return refuse(values, F::Group, "is not one of 0 (all k), 32, 64 and 128");
  if (isBlocks && p.group != 32)
    return refuse(values, F::Group, "where mxfp4 has groups of 32");
  if (isBlocks && values[F::ScaleType])
    return refuse(values, F::ScaleType, "where mxfp4 has scales of e8m0");
  if (p.zeros && !hasZeroPoint(p.source))
    return refuse(values, F::Zeros, "where the source has no zero points");
  if (auto error = checkMatrix(name(), "k", p.n, p.k, p.k))
    return error;
  // Values that equal a derived default become the default.
  if (p.group == groupOf(p.source))
    values.set(F::Group, 0);
  if (p.scaleType == scaleTypeOf(p.source))
    values.set(F::ScaleType, 0);
  return Problem{std::move(values), toValues(signatureOf(p))};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Operand \p index, packed. Bytes are int8 here, since they are only moved.
static OperandSpec operand(const PrepackProblem &p, int index,
                           llvm::StringRef name, DType type) {
  OperandSpec spec;
  spec.name = name;
  spec.role =
      index >= PrepackOperand::Packed ? OperandRole::Out : OperandRole::In;
  spec.type = type;
  spec.rows = rowCountOf(p, index);
  spec.cols = spec.leadingDimension = rowLengthOf(p, index);
  // All of a byte's values should occur, not only those next to zero.
  constexpr double kByteDeviation = 50;
  if (type == DType::INT8)
    spec.usual.deviation = kByteDeviation;
  // No arithmetic is done, so no value can break it: large ones serve as
  // outliers.
  spec.outliers = spec.usual;
  spec.outliers.outlierPeriod = 64;
  spec.outliers.outlier = type == DType::INT8 ? 100 : 10000;
  // The result is exact. (In int8, arithmetic never rounds to 0x80.)
  if (spec.role == OperandRole::Out)
    spec.tolerance = {0, 0, type == DType::INT8 ? 0.25 : 0.0};
  return spec;
}

OperandTable PrepackFamily::operands(const Problem &problem) const {
  using Operand = PrepackOperand;
  PrepackProblem p = read(problem);
  OperandTable table;
  table.operands = {
      operand(p, Operand::Weights, "weights", DType::INT8),
      operand(p, Operand::Scales, "scales", p.scaleType),
      operand(p, Operand::Zeros, "zeros", DType::INT8),
      operand(p, Operand::Packed, "packed", DType::INT8),
      operand(p, Operand::PackedScales, "packed_scales", p.scaleType),
      operand(p, Operand::PackedZeros, "packed_zeros", DType::INT8)};
  for (size_t index : {size_t(Operand::Zeros), size_t(Operand::PackedZeros)})
    table.operands[index].present = p.zeros;
  return table;
}

std::unique_ptr<KernelFamily> makePrepackFamily() {
  return std::make_unique<PrepackFamily>();
}

} // namespace kiln
