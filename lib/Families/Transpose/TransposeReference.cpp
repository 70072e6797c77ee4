//===- TransposeReference.cpp ---------------------------------------------===//
#include "Families/KernelUnit.h"
#include "Families/ReferenceStep.h"
#include "Families/Transpose/TransposeFamily.h"
#include "Families/Transpose/TransposeTemplate.h"
#include "Kernel/Sources.h"
#include "Support/Format.h"
#include "transpose/TiledTransposeConfig.h"

namespace kiln {

namespace {

TranslationUnit referenceUnit(DType type, const DeviceModel &device) {
  const llvm::StringRef typeName = enumeratorOf(type);
  UnitParts unit;
  unit.name = tagged(referenceName(transposeProblemSchema()), typeName);
  unit.entry = unit.name;
  unit.arch = device.archName(false);
  unit.headers = kernelSources();
  unit.maySpill = true;
  unit.source = fmt::format(
      R"(#include "transpose/ReferenceTranspose.cuh"

extern "C" __global__ void __launch_bounds__({threads})
{entry}(const __grid_constant__ kiln::ReferenceTransposeParams params) {{
  kiln::referenceTranspose<kiln::DType::{type}>(params);
}}
)",
      fmt::arg("threads", ReferenceTransposeConfig::threads()),
      fmt::arg("entry", unit.entry), fmt::arg("type", typeName));
  return TranslationUnit(std::move(unit));
}

class TransposeReference final : public Reference {
public:
  TransposeReference(DType type, const DeviceModel &device)
      : unit(referenceUnit(type, device)) {}

  const TranslationUnit &translationUnit() const override { return unit; }

  void bind(const Arguments &arguments, const ReferencePart &part,
            LaunchSpec &spec) const override {
    TransposeProblem problem = readTransposeProblem(arguments.problem);
    ReferenceTransposeParams params;
    params.transpose = makeTransposeParams(problem, arguments);
    addReferenceStep(
        part, params,
        ReferenceTransposeConfig::blocks(part.rows(), problem.rows),
        ReferenceTransposeConfig::threads(), spec);
  }

private:
  TranslationUnit unit;
};

} // namespace

std::unique_ptr<Reference> makeTransposeReference(DType type,
                                                  const DeviceModel &device) {
  return std::make_unique<TransposeReference>(type, device);
}

} // namespace kiln
