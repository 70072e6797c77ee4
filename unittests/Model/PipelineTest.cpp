#include "Model/Pipeline.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace kiln;

TEST_CASE("stages that hide a load") {
  // (600 + 200) / 300 = 2.67, so 3 loads ahead and one in use.
  Pipeline result = pipeline(600, 200, 300, 4);
  CHECK(result.stagesNeeded == 4);
  CHECK(result.exposedNs == 0);
  // 3 stages turn over in 1100 ns: 366.7 a step, of which 300 are math.
  CHECK(pipeline(600, 200, 300, 3).exposedNs == doctest::Approx(200.0 / 3));
  // One stage: load and math in turn.
  CHECK(pipeline(600, 200, 300, 1).exposedNs == doctest::Approx(800));
}

TEST_CASE("stagesNeeded is the least number without exposed time") {
  for (double mathNs : {50.0, 100.0, 333.0, 1000.0}) {
    int64_t needed = pipeline(500, 100, mathNs, 1).stagesNeeded;
    CHECK(pipeline(500, 100, mathNs, needed).exposedNs == 0);
    CHECK(pipeline(500, 100, mathNs, needed - 1).exposedNs > 0);
  }
  CHECK(pipeline(0, 0, 10, 1).stagesNeeded == 1);
}

TEST_CASE("a stage waits for DRAM where most of its loads go there") {
  DeviceModel device = testDevice();
  device.l2LatencyNs = 250;
  device.dramLatencyNs = 600;
  CHECK(loadLatencyNs(device, 0) == 250);
  CHECK(loadLatencyNs(device, 0.25) == 400);
  CHECK(loadLatencyNs(device, 0.75) == 600);
}
