//===- RegisterWall.cpp ---------------------------------------------------===//
#include "Model/RegisterWall.h"

#include "Model/MathUtil.h"

#include <algorithm>
#include <cassert>

namespace kiln {

/// Registers are given out in units of 256 a warp, 8 a thread.
static constexpr int64_t kRegisterUnit = 8;

RegisterWall registerWall(const RegisterDemand &demand, int64_t limit) {
  RegisterWall wall;
  wall.demand = demand;
  wall.limit = limit;
  wall.accumulators =
      ceilDiv(demand.blockM * demand.blockN, demand.consumerThreads);
  wall.total =
      wall.accumulators + demand.fragmentRegisters + demand.overheadRegisters;
  wall.fits = wall.total <= limit;
  wall.inAim = wall.total >= kRegisterAimLow && wall.total <= kRegisterAimHigh;
  return wall;
}

int64_t registerLimit(const DeviceModel &device, int64_t threadsPerBlock,
                      int64_t blocksPerSm) {
  assert(blocksPerSm > 0 && "a limit for no block");
  // Each sub-core gives its quarter of the file to its quarter of the warps.
  int64_t warps = roundUp(ceilDiv(threadsPerBlock, kWarpThreads) * blocksPerSm,
                          device.subCoresPerSm);
  int64_t share = device.registersPerSm / (warps * kWarpThreads);
  return std::min(roundDown(share, kRegisterUnit),
                  device.maxRegistersPerThread);
}

int64_t consumerRegisterLimit(const DeviceModel &device,
                              int64_t producerThreads,
                              int64_t producerRegisters,
                              int64_t consumerThreads) {
  assert(consumerThreads > 0 && "no thread consumes");
  int64_t threads = producerThreads + consumerThreads;
  // 255 usable registers are allocated as 256.
  int64_t atLaunch =
      std::min(roundDown(device.registersPerSm / threads, kRegisterUnit),
               roundUp(device.maxRegistersPerThread, kRegisterUnit));
  int64_t pool = atLaunch * threads - producerThreads * producerRegisters;
  if (pool < 0)
    return 0;
  return std::min(roundDown(pool / consumerThreads, kRegisterUnit),
                  device.maxRegistersPerThread);
}

int64_t mmaSyncFragmentRegisters(int64_t warpM, int64_t warpN,
                                 int64_t buffers) {
  return (ceilDiv(warpM, 16) * 4 + ceilDiv(warpN, 8) * 2) * buffers;
}

} // namespace kiln
