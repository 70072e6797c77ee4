//===- GatherReference.cpp - parameters, and the reference ----------------===//
#include "Families/Gather/GatherFamily.h"

#include "Families/KernelReference.h"
#include "Kernel/Sources.h"
#include "Support/Format.h"
#include "gather/ReferenceGatherConfig.h"

namespace kiln {

GatherParams makeGatherParams(const GatherProblem &problem,
                              const Arguments &arguments) {
  const OperandArgument *operands = arguments.operands;
  auto arrayOf = [&](int index, bool isThere) {
    return isThere ? reinterpret_cast<const void *>(operands[index].address)
                   : nullptr;
  };
  const OperandArgument &x = operands[GatherOperand::X];
  const OperandArgument &y = operands[GatherOperand::Y];
  GatherParams params;
  params.x = reinterpret_cast<const void *>(x.address);
  params.y = reinterpret_cast<void *>(y.address);
  params.indices = arrayOf(GatherOperand::Indices, problem.hasIndices());
  params.targets = arrayOf(GatherOperand::Targets, problem.hasTargets());
  params.indexBytes = bytesOf(problem.index);
  if (problem.scale != 0)
    params.scale = static_cast<float>(arguments.scalars[GatherScalar::Scale]);
  params.batch = problem.batch;
  params.rows = problem.rows;
  params.cols = problem.cols;
  params.xRows = problem.xRows;
  params.yRows = problem.yRows;
  params.first = problem.first;
  params.divisor = problem.divisor;
  params.ldx = x.leadingDimension;
  params.ldy = y.leadingDimension;
  params.xStride = x.batchStride;
  params.yStride = y.batchStride;
  return params;
}

static TranslationUnit gatherReferenceUnit(DType type,
                                           const DeviceModel &device) {
  const llvm::StringRef typeName = enumeratorOf(type);
  UnitParts unit;
  unit.name = tagged(referenceName(gatherProblemSchema()), typeName);
  unit.entry = unit.name;
  unit.arch = device.archName(false);
  unit.headers = kernelSources();
  unit.maySpill = true;
  unit.source = fmt::format(
      R"(#include "gather/ReferenceGather.cuh"

extern "C" __global__ void __launch_bounds__({threads})
{entry}(const __grid_constant__ kiln::ReferenceGatherParams params) {{
  kiln::referenceGather<kiln::DType::{type}>(params);
}}
)",
      fmt::arg("threads", ReferenceGatherConfig::threads()),
      fmt::arg("entry", unit.entry), fmt::arg("type", typeName));
  return TranslationUnit(std::move(unit));
}

std::unique_ptr<Reference> makeGatherReference(const GatherProblem &problem,
                                               const DeviceModel &device) {
  using Config = ReferenceGatherConfig;
  return makeReference<ReferenceGatherParams>(
      gatherReferenceUnit(problem.dtype, device), Config::threads(),
      [](const Arguments &arguments, const ReferencePart &part,
         ReferenceGatherParams &params) {
        const GatherProblem p = readGatherProblem(arguments.problem);
        params.gather = makeGatherParams(p, arguments);
        params.moves = p.moves();
        return Config::blocks(part.rows());
      });
}

} // namespace kiln
