//===- LiveSession.h - a GPU that is here, with everything that runs on it ===//
#pragma once

#include "Driver/Context.h"
#include "Driver/Driver.h"
#include "Store/Records.h"
#include "Trial/InProcessTrials.h"
#include "Tune/TuningTask.h"
#include "cli/CommonOptions.h"

#include <memory>
#include <optional>

namespace kiln::cli {

/// A live device, its primary context current to this thread, and the stores.
/// Members are destroyed in the right order; it does not move.
class LiveSession {
public:
  /// Opens all of it. \p why says why a device is needed: "tune measures".
  /// Errors: those of chooseLiveDevice, openCache and PrimaryContext::retain.
  static llvm::Expected<std::unique_ptr<LiveSession>>
  open(const ParsedOptions &options, const Environment &environment,
       llvm::StringRef why);

  const Driver &driver() const { return *device.driver; }
  const DeviceModel &model() const { return device.model(); }
  /// The objects that tuning needs here. Unless it \p measures, a record or the
  /// estimator chooses.
  TuningContext tuningContext(bool measures = true) {
    return {model(), *artifacts, *records, measures ? trials.get() : nullptr,
            deviceClassKey(model())};
  }

  MemoryGauges memory; ///< of this session, arenas excepted
  ChosenDevice device;
  std::unique_ptr<cache::Store> cache;
  std::optional<PrimaryContext> primary;
  std::optional<ScopedContext> current;
  std::unique_ptr<ArtifactStore> artifacts;
  std::unique_ptr<RecordStore> records;
  std::unique_ptr<InProcessTrials> trials;
};

/// Marketing name of a live device, "NVIDIA H200".
std::string marketingNameOf(const DeviceModel &model);

/// Version of the kernel driver ("580.65.06") where the system tells it, else
/// the CUDA version that the driver serves ("CUDA 13.0").
std::string driverVersionText(const Driver &driver);

} // namespace kiln::cli
