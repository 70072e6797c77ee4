//===- ResidentRegisters.h - what the template "resident" takes -----------===//
//
// A kernel that spills is refused, and registers say how many blocks an SM
// holds: both are told before anything is compiled.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "rows/ResidentRowsConfig.h"

#include <cstdint>

namespace kiln {

/// Registers that a thread cannot do without at any time: with as many as
/// these, rounded up to a unit of 8, ptxas does not spill.
int64_t peakRegisters(const RowSignature &signature,
                      const ResidentRowsConfig &config,
                      const DeviceModel &device);

/// Registers that the compiler takes where nothing limits it, peakRegisters()
/// at least.
int64_t wantedRegisters(const RowSignature &signature,
                        const ResidentRowsConfig &config,
                        const DeviceModel &device);

/// Registers that the launch bounds leave a thread.
int64_t boundRegisters(const ResidentRowsConfig &config,
                       const DeviceModel &device);

} // namespace kiln
