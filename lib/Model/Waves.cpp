//===- Waves.cpp ----------------------------------------------------------===//
#include "Model/Waves.h"

#include "Model/MathUtil.h"

namespace kiln {

Waves waves(const DeviceModel &device, int64_t tiles, int64_t blocksPerSm,
            int64_t clusterSize) {
  Waves result;
  result.tiles = tiles;
  result.blocksPerSm = blocksPerSm;
  result.clusterSize = clusterSize;
  result.slots = device.maxClusters(clusterSize) * clusterSize * blocksPerSm;
  if (result.slots == 0 || tiles == 0)
    return result;
  int64_t placed = roundUp(tiles, clusterSize);
  result.waves = ceilDiv(placed, result.slots);
  double slots = static_cast<double>(result.slots);
  double wavesBefore = static_cast<double>(result.waves - 1);
  result.tailUtilisation =
      (static_cast<double>(tiles) - wavesBefore * slots) / slots;
  result.utilisation =
      static_cast<double>(tiles) / (static_cast<double>(result.waves) * slots);
  return result;
}

} // namespace kiln
