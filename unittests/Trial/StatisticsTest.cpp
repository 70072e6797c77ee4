#include "Trial/Statistics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace kiln;

TEST_CASE("no samples say nothing, few say their range") {
  SampleSummary none = summarizeSamples({});
  CHECK(none.count == 0);
  CHECK(none.median == 0);
  SampleSummary one = summarizeSamples({7.0});
  CHECK(one.median == 7);
  CHECK(one.ciLow == 7);
  CHECK(one.ciHigh == 7);
  SampleSummary four = summarizeSamples({4.0, 1.0, 3.0, 2.0});
  CHECK(four.median == 2.5);
  CHECK(four.ciLow == 1);
  CHECK(four.ciHigh == 4);
}

TEST_CASE("ranks of the interval are those of the binomial table") {
  // Number of samples, how many lie outside on each side at 95 %.
  const std::pair<size_t, size_t> kRanks[] = {
      {6, 0},  {8, 0},  {9, 1},  {11, 1},  {12, 2},
      {15, 3}, {20, 5}, {25, 7}, {50, 17}, {100, 39}};
  for (auto [count, outside] : kRanks) {
    CAPTURE(count);
    std::vector<double> samples(count);
    for (size_t i = 0; i < count; ++i)
      samples[count - 1 - i] = static_cast<double>(i);
    SampleSummary summary = summarizeSamples(samples);
    CHECK(summary.ciLow == outside);
    CHECK(summary.ciHigh == count - 1 - outside);
    CHECK(summary.count == count);
  }
}

TEST_CASE("the interval covers the median as often as it says") {
  std::mt19937 random(1);
  std::exponential_distribution<double> skewed(1.0);
  const double kMedian = std::log(2.0);
  for (size_t count : {7, 11, 31}) {
    int covered = 0;
    constexpr int kTrials = 2000;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> samples(count);
      std::generate(samples.begin(), samples.end(),
                    [&] { return skewed(random); });
      SampleSummary summary = summarizeSamples(samples);
      covered += summary.ciLow <= kMedian && kMedian <= summary.ciHigh;
    }
    CHECK(covered > 0.94 * kTrials);
  }
}

TEST_CASE("an outlier moves neither median nor interval far") {
  std::vector<double> samples(15, 100.0);
  samples[3] = 1e9;
  SampleSummary summary = summarizeSamples(samples);
  CHECK(summary.median == 100);
  CHECK(summary.ciHigh == 100);
}

TEST_CASE("what befell all candidates of a round is taken out") {
  std::vector<std::vector<double>> samples = {
      {100, 100, 130, 100, 100}, {200, 200, 260, 200, 200}, {50, 50, 65}};
  removeCommonDrift(samples);
  CHECK(samples[0][2] == doctest::Approx(100));
  CHECK(samples[1][2] == doctest::Approx(200));
  CHECK(samples[2][2] == doctest::Approx(50));
  CHECK(samples[0][1] == 100);
}

TEST_CASE("noise of one candidate is its own") {
  std::vector<std::vector<double>> samples = {{100, 100, 130, 100, 100},
                                              {200, 200, 200, 200, 200}};
  auto before = samples;
  removeCommonDrift(samples);
  CHECK(samples == before);
  // Opposite sides are no drift, nor is a single candidate's.
  samples = {{100, 100, 130}, {200, 200, 150}};
  before = samples;
  removeCommonDrift(samples);
  CHECK(samples == before);
  samples = {{100, 100, 130}};
  before = samples;
  removeCommonDrift(samples);
  CHECK(samples == before);
  samples = {{}, {0, 0, 0}, {1, 1, 2}};
  before = samples;
  removeCommonDrift(samples);
  CHECK(samples == before);
}

TEST_CASE("the geometric mean is that of ratios, whichever way they go") {
  CHECK(geomean({}) == 0);
  CHECK(geomean({0.8}) == doctest::Approx(0.8));
  CHECK(geomean({2, 8}) == doctest::Approx(4));
  CHECK(geomean({1 / 2.0, 1 / 8.0}) == doctest::Approx(1 / 4.0));
  // A product that no double holds.
  CHECK(geomean(std::vector<double>(1000, 1e9)) == doctest::Approx(1e9));
}
