//===- MergeFamily.cpp ----------------------------------------------------===//
#include "Families/Attention/MergeFamily.h"

#include "Families/Families.h"
#include "Families/KernelReference.h"
#include "Families/ProblemFields.h"
#include "Families/Rounding.h"
#include "attention/FlatMergeConfig.h"

#include <algorithm>

namespace kiln {

namespace {

class MergeFamily final : public KernelFamily {
public:
  MergeFamily() { addTemplate(makeFlatMergeTemplate()); }

  llvm::StringRef name() const override { return "attention_merge"; }
  const Schema &problemSchema() const override { return mergeProblemSchema(); }
  const CallReader *call() const override { return &kMergeCall; }

  llvm::Expected<Problem> canonicalise(Values values) const override;

  bool isEmpty(const Problem &problem) const override {
    MergeProblem p = read(problem);
    return p.rows == 0 || p.batch == 0;
  }

  OperandTable operands(const Problem &problem) const override;

  /// Strides count by the divisors of those that are given: extents do not.
  int64_t signaturePeriod() const override { return 1; }

  llvm::StringRef example() const override {
    return "rows=4096 heads=32 d=128 dtype=bf16 lse=1";
  }
  PoolDraws poolDraws(const Values &) const override {
    constexpr int64_t kMostHeads = 128, kMostBatch = 512;
    PoolDraws draws;
    draws.layer = {{.field = MergeField::Heads, .high = kMostHeads},
                   {.field = MergeField::Batch, .high = kMostBatch}};
    draws.extents = {{.field = MergeField::Rows, .high = kMostDrawn}};
    return draws;
  }
  Peer peer(const Problem &) const override { return Peer::Stream; }

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return makeMergeReference(readMergeSignature(problem.signature), device);
  }

  /// Two products and a sum for each element.
  double flops(const Problem &problem) const override {
    MergeProblem p = read(problem);
    return 3 * p.allRows() * double(p.valueDim);
  }

private:
  static MergeProblem read(const Problem &problem) {
    return readMergeProblem(problem.values.array().data());
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

static llvm::SmallVector<HeadTensor, 3> tensorsOf(const MergeProblem &p) {
  auto tensor = [&](int field, const HeadStrides &strides) {
    return HeadTensor{field,   p.valueDim, strides, p.rows,
                      p.heads, p.batch,    true};
  };
  return {tensor(MergeField::LdA, p.o1), tensor(MergeField::LdB, p.o2),
          tensor(MergeField::LdO, p.o)};
}

llvm::Expected<Problem> MergeFamily::canonicalise(Values values) const {
  if (auto error = values.check())
    return error;
  MergeProblem p = readMergeProblem(values.array().data());
  if (auto error = checkAlign(name(), p.align,
                              std::min(bytesOf(p.dtype), bytesOf(p.out))))
    return error;
  for (const HeadTensor &tensor : tensorsOf(p)) {
    if (auto error = checkTensor(problemSchema(), tensor))
      return error;
    resetStrides(tensor, values);
  }
  if (p.out == p.dtype)
    values.set(MergeField::Out, 0);
  return Problem{std::move(values), toValues(signatureOf(p))};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

namespace {

/// Builds the table of one problem.
class MergeTableBuilder {
public:
  MergeTableBuilder(const MergeProblem &p, OperandTable &table)
      : p(p), table(table) {}

  OperandSpec &add(int index, llvm::StringRef name, OperandRole role,
                   DType type) {
    OperandSpec &spec = table.operands[index];
    spec.name = name;
    spec.role = role;
    spec.type = type;
    spec.rows = p.rows;
    spec.planes = p.heads;
    spec.batch = p.batch;
    return spec;
  }

  OperandSpec &addRows(int index, llvm::StringRef name, OperandRole role,
                       DType type, const HeadStrides &strides) {
    OperandSpec &spec = add(index, name, role, type);
    spec.cols = p.valueDim;
    spec.leadingDimension = strides.token;
    spec.planeStride = strides.head;
    spec.batchStride = strides.batch;
    spec.misalignment = misalignmentOf(p.align, type);
    return spec;
  }

  OperandSpec &addLse(int index, llvm::StringRef name, OperandRole role) {
    OperandSpec &spec = add(index, name, role, DType::FP32);
    spec.cols = spec.leadingDimension = 1;
    spec.planeStride = p.rows;
    spec.batchStride = p.heads * p.rows;
    spec.alignment = spec.misalignment = bytesOf(DType::FP32);
    // One outlier part takes all the weight, and the other has no keys.
    spec.outliers.outlierPeriod = 7;
    spec.outliers.outlier = 100;
    spec.outliers.minusInfinityPeriod = 5;
    return spec;
  }

private:
  const MergeProblem &p;
  OperandTable &table;
};

} // namespace

OperandTable MergeFamily::operands(const Problem &problem) const {
  using Operand = MergeOperand;
  // Exponentials, a quotient, products: ten roundings of fp32.
  constexpr double kElement = 2e-6;
  MergeProblem p = read(problem);
  OperandTable table;
  table.operands.resize(Operand::Count);
  MergeTableBuilder builder(p, table);
  builder.addRows(Operand::O1, "o1", OperandRole::In, p.dtype, p.o1);
  builder.addLse(Operand::Lse1, "lse1", OperandRole::In);
  builder.addRows(Operand::O2, "o2", OperandRole::In, p.dtype, p.o2);
  builder.addLse(Operand::Lse2, "lse2", OperandRole::In);
  OperandSpec &o =
      builder.addRows(Operand::O, "o", OperandRole::Out, p.out, p.o);
  o.tolerance = roundedTolerance(p.out, kElement);
  if (bytesOf(p.out) == bytesOf(p.dtype))
    o.mayBe = Operand::O1;
  OperandSpec &lse = builder.addLse(Operand::Lse, "lse", OperandRole::Out);
  lse.present = p.lse;
  lse.tolerance = {kElement, kElement, 1e-30};
  lse.mayBe = Operand::Lse1;
  return table;
}

std::unique_ptr<KernelFamily> makeAttentionMergeFamily() {
  return std::make_unique<MergeFamily>();
}

std::unique_ptr<Reference> makeMergeReference(const MergeSignature &signature,
                                              const DeviceModel &device) {
  constexpr ReferenceMergeConfig kConfig{};
  return makeReference<ReferenceMergeParams>(
      makeKernelUnit(
          {"attention/ReferenceMerge.cuh", "MergeSignature",
           "ReferenceMergeConfig", "ReferenceMergeParams", "referenceMerge"},
          referenceOf(mergeProblemSchema(), signature, kConfig), device),
      kConfig.threads(),
      [=](const Arguments &arguments, const ReferencePart &part,
          ReferenceMergeParams &params) {
        params.merge =
            makeMergeParams(readMergeProblem(arguments.problem), arguments);
        params.isLse = part.operand == MergeOperand::Lse;
        return kConfig.blocks(part.rows());
      });
}

} // namespace kiln
