#include "kiln-bench/Figures.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace kiln::cli;

TEST_CASE("every value is in one band") {
  for (int64_t value : {0, 1, 16, 17, 64, 65, 256, 257, 1024, 1025, 1 << 30}) {
    int bands = 0;
    for (const Band &band : kBands)
      bands += band.holds(value);
    CHECK(bands == 1);
  }
}

TEST_CASE("quantiles are of the nearest rank") {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  CHECK(quantile(values, 0.1) == 1);
  CHECK(quantile(values, 0.2) == 1);
  CHECK(quantile(values, 0.5) == 3);
  CHECK(quantile(values, 0.99) == 5);
  CHECK(quantile(values, 1) == 5);
  CHECK(quantile({}, 0.5) == 0);
}

TEST_CASE("rank correlation sees order alone") {
  CHECK(rankCorrelation({1, 2, 3, 4}, {10, 100, 1000, 9999}) == 1);
  CHECK(rankCorrelation({1, 2, 3, 4}, {4, 3, 2, 1}) == -1);
  CHECK(rankCorrelation({1, 1, 1}, {1, 2, 3}) == 0);
  CHECK(rankCorrelation({}, {}) == 0);
  // With ties: ranks 1.5, 1.5, 3 against 1, 2, 3.
  CHECK(rankCorrelation({5, 5, 7}, {1, 2, 3}) ==
        doctest::Approx(1.5 / std::sqrt(1.5 * 2)));
}

TEST_CASE("figures of ratios") {
  std::vector<double> ratios(20, 1.0);
  ratios[3] = 0.5;
  ratios[4] = 0.92;
  ratios[5] = 0.95; // not below it
  const RatioFigures figures = RatioFigures::of(ratios);
  CHECK(figures.count == 20);
  CHECK(figures.least == 0.5);
  CHECK(figures.tenth == 0.92);
  CHECK(figures.below95 == doctest::Approx(0.1));
  CHECK(figures.below90 == doctest::Approx(0.05));
  CHECK(figures.geomean ==
        doctest::Approx(std::pow(0.5 * 0.92 * 0.95, 1 / 20.0)));
  CHECK(RatioFigures::of({}).count == 0);
  CHECK(RatioFigures::of({}).geomean == 0);
}

TEST_CASE("figures of times") {
  const TimeFigures figures = TimeFigures::of({3, 1, 2, 10});
  CHECK(figures.sum == 16);
  CHECK(figures.median == 2);
  CHECK(figures.p99 == 10);
  CHECK(figures.most == 10);
  CHECK(TimeFigures::of({}).most == 0);
}
