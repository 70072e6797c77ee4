#include "Tune/RangeCover.h"

#include "Tune/CoverSearch.h"
#include "Tune/RangeTesting.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSet.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <random>

using namespace kiln;
using namespace kiln::testing;

namespace {

Portfolio cover(const ProblemRange &range, CoverOptions options = {}) {
  auto portfolio = coverRange(range, h200(), options);
  if (!portfolio)
    FAIL(summarize(portfolio.takeError()).message);
  return std::move(*portfolio);
}

struct Regret {
  double mean = 0, most = 0;
};

/// The regret of the choice against the best of the space at \p points.
Regret regretOf(const Portfolio &portfolio,
                const std::vector<ExtentPoint> &points) {
  Regret regret;
  for (const ExtentPoint &point : points) {
    auto problem = portfolio.range().find(point);
    REQUIRE(problem);
    auto choice = portfolio.choose(*problem, point, h200());
    REQUIRE(choice);
    const double own = choice->predictedNs / leastNs(*portfolio.range().family,
                                                     *problem, h200()) -
                       1;
    regret.mean += own / static_cast<double>(points.size());
    regret.most = std::max(regret.most, own);
  }
  return regret;
}

/// Values of one field, drawn log-uniformly.
std::vector<ExtentPoint> drawn(int64_t low, int64_t high, size_t count,
                               unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> exponent(
      std::log(static_cast<double>(low)),
      std::log(static_cast<double>(high) + 1));
  std::vector<ExtentPoint> points;
  while (points.size() < count)
    points.push_back(
        {std::min(high, static_cast<int64_t>(std::exp(exponent(random))))});
  return points;
}

constexpr const char *kCoveredLayer =
    "gemm m=1 n=6144 k=4096 dtype=bf16 layout=NT";

TEST_CASE("a layer's cover is small, and close to the best at any m") {
  Portfolio portfolio = cover(rangeOf(kCoveredLayer, {{"m", 1, 8192}}));
  CHECK(portfolio.kernels() <= 80);
  CHECK(portfolio.regret <= 0.03);
  CHECK(portfolio.measuredMembers() == 0);
  const Regret regret = regretOf(portfolio, drawn(1, 8192, 100, 7));
  CHECK(regret.mean < 0.005);
  // Between samples a wave may begin.
  CHECK(regret.most < portfolio.regret + 0.04);
  for (const PortfolioMember &member : portfolio.members()) {
    CHECK(portfolio.range().find(member.high));
    CHECK(portfolio.range().contains(member.low));
    CHECK_FALSE(member.kernel.empty());
  }
}

TEST_CASE("kernels that are compiled already are taken first") {
  const ProblemRange other =
      rangeOf("gemm m=1 n=28672 k=8192 dtype=bf16 layout=NT", {{"m", 1, 4096}});
  CoverOptions options;
  std::vector<KnownConfig> atHand;
  llvm::StringSet<> compiled;
  const Portfolio known = cover(other);
  for (const PortfolioMember &member : known.members()) {
    atHand.push_back({member.tmpl, member.config});
    compiled.insert(member.kernel);
  }
  const ProblemRange range = rangeOf(kCoveredLayer, {{"m", 1, 4096}});
  auto newKernels = [&](const Portfolio &portfolio) {
    llvm::StringSet<> added;
    for (const PortfolioMember &member : portfolio.members())
      if (!compiled.contains(member.kernel))
        added.insert(member.kernel);
    return added.size();
  };
  const Portfolio alone = cover(range);
  options.atHand = atHand;
  const Portfolio beside = cover(range, options);
  CHECK(newKernels(beside) < newKernels(alone));
  CHECK(beside.regret <= 0.03);
}

// Prints the figures of docs/measuring.md.
TEST_CASE("the third layer of a signature needs few kernels of its own") {
  std::vector<KnownConfig> atHand;
  llvm::StringSet<> known;
  size_t layers = 0;
  for (const char *size :
       {"n=6144 k=4096", "n=4096 k=4096", "n=28672 k=4096", "n=4096 k=14336",
        "n=10240 k=8192", "n=7168 k=2048"}) {
    CAPTURE(size);
    CoverOptions options;
    options.atHand = atHand;
    const Portfolio portfolio =
        cover(rangeOf("gemm m=1 " + std::string(size) + " dtype=bf16 layout=NT",
                      {{"m", 1, 8192}}),
              options);
    size_t added = 0;
    for (const PortfolioMember &member : portfolio.members()) {
      atHand.push_back({member.tmpl, member.config});
      added += known.insert(member.kernel).second;
    }
    const Regret regret = regretOf(portfolio, drawn(1, 8192, 300, 43));
    std::printf("cover of %s: %zu kernels, %zu of them new, mean regret %.2f "
                "%%, most %.1f %%\n",
                size, portfolio.kernels(), added, 100 * regret.mean,
                100 * regret.most);
    CHECK(regret.mean <= 0.005);
    CHECK(regret.most <= 0.03);
    CHECK((++layers < 3 || added <= 30));
  }
}

TEST_CASE("what ties with the estimator's first choice gives way to it") {
  const ProblemRange range = rangeOf(
      "rmsnorm rows=1 cols=4096 dtype=bf16 weight=1", {{"rows", 1, 8192}});
  const Portfolio portfolio = cover(range);
  size_t firsts = 0;
  const std::vector<ExtentPoint> points = drawn(1, 8192, 100, 44);
  for (const ExtentPoint &point : points) {
    const Space space =
        llvm::cantFail(exploreSpace(*range.family, *range.find(point), h200()));
    firsts += llvm::any_of(portfolio.members(), [&](const auto &member) {
      return member.tmpl == space.ranked.front().tmpl &&
             member.config == space.ranked.front().config;
    });
  }
  CHECK(firsts >= 80);
}

TEST_CASE("splits' workspace is that of their interval, within the limit") {
  const ProblemRange range = rangeOf(kCoveredLayer, {{"m", 1, 512}});
  CoverOptions options;
  options.workspaceBytes = 0;
  Portfolio none = cover(range, options);
  for (const PortfolioMember &member : none.members())
    CHECK(
        member.tmpl->workspace(*range.find(member.high), member.config, h200())
            .bytes() == 0);
  CHECK(none.choose(*range.find({17}), ExtentPoint{17}, h200()));
}

TEST_CASE("what is kept or waited for is a member; what is barred is not") {
  const ProblemRange range = rangeOf(kCoveredLayer, {{"m", 100, 300}});
  Portfolio first = cover(range);
  const std::string barred = first.members().front().config.text();
  CoverOptions options;
  auto isBarred = [&](const Template &, const Values &config) {
    return config.text() == barred;
  };
  options.isBarred = isBarred;
  std::vector<PortfolioMember> kept = {first.members().back()};
  kept.front().validated = true;
  kept.front().times.push_back({ExtentPoint{128}, 2000, 1000});
  options.kept = kept;
  const ExtentPoint wanted = {177};
  options.points = wanted;
  Portfolio second = cover(range, options);
  auto has = [&](const Values &config) {
    return llvm::any_of(second.members(), [&](const PortfolioMember &member) {
      return member.config == config;
    });
  };
  CHECK_FALSE(has(first.members().front().config));
  CHECK(has(kept.front().config));
  Space space =
      llvm::cantFail(exploreSpace(*range.family, *range.find(wanted), h200()));
  auto best = llvm::find_if(space.ranked, [&](const Candidate &candidate) {
    return candidate.config.text() != barred;
  });
  CHECK(second.members().front().config == best->config);
  // Measured members stay measured.
  CHECK(second.measuredMembers() == 1);
}

TEST_CASE("rows of memory-bound families and batches have covers") {
  for (auto [text, span] : std::vector<std::pair<const char *, Span>>{
           {"softmax rows=1 cols=4096 dtype=bf16", {"rows", 1, 65536}},
           {"gemm m=64 n=128 k=512 batch=2 dtype=bf16 layout=NT",
            {"batch", 1, 256}}}) {
    CAPTURE(text);
    Portfolio portfolio = cover(rangeOf(text, {span}));
    CHECK(portfolio.kernels() <= 40);
    CHECK(regretOf(portfolio, drawn(span.low, span.high, 40, 9)).most < 0.06);
  }
}

TEST_CASE("a range of two fields") {
  const ProblemRange range =
      rangeOf("gemm m=1 n=128 k=512 batch=1 dtype=bf16 layout=NT",
              {{"m", 1, 2048}, {"batch", 1, 64}});
  Portfolio portfolio = cover(range);
  CHECK(portfolio.kernels() <= 40);
  std::vector<ExtentPoint> points;
  for (const ExtentPoint &m : drawn(1, 2048, 40, 10))
    points.push_back({m[0], 1 + m[0] % 64});
  const Regret regret = regretOf(portfolio, points);
  CHECK(regret.mean < 0.03);
  CHECK(regret.most < 0.2);
}

TEST_CASE("values of one signature have a cover of their own") {
  // Rows of A are as long as m, so m decides their alignment.
  auto ranges =
      rangesOf(builtinFamilies(), "gemm m=1 n=512 k=512 dtype=bf16 layout=TT",
               {{"m", 1, 64}});
  CHECK(ranges.size() == 4);
  for (const ProblemRange &range : ranges) {
    Portfolio portfolio = cover(range);
    for (const PortfolioMember &member : portfolio.members())
      CHECK(range.find(member.high)->signature == range.signature);
    auto problem = range.find(range.high);
    REQUIRE(problem);
    CHECK(portfolio.choose(*problem, range.high, h200()));
  }
}

TEST_CASE("a cover ends when it is cancelled") {
  std::atomic<bool> cancel{true};
  CoverOptions options;
  options.cancel = &cancel;
  auto portfolio =
      coverRange(rangeOf(kCoveredLayer, {{"m", 1, 64}}), h200(), options);
  REQUIRE_FALSE(portfolio);
  CHECK(summarize(portfolio.takeError()).code == ErrorCode::Cancelled);
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

CoverTable tableOf(std::vector<std::vector<float>> kernels) {
  CoverTable table;
  table.weights.assign(kernels.front().size(), 1);
  table.bestNs.assign(kernels.front().size(), 100);
  for (auto &ns : kernels)
    table.kernels.push_back(
        {.idea = table.kernels.size(), .ns = std::move(ns)});
  return table;
}

TEST_CASE("the search takes what serves most, then what is left") {
  // The first one is good in the middle, the others at one side each.
  CoverTable table = tableOf(
      {{150, 100, 100, 150}, {100, 100, 150, 150}, {150, 150, 100, 100}});
  table.weights = {1, 1, 2, 2};
  Cover found = chooseCover(table, {.maxKernels = 3});
  REQUIRE(found.kernels.size() >= 2);
  CHECK(found.kernels[0] == 2);
  CHECK(found.kernels[1] == 1);
  CHECK(found.regret == doctest::Approx(0));
  // Fewer kernels have a larger regret.
  found = chooseCover(table, {.maxKernels = 1});
  CHECK(found.kernels == std::vector<size_t>{2});
  CHECK(found.regret == doctest::Approx(0.5));
}

TEST_CASE("what adds nothing is left out") {
  CoverTable table = tableOf({{100, 100}, {100, 100}, {130, 140}});
  table.kernels[1].idea = table.kernels[0].idea;
  Cover found = chooseCover(table, {});
  CHECK(found.kernels.size() <= 2);
  CHECK_FALSE(llvm::is_contained(found.kernels, 2));
}

TEST_CASE("fixed kernels come first, and stay") {
  CoverTable table = tableOf({{200, 200}, {100, 100}});
  const size_t fixed[] = {0};
  Cover found = chooseCover(table, {.fixed = fixed});
  CHECK(found.kernels == std::vector<size_t>{0, 1});
  CHECK(found.regret == doctest::Approx(0));
}

TEST_CASE("a second opinion of another idea comes before one of the same") {
  CoverTable table = tableOf({{100, 100}, {101, 101}, {101, 101}, {140, 140}});
  table.kernels[1].idea = table.kernels[0].idea;
  Cover found = chooseCover(table, {.maxKernels = 2});
  CHECK(found.kernels == std::vector<size_t>{0, 2});
}

} // namespace
