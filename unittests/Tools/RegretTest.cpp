// The cost of choosing by an order, and what a wrong choice is blamed on.
#include "kiln-bench/Quality.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kiln::cli;

static void checkCurve(const std::vector<double> &curve,
                       const std::vector<double> &expected) {
  REQUIRE(curve.size() == expected.size());
  for (size_t k = 0; k < curve.size(); ++k)
    CHECK(curve[k] == doctest::Approx(expected[k]));
}

TEST_CASE("the regret of an order falls with each better choice") {
  checkCurve(regretCurve({120, 150, 110, 100, 90}, 100, 7),
             {0.2, 0.2, 0.1, 0, 0, 0, 0});
  checkCurve(regretCurve({150, 120}, 100, 4), {0.5, 0.2, 0.2, 0.2});
  CHECK(regretCurve({}, 100).empty());
  CHECK(regretCurve({100}, 100).size() == kRegretChoices);
}

TEST_CASE("the regret of a random order is the mean over all orders") {
  std::vector<double> times = {90, 100, 110, 120, 150, 200};
  constexpr double kBest = 100;
  const std::vector<double> expected = expectedRegretCurve(times, kBest, 8);
  std::vector<double> sums(8, 0.0);
  size_t orders = 0;
  do {
    const std::vector<double> curve = regretCurve(times, kBest, 8);
    for (size_t k = 0; k < curve.size(); ++k)
      sums[k] += curve[k];
    ++orders;
  } while (std::next_permutation(times.begin(), times.end()));
  CHECK(orders == 720);
  for (double &sum : sums)
    sum /= static_cast<double>(orders);
  checkCurve(expected, sums);
  CHECK(expectedRegretCurve({}, kBest).empty());
}

TEST_CASE("curves have a mean") {
  checkCurve(meanCurve({{0.2, 0.1}, {0.4, 0}}), {0.3, 0.05});
  CHECK(meanCurve({}).empty());
}

static BlamedConfig configOf(const char *tmpl, const char *bound,
                             double measuredNs,
                             std::vector<CostAddend> addends) {
  BlamedConfig config{std::string(tmpl) + ".x1", tmpl, bound};
  config.measuredNs = measuredNs;
  for (const CostAddend &one : addends)
    config.predictedNs += one.ns;
  config.addends = std::move(addends);
  return config;
}

TEST_CASE("a wrong choice is blamed on the term that favours it most") {
  const Blame found =
      blame(configOf("tiled", "dram", 1500,
                     {{"launch", 100}, {"waves", 700}, {"tail", 200}}),
            configOf("line", "l2", 1200,
                     {{"launch", 100}, {"waves", 950}, {"ramp", 40}}));
  CHECK(found.kind == BlameKind::Term);
  CHECK(found.term == "waves");
  CHECK(found.inFavourNs == doctest::Approx(250));
  CHECK(found.regret == doctest::Approx(0.25));
  CHECK(found.cause() == "waves");
  CHECK(found.templatePair() == "tiled > line");
  CHECK(found.chosen.error() == doctest::Approx(-1 / 3.0));
  CHECK(found.best.addend("tail") == 0);
}

TEST_CASE("a term that the first choice does not have counts in full") {
  const Blame found =
      blame(configOf("a", "dram", 1100, {{"stream", 900}}),
            configOf("b", "dram", 1000, {{"loop", 850}, {"ramp", 80}}));
  CHECK(found.term == "loop");
  CHECK(found.inFavourNs == doctest::Approx(850));
}

TEST_CASE("where no term differs, the bounds do, or it is a tie") {
  const BlamedConfig chosen = configOf("a", "dram", 1100, {{"waves", 1000}});
  const Blame bound =
      blame(chosen, configOf("a", "issue", 1000, {{"waves", 1005}}));
  CHECK(bound.kind == BlameKind::Bound);
  CHECK(bound.cause() == "bound: dram, not issue");
  const Blame tie =
      blame(chosen, configOf("a", "dram", 1000, {{"waves", 1005}}));
  CHECK(tie.kind == BlameKind::Tie);
  CHECK(tie.cause() == "a tie");
  CHECK(tie.term.empty());
}

TEST_CASE("blames add up by key") {
  std::vector<ReplayedSpace> spaces(4);
  for (size_t i = 0; i < 3; ++i) {
    spaces[i].family = i == 0 ? "gemm" : "rmsnorm";
    spaces[i].blame = Blame{};
    spaces[i].blame->regret = 0.1 * static_cast<double>(i + 1);
  }
  const auto sums = sumBlames(
      spaces, [](const ReplayedSpace &space) { return space.family; });
  REQUIRE(sums.size() == 2); // the last space's first choice is the best
  CHECK(sums[0].key == "rmsnorm");
  CHECK(sums[0].count == 2);
  CHECK(sums[0].regret == doctest::Approx(0.5));
  CHECK(sums[1].key == "gemm");
}
