#include "Model/RegisterWall.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("limit by resident blocks") {
  DeviceModel device = testDevice();
  CHECK(registerLimit(device, 128, 1) == 255);
  CHECK(registerLimit(device, 256, 1) == 255); // 65536 / 256 = 256
  CHECK(registerLimit(device, 384, 1) == 168); // 170.7
  CHECK(registerLimit(device, 256, 2) == 128);
  CHECK(registerLimit(device, 128, 3) == 168);
  CHECK(registerLimit(device, 1024, 2) == 32);
  // 3 warps a block: a sub-core holds a whole warp or none.
  CHECK(registerLimit(device, 96, 3) == 168); // 9 warps count as 12
}

TEST_CASE("fragments of mma.sync") {
  // m16n8k16: 4 + 2.
  CHECK(mmaSyncFragmentRegisters(16, 8, 1) == 6);
  // A 64 x 64 warp tile, double-buffered: 2 * (16 + 16).
  CHECK(mmaSyncFragmentRegisters(64, 64, 2) == 64);
}
