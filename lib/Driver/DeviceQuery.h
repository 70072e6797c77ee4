//===- DeviceQuery.h - attributes of a device -----------------------------===//
#pragma once

#include "Device/DeviceProbe.h"
#include "Driver/Driver.h"

namespace kiln {

/// Asks the driver's attributes about device \p ordinal. Clocks are maxima,
/// never the current ones. A question that fails leaves its field empty and a
/// line in `failures`; only an ordinal out of range is an error
/// (InvalidArgument). Makes no context. Costs microseconds.
llvm::Expected<ProbedAttributes> queryDriver(const Driver &driver, int ordinal);

/// Adds what NVML answers (KILN_NVML alone if it is set, else
/// libnvidia-ml.so.1; the device matched by PCI bus id) to \p probed, which
/// queryDriver filled for device \p ordinal. Failures as there. Starting NVML
/// costs 15 ms.
void queryNvml(const Driver &driver, const Environment &environment,
               int ordinal, ProbedAttributes &probed);

} // namespace kiln
