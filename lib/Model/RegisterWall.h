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

/// A tile's demand for registers.
struct RegisterDemand {
  int64_t blockM = 0, blockN = 0;
  int64_t consumerThreads = 0;   ///< threads that hold accumulators
  int64_t fragmentRegisters = 0; ///< operands of the instruction, a thread
  int64_t overheadRegisters = 0; ///< addresses, counters, predicates, a thread
};

/// The demand of a consumer thread against its limit, all in 32-bit registers.
struct RegisterWall {
  RegisterDemand demand;
  int64_t accumulators = 0; ///< ceil(blockM * blockN / consumerThreads)
  int64_t total = 0;        ///< accumulators + fragments + overhead
  int64_t limit = 0;
  bool fits = false; ///< total <= limit
};

/// Compares \p demand with \p limit registers a thread. Pure, constant time.
RegisterWall registerWall(const RegisterDemand &demand, int64_t limit);

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
