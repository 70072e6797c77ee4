#include "Model/Bandwidth.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("Little's law") {
  // 500 ns * 4000 B/ns = 2 MB in flight.
  LittlesLaw law = littlesLaw(500, 4000, 1e6);
  CHECK(law.bytesNeeded == 2e6);
  CHECK(law.reachedBytesPerNs == 2000);
  CHECK(littlesLaw(500, 4000, 3e6).reachedBytesPerNs == 4000);
}

TEST_CASE("busy SMs take what their ports take") {
  DeviceModel device = testDevice();
  device.sustainedMemoryClockMHz = 2000;
  // 10 ports of 64 bytes at 2 clocks a ns.
  CHECK(portBytesPerNs(device, 10) == 1280);
  // No more ports than SMs.
  CHECK(portBytesPerNs(device, 500) == 128 * 132);
}
