#include "Model/Occupancy.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("registers limit in whole warps of each sub-core") {
  // 168 * 32 = 5376 = 21 * 256 a warp; 65536 / 5376 = 12 warps.
  Occupancy result = occupancy(testDevice(), {384, 168, 0});
  CHECK(result.blocksByRegisters == 1);
  CHECK(result.blocksPerSm == 1);
  CHECK(result.limit == OccupancyLimit::Registers);
  CHECK(result.warpsPerSm == 12);
  CHECK(result.share == doctest::Approx(12.0 / 64));
  // 129 registers cost as much as 136: 4352 a warp, 15.06 warps, 12 placed.
  CHECK(occupancy(testDevice(), {128, 129, 0}).blocksByRegisters == 3);
  CHECK(occupancy(testDevice(), {128, 128, 0}).blocksByRegisters == 4);
}

TEST_CASE("shared memory counts the reserved kilobyte") {
  // 233472 / (57344 + 1024) = 4.0.
  CHECK(occupancy(testDevice(), {128, 32, 57344}).blocksByShared == 4);
  CHECK(occupancy(testDevice(), {128, 32, 57345}).blocksByShared == 3);
  CHECK(occupancy(testDevice(), {128, 32, 57344}).limit ==
        OccupancyLimit::SharedMemory);
  CHECK(occupancy(testDevice(), {128, 32, 232448}).blocksPerSm == 1);
  CHECK(occupancy(testDevice(), {128, 32, 232449}).blocksPerSm == 0);
  // 7.5 reserves none and rounds up to 256.
  CHECK(occupancy(testDevice("t4"), {128, 32, 16384}).blocksByShared == 4);
  CHECK(occupancy(testDevice("t4"), {128, 32, 16385}).blocksByShared == 3);
}

TEST_CASE("warps and blocks limit small kernels") {
  Occupancy tiny = occupancy(testDevice(), {32, 16, 0});
  CHECK(tiny.blocksPerSm == 32);
  CHECK(tiny.limit == OccupancyLimit::Blocks);
  Occupancy wide = occupancy(testDevice(), {1024, 32, 0});
  CHECK(wide.blocksPerSm == 2);
  CHECK(wide.limit == OccupancyLimit::Warps);
  // 8.9 has 48 warps and 24 blocks.
  CHECK(occupancy(testDevice("l40s"), {1024, 32, 0}).blocksPerSm == 1);
  CHECK(occupancy(testDevice("l40s"), {32, 16, 0}).blocksPerSm == 24);
}

TEST_CASE("what cannot launch has no blocks") {
  CHECK(occupancy(testDevice(), {1025, 16, 0}).blocksPerSm == 0);
  CHECK(occupancy(testDevice(), {128, 256, 0}).blocksPerSm == 0);
  CHECK(occupancy(testDevice(), {1024, 128, 0}).blocksPerSm == 0);
}

TEST_CASE("blocks that share an SM split its memory") {
  DeviceModel device = testDevice();
  CHECK(sharedBytesLimit(device, 1) == 232448);
  CHECK(sharedBytesLimit(device, 2) == 233472 / 2 - 1024);
  CHECK(sharedBytesLimit(device, 3) == 77824 - 1024);
  CHECK(sharedBytesLimit(device, 1000) == 0);
  // 7.x reserves nothing.
  CHECK(sharedBytesLimit(testDevice("t4"), 2) == 32768);
}
