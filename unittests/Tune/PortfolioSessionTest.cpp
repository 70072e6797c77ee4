#include "Tune/PortfolioSession.h"

#include "Tune/AnchorPlan.h"
#include "Tune/RangeCover.h"
#include "Tune/ScriptedRunner.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <filesystem>

using namespace kiln;
using namespace kiln::fake;

namespace {

using Clock = PortfolioOptions::Clock;

/// Waves of tiles: small ones for few rows, large ones for many.
double waveNs(const std::string &config, int64_t m) {
  auto [name, rest] = llvm::StringRef(config).split(".t");
  int64_t tile = 0;
  rest.split('.').first.getAsInteger(10, tile);
  const int64_t waves = (m + 8 * tile - 1) / (8 * tile);
  const double base = name == "plain" ? 9000 : name == "pair" ? 700 : 500;
  return base + static_cast<double>(waves * (tile + 60));
}

/// Times by config and m; faults by config.
class RangeRunner final : public TrialRunner {
public:
  llvm::Expected<std::vector<TrialResult>>
  run(const TrialRequest &request, const std::atomic<bool> *) override {
    requests.push_back(request);
    if (onRun)
      onRun();
    if (error.code != ErrorCode::Success)
      return errorOf(error);
    std::vector<TrialResult> results;
    for (const TrialCandidate &candidate : request.candidates) {
      CHECK(candidate.plan.problem[kFieldM] >= request.problem.values[kFieldM]);
      TrialResult &result = results.emplace_back();
      result.config = candidate.config();
      auto fault = faults.find(result.config);
      if (refuses && refuses(result.config, request.problem.values[kFieldM])) {
        result.status = TrialStatus::LaunchFailed;
        result.message = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
      } else if (request.options.measure) {
        result.medianNs = ns(result.config, request.problem.values[kFieldM]);
        result.ciLowNs = result.ciHighNs = result.medianNs;
        result.samples = 7;
      } else if (request.problem.values[kFieldM] > mostCompared ||
                 uncompared.count(result.config)) {
        result.status = TrialStatus::Timeout;
      } else if (fault != faults.end()) {
        result.status = fault->second;
        result.message = "as the test says";
      } else {
        result.validated = true;
      }
      alive &= result.status != TrialStatus::ContextDead;
    }
    return results;
  }
  bool isAlive() const override { return alive; }

  /// The values of m that were measured.
  std::vector<int64_t> points() const {
    std::vector<int64_t> points;
    for (const TrialRequest &request : requests)
      if (request.options.measure)
        points.push_back(request.problem.values[kFieldM]);
    return points;
  }

  std::function<double(const std::string &, int64_t)> ns = waveNs;
  std::map<std::string, TrialStatus> faults;
  /// The reference is too slow beyond this m, and for these configs anywhere.
  int64_t mostCompared = INT64_MAX;
  std::set<std::string> uncompared;
  /// Whether a config cannot be launched at some m.
  std::function<bool(const std::string &, int64_t)> refuses;
  std::function<void()> onRun;
  ErrorSummary error;
  bool alive = true;
  std::vector<TrialRequest> requests;
};

struct RangeFixture : StoreFixture {
  RangeFixture() { family.options.predictAtNs = waveNs; }

  ProblemRange range(int64_t low = 1, int64_t high = 4096) {
    auto ranges = rangesOf(family, problem.values, {kFieldM}, ExtentPoint{low},
                           ExtentPoint{high});
    return must(std::move(ranges)).front();
  }

  /// Runs a session; its error's code.
  ErrorCode prepare(std::chrono::milliseconds budget = std::chrono::seconds(60),
                    int64_t low = 1, int64_t high = 4096) {
    portfolios = std::make_unique<PortfolioStore>(*cache);
    records = std::make_unique<RecordStore>(*cache);
    PortfolioContext context{device,
                             *artifacts,
                             *records,
                             *portfolios,
                             withRunner ? &runner : nullptr,
                             deviceClassKey(device),
                             &kernels};
    PortfolioSession session(context, range(low, high), options);
    session.begin(0);
    ErrorSummary error = summarize(session.finish(Clock::now() + budget));
    result = session.takeResult();
    return error.code;
  }

