//===- TransposeReference.cpp ---------------------------------------------===//
#include "Families/KernelReference.h"
#include "Families/Transpose/TransposeFamily.h"
#include "Families/Transpose/TransposeTemplate.h"
#include "Kernel/Sources.h"
#include "Support/Format.h"
#include "transpose/TiledTransposeConfig.h"

namespace kiln {

static TranslationUnit referenceUnit(DType type, const DeviceModel &device) {
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

std::unique_ptr<Reference> makeTransposeReference(DType type,
                                                  const DeviceModel &device) {
  using Config = ReferenceTransposeConfig;
  return makeReference<ReferenceTransposeParams>(
      referenceUnit(type, device), Config::threads(),
      [](const Arguments &arguments, const ReferencePart &part,
         ReferenceTransposeParams &params) {
        TransposeProblem problem = readTransposeProblem(arguments.problem);
        params.transpose = makeTransposeParams(problem, arguments);
        return Config::blocks(part.rows(), problem.rows);
      });
}

} // namespace kiln
