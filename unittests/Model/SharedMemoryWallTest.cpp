#include "Model/SharedMemoryWall.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("blocks that share an SM split its memory") {
  DeviceModel device = testDevice();
  CHECK(sharedBytesLimit(device, 1) == 232448);
  CHECK(sharedBytesLimit(device, 2) == 233472 / 2 - 1024);
  CHECK(sharedBytesLimit(device, 3) == 77824 - 1024);
  CHECK(sharedBytesLimit(device, 1000) == 0);
  // 7.x reserves nothing.
  CHECK(sharedBytesLimit(testDevice("t4"), 2) == 32768);
}
