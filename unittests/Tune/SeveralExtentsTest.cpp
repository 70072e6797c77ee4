// Portfolios over three extents.
#include "Tune/AnchorPlan.h"
#include "Tune/PortfolioSession.h"
#include "Tune/RangeCover.h"

#include "Store/BoxFamily.h"
#include "Store/StoreFixture.h"
#include "Trial/TrialRunner.h"

#include <llvm/ADT/STLExtras.h>

#include <cmath>
#include <random>
#include <set>

using namespace kiln;
using namespace kiln::fake;

namespace {

/// Flat tiles take twice their prediction, tall ones their prediction.
class BoxRunner final : public TrialRunner {
public:
  explicit BoxRunner(const DeviceModel &device) : device(device) {}

  llvm::Expected<std::vector<TrialResult>>
  run(const TrialRequest &request, const std::atomic<bool> *) override {
    CHECK(hasRoom(*request.family, request.problem));
    std::vector<TrialResult> results;
    for (const TrialCandidate &candidate : request.candidates) {
      TrialResult &result = results.emplace_back();
      result.config = candidate.config();
      result.validated = !request.options.measure;
      if (!request.options.measure)
        continue;
      auto named = must(request.family->parseConfig(result.config));
      const double ns =
          named.tmpl->estimate(request.problem, named.config, device).totalNs;
      result.medianNs = ns * (named.tmpl->name() == "flat" ? 2 : 1);
      result.ciLowNs = result.ciHighNs = result.medianNs;
      result.samples = 7;
      ++trials;
    }
    if (request.options.measure)
      points.push_back(request.problem.values);
    return results;
  }
  bool hasRoom(const KernelFamily &, const Problem &problem) override {
    const Values &r = problem.values;
    return r[BoxField::Batch] * r[BoxField::Rows] * r[BoxField::Cols] <=
           mostElements;
  }
  bool isAlive() const override { return true; }

  const DeviceModel &device;
  int64_t mostElements = INT64_MAX;
  std::vector<Values> points;
  size_t trials = 0;
};

struct BoxRangeFixture : StoreFixture {
  ProblemRange range(const ExtentPoint &low, const ExtentPoint &high) {
    auto ranges =
        must(rangesOf(boxes, makeBox(boxes, "rows=1 cols=1 depth=1").values,
                      boxes.dynamicExtents(), low, high));
    return ranges.front();
  }
  PortfolioResult prepare(const ProblemRange &served,
                          std::vector<ExtentPoint> first = {}) {
    PortfolioStore portfolios(*cache);
    RecordStore records(*cache);
    PortfolioContext context{device,     *artifacts, records,
                             portfolios, &runner,    deviceClassKey(device)};
    PortfolioOptions options;
    options.first = std::move(first);
    PortfolioSession session(context, served, options);
    session.begin(0);
    must(session.finish(PortfolioOptions::Clock::now() +
                        std::chrono::seconds(60)));
    return session.takeResult();
  }

  BoxFamily boxes;
  BoxRunner runner{device};
};

/// Points of \p range, log-uniform in each field.
std::vector<ExtentPoint> drawn(const ProblemRange &range, size_t count) {
  std::mt19937 random(5);
  std::vector<ExtentPoint> points;
  for (size_t i = 0; i < count; ++i) {
    ExtentPoint &point = points.emplace_back();
    for (auto [low, high] : llvm::zip_equal(range.low, range.high)) {
      std::uniform_real_distribution<double> exponent(
          std::log(static_cast<double>(low)),
          std::log(static_cast<double>(high) + 1));
      point.push_back(std::clamp(
          static_cast<int64_t>(std::exp(exponent(random))), low, high));
    }
  }
  return points;
}

double leastNs(const ProblemRange &range, const Problem &problem,
               const DeviceModel &device) {
  const Space space = must(exploreSpace(*range.family, problem, device));
  double least = INFINITY;
  for (const Candidate &candidate : space.ranked)
    least = std::min(least, candidate.estimate.totalNs);
  return least;
}

} // namespace

TEST_CASE_FIXTURE(BoxRangeFixture,
                  "a grid of three extents is a small product") {
  for (const ExtentPoint &high :
       std::vector<ExtentPoint>{{256, 8192, 131072},
                                {256, 1, 131072},
                                {1, 1, 131072},
                                {1, 1, 1},
                                {3, 2, 4},
                                {2147483647, 2147483647, 2147483647}}) {
    const ProblemRange served = range({1, 1, 1}, high);
    CAPTURE(served.text());
    const RangeGrid grid(served);
    CHECK(grid.size() <= 2000);
    CHECK(grid.at(0) == ExtentPoint{1, 1, 1});
    CHECK(grid.at(grid.size() - 1) == high);
    std::set<ExtentPoint> points;
    double weight = 0;
    for (size_t i = 0; i < grid.size(); ++i) {
      points.insert(grid.at(i));
      weight += grid.weightOf(i);
    }
    CHECK(points.size() == grid.size());
    CHECK(weight > 0);
    for (const ExtentPoint &point : drawn(served, 20))
      CHECK(grid.around(point).size() <= 8);
  }
  CHECK(RangeGrid(range({1, 1, 1}, {3, 2, 4})).size() == 24);
  CHECK(RangeGrid(range({1, 1, 1}, {256, 8192, 131072}), 600).size() <= 600);
}

