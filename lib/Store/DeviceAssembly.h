//===- DeviceAssembly.h - the device model to plan for --------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Device/DeviceProbe.h"
#include "Support/Environment.h"

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

namespace kiln {

class Driver;
class ProbeStore;
namespace cache {
class Store;
} // namespace cache

/// The selected device.
struct DeviceSelection {
  /// A GPU of the catalog, which need not be present; empty: a live one.
  std::string catalogName;
  int ordinal = 0; ///< of the live one
  /// A JSON file whose values override all others; empty: none.
  std::string overridePath;
  /// Use NVML's answers that were cached since this boot.
  bool believeProbes = false;
};

struct AssembledDevice {
  DeviceModel model;
  bool live = false;       ///< its driver was asked
  ProbedAttributes probed; ///< its answers
  /// One line for each probe that failed and each answer that was rejected.
  std::vector<std::string> notes;
};

/// Puts the model together: the catalog's, or that of a live GPU from override,
/// driver, NVML, catalog and the architecture's rules. \p driver may be null if
/// a catalog name is given. Errors: InvalidArgument (unknown name, ordinal or
/// override), DriverMissing when a live device is meant and there is no driver,
/// Io. \p probes, which may be null, caches NVML's answers. Takes microseconds,
/// 15 ms if NVML must be asked.
llvm::Expected<AssembledDevice> assembleDevice(const Driver *driver,
                                               const Environment &environment,
                                               const DeviceSelection &selection,
                                               ProbeStore *probes = nullptr);

/// Sets the values of a live \p device that were measured, if \p cache has a
/// calibration for it. A named one stays as the catalog has it. Takes some 50
/// us.
void addCalibration(AssembledDevice &device, cache::Store &cache);

} // namespace kiln
