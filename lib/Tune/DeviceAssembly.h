//===- DeviceAssembly.h - the device model to plan for --------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Support/Environment.h"

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

namespace kiln {

class Driver;

/// Which device is meant.
struct DeviceSelection {
  /// A GPU of the catalog, which need not be here; empty: a live one.
  std::string catalogName;
  int ordinal = 0; ///< of the live one
  /// A JSON file whose values go in front of all others; empty: none.
  std::string overridePath;
  /// Where calibrations lie, one "<uuid>.json" a GPU; empty: none.
  std::string calibrationDir;
};

struct AssembledDevice {
  DeviceModel model;
  bool live = false; ///< its driver was asked
  /// One line for each probe that failed and each answer not believed.
  std::vector<std::string> notes;
};

/// Puts the model together: the catalog's, or that of a live GPU from override,
/// calibration, driver, NVML, catalog and the architecture's rules. \p driver
/// may be null where a catalog name is given. Errors: InvalidArgument (unknown
/// name, ordinal or override), DriverMissing when a live device is meant and
/// there is no driver, Io. Costs microseconds, some 10 ms for a live GPU.
llvm::Expected<AssembledDevice>
assembleDevice(const Driver *driver, const Environment &environment,
               const DeviceSelection &selection);

} // namespace kiln
