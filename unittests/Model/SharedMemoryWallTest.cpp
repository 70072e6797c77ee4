#include "Model/SharedMemoryWall.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("four stages of 128x256x64 bf16 fill an H200") {
  // (128 + 256) * 64 * 2 = 49152 a stage.
  SharedMemoryDemand demand{128, 256, 64, 4, 16, 16, 16384, 64, 1};
  SharedMemoryWall wall = sharedMemoryWall(testDevice(), demand);
  CHECK(wall.stageBytes == 49152);
  CHECK(wall.totalBytes == 4 * 49152 + 16384 + 64);
  CHECK(wall.limitBytes == 232448);
  CHECK(wall.maxStages == 4);
  CHECK(wall.fits);
  demand.stages = 5;
  CHECK_FALSE(sharedMemoryWall(testDevice(), demand).fits);
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

TEST_CASE("the limit is reached exactly, types may differ") {
  DeviceModel device = testDevice();
  // fp16 activations, 4-bit weights: (64*16 + 128*4) * 64 / 8 = 12288.
  SharedMemoryDemand demand{64, 128, 64, 18, 16, 4, 11264, 0, 1};
  SharedMemoryWall wall = sharedMemoryWall(device, demand);
  CHECK(wall.stageBytes == 12288);
  CHECK(wall.totalBytes == 232448);
  CHECK(wall.fits);
  demand.barrierBytes = 1;
  CHECK_FALSE(sharedMemoryWall(device, demand).fits);
  demand.epilogueBytes = 300000;
  CHECK(sharedMemoryWall(device, demand).maxStages == 0);
}
