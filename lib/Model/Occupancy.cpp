//===- Occupancy.cpp ------------------------------------------------------===//
#include "Model/Occupancy.h"

#include "Model/MathUtil.h"
#include "Support/EnumName.h"

#include <algorithm>
#include <cassert>

namespace kiln {

static constexpr int64_t kRegistersPerWarpUnit = 256;

llvm::StringRef nameOf(OccupancyLimit limit) {
  using enum OccupancyLimit;
  static constexpr EnumName<OccupancyLimit> kNames[] = {
      {Warps, "warps"},
      {Blocks, "blocks"},
      {Registers, "registers"},
      {SharedMemory, "shared memory"}};
  return nameIn(kNames, limit, "unknown");
}

static int64_t blocksByRegisters(const DeviceModel &device,
                                 const BlockResources &resources) {
  if (resources.registersPerThread > device.maxRegistersPerThread)
    return 0;
  if (resources.registersPerThread == 0)
    return device.maxBlocksPerSm;
  int64_t perWarp = roundUp(resources.registersPerThread * kWarpThreads,
                            kRegistersPerWarpUnit);
  // Each sub-core owns its part of the file: whole warps fit or do not.
  int64_t warps =
      roundDown(device.registersPerSm / perWarp, device.subCoresPerSm);
  return warps / ceilDiv(resources.threads, kWarpThreads);
}

static int64_t blocksByShared(const DeviceModel &device,
                              const BlockResources &resources) {
  if (resources.sharedBytes > device.sharedBytesPerBlock)
    return 0;
  int64_t unit = device.ccMajor >= 8 ? 128 : 256;
  int64_t perBlock =
      roundUp(resources.sharedBytes + device.sharedBytesReservedPerBlock, unit);
  return perBlock == 0 ? device.maxBlocksPerSm
                       : device.sharedBytesPerSm / perBlock;
}

Occupancy occupancy(const DeviceModel &device,
                    const BlockResources &resources) {
  assert(resources.threads > 0 && "a block without threads");
  int64_t warpsPerBlock = ceilDiv(resources.threads, kWarpThreads);
  Occupancy result;
  result.resources = resources;
  result.blocksByWarps = resources.threads > device.maxThreadsPerBlock
                             ? 0
                             : device.maxWarpsPerSm / warpsPerBlock;
  result.blocksByBlocks = device.maxBlocksPerSm;
  result.blocksByRegisters = blocksByRegisters(device, resources);
  result.blocksByShared = blocksByShared(device, resources);

  result.blocksPerSm = result.blocksByWarps;
  auto consider = [&](int64_t blocks, OccupancyLimit limit) {
    if (blocks >= result.blocksPerSm)
      return;
    result.blocksPerSm = blocks;
    result.limit = limit;
  };
  consider(result.blocksByBlocks, OccupancyLimit::Blocks);
  consider(result.blocksByRegisters, OccupancyLimit::Registers);
  consider(result.blocksByShared, OccupancyLimit::SharedMemory);
  result.warpsPerSm = result.blocksPerSm * warpsPerBlock;
  result.share = static_cast<double>(result.warpsPerSm) /
                 static_cast<double>(device.maxWarpsPerSm);
  return result;
}

int64_t sharedBytesLimit(const DeviceModel &device, int64_t blocksPerSm) {
  assert(blocksPerSm > 0 && "a limit for no block");
  int64_t share = device.sharedBytesPerSm / blocksPerSm -
                  device.sharedBytesReservedPerBlock;
  return std::max<int64_t>(0, std::min(share, device.sharedBytesPerBlock));
}

} // namespace kiln
