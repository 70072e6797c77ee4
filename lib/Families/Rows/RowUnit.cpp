//===- RowUnit.cpp --------------------------------------------------------===//
#include "Families/Rows/RowUnit.h"

#include "Kernel/Sources.h"
#include "Support/Format.h"

namespace kiln {

RowParams makeRowParams(const RowProblem &problem, const Arguments &arguments) {
  const OperandArgument *operands = arguments.operands;
  auto pointer = [&](int index) {
    return reinterpret_cast<void *>(operands[index].address);
  };
  RowParams params;
  params.x = pointer(RowOperand::X);
  params.y = pointer(RowOperand::Y);
  params.weight = pointer(RowOperand::Weight);
  params.bias = pointer(RowOperand::Bias);
  params.residual = pointer(RowOperand::Residual);
  params.residualOut = pointer(RowOperand::ResidualOut);
  params.mask = pointer(RowOperand::Mask);
  params.scales = static_cast<float *>(pointer(RowOperand::Scales));
  params.rows = problem.rows;
  params.cols = problem.cols;
  params.ldx = operands[RowOperand::X].leadingDimension;
  params.ldy = operands[RowOperand::Y].leadingDimension;
  params.ldResidual = operands[RowOperand::Residual].leadingDimension;
  params.ldResidualOut = operands[RowOperand::ResidualOut].leadingDimension;
  params.ldMask = operands[RowOperand::Mask].leadingDimension;
  if (problem.isNorm())
    params.epsilon = static_cast<float>(arguments.scalars[0]);
  else if (problem.op == RowOp::Softmax)
    params.scale = static_cast<float>(arguments.scalars[0]);
  params.allRows = problem.allRows;
  return params;
}

TranslationUnit makeRowUnit(const RowEntry &entry, llvm::StringRef unitName,
                            const RowSignature &signature,
                            llvm::StringRef configInitializer, int threads,
                            int sharedBytes, int minBlocks,
                            const DeviceModel &device) {
  TranslationUnit unit;
  unit.name = fmt::format("kiln_rows_{}", unitName);
  unit.entry = "kilnEntry";
  unit.arch = device.archName(false);
  unit.headers = kernelSources();
  unit.source = fmt::format(
      R"(#include "{header}"

namespace {{
constexpr kiln::RowSignature kSignature{signature};
constexpr kiln::{config} kConfig{initializer};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == {threads} && kConfig.sharedBytes(kSignature) == {shared},
              "host and device disagree about the config");
}} // namespace

extern "C" __global__ void __launch_bounds__({threads}, {minBlocks})
kilnEntry(const __grid_constant__ kiln::{params} params) {{
  kiln::{function}<kSignature, kConfig>(params);
}}
)",
      fmt::arg("header", entry.header),
      fmt::arg("signature", initializerText(signature)),
      fmt::arg("config", entry.configType),
      fmt::arg("initializer", configInitializer), fmt::arg("threads", threads),
      fmt::arg("shared", sharedBytes), fmt::arg("minBlocks", minBlocks),
      fmt::arg("params", entry.paramsType),
      fmt::arg("function", entry.function));
  return unit;
}

} // namespace kiln
