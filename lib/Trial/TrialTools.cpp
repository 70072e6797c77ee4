//===- TrialTools.cpp - the kernels that prepare and judge trials ---------===//
#include "Trial/TrialTools.h"

#include "Driver/Context.h"
#include "Driver/Launcher.h"
#include "Kernel/Sources.h"

#include <algorithm>

namespace kiln {

/// The names in the order of TrialTools::Kernel.
static constexpr const char *kNames[] = {
    "kilnFillNormal",   "kilnFillIntegers",    "kilnFillPattern",
    "kilnCheckRedZone", "kilnCheckGaps",       "kilnCountDifferences",
    "kilnFlushL2",      "kilnCompareTolerance"};

TranslationUnit trialToolsUnit(const DeviceModel &device) {
  UnitParts unit;
  unit.name = "kiln_trial_tools";
  unit.headers = kernelSources();
  unit.maySpill = true;
  unit.arch = device.archName();
  // One cubin for all; resources are reported for the last, the largest.
  for (const char *name : kNames) {
    unit.source += fmt::format("// {}\n", name);
    unit.entry = name;
  }
  unit.source += "#include \"trial/TrialTools.cuh\"\n";
  return TranslationUnit(std::move(unit));
}

llvm::Expected<TrialTools> TrialTools::load(const Driver &driver,
                                            ArtifactStore &artifacts,
                                            const DeviceModel &device,
                                            ByteGaugePtr gauge) {
  auto artifact = artifacts.get(trialToolsUnit(device));
  if (!artifact)
    return addContext(artifact.takeError(), "the trial tools");
  CaptureModeGuard guard(driver);
  auto module = Module::load(driver, (*artifact)->cubin, std::move(gauge));
  if (!module)
    return addContext(module.takeError(), "the trial tools");
  TrialTools tools(driver, std::move(*module), device.smCount);
  static_assert(std::size(kNames) == kKernelCount);
  for (size_t i = 0; i < kKernelCount; ++i) {
    auto function = tools.module.function(kNames[i]);
    if (!function)
      return addContext(function.takeError(), "the trial tools");
    tools.functions[i] = *function;
  }
  return tools;
}

template <class Params>
llvm::Error TrialTools::run(Kernel kernel, const Params &params, int64_t items,
                            CudaStream stream) const {
  if (items <= 0)
    return llvm::Error::success();
  // The blocks fill the device; the kernels stride over the rest.
  constexpr int64_t kBlocksPerSm = 2048 / kTrialThreads;
  int64_t blocks = (items + kTrialThreads - 1) / kTrialThreads;
  LaunchSpec spec;
  KernelStep &step = spec.addKernel(params);
  step.function = kernel;
  step.grid.x = static_cast<uint32_t>(std::clamp<int64_t>(
      blocks, 1, std::max<int64_t>(smCount, 1) * kBlocksPerSm));
  step.block.x = kTrialThreads;
  return addContext(launch(*driver, spec, functions, stream), kNames[kernel]);
}

llvm::Error TrialTools::fillNormal(const FillNormalParams &params,
                                   CudaStream stream) const {
  return run(Normal, params, params.count, stream);
}

llvm::Error TrialTools::fillIntegers(const FillIntegersParams &params,
                                     CudaStream stream) const {
  return run(Integers, params, params.layout.rowCount() * params.layout.cols,
             stream);
}

llvm::Error TrialTools::fillPattern(const FillPatternParams &params,
                                    CudaStream stream) const {
  return run(Pattern, params, (params.bytes + 3) / 4, stream);
}

llvm::Error TrialTools::checkRedZone(const CheckRedZoneParams &params,
                                     CudaStream stream) const {
  return run(RedZone, params, params.bytes, stream);
}

llvm::Error TrialTools::checkGaps(const CheckGapsParams &params,
                                  CudaStream stream) const {
  return run(Gaps, params, params.grid.span(), stream);
}

llvm::Error TrialTools::countDifferences(const CountDifferencesParams &params,
                                         CudaStream stream) const {
  return run(Differences, params, params.bytes / 4, stream);
}

llvm::Error TrialTools::flushL2(const FlushL2Params &params,
                                CudaStream stream) const {
  return run(Flush, params, params.bytes / 16, stream);
}

llvm::Error TrialTools::compare(const CompareToleranceParams &params,
                                CudaStream stream) const {
  return run(Compare, params,
             (params.rowEnd - params.rowBegin) * params.layout.cols, stream);
}

} // namespace kiln
