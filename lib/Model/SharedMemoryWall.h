//===- SharedMemoryWall.h - shared memory that a block may have -----------===//
#pragma once

#include "Device/DeviceModel.h"

#include <cstdint>

namespace kiln {

/// Bytes that one block may use when \p blocksPerSm share an SM: the lesser of
/// the opt-in limit and floor(sharedBytesPerSm / blocksPerSm) less the bytes
/// that the driver reserves in each block; never negative.
int64_t sharedBytesLimit(const DeviceModel &device, int64_t blocksPerSm);

} // namespace kiln
