#include "Model/Pipeline.h"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace kiln;

static StageRing<double> ring(double latency, double load, double pace,
                              int64_t stages) {
  return {latency, load, pace, stages};
}

TEST_CASE("stages that hide a load") {
  // (600 + 200) / 300 = 2.67, so 3 loads ahead and one in use.
  CHECK(ring(600, 200, 300, 4).stagesNeeded() == 4);
  CHECK(ring(600, 200, 300, 4).exposed() == 0);
  // 3 stages turn over in 1100 ns: 366.7 a step, of which 300 are math.
  CHECK(ring(600, 200, 300, 3).exposed() == doctest::Approx(200.0 / 3));
  // One stage: load and math in turn.
  CHECK(ring(600, 200, 300, 1).exposed() == doctest::Approx(800));
}

TEST_CASE("stagesNeeded is the least number without exposed time") {
  for (double mathNs : {50.0, 100.0, 333.0, 1000.0}) {
    const auto needed =
        static_cast<int64_t>(ring(500, 100, mathNs, 1).stagesNeeded());
    CHECK(ring(500, 100, mathNs, needed).exposed() == 0);
    CHECK(ring(500, 100, mathNs, needed - 1).exposed() > 0);
  }
  CHECK(ring(0, 0, 10, 1).stagesNeeded() == 1);
}
