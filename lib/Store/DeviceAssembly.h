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

/// Which device is meant.
struct DeviceSelection {
  /// A GPU of the catalog, which need not be here; empty: a live one.
  std::string catalogName;
  int ordinal = 0; ///< of the live one
  /// A JSON file whose values go in front of all others; empty: none.
  std::string overridePath;
  /// Believe NVML's answers that are in the cache since this boot.
  bool believeProbes = false;
};

struct AssembledDevice {
  DeviceModel model;
  bool live = false;       ///< its driver was asked
  ProbedAttributes probed; ///< what it answered
  /// One line for each probe that failed and each answer not believed.
  std::vector<std::string> notes;
};

/// Puts the model together: the catalog's, or that of a live GPU from override,
/// driver, NVML, catalog and the architecture's rules. \p driver
/// may be null where a catalog name is given. Errors: InvalidArgument (unknown
/// name, ordinal or override), DriverMissing when a live device is meant and
/// there is no driver, Io. \p probes, which may be null, keeps and answers what
/// NVML was asked. Costs microseconds, 15 ms where NVML must be asked.
llvm::Expected<AssembledDevice> assembleDevice(const Driver *driver,
                                               const Environment &environment,
                                               const DeviceSelection &selection,
                                               ProbeStore *probes = nullptr);

} // namespace kiln
