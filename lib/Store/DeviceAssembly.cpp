//===- DeviceAssembly.cpp - the device model to plan for ------------------===//
#include "Store/DeviceAssembly.h"

#include "Device/Catalog.h"
#include "Driver/DeviceQuery.h"
#include "Store/CalibrationStore.h"
#include "Store/ProbeStore.h"
#include "Support/Error.h"

namespace kiln {

llvm::Expected<AssembledDevice> assembleDevice(const Driver *driver,
                                               const Environment &environment,
                                               const DeviceSelection &selection,
                                               ProbeStore *probes) {
  AssembledDevice assembled;
  if (!selection.catalogName.empty()) {
    auto model = findDevice(selection.catalogName, selection.overridePath);
    if (!model)
      return model.takeError();
    assembled.model = std::move(*model);
    return assembled;
  }
  if (!driver)
    return makeError(ErrorCode::DriverMissing,
                     "no device: there is no driver, and no known GPU such as "
                     "{} is named",
                     catalogNames().front());
  auto probed = queryDriver(*driver, selection.ordinal);
  if (!probed)
    return probed.takeError();
  if (!probes || !selection.believeProbes ||
      !probes->restore(*probed, driver->version())) {
    queryNvml(*driver, environment, selection.ordinal, *probed);
    if (probes)
      probes->store(*probed, driver->version());
  }
  auto model =
      assembleDeviceModel(*probed, selection.overridePath, assembled.notes);
  if (!model)
    return model.takeError();
  assembled.model = std::move(*model);
  assembled.live = true;
  assembled.probed = std::move(*probed);
  return assembled;
}

void addCalibration(AssembledDevice &device, cache::Store &cache) {
  if (!device.live)
    return;
  if (auto found = CalibrationStore(cache).find(device.model, device.notes))
    applyCalibration(device.model, *found, device.notes);
}

} // namespace kiln
