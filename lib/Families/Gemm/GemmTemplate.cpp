//===- GemmTemplate.cpp ---------------------------------------------------===//
#include "Families/Gemm/GemmTemplate.h"

#include "Support/Format.h"

namespace kiln {

GemmParams makeGemmParams(const GemmProblem &problem,
                          const Arguments &arguments) {
  const OperandArgument *operands = arguments.operands;
  auto input = [&](int index) {
    return reinterpret_cast<const void *>(operands[index].address);
  };
  auto scalar = [&](int index) {
    return reinterpret_cast<const float *>(arguments.scalarAddresses[index]);
  };
  GemmParams params;
  params.a = input(GemmOperand::A);
  params.b = input(GemmOperand::B);
  params.c = input(GemmOperand::C);
  params.d = reinterpret_cast<void *>(operands[GemmOperand::D].address);
  params.bias = input(GemmOperand::Bias);
  params.residual = input(GemmOperand::Residual);
  params.m = problem.m;
  params.n = problem.n;
  params.k = problem.k;
  params.batch = problem.batch;
  params.lda = operands[GemmOperand::A].leadingDimension;
  params.ldb = operands[GemmOperand::B].leadingDimension;
  params.ldc = operands[GemmOperand::C].leadingDimension;
  params.ldd = operands[GemmOperand::D].leadingDimension;
  params.ldResidual = operands[GemmOperand::Residual].leadingDimension;
  params.strideA = operands[GemmOperand::A].batchStride;
  params.strideB = operands[GemmOperand::B].batchStride;
  params.strideC = operands[GemmOperand::C].batchStride;
  params.strideD = operands[GemmOperand::D].batchStride;
  params.strideBias = operands[GemmOperand::Bias].batchStride;
  params.strideResidual = operands[GemmOperand::Residual].batchStride;
  params.alpha = static_cast<float>(arguments.scalars[GemmScalar::Alpha]);
  params.beta = static_cast<float>(arguments.scalars[GemmScalar::Beta]);
  params.alphaPtr = scalar(GemmScalar::Alpha);
  params.betaPtr = scalar(GemmScalar::Beta);
  return params;
}

TranslationUnit makeGemmUnit(const GemmEntry &entry, llvm::StringRef unitName,
                             const GemmSignature &signature,
                             llvm::StringRef configInitializer, int threads,
                             int sharedBytes, int minBlocks,
                             const DeviceModel &device) {
  TranslationUnit unit;
  unit.name = fmt::format("kiln_gemm_{}", unitName);
  unit.entry = "kilnEntry";
  unit.arch = device.archName(entry.archSpecific);
  unit.headers = kernelSources();
  unit.source = fmt::format(
      R"(#include "{header}"

namespace {{
constexpr kiln::GemmSignature kSignature{signature};
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

std::optional<Rejection> checkRegisters(int64_t registers, int64_t threads,
                                        int64_t minBlocks,
                                        const DeviceModel &device) {
  auto reject = [](int64_t value, int64_t limit) {
    return Rejection{PruneReason::Registers, double(value), double(limit),
                     "registers"};
  };
  if (registers > device.maxRegistersPerThread)
    return reject(registers, device.maxRegistersPerThread);
  int64_t all = registers * threads * minBlocks;
  if (all > device.registersPerSm)
    return reject(all, device.registersPerSm);
  return std::nullopt;
}

WorkspaceLayout splitKWorkspace(int64_t counterBytes, int64_t partialBytes) {
  WorkspaceLayout layout;
  if (counterBytes == 0)
    return layout;
  layout.zeroedBytes = counterBytes;
  layout.bytes = WorkspaceLayout::kZeroedRegionBytes + partialBytes;
  return layout;
}

} // namespace kiln
