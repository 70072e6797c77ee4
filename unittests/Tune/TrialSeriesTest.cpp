#include "Tune/TrialSeries.h"

#include "Tune/ScriptedRunner.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

/// A series whose first batch measured fast.t64, the reference, and fast.t32.
struct SeriesFixture : TunerFixture {
  explicit SeriesFixture(SeriesOptions options = {})
      : series(&runner, family, problem, options) {
    compileAll();
    Space space = must(exploreSpace(family, problem, device));
    for (size_t i = 0; i < space.ranked.size(); ++i) {
      entries.push_back(std::make_unique<TuningCandidate>(space.ranked[i],
                                                          static_cast<int>(i)));
      entries.back()->makePlan(problem, device);
      entries.back()->request(*artifacts, compile_priority::kNow);
      REQUIRE(entries.back()->wait(nullptr));
    }
    must(series.runBatch({&at("fast.t64"), &at("fast.t32")}, {}));
    REQUIRE(series.reference() == &at("fast.t64"));
  }
  TuningCandidate &at(llvm::StringRef config) {
    for (auto &entry : entries)
      if (entry->config == config)
        return *entry;
    FAIL("no such config");
    return *entries.front();
  }
  void fail(const char *config, TrialStatus status) {
    runner.scripts[config].status = status;
  }
  Playoff playOff(PlayoffScale scale) {
    return must(series.playOff({&at("fast.t64"), &at("fast.t32")}, {}, scale));
  }

  std::vector<std::unique_ptr<TuningCandidate>> entries;
  TrialSeries series;
};

} // namespace

TEST_CASE("a carried config that is late keeps its time, or loses it") {
  for (bool dropsLate : {false, true}) {
    SeriesFixture f({.dropsLate = dropsLate});
    f.fail("fast.t64", TrialStatus::Timeout);
    must(f.series.runBatch({&f.at("fast.t128")}, {}));
    CHECK(f.at("fast.t64").isMeasured() == !dropsLate);
    // Without a scale the batch has to run again, beside the next fastest.
    CHECK(f.at("fast.t128").isOpen() == dropsLate);
    CHECK(f.series.reference() == &f.at(dropsLate ? "fast.t32" : "fast.t64"));
    must(f.series.runBatch({&f.at("fast.t16")}, {}));
    CHECK(f.at("fast.t16").isMeasured());
    CHECK(f.series.tried().size() == (dropsLate ? 3 : 4));
  }
}

TEST_CASE("what was proven is compared again only where it is not trusted") {
  for (bool trustsProofs : {false, true}) {
    SeriesFixture f({.trustsProofs = trustsProofs});
    CHECK(f.at("fast.t64").isProven());
    must(f.series.runBatch({&f.at("fast.t128")}, {}));
    CHECK(f.runner.requests.back().candidates[0].isProven == trustsProofs);
  }
}

TEST_CASE("a playoff keeps the place of all, or that of the reference") {
  // Faster now by a tenth, and fast.t32 by as much again.
  for (PlayoffScale scale : {PlayoffScale::Together, PlayoffScale::Reference}) {
    SeriesFixture f;
    f.runner.scripts["fast.t64"].ns = 900;
    f.runner.scripts["fast.t32"].ns = 1200 * 0.81;
    CHECK(f.playOff(scale).timed.size() == 2);
    const double slow = f.at("fast.t32").trial.medianNs;
    const double fast = f.at("fast.t64").trial.medianNs;
    CHECK(slow / fast == doctest::Approx(1200 * 0.81 / 900));
    if (scale == PlayoffScale::Reference)
      CHECK(fast == doctest::Approx(1000));
    else
      CHECK(slow * fast == doctest::Approx(1000 * 1200.0));
  }
}

TEST_CASE("a playoff without all its times") {
  SeriesFixture f;
  SUBCASE("one is late") {
    f.fail("fast.t32", TrialStatus::Timeout);
    CHECK(f.playOff(PlayoffScale::Together).timed.empty());
    Playoff playoff = f.playOff(PlayoffScale::Reference);
    CHECK(playoff.timed.size() == 1);
    CHECK(playoff.isLate);
    CHECK(f.at("fast.t32").trial.medianNs == 1200);
  }
  SUBCASE("one has few samples") {
    f.runner.scripts["fast.t32"].samples = TrialOptions().minSamples - 1;
    CHECK(f.playOff(PlayoffScale::Together).timed.empty());
    CHECK(f.playOff(PlayoffScale::Reference).timed.size() == 2);
  }
  SUBCASE("one is faulty") {
    f.fail("fast.t32", TrialStatus::LaunchFailed);
    Playoff playoff = f.playOff(PlayoffScale::Together);
    CHECK(playoff.hasLost);
    CHECK(playoff.timed.size() == 1);
    CHECK_FALSE(f.at("fast.t32").isMeasured());
    CHECK(f.playOff(PlayoffScale::Reference).timed.empty());
  }
  SUBCASE("the reference is faulty") {
    f.fail("fast.t64", TrialStatus::LaunchFailed);
    CHECK(f.playOff(PlayoffScale::Reference).hasLost);
    CHECK(f.series.reference() == &f.at("fast.t32"));
  }
}

TEST_CASE("a failure that concerns no candidate ends a series") {
  SeriesFixture f;
  f.runner.error = {ErrorCode::DeviceOutOfMemory, "no room"};
  must(f.series.runBatch({&f.at("fast.t128")}, {}));
  CHECK_FALSE(f.series.mayRun());
  CHECK(f.series.failure().message == "no room");
  CHECK(f.at("fast.t128").isOpen());
  CHECK(f.series.best() == &f.at("fast.t64"));
}
