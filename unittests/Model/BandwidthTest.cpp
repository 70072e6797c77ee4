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

TEST_CASE("bandwidth ramps up with the blocks in flight") {
  DeviceModel device = testDevice();
  device.dramLatencyNs = 500;
  device.dramGBs = 4000;
  device.sustainedMemoryClockMHz = 2000;
  // 10 blocks of 64 KiB: 1311 B/ns by Little, 10 ports of 128 B/ns.
  RampedBandwidth few = rampedBandwidth(device, MemoryLevel::Dram, 10, 65536);
  CHECK(few.law.reachedBytesPerNs == doctest::Approx(1310.72));
  CHECK(few.portBytesPerNs == 1280);
  CHECK(few.bytesPerNs == 1280);
  CHECK(rampedBandwidth(device, MemoryLevel::Dram, 132, 8192).bytesPerNs ==
        doctest::Approx(132 * 8192 / 500.0));
  CHECK(rampedBandwidth(device, MemoryLevel::Dram, 500, 65536).bytesPerNs ==
        4000);
  // No more ports than SMs.
  CHECK(rampedBandwidth(device, MemoryLevel::L2, 500, 65536).portBytesPerNs ==
        128 * 132);
}
