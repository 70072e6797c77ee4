//===- TrialTools.h - the kernels that prepare and judge trials -----------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Driver/Driver.h"
#include "Driver/Handles.h"
#include "Driver/Module.h"
#include "Store/ArtifactStore.h"
#include "trial/TrialParams.h"

#include <llvm/Support/Error.h>

#include <array>
#include <cstdint>

namespace kiln {

/// The kernels of trial/TrialTools.cuh, loaded into the context that was
/// current to load(). Every method enqueues on a stream of that context and
/// returns; parameters are those of trial/TrialParams.h, sizes 0 do nothing.
/// Errors are those of the driver's launch. Immutable, so thread-safe.
class TrialTools {
public:
  /// Compiles them, or takes them from the cache. \p driver must outlive it.
  /// \p gauge, which may be null, counts their code. Errors: those of
  /// ArtifactStore::get and Module::load.
  static llvm::Expected<TrialTools> load(const Driver &driver,
                                         ArtifactStore &artifacts,
                                         const DeviceModel &device,
                                         ByteGaugePtr gauge = nullptr);

  llvm::Error fillNormal(const FillNormalParams &params,
                         CudaStream stream) const;
  llvm::Error fillIntegers(const FillIntegersParams &params,
                           CudaStream stream) const;
  llvm::Error fillPattern(const FillPatternParams &params,
                          CudaStream stream) const;
  llvm::Error checkRedZone(const CheckRedZoneParams &params,
                           CudaStream stream) const;
  llvm::Error checkGaps(const CheckGapsParams &params, CudaStream stream) const;
  llvm::Error countDifferences(const CountDifferencesParams &params,
                               CudaStream stream) const;
  llvm::Error flushL2(const FlushL2Params &params, CudaStream stream) const;
  llvm::Error compare(const CompareToleranceParams &params,
                      CudaStream stream) const;

  /// Leaves the code to its context, which hangs or is dead.
  void leak() { module.leak(); }

private:
  enum Kernel : uint32_t {
    Normal,
    Integers,
    Pattern,
    RedZone,
    Gaps,
    Differences,
    Flush,
    Compare
  };
  static constexpr size_t kKernelCount = 8;

  TrialTools(const Driver &driver, Module module, int64_t smCount)
      : driver(&driver), module(std::move(module)), smCount(smCount) {}
  template <class Params>
  llvm::Error run(Kernel kernel, const Params &params, int64_t items,
                  CudaStream stream) const;

  const Driver *driver;
  Module module;
  int64_t smCount;
  std::array<CudaFunction, kKernelCount> functions = {};
};

/// The unit that TrialTools::load compiles for \p device.
TranslationUnit trialToolsUnit(const DeviceModel &device);

} // namespace kiln
