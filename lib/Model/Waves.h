//===- Waves.h - tiles in waves of the SMs --------------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <cstdint>

namespace kiln {

/// How a grid of tiles runs in waves.
struct Waves {
  int64_t tiles = 0;
  int64_t blocksPerSm = 0;
  int64_t clusterSize = 1;
  int64_t slots = 0; ///< tiles in flight at once; 0 means it cannot run
  int64_t waves = 0; ///< ceil(tiles / slots)
  double tailUtilisation = 0; ///< share of the slots busy in the last wave
  double utilisation = 0;     ///< tiles / (waves * slots)
};

/// Quantises \p tiles >= 0 blocks, \p blocksPerSm of which are resident on an
/// SM, onto the chip. Clusters are placed inside one GPC, so that fewer blocks
/// than SMs fit: slots = SMs * blocksPerSm without clusters, else
/// maxClusters(size) * size * blocksPerSm. Tiles are rounded up to clusters.
Waves waves(const DeviceModel &device, int64_t tiles, int64_t blocksPerSm,
            int64_t clusterSize = 1);

} // namespace kiln
