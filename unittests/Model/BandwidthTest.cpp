#include "Model/Bandwidth.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("busy SMs take what their ports take") {
  DeviceModel device = testDevice();
  device.sustainedMemoryClockMHz = 2000;
  // 10 ports of 64 bytes at 2 clocks a ns.
  CHECK(portBytesPerNs(device, 10) == 1280);
  // No more ports than SMs.
  CHECK(portBytesPerNs(device, 500) == 128 * 132);
}

TEST_CASE("a busy DRAM answers later") {
  DeviceModel device = testDevice();
  device.dramLatencyNs = 300;
  CHECK(busyDramLatencyNs(device) == 750);
}
