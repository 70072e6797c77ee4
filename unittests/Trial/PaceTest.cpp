// Trials that leave the device to others: work in pieces, none of them long.
#include "Trial/InProcessTrials.h"

#include "Store/LoadedPlan.h"
#include "Trial/TrialsFixture.h"

#include <algorithm>
#include <chrono>

using namespace kiln;
using namespace kiln::fake;

namespace {
/// Lets so many pieces begin.
struct CountingPace final : TrialPace {
  bool begin() override {
    CHECK(open == 0);
    if (begun == most)
      return false;
    ++begun;
    ++open;
    return true;
  }
  void end(Clock::duration time) override {
    CHECK(time >= Clock::duration::zero());
    --open;
  }
  void awaitLoad() override { ++loads; }
  Clock::duration waited() const override { return std::chrono::hours(9); }

  int begun = 0, open = 0, loads = 0, most = 1 << 30;
};

/// Keeps what the longest piece had of the device, by the clock of the
/// stand-in, and how many slabs of the reference one had at most.
struct MeasuringPace final : TrialPace {
  explicit MeasuringPace(const FakeTrials &trials) : trials(trials) {}

  bool begin() override {
    startNs = kilnFakeClockNs();
    before = trials.references;
    return true;
  }
  void end(Clock::duration) override {
    longestNs = std::max(longestNs, kilnFakeClockNs() - startNs);
    slabs = std::max(slabs, trials.references - before);
  }
  void awaitLoad() override {}
  Clock::duration waited() const override { return {}; }

  const FakeTrials &trials;
  double startNs = 0, longestNs = 0;
  int before = 0, slabs = 0;
};
} // namespace

TEST_CASE("with a pace work comes in pieces, and is as good") {
  TrialsFixture f;
  CountingPace pace;
  KernelLoader loader(*f.driver);
  f.runnerOptions.pace = &pace;
  f.runnerOptions.loader = &loader;
  f.trials.durations = {{"fast.t64", 3e3}, {"pair.t64", 2e3}};
  const uint64_t frees = calls("cuMemFree");
  auto results = f.run(f.request({"fast.t64", "pair.t64"}));
  for (const TrialResult &result : results) {
    CAPTURE(result.message);
    CHECK(result.status == TrialStatus::Ok);
    CHECK(result.validated);
    CHECK(result.samples >= 3);
  }
  CHECK(results[0].medianNs == doctest::Approx(3e3));
  CHECK(pace.begun > 10);
  CHECK(pace.open == 0);
  CHECK(pace.loads > 0);
  CHECK(calls("cuStreamCreateWithPriority") == 1);
  // Nothing of it waits for the device: neither memory nor code.
  results.clear();
  f.runner().releaseScratch();
  CHECK(calls("cuMemFree") == frees);
  CHECK(calls("cuModuleUnload") == 0);
  f.made.reset();
}

TEST_CASE("a pace ends trials wherever they are") {
  for (int most = 0; most < 40; ++most) {
    CAPTURE(most);
    TrialsFixture f;
    CountingPace pace;
    pace.most = most;
    f.runnerOptions.pace = &pace;
    auto results = f.runner().run(f.request({"fast.t64", "pair.t64"}));
    CHECK(pace.open == 0);
    if (!results) {
      CHECK(summarize(results.takeError()).code == ErrorCode::Cancelled);
    } else {
      for (const TrialResult &result : *results) {
        const bool isFault = result.status != TrialStatus::Ok &&
                             result.status != TrialStatus::NotTried &&
                             result.status != TrialStatus::Timeout;
        CHECK_FALSE(isFault);
      }
    }
    // And they go on afterwards.
    pace.most = 1 << 30;
    for (const TrialResult &result : f.run(f.request({"fast.t64", "pair.t64"})))
      CHECK(result.validated);
  }
}

TEST_CASE("a piece holds no more than some milliseconds or one launch") {
  constexpr double kMostNs = 2e6; // kMostOfPiece
  TrialsFixture f;
  MeasuringPace pace(f.trials);
  f.runnerOptions.pace = &pace;
  f.options->flops = 2e13; // a second of the reference
  SUBCASE("of short kernels") {
    f.trials.durations = {{"fast.t64", 20e3}, {"fast.t32", 90e3}};
    f.run(f.request({"fast.t64", "fast.t32"}, "fake m=640 n=8"));
    CHECK(pace.longestNs > 0.2e6);
    CHECK(pace.longestNs <= kMostNs);
  }
  SUBCASE("of kernels that are longer") {
    f.trials.durations = {{"fast.t64", 7e6}, {"fast.t32", 5e6}};
    f.run(f.request({"fast.t64", "fast.t32"}, "fake m=640 n=8"));
    CHECK(pace.longestNs >= 7e6);
    CHECK(pace.longestNs <= 7e6 + 0.5e6);
  }
  CHECK(f.trials.references >= 10);
  CHECK(pace.slabs == 1);
}
