//===- SharedMemoryWall.h - stages that fit into shared memory ------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <cstdint>

namespace kiln {

/// A block's demand for shared memory: a ring of stages with a tile of A and
/// one of B each, plus the bytes of the epilogue and the barriers.
struct SharedMemoryDemand {
  int64_t blockM = 0, blockN = 0, blockK = 0;
  int64_t stages = 0;
  int64_t bitsA = 0, bitsB = 0; ///< of one element
  int64_t epilogueBytes = 0;
  int64_t barrierBytes = 0;
  int64_t blocksPerSm = 1; ///< to be resident together
};

/// The demand against the limit, in bytes.
struct SharedMemoryWall {
  SharedMemoryDemand demand;
  int64_t stageBytes = 0; ///< (blockM*bitsA + blockN*bitsB) * blockK / 8
  int64_t totalBytes = 0; ///< stages * stageBytes + epilogue + barriers
  int64_t limitBytes = 0; ///< of one block
  int64_t maxStages = 0;  ///< the most stages that fit
  bool fits = false;
};

/// Bytes that one block may use when \p blocksPerSm share an SM: the lesser of
/// the opt-in limit and floor(sharedBytesPerSm / blocksPerSm) less the bytes
/// that the driver reserves in each block; never negative.
int64_t sharedBytesLimit(const DeviceModel &device, int64_t blocksPerSm);

/// Compares \p demand with the limit of \p device. Pure, constant time.
SharedMemoryWall sharedMemoryWall(const DeviceModel &device,
                                  const SharedMemoryDemand &demand);

} // namespace kiln
