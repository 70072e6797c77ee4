//===- RegisterWall.h - does the output tile fit into registers -----------===//
//
// The 32-bit accumulators of a tile live in the registers of the threads that
// multiply. They bound the tile from above: a spilled accumulator costs more
// than any gain of a bigger tile.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <cstdint>

namespace kiln {

/// Registers a thread may have so that \p blocksPerSm blocks of
/// \p threadsPerBlock are resident: the register file shared by all warps,
/// rounded down to the allocation unit of 256 a warp (8 a thread), at most
/// maxRegistersPerThread (CUDA occupancy rules).
int64_t registerLimit(const DeviceModel &device, int64_t threadsPerBlock,
                      int64_t blocksPerSm);

/// Registers for the A and B fragments of mma.sync for a warp's tile
/// (warpM, warpN), with \p buffers of them in turn. All mma.sync shapes are 32
/// bytes deep along k: 16 rows of A take 4 registers, 8 columns of B take 2
/// (PTX ISA, matrix fragments of m16n8k16/k8/k32).
int64_t mmaSyncFragmentRegisters(int64_t warpM, int64_t warpN, int64_t buffers);

} // namespace kiln
