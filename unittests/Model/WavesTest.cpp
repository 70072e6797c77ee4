#include "Model/Waves.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("4096 x 4096 in tiles of 128 x 256 on 132 SMs") {
  // 32 * 16 = 512 tiles: 3 full waves and 116 of 132.
  Waves result = waves(testDevice(), 512, 1);
  CHECK(result.slots == 132);
  CHECK(result.waves == 4);
  CHECK(result.tailUtilisation == doctest::Approx(116.0 / 132));
  CHECK(result.utilisation == doctest::Approx(512.0 / 528));
}

TEST_CASE("one tile too many starts a wave of its own") {
  CHECK(waves(testDevice(), 264, 2).waves == 1);
  Waves over = waves(testDevice(), 265, 2);
  CHECK(over.waves == 2);
  CHECK(over.tailUtilisation == doctest::Approx(1.0 / 264));
}

TEST_CASE("clusters fit fewer blocks than SMs") {
  CHECK(waves(testDevice(), 132, 1, 2).waves == 1);
  Waves four = waves(testDevice(), 132, 1, 4);
  CHECK(four.slots == 120);
  CHECK(four.waves == 2);
  // 121 tiles are 31 clusters of 4.
  CHECK(waves(testDevice(), 121, 1, 4).waves == 2);
  CHECK(waves(testDevice("a100-sxm4-80gb"), 100, 1, 2).slots == 0);
}

TEST_CASE("nothing to run or nowhere to run") {
  CHECK(waves(testDevice(), 0, 1).waves == 0);
  CHECK(waves(testDevice(), 10, 0).waves == 0);
}