TEST_CASE_FIXTURE(BoxRangeFixture,
                  "a cover of three extents is close to the best") {
  const ProblemRange served = range({1, 1, 1}, {128, 4096, 65536});
  const Portfolio portfolio = must(coverRange(served, device));
  CHECK(portfolio.kernels() <= 24);
  constexpr size_t kPoints = 300;
  double most = 0;
  size_t estimates = 0;
  for (const ExtentPoint &point : drawn(served, kPoints)) {
    const Problem problem = *served.find(point);
    const size_t before = boxes.tall->estimates + boxes.flat->estimates;
    const auto choice = portfolio.choose(problem, point, device);
    estimates += boxes.tall->estimates + boxes.flat->estimates - before;
    REQUIRE(choice);
    most = std::max(most,
                    choice->predictedNs / leastNs(served, problem, device) - 1);
    CHECK(portfolio.members()[choice->member].serves(point));
  }
  CHECK(most < 0.3);
  // Only a few members are estimated.
  CHECK(estimates <= 16 * kPoints);
}

TEST_CASE_FIXTURE(BoxRangeFixture,
                  "an interval ends where its plan is allowed") {
  // Two kernels are good at single points for which there is memory, and not
  // for all of them together.
  boxes.flat->scratchPerRow = 1 << 12;
  const ProblemRange served = range({1, 1, 1}, {256, 256, 65536});
  CoverOptions options;
  options.workspaceBytes = 1 << 20;
  const Portfolio portfolio = must(coverRange(served, device, options));
  bool hasFlat = false;
  for (const PortfolioMember &member : portfolio.members()) {
    CHECK(
        member.tmpl->workspace(*served.find(member.high), member.config, device)
            .bytes() <= options.workspaceBytes);
    hasFlat |= member.tmpl->name() == "flat";
  }
  CHECK(hasFlat);
  for (const ExtentPoint &point : drawn(served, 100))
    CHECK(portfolio.choose(*served.find(point), point, device));
}

TEST_CASE_FIXTURE(BoxRangeFixture,
                  "what trials have no room for is not measured") {
  runner.mostElements = int64_t(1) << 24;
  const ProblemRange served = range({1, 1, 1}, {256, 8192, 131072});
  const PortfolioResult made = prepare(served, {{64, 1, 5000}});
  CHECK(made.origin == PortfolioOrigin::Measured);
  CHECK(made.stop == StopReason::Exhausted);
  CHECK(made.notes.empty());
  REQUIRE_FALSE(runner.points.empty());
  CHECK(served.pointOf(runner.points.front()) == ExtentPoint{64, 1, 5000});
  // Measurements decide, also at points without any.
  const ExtentPoint huge = {256, 8192, 131072};
  CHECK(made.portfolio.choose(*served.find(huge), huge, device));
}

TEST_CASE_FIXTURE(BoxRangeFixture,
                  "a wider range takes over what parts of it measured") {
  const ProblemRange part = range({1, 1, 1}, {64, 1, 4096});
  const PortfolioResult first = prepare(part, {{64, 1, 4096}});
  std::set<ExtentPoint> measured;
  for (const PortfolioMember &member : first.portfolio.members())
    for (const MemberTime &time : member.times)
      measured.insert(time.point);
  REQUIRE_FALSE(measured.empty());
  // It answers for a part of the part.
  const size_t before = runner.trials;
  CHECK(prepare(range({1, 1, 1}, {8, 1, 100})).origin ==
        PortfolioOrigin::Stored);
  CHECK(runner.trials == before);
  const PortfolioResult wider =
      prepare(range({1, 1, 1}, {64, 2048, 4096}), {{1, 2000, 2000}});
  CHECK(wider.origin == PortfolioOrigin::Measured);
  CHECK(runner.trials > before);
  size_t taken = 0;
  for (const PortfolioMember &member : wider.portfolio.members())
    for (const MemberTime &time : member.times)
      taken += measured.count(time.point);
  CHECK(taken > 0);
  // It serves the part as well.
  CHECK(prepare(part).origin == PortfolioOrigin::Stored);
}
