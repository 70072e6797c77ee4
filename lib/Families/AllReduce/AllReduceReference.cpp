//===- AllReduceReference.cpp - parameters, and the reference -------------===//
#include "Families/AllReduce/AllReduceFamily.h"

#include "Families/KernelReference.h"
#include "Kernel/Sources.h"
#include "Support/Format.h"
#include "allreduce/ReferenceAllReduceConfig.h"

namespace kiln {

AllReduceParams makeAllReduceParams(const AllReduceProblem &problem,
                                    const Arguments &arguments) {
  using O = AllReduceOperand;
  const OperandArgument *operands = arguments.operands;
  auto addressOf = [&](int index) {
    return reinterpret_cast<void *>(operands[index].address);
  };
  AllReduceParams params;
  params.x = addressOf(O::X);
  params.y = addressOf(O::Y);
  params.rows = problem.rows;
  params.cols = problem.cols;
  params.ldx = operands[O::X].leadingDimension;
  params.ldy = operands[O::Y].leadingDimension;
  if (problem.norm) {
    params.weight = addressOf(O::Weight);
    params.epsilon =
        static_cast<float>(arguments.scalars[AllReduceScalar::Epsilon]);
  }
  if (problem.residual) {
    params.residual = addressOf(O::Residual);
    params.ldResidual = operands[O::Residual].leadingDimension;
  }
  if (problem.hasResidualOut()) {
    params.residualOut = addressOf(O::ResidualOut);
    params.ldResidualOut = operands[O::ResidualOut].leadingDimension;
  }
  return params;
}

static TranslationUnit allReduceReferenceUnit(DType type,
                                              const DeviceModel &device) {
  const llvm::StringRef typeName = enumeratorOf(type);
  UnitParts unit;
  unit.name = tagged(referenceName(allReduceProblemSchema()), typeName);
  unit.entry = unit.name;
  unit.arch = device.archName(false);
  unit.headers = kernelSources();
  unit.maySpill = true;
  unit.source = fmt::format(
      R"(#include "allreduce/ReferenceAllReduce.cuh"

extern "C" __global__ void __launch_bounds__({threads})
{entry}(const __grid_constant__ kiln::ReferenceAllReduceParams params) {{
  kiln::referenceAllReduce<kiln::DType::{type}>(params);
}}
)",
      fmt::arg("threads", ReferenceAllReduceConfig::threads()),
      fmt::arg("entry", unit.entry), fmt::arg("type", typeName));
  return TranslationUnit(std::move(unit));
}

std::unique_ptr<Reference>
makeAllReduceReference(const AllReduceProblem &problem,
                       const DeviceModel &device) {
  using Config = ReferenceAllReduceConfig;
  return makeReference<ReferenceAllReduceParams>(
      allReduceReferenceUnit(problem.dtype, device), Config::threads(),
      [](const Arguments &arguments, const ReferencePart &part,
         ReferenceAllReduceParams &params) {
        const AllReduceProblem p = readAllReduceProblem(arguments.problem);
        params.operands = makeAllReduceParams(p, arguments);
        params.ranks = static_cast<int>(p.ranks);
        params.hasResidual = p.residual;
        params.hasNorm = p.norm;
        params.ofResidualOut = part.operand == AllReduceOperand::ResidualOut;
        return Config::blocks(part.rows());
      });
}

} // namespace kiln
