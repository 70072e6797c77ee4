//===- SharedMemoryWall.cpp -----------------------------------------------===//
#include "Model/SharedMemoryWall.h"

#include <algorithm>
#include <cassert>

namespace kiln {

int64_t sharedBytesLimit(const DeviceModel &device, int64_t blocksPerSm) {
  assert(blocksPerSm > 0 && "a limit for no block");
  int64_t share = device.sharedBytesPerSm / blocksPerSm -
                  device.sharedBytesReservedPerBlock;
  return std::max<int64_t>(0, std::min(share, device.sharedBytesPerBlock));
}

} // namespace kiln
