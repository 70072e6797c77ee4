#include "Model/Intensity.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("intensity of a tile against L2") {
  // 2*128*256 / ((128+256)*2) = 85.3 flop/B; ridge 1e6/1e4 = 100.
  Intensity tile = tileIntensity(128, 256, 16, 16, 1e6, 1e4);
  CHECK(tile.flopsPerByte == doctest::Approx(256.0 / 3));
  CHECK(tile.ridge == 100);
  CHECK_FALSE(tile.computeBound);
  CHECK(tileIntensity(256, 256, 16, 16, 1e6, 1e4).computeBound);
  // Half the bytes, twice the intensity.
  CHECK(tileIntensity(128, 256, 8, 8, 1e6, 1e4).flopsPerByte ==
        2 * tile.flopsPerByte);
}

TEST_CASE("intensity of a problem against DRAM") {
  ProblemSize size{4096, 4096, 4096, 1, 16, 16, 16};
  CHECK(compulsoryBytes(size) == 3.0 * 4096 * 4096 * 2);
  Intensity problem = problemIntensity(size, 1e6, 4000);
  CHECK(problem.flopsPerByte == doctest::Approx(4096.0 / 3));
  CHECK(problem.ridge == 250);
  CHECK(problem.computeBound);
  size.m = 1;
  CHECK(problemIntensity(size, 1e6, 4000).flopsPerByte ==
        doctest::Approx(1).epsilon(0.001));
  CHECK_FALSE(problemIntensity(size, 1e6, 4000).computeBound);
}

TEST_CASE("sizes whose product passes 2^63, batches and no size at all") {
  ProblemSize size{
      int64_t{1} << 22, int64_t{1} << 22, int64_t{1} << 22, 2, 16, 16, 32};
  CHECK(problemIntensity(size, 1, 1).flops == 4.0 * 0x1p66);
  CHECK(compulsoryBytes(size) == 2 * (2 + 2 + 4) * 0x1p44);
  CHECK(problemIntensity({}, 1, 1).flopsPerByte == 0);
}
