//===- ResidentRegisters.h - registers of "resident" ----------------------===//
//
// A kernel that spills is refused, and registers decide how many blocks an SM
// holds. Both are predicted before any compilation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "rows/ResidentRowsConfig.h"

#include <cstdint>

namespace kiln {

/// Registers that hold the rows of a thread between load and store.
int64_t keptRegisters(const RowSignature &signature,
                      const ResidentRowsConfig &config);

/// Registers that a thread needs at its peak: with these, rounded up to a unit
/// of 8, ptxas does not spill.
int64_t peakRegisters(const RowSignature &signature,
                      const ResidentRowsConfig &config,
                      const DeviceModel &device);

/// Registers that the compiler takes without a limit, at least peakRegisters().
int64_t wantedRegisters(const RowSignature &signature,
                        const ResidentRowsConfig &config,
                        const DeviceModel &device);

/// Registers that the launch bounds allow a thread.
int64_t boundRegisters(const ResidentRowsConfig &config,
                       const DeviceModel &device);

} // namespace kiln
