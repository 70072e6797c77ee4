//===- RegisterWall.cpp ---------------------------------------------------===//
#include "Model/RegisterWall.h"

#include "Model/MathUtil.h"

#include <algorithm>
#include <cassert>

namespace kiln {

/// Registers are given out in units of 256 a warp, 8 a thread.
static constexpr int64_t kRegisterUnit = 8;

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

int64_t mmaSyncFragmentRegisters(int64_t warpM, int64_t warpN,
                                 int64_t buffers) {
  return (ceilDiv(warpM, 16) * 4 + ceilDiv(warpN, 8) * 2) * buffers;
}

} // namespace kiln
