#include "Model/RegisterWall.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("accumulators are shared by the consumers") {
  // 128 x 256 over two warpgroups: 128 a thread.
  RegisterWall wall = registerWall({128, 256, 256, 0, 40}, 232);
  CHECK(wall.accumulators == 128);
  CHECK(wall.total == 168);
  CHECK(wall.fits);
}

TEST_CASE("a tile too big for its threads hits the wall") {
  RegisterWall wall = registerWall({256, 256, 256, 24, 40}, 255);
  CHECK(wall.accumulators == 256);
  CHECK(wall.total == 320);
  CHECK_FALSE(wall.fits);
  // Exactly at the limit still fits; odd sizes are rounded up.
  CHECK(registerWall({128, 128, 128, 0, 40}, 168).fits);
  CHECK_FALSE(registerWall({128, 128, 128, 1, 40}, 168).fits);
  CHECK(registerWall({17, 8, 128, 0, 0}, 255).accumulators == 2);
}

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