  /// Finds the portfolio in the cache.
  std::optional<FoundPortfolio> find(int64_t low = 1, int64_t high = 4096) {
    return findPortfolio(
        {*portfolios, *records, device, deviceClassKey(device)},
        range(low, high));
  }

  bool has(llvm::StringRef config) const {
    return llvm::any_of(result.portfolio.members(),
                        [&](const PortfolioMember &member) {
                          return member.config.text() == config;
                        });
  }
  std::string chosenAt(int64_t m) const {
    auto problem = result.portfolio.range().find({m});
    REQUIRE(problem);
    auto choice = result.portfolio.choose(*problem, ExtentPoint{m}, device);
    REQUIRE(choice);
    return result.portfolio.members()[choice->member].config.text();
  }

  RangeRunner runner;
  bool withRunner = true;
  SharedKernels kernels;
  PortfolioOptions options;
  PortfolioResult result;
  std::unique_ptr<PortfolioStore> portfolios;
  std::unique_ptr<RecordStore> records;
};

TEST_CASE("a range is covered, compiled, measured, compared and stored") {
  RangeFixture f;
  REQUIRE(f.prepare() == ErrorCode::Success);
  const Portfolio &portfolio = f.result.portfolio;
  CHECK(f.result.origin == PortfolioOrigin::Measured);
  CHECK(f.result.stop == StopReason::Exhausted);
  CHECK(f.result.isStored);
  CHECK(f.result.notes.empty());
  CHECK(portfolio.isComplete);
  CHECK(portfolio.members().size() >= 4);
  CHECK(f.result.code.size() == portfolio.members().size());
  for (size_t i = 0; i < portfolio.members().size(); ++i) {
    const PortfolioMember &member = portfolio.members()[i];
    CAPTURE(member.config.text());
    CHECK(member.validated);
    CHECK(member.times.size() >= 2);
    CHECK(f.result.code[i].plan.problem[kFieldM] == member.high[0]);
    CHECK(f.result.code[i].artifacts.size() ==
          f.result.code[i].plan.kernels.size());
  }
  const std::vector<int64_t> points = f.runner.points();
  CHECK(points.size() >= 8);
  CHECK(points.size() <= 40);
  CHECK(f.result.trials.size() >= points.size());
  for (int64_t m : {1, 100, 513, 1025, 4096}) {
    CAPTURE(m);
    CHECK(waveNs(f.chosenAt(m), m) <= 1.03 * waveNs("fast.t64", m));
  }
}

TEST_CASE("sessions tell each other of their kernels") {
  RangeFixture f;
  CHECK(f.kernels.of(f.range()).empty());
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK(f.result.compiled == f.result.kernels);
  for (const PortfolioMember &member : f.result.portfolio.members())
    CHECK(llvm::any_of(f.kernels.of(f.range()), [&](const KnownConfig &known) {
      return known.tmpl == member.tmpl && known.config == member.config;
    }));
}

TEST_CASE("what is measured at anchors stands in the record of the layer") {
  RangeFixture f;
  REQUIRE(f.prepare() == ErrorCode::Success);
  const std::string device = deviceClassKey(f.device);
  auto record = f.records->load(f.family, f.problem, device);
  size_t times = 0;
  for (size_t i = 0; i < record->size(); ++i) {
    CHECK(record->at(i).winner.empty());
    for (const Measurement &measurement : record->at(i).measurements) {
      CHECK(measurement.how == kMeasuredAtAnchor);
      CHECK(measurement.series != 0);
      CHECK(measurement.kernel.size() > 0);
      times += measurement.valid;
    }
  }
  size_t known = 0;
  for (const PortfolioMember &member : f.result.portfolio.members())
    known += member.times.size();
  CHECK(times >= known);
  // No choice asks for it yet.
  CHECK_FALSE(f.records->find(f.family, f.problem, device));
}

TEST_CASE("what is stored answers: nothing is measured again") {
  RangeFixture f;
  REQUIRE(f.prepare() == ErrorCode::Success);
  const StoredPortfolio first = f.result.portfolio.toStored();
  auto chosen = [&] {
    std::vector<std::string> all;
    for (int64_t m = 1; m <= 4096; m += 13)
      all.push_back(f.chosenAt(m));
    return all;
  };
  const auto before = chosen();
  f.runner.requests.clear();
  f.reopen();
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK(chosen() == before);
  CHECK(f.result.origin == PortfolioOrigin::Stored);
  CHECK(f.result.stop == StopReason::Recorded);
  CHECK(f.runner.requests.empty());
  CHECK(f.result.portfolio.toStored() == first);
  // A wider range answers for a narrower one as well.
  REQUIRE(f.prepare(std::chrono::seconds(60), 10, 100) == ErrorCode::Success);
  CHECK(f.runner.requests.empty());
  CHECK(f.result.portfolio.range().high == ExtentPoint{4096});
  SUBCASE("unless it is to be measured again") {
    f.options.retune = true;
    REQUIRE(f.prepare() == ErrorCode::Success);
    CHECK(f.result.origin == PortfolioOrigin::Measured);
    CHECK_FALSE(f.runner.requests.empty());
  }
  SUBCASE("or a wider range is asked for") {
    REQUIRE(f.prepare(std::chrono::seconds(60), 1, 8192) == ErrorCode::Success);
    CHECK_FALSE(f.runner.requests.empty());
    CHECK(f.result.portfolio.range().high == ExtentPoint{8192});
  }
}

TEST_CASE("measured times decide where the estimate is wrong") {
  RangeFixture f;
  // The predicted best for many rows is half as fast there.
  f.runner.ns = [](const std::string &config, int64_t m) {
    return waveNs(config, m) * (config == "fast.t256" ? 2 : 1);
  };
  REQUIRE(f.prepare() == ErrorCode::Success);
  for (int64_t m : {600, 1500, 2000, 3333, 4096}) {
    CAPTURE(m);
    CHECK(f.chosenAt(m) != "fast.t256");
  }
}

TEST_CASE("a member that is wrong goes, and another cover serves its place") {
  RangeFixture f;
  f.runner.faults["fast.t256"] = TrialStatus::Wrong;
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK_FALSE(f.has("fast.t256"));
  CHECK(f.result.rejected == 1);
  CHECK(f.result.portfolio.hasFoundWrong);
  CHECK(f.result.portfolio.isComplete);
  for (int64_t m = 1; m <= 4096; m += 37)
    CHECK_FALSE(f.chosenAt(m).empty());
  // The next process does not try it again, either.
  f.runner.requests.clear();
  f.options.acceptsPartial = false;
  f.reopen();
  REQUIRE(f.prepare(std::chrono::seconds(60), 1, 8192) == ErrorCode::Success);
  CHECK_FALSE(f.has("fast.t256"));
}

TEST_CASE("members are compared where the reference is soon computed") {
  RangeFixture f;
  f.runner.mostCompared = 100; // not at the values where large tiles are timed
  REQUIRE(f.prepare() == ErrorCode::Success);
  for (const PortfolioMember &member : f.result.portfolio.members()) {
    CAPTURE(member.config.text());
    CHECK(member.validated);
  }
  for (int64_t m : {700, 2048, 4096}) {
    CAPTURE(m);
    double least = INFINITY;
    for (const PortfolioMember &member : f.result.portfolio.members())
      least = std::min(least, waveNs(member.config.text(), m));
    CHECK(waveNs(f.chosenAt(m), m) <= 1.01 * least);
  }
}

TEST_CASE("what was compared gives way to what is clearly faster") {
  RangeFixture f;
  f.runner.uncompared = {"fast.t256"};
  SUBCASE("if nothing was found wrong") {
    REQUIRE(f.prepare() == ErrorCode::Success);
    REQUIRE(f.has("fast.t256"));
    REQUIRE(f.has("fast.t128"));
    CHECK(f.chosenAt(3000) == "fast.t128"); // it is the faster one
    CHECK(f.chosenAt(2048) == "fast.t256"); // fast.t128 is 7 % slower
    CHECK(f.chosenAt(4096) == "fast.t256");
  }
  SUBCASE("and not where trials found wrong results") {
    f.runner.faults["fast.t16"] = TrialStatus::Wrong;
    REQUIRE(f.prepare() == ErrorCode::Success);
    REQUIRE(f.result.rejected == 1);
    CHECK(f.chosenAt(4096) != "fast.t256");
  }
}

TEST_CASE("what cannot be launched at one value serves on one side of it") {
  RangeFixture f;
  f.runner.refuses = [](const std::string &config, int64_t m) {
    return config == "fast.t256" && m > 3000;
  };
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK(f.chosenAt(4096) != "fast.t256");
  if (f.has("fast.t256"))
    for (const PortfolioMember &member : f.result.portfolio.members())
      if (member.config.text() == "fast.t256")
        CHECK(member.high[0] < 4096);
  CHECK_FALSE(f.result.portfolio.hasFoundWrong);
}

TEST_CASE("if all that was compared is wrong there is no portfolio") {
  RangeFixture f;
  for (const char *config : {"fast.t16", "fast.t32", "fast.t64", "fast.t128",
                             "fast.t256", "pair.t64", "pair.t128", "plain.t32"})
    f.runner.faults[config] = TrialStatus::Wrong;
  CHECK(f.prepare() == ErrorCode::NoCandidate);
  CHECK_FALSE(f.runner.requests.empty());
  // The next process knows it, and so does an engine that would take the
  // estimator's choice.
  f.runner.requests.clear();
  f.reopen();
  CHECK(f.prepare() == ErrorCode::NoCandidate);
  CHECK(f.runner.requests.empty());
  f.portfolios->store(PortfolioKey::estimated(f.range().fixedText(), f.device),
                      must(coverRange(f.range(), f.device)).toStored());
  CHECK(f.find()->portfolio.empty());
  f.options.retune = true;
  CHECK(f.prepare() == ErrorCode::NoCandidate);
  CHECK_FALSE(f.runner.requests.empty());
}

TEST_CASE("a kernel that cannot be compiled is replaced") {
  RangeFixture f;
  f.nvrtc.failWhen("fast.t256", "no");
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK_FALSE(f.has("fast.t256"));
  CHECK(f.result.failedCompiles == 1);
  CHECK(f.result.notes.size() == 1);
  CHECK_FALSE(f.chosenAt(4096).empty());
}

TEST_CASE("without trials a kernel that is refused is replaced as well") {
  RangeFixture f;
  f.withRunner = false;
  SUBCASE("by another cover") {
    f.nvrtc.failWhen("fast.t256", "no");
    REQUIRE(f.prepare() == ErrorCode::Success);
    CHECK_FALSE(f.has("fast.t256"));
    CHECK(f.result.failedCompiles == 1);
    CHECK(f.has("fast.t128"));
  }
  SUBCASE("also if it compiles and spills") {
    f.nvrtc.spillWhen("fast.t256", 24);
    REQUIRE(f.prepare() == ErrorCode::Success);
    CHECK_FALSE(f.has("fast.t256"));
  }
  SUBCASE("also if the first cover has no other members") {
    f.nvrtc.failWhen("fast.", "no");
    REQUIRE(f.prepare() == ErrorCode::Success);
    CHECK(f.result.failedCompiles > 1);
    CHECK_FALSE(f.has("fast.t16"));
  }
  CHECK(f.result.isStored);
  CHECK(f.result.portfolio.isComplete);
  CHECK(f.result.portfolio.isWhole);
  for (int64_t m : {1, 77, 1000, 4096})
    CHECK_FALSE(f.chosenAt(m).empty());
  REQUIRE(f.find());
  // The next session compiles nothing.
  const int compiles = f.nvrtc.compileCount();
  f.reopen();
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK(f.result.stop == StopReason::Recorded);
  CHECK(f.nvrtc.compileCount() == compiles);
}

TEST_CASE("what is refused of a stored estimate is replaced") {
  RangeFixture f;
  f.withRunner = false;
  REQUIRE(f.prepare() == ErrorCode::Success);
  REQUIRE(f.has("fast.t256"));
  // The artifacts are gone, and the compiler is another one.
  std::filesystem::remove_all(f.folder.path() + "/v1/artifact");
  f.reopen();
  f.nvrtc.failWhen("fast.t256", "no");
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK_FALSE(f.has("fast.t256"));
  CHECK(f.result.isStored);
  CHECK(f.find()->portfolio.isComplete);
}

TEST_CASE("where all kernels are refused there is no portfolio") {
  RangeFixture f;
  f.withRunner = false;
  for (const char *kernels : {"fast.", "pair.", "plain."})
    f.nvrtc.failWhen(kernels, "no");
  CHECK(f.prepare() == ErrorCode::CompileFailed);
  CHECK_FALSE(f.result.isStored);
  CHECK(f.cache->list(cache::Kind::Portfolio).empty());
}

TEST_CASE("whenever the time ends, what is there serves") {
  RangeFixture f;
  size_t runs = 0;
  std::atomic<bool> cancel{false};
  f.options.cancel = &cancel;
  f.runner.onRun = [&] { cancel = ++runs >= 4; };
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK(f.result.stop == StopReason::Cancelled);
  CHECK_FALSE(f.result.portfolio.isComplete);
  CHECK(f.result.portfolio.measuredMembers() > 0);
  for (int64_t m : {1, 77, 1000, 4096})
    CHECK_FALSE(f.chosenAt(m).empty());
  // The next session goes on: measurements stay.
  const size_t measured = f.result.portfolio.measuredMembers();
  cancel = false;
  f.runner.onRun = nullptr;
  SUBCASE("unless it takes what there is") {
    f.options.acceptsPartial = true;
    f.runner.requests.clear();
    REQUIRE(f.prepare() == ErrorCode::Success);
    CHECK(f.runner.requests.empty());
  }
  SUBCASE("and completes it") {
    REQUIRE(f.prepare() == ErrorCode::Success);
    CHECK(f.result.portfolio.isComplete);
    CHECK(f.result.portfolio.measuredMembers() >= measured);
  }
}

TEST_CASE("who goes on with a cover does not search it again") {
  RangeFixture f;
  std::shared_ptr<const Portfolio> cover;
  f.options.cover = &cover;
  // The search ends though the session is cancelled.
  std::atomic<bool> cancel{true};
  f.options.cancel = &cancel;
  f.prepare();
  REQUIRE(cover);
  const std::shared_ptr<const Portfolio> first = cover;
  REQUIRE(cover->members().size() > 1);
  cancel = false;
  SUBCASE("and has what it would have without") {
    REQUIRE(f.prepare() == ErrorCode::Success);
    CHECK(cover == first);
    CHECK(f.result.coverMs == 0);
    CHECK(f.result.portfolio.isComplete);
    RangeFixture other;
    REQUIRE(other.prepare() == ErrorCode::Success);
    for (int64_t m : {1, 77, 1000, 4096})
      CHECK(f.chosenAt(m) == other.chosenAt(m));
  }
  SUBCASE("but keeps what was measured") {
    size_t runs = 0;
    f.runner.onRun = [&] { cancel = ++runs >= 4; };
    REQUIRE(f.prepare() == ErrorCode::Success);
    const size_t measured = f.result.portfolio.measuredMembers();
    REQUIRE(measured > 0);
    cancel = false;
    f.runner.onRun = nullptr;
    f.runner.requests.clear();
    REQUIRE(f.prepare() == ErrorCode::Success);
    CHECK(f.result.portfolio.isComplete);
    CHECK(f.result.portfolio.measuredMembers() >= measured);
  }
  SUBCASE("unless it is of another range") {
    REQUIRE(f.prepare(std::chrono::seconds(60), 1, 100) == ErrorCode::Success);
    CHECK(cover != first);
  }
  SUBCASE("unless a member is wrong") {
    f.runner.faults[first->members().front().config.text()] =
        TrialStatus::Wrong;
    REQUIRE(f.prepare() == ErrorCode::Success);
    CHECK(f.result.rejected > 0);
    CHECK(cover != first);
    CHECK_FALSE(f.has(first->members().front().config.text()));
  }
}

TEST_CASE("the search of a cover that is kept has a flag of its own") {
  RangeFixture f;
  std::shared_ptr<const Portfolio> cover;
  std::atomic<bool> cancel{true}, cancelCover{false};
  f.options.cover = &cover;
  f.options.cancel = &cancel;
  f.options.cancelCover = &cancelCover;
  f.prepare();
  REQUIRE(cover);
  cover.reset();
  cancelCover = true;
  CHECK(f.prepare() == ErrorCode::Cancelled);
  CHECK_FALSE(cover);
}

TEST_CASE("the value that is waited for comes first") {
  RangeFixture f;
  f.options.first = {ExtentPoint{777}};
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK(f.runner.points().front() == 777);
  Space space = must(exploreSpace(f.family, *f.range().find({777}), f.device));
  CHECK(f.runner.requests.front().candidates.front().config() ==
        space.ranked.front().config.text());
}

TEST_CASE("without a runner the estimator chooses, for its product") {
  RangeFixture f;
  f.withRunner = false;
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK(f.result.origin == PortfolioOrigin::Estimated);
  CHECK(f.result.stop == StopReason::Trials);
  CHECK(f.result.isStored);
  CHECK(f.result.portfolio.measuredMembers() == 0);
  // Choices find it if there are no measurements; a measured portfolio comes
  // first.
  auto found = f.find(5, 5);
  REQUIRE(found);
  CHECK(found->portfolio.measuredMembers() == 0);
  f.withRunner = true;
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK(f.result.origin == PortfolioOrigin::Measured);
  found = f.find(5, 5);
  REQUIRE(found);
  CHECK(found->portfolio.measuredMembers() > 0);
  CHECK_FALSE(f.find(1, 5000));
}

TEST_CASE("what a limit forbids of a stored portfolio is replaced") {
  RangeFixture f;
  f.family.options.scratchPerRow = 16;
  f.family.options.needsWorkspace = "fast.t256";
  f.withRunner = false;
  REQUIRE(f.prepare() == ErrorCode::Success);
  REQUIRE(f.has("fast.t256"));
  f.options.workspaceBytes = 0;
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK_FALSE(f.has("fast.t256"));
  for (int64_t m : {1, 77, 1000, 4096})
    CHECK_FALSE(f.chosenAt(m).empty());
}

TEST_CASE("a dead device ends a session, and nothing is stored") {
  RangeFixture f;
  f.runner.error = {ErrorCode::ContextDead, "dead", 0};
  CHECK(f.prepare() == ErrorCode::ContextDead);
  CHECK(f.cache->list(cache::Kind::Portfolio).empty());
}

TEST_CASE("a runner that cannot measure leaves the estimate") {
  RangeFixture f;
  f.runner.error = {ErrorCode::DeviceOutOfMemory, "no scratch", 0};
  REQUIRE(f.prepare() == ErrorCode::Success);
  CHECK(f.result.origin == PortfolioOrigin::Estimated);
  CHECK(f.result.notes.size() == 1);
  CHECK(f.cache->list(cache::Kind::Portfolio).empty());
}

TEST_CASE("anchors lie where members compete") {
  RangeFixture f;
  Portfolio portfolio = must(coverRange(f.range(), f.device));
  std::vector<Anchor> anchors = planAnchors(portfolio, f.device, {});
  CHECK(anchors.size() > 4);
  CHECK(anchors.size() <= 32);
  for (uint32_t member = 0; member < portfolio.members().size(); ++member)
    CHECK(llvm::any_of(anchors, [&](const Anchor &anchor) {
      return llvm::is_contained(anchor.members, member);
    }));
  // With all of it measured there is nothing left to do.
  for (const Anchor &anchor : anchors)
    for (uint32_t member : anchor.members)
      portfolio.addTime(member, {anchor.point, 1000, 1000});
  CHECK(planAnchors(portfolio, f.device, {}).empty());
}

} // namespace
