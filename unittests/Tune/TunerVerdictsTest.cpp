// Wrong results in tuning, and the verdicts that outlive it.
#include "Tune/Tuner.h"

#include "Tune/ScriptedRunner.h"

#include <llvm/ADT/STLExtras.h>

#include <limits>

using namespace kiln;
using namespace kiln::fake;

namespace {

using Configs = std::vector<std::string>;

TEST_CASE("S5: when every candidate is wrong there is no choice, for good") {
  TunerFixture f;
  f.runner.anyScript = failing(TrialStatus::Wrong);
  auto result = f.tune();
  CHECK(codeOf(result) == ErrorCode::NoCandidate);
  CHECK(f.runner.configs().size() == 8);
  std::optional<RecordPoint> point = f.recordedPoint();
  REQUIRE(point);
  CHECK(point->winner.empty());
  CHECK(point->measurements.size() == 8);
  f.runner.requests.clear();
  SUBCASE("the next process does not start over") {
    f.reopen();
    auto again = f.tune();
    CHECK(codeOf(again) == ErrorCode::NoCandidate);
    auto unmeasured = f.tuner(false).tune(f.family, f.problem, f.options);
    CHECK(codeOf(unmeasured) == ErrorCode::NoCandidate);
    CHECK(f.runner.requests.empty());
  }
  SUBCASE("unless it is told to") {
    f.options.retune = true;
    f.runner.anyScript.reset();
    CHECK(must(f.tune()).choice.plan.configText() == "fast.t64");
    CHECK(f.recordedPoint()->winner == "fast.t64");
  }
  SUBCASE("or its kernels are others") {
    f.family.options.comment = "mended";
    f.runner.anyScript.reset();
    CHECK(must(f.tune()).choice.plan.configText() == "fast.t64");
  }
}

TEST_CASE("S5: after wrong results nothing untried is taken") {
  TunerFixture f;
  f.compileAll();
  f.options.top = 1;
  f.options.maxTrials = 1;
  f.runner.scripts["fast.t64"] = failing(TrialStatus::Wrong);
  SUBCASE("where the generic one is wrong") {
    f.runner.scripts["plain.t32"] = failing(TrialStatus::NotWritten);
    auto result = f.tune();
    CHECK(codeOf(result) == ErrorCode::NoCandidate);
    CHECK(f.runner.configs() == Configs{"fast.t64", "plain.t32"});
    CHECK(f.recordedPoint()->measurements.size() == 2);
  }
  SUBCASE("where the generic one cannot be told") {
    f.runner.scripts["plain.t32"] = failing(TrialStatus::Timeout);
    auto result = f.tune();
    CHECK(codeOf(result) == ErrorCode::NoCandidate);
  }
  SUBCASE("and the generic one is tried although the budget is spent") {
    f.options.budget = std::chrono::milliseconds(50);
    f.runner.delay = std::chrono::milliseconds(60);
    TuningResult result = must(f.tune());
    CHECK(result.choice.plan.configText() == "plain.t32");
    CHECK(result.choice.validated);
  }
  SUBCASE("and the generic one is tried where it was one of the top") {
    f.options.top = 3;
    f.runner.scripts["pair.t64"] = failing(TrialStatus::Wrong);
    TuningResult result = must(f.tune());
    CHECK(result.choice.plan.configText() == "plain.t32");
    CHECK(f.runner.configs() == Configs{"fast.t64", "plain.t32"});
  }
}

TEST_CASE("S5: the generic kernels are tried where nothing else is proven") {
  TunerFixture f;
  f.compileAll();
  f.options.top = 2;
  f.options.maxTrials = 2;
  f.options.budget = std::chrono::milliseconds(100);
  f.runner.scripts["fast.t64"] = failing(TrialStatus::Wrong);
  // Timed, and never compared.
  f.runner.scripts["pair.t64"] = {.comparison = std::chrono::hours(1)};
  TuningResult result = must(f.tune());
  CHECK(result.choice.plan.configText() == "plain.t32");
  CHECK(result.choice.validated);
  CHECK(f.recordedPoint()->winner == "plain.t32");
  CHECK_FALSE(f.recordedPoint()->find("pair.t64")->validated);
}

TEST_CASE("S5: a generic kernel is tried however long it compiles") {
  TunerFixture f;
  must(f.artifacts->get(f.unit("fast.t64")));
  f.options.top = 1;
  f.options.maxTrials = 1;
  f.options.budget = std::chrono::milliseconds(100);
  f.runner.scripts["fast.t64"] = failing(TrialStatus::Wrong);
  f.nvrtc.delayWhen("// plain.t32", 800);
  TuningResult result = must(f.tune());
  CHECK(result.choice.plan.configText() == "plain.t32");
  CHECK(result.choice.validated);
}

TEST_CASE("S5: where none is known to be right nothing untried is taken") {
  TunerFixture f;
  f.compileAll();
  f.options.top = 1;
  f.options.maxTrials = 1;
  f.runner.scripts["fast.t64"] = failing(TrialStatus::Wrong);
  f.runner.scripts["plain.t32"] = failing(TrialStatus::Timeout);
  auto result = f.tune();
  CHECK(codeOf(result) == ErrorCode::NoCandidate);
  const size_t known = f.recordedPoint()->measurements.size();
  f.reopen();
  f.options.top = 24;
  SUBCASE("without a runner") {
    result = f.tuner(false).tune(f.family, f.problem, f.options);
  }
  SUBCASE("by a runner that fails") {
    f.runner.error = {ErrorCode::InProgress, "an earlier trial still runs"};
    result = f.tune();
  }
  SUBCASE("nor what was only timed") {
    f.runner.scripts.clear();
    f.runner.anyScript =
        ScriptedRunner::Script{.comparison = std::chrono::hours(1)};
    result = f.tune();
  }
  CHECK(codeOf(result) == ErrorCode::NoCandidate);
  CHECK(f.recordedPoint()->measurements.size() == known);
}

TEST_CASE("S13: a first proof waits for a slow reference, and for one alone") {
  TunerFixture f;
  f.compileAll();
  f.options.budget = std::chrono::milliseconds(200);
  f.runner.anyScript = ScriptedRunner::Script{};
  auto comparisons = [&] {
    return llvm::count_if(f.runner.requests, [](const TrialRequest &request) {
      return !request.options.measure;
    });
  };
  SUBCASE("that ends") {
    f.runner.anyScript->comparison = std::chrono::seconds(5);
    CHECK(must(f.tune()).choice.validated);
    // It waits for it in the batch, because a comparison after a deadline may
    // be lost.
    CHECK(f.runner.requests.front().options.extraTime.count() > 0);
    CHECK(f.runner.requests.back().options.extraTime.count() == 0);
    CHECK(f.recordedPoint()->winner == "fast.t64");
    CHECK(must(f.tune()).stop == StopReason::Recorded);
  }
  SUBCASE("that would not end") {
    f.runner.anyScript->comparison = std::chrono::minutes(1);
    TuningResult result = must(f.tune());
    CHECK(result.choice.origin == ChoiceOrigin::Measured);
    CHECK_FALSE(result.choice.validated);
    CHECK(comparisons() == 1);
    CHECK_FALSE(f.recordedPoint());
  }
}

/// A session that ends with a winner of its first batch, and kept trials from
/// running.
struct TruncatedFixture : TunerFixture {
  TruncatedFixture() {
    compileAll();
    runner.scripts["fast.t256"].ns = 500;  // in the second batch
    runner.scripts["plain.t32"].ns = 1100; // of 20000; rules nothing out
  }
  /// Fails every request behind the first.
  void failLater() {
    runner.onRun = [this] {
      if (runner.requests.size() > 1)
        runner.error = {ErrorCode::InProgress, "a trial still runs"};
    };
  }
  /// As the next process.
  TuningResult tuneAgain() {
    runner.requests.clear();
    runner.error = {};
    reopen();
    return must(tune());
  }
};

TEST_CASE("S3: what was kept from being tried is tried by the next process") {
  TruncatedFixture f;
  SUBCASE("because the runner failed") { f.failLater(); }
  SUBCASE("because of what concerns no config") {
    f.runner.scripts["fast.t256"] = failing(TrialStatus::NotTried);
  }
  SUBCASE("because of a late launch") {
    f.runner.scripts["fast.t256"] = failing(TrialStatus::Late);
  }
  CHECK(must(f.tune()).choice.plan.configText() == "fast.t64");
  CHECK(f.recordedPoint()->isIncomplete());
  // A tuner without trials takes the record.
  TuningResult known =
      must(f.tuner(false).tune(f.family, f.problem, f.options));
  CHECK(known.choice.origin == ChoiceOrigin::Record);
  CHECK(known.choice.plan.configText() == "fast.t64");
  f.runner.onRun = nullptr;
  f.runner.scripts["fast.t256"] = {.ns = 500};
  TuningResult result = f.tuneAgain();
  CHECK(f.runner.configs().front() == "fast.t64");
  CHECK(result.choice.plan.configText() == "fast.t256");
  CHECK(f.recordedPoint()->winner == "fast.t256");
  CHECK_FALSE(f.recordedPoint()->isIncomplete());
  CHECK(f.tuneAgain().stop == StopReason::Recorded);
}

TEST_CASE("S3: trials that are truncated again leave the record's answer") {
  TruncatedFixture f;
  f.failLater();
  must(f.tune());
  SUBCASE("before anything was measured") {
    f.runner.onRun = [&] {
      f.runner.error = {ErrorCode::InProgress, "a trial still runs"};
    };
    TuningResult result = f.tuneAgain();
    CHECK(result.choice.origin == ChoiceOrigin::Record);
    CHECK(result.choice.validated);
    CHECK(result.choice.plan.configText() == "fast.t64");
    CHECK(f.runner.requests.size() == 1);
  }
  SUBCASE("and after a few times that is final") {
    for (int64_t session = 2; session <= kMaxTruncated; ++session) {
      CHECK(f.tuneAgain().choice.plan.configText() == "fast.t64");
      CHECK(f.recordedPoint()->truncated == session);
      CHECK(f.recordedPoint()->generation == 0);
    }
    CHECK(f.tuneAgain().stop == StopReason::Recorded);
  }
}

TEST_CASE("S3: a budget that is spent truncates nothing") {
  TruncatedFixture f;
  f.options.budget = std::chrono::milliseconds(100);
  f.runner.delay = std::chrono::milliseconds(30);
  TuningResult result = must(f.tune());
  CHECK(result.stop == StopReason::Budget);
  CHECK(f.recordedPoint()->winner == "fast.t64");
  CHECK(f.recordedPoint()->truncated == 0);
  CHECK(f.tuneAgain().stop == StopReason::Recorded);
}

TEST_CASE("F3: a generation ends where JSON's numbers do") {
  TunerFixture f;
  f.compileAll();
  RecordPoint point;
  point.extents = {64};
  point.generation = kMaxGeneration;
  f.records()->store(f.family, f.problem, deviceClassKey(f.device), point);
  f.options.retune = true;
  must(f.tune());
  CHECK(f.recordedPoint()->generation == kMaxGeneration);
}

TEST_CASE("S6: what is not far behind the best is proven for neighbours") {
  TunerFixture f;
  f.compileAll();
  f.runner.scripts["fast.t32"].ns = 1150;
  TuningResult result;
  SUBCASE("right") { result = must(f.tune()); }
  SUBCASE("wrong") {
    f.runner.scripts["fast.t32"].status = TrialStatus::Wrong;
    f.runner.scripts["fast.t32"].slowToFail = true;
    result = must(f.tune());
    CHECK(result.rejected == 1);
  }
  CHECK(result.choice.plan.configText() == "fast.t64");
  std::optional<RecordPoint> point = f.recordedPoint();
  REQUIRE(point);
  const Measurement *near = point->find("fast.t32");
  REQUIRE(near);
  CHECK(near->validated == (result.rejected == 0));
  CHECK(near->valid == near->validated);
  // 3000 ns: no neighbour will want it.
  CHECK(point->find("pair.t64")->valid);
  CHECK_FALSE(point->find("pair.t64")->validated);
}

TEST_CASE("S6: a record whose winner was never compared does not answer") {
  TunerFixture f;
  f.compileAll();
  RecordPoint point;
  point.extents = {64};
  point.winner = "fast.t256";
  Measurement timed;
  timed.config = "fast.t256";
  timed.medianNs = timed.ciLowNs = timed.ciHighNs = 10;
  timed.kernel = f.unit("fast.t256").digest().hex();
  point.measurements.push_back(timed);
  f.records()->store(f.family, f.problem, deviceClassKey(f.device), point);
  TuningResult result = must(f.tune());
  CHECK(result.choice.origin == ChoiceOrigin::Measured);
  CHECK(result.choice.plan.configText() == "fast.t64");
  CHECK(f.recordedPoint()->winner == "fast.t64");
}

TEST_CASE("F6: a measurement from the future is healed by tuning again") {
  TunerFixture f;
  f.compileAll();
  RecordPoint point;
  point.extents = {64};
  point.winner = "fast.t64";
  Measurement future;
  future.config = "fast.t64";
  future.validated = true;
  future.medianNs = future.ciLowNs = future.ciHighNs = 10;
  future.kernel = "of another version";
  future.measuredAtMs = std::numeric_limits<int64_t>::max();
  point.measurements.push_back(future);
  f.records()->store(f.family, f.problem, deviceClassKey(f.device), point);
  must(f.tune());
  CHECK(f.recordedPoint()->find("fast.t64")->medianNs == 1000);
  // The next one is answered.
  CHECK(must(f.tune()).stop == StopReason::Recorded);
}

TEST_CASE("S3: a recorded error of the driver bars no config") {
  TunerFixture f;
  f.compileAll();
  RecordPoint point;
  point.extents = {64};
  Measurement failed;
  failed.config = "fast.t64";
  failed.valid = false;
  failed.reason = "launch-failed: x: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
  failed.kernel = f.unit("fast.t64").digest().hex();
  point.measurements.push_back(failed);
  f.records()->store(f.family, f.problem, deviceClassKey(f.device), point);
  CHECK(must(f.tune()).choice.plan.configText() == "fast.t64");
}

TEST_CASE("a kernel that a record calls wrong is not taken unmeasured") {
  TunerFixture f;
  f.runner.scripts["fast.t64"] = failing(TrialStatus::Wrong);
  must(f.tune());
  TuningResult result = must(f.tuner(false).tune(
      f.family, makeProblem(f.family, "fake m=128 n=64"), f.options));
  CHECK(result.choice.origin == ChoiceOrigin::Estimated);
  CHECK(result.choice.plan.configText() == "fast.t32");
}

} // namespace
