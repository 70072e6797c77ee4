//===- SharedMemoryWall.cpp -----------------------------------------------===//
#include "Model/SharedMemoryWall.h"

#include "Model/MathUtil.h"

#include <algorithm>
#include <cassert>

namespace kiln {

int64_t sharedBytesLimit(const DeviceModel &device, int64_t blocksPerSm) {
  assert(blocksPerSm > 0 && "a limit for no block");
  int64_t share = device.sharedBytesPerSm / blocksPerSm -
                  device.sharedBytesReservedPerBlock;
  return std::max<int64_t>(0, std::min(share, device.sharedBytesPerBlock));
}

SharedMemoryWall sharedMemoryWall(const DeviceModel &device,
                                  const SharedMemoryDemand &demand) {
  SharedMemoryWall wall;
  wall.demand = demand;
  wall.stageBytes =
      ceilDiv((demand.blockM * demand.bitsA + demand.blockN * demand.bitsB) *
                  demand.blockK,
              8);
  int64_t fixedBytes = demand.epilogueBytes + demand.barrierBytes;
  wall.totalBytes = demand.stages * wall.stageBytes + fixedBytes;
  wall.limitBytes = sharedBytesLimit(device, demand.blocksPerSm);
  if (wall.stageBytes > 0 && wall.limitBytes > fixedBytes)
    wall.maxStages = (wall.limitBytes - fixedBytes) / wall.stageBytes;
  wall.fits = wall.totalBytes <= wall.limitBytes;
  return wall;
}

} // namespace kiln
