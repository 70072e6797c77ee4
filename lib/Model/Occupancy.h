//===- Occupancy.h - resident blocks of an SM -----------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <cstdint>

namespace kiln {

/// Resources of one block of a compiled kernel.
struct BlockResources {
  int64_t threads = 0;
  int64_t registersPerThread = 0;
  int64_t sharedBytes = 0; ///< static plus dynamic, without the reserved bytes
};

/// The resource that keeps another block from an SM.
enum class OccupancyLimit : int32_t {
  Warps = 0,
  Blocks = 10,
  Registers = 20,
  SharedMemory = 30,
};

/// Returns the name of \p limit, e.g. "registers".
llvm::StringRef nameOf(OccupancyLimit limit);

/// Resident blocks by each resource and in all.
struct Occupancy {
  BlockResources resources;
  int64_t blocksByWarps = 0;
  int64_t blocksByBlocks = 0;
  int64_t blocksByRegisters = 0;
  int64_t blocksByShared = 0;
  int64_t blocksPerSm = 0; ///< the least of them; 0 means it cannot launch
  int64_t warpsPerSm = 0;
  double share = 0;                             ///< warpsPerSm / maxWarpsPerSm
  OccupancyLimit limit = OccupancyLimit::Warps; ///< the first least one
};

/// Blocks per SM by the rules of the CUDA occupancy calculator: registers in
/// units of 256 a warp and of one warp to each of the 4 sub-cores; shared
/// memory in units of 128 bytes (256 before capability 8.0) plus the driver's
/// reserved bytes. \p resources.threads must be positive. Pure, constant time.
Occupancy occupancy(const DeviceModel &device, const BlockResources &resources);

/// Bytes that one block may use when \p blocksPerSm share an SM: the lesser of
/// the opt-in limit and floor(sharedBytesPerSm / blocksPerSm) less the bytes
/// that the driver reserves in each block; never negative.
int64_t sharedBytesLimit(const DeviceModel &device, int64_t blocksPerSm);

} // namespace kiln
