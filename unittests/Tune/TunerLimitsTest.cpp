// Tuning under an allowance, and its record for callers with another.
#include "Tune/CandidateList.h"
#include "Tune/ScriptedRunner.h"

#include <llvm/ADT/STLExtras.h>

using namespace kiln;
using namespace kiln::fake;

namespace {

constexpr Allowance kLittle{.workspaceBytes = 999};

/// The fastest config needs 1000 bytes of workspace.
struct LimitFixture : TunerFixture {
  LimitFixture() {
    family.options.scratchBytes = 1000;
    family.options.needsWorkspace = "fast.t64";
    compileAll();
  }
  TuningResult tuneUnder(const Allowance &allowance) {
    options.allowance = allowance;
    runner.requests.clear();
    return must(tune());
  }
};

} // namespace

TEST_CASE("no trial goes to what the caller does not allow") {
  LimitFixture f;
  SUBCASE("at first") {
    f.options.allowance = kLittle;
    TuningResult result = must(f.tune());
    CHECK(result.candidates == 7);
    CHECK(result.choice.plan.configText() == "fast.t32");
    CHECK_FALSE(llvm::is_contained(f.runner.configs(), "fast.t64"));
  }
  SUBCASE("though others recorded it: the next best that is proven answers") {
    must(f.tune());
    const size_t requests = f.runner.requests.size();
    f.options.allowance = kLittle;
    TuningResult result = must(f.tune());
    CHECK(result.choice.origin == ChoiceOrigin::Record);
    CHECK(result.choice.plan.configText() == "fast.t32");
    CHECK(result.choice.measuredNs == 1200);
    CHECK(f.runner.requests.size() == requests);
  }
  SUBCASE("though it alone was proven: it stays the winner for the others") {
    f.options.maxTrials = 1;
    must(f.tune());
    f.options.allowance = kLittle;
    f.options.maxTrials = 12;
    CHECK(must(f.tune()).choice.plan.configText() == "fast.t32");
    CHECK(f.recordedPoint()->winner == "fast.t64");
    CHECK(f.recordedPoint()->find("fast.t32")->validated);
    f.options.allowance = {};
    CHECK(must(f.tune()).choice.plan.configText() == "fast.t64");
  }
}

TEST_CASE("what a limit left out is tried by who allows it") {
  LimitFixture f;
  f.tuneUnder(kLittle);
  CHECK(f.recordedPoint()->leftOutBytes == 1000);
  // Less, and more that adds nothing.
  for (uint64_t bytes : {1, 999})
    CHECK(f.tuneUnder({bytes}).stop == StopReason::Recorded);
  // Without trials the record answers as it is.
  f.options.allowance = {};
  TuningResult known =
      must(f.tuner(false).tune(f.family, f.problem, f.options));
  CHECK(known.choice.origin == ChoiceOrigin::Record);
  CHECK(known.choice.plan.configText() == "fast.t32");
  TuningResult result = f.tuneUnder({1000});
  CHECK(f.runner.configs().front() == "fast.t32");
  CHECK(result.choice.plan.configText() == "fast.t64");
  CHECK(f.recordedPoint()->winner == "fast.t64");
  CHECK(f.recordedPoint()->leftOutBytes == Allowance::kUnlimited);
  CHECK(f.tuneUnder({}).stop == StopReason::Recorded);
}

TEST_CASE("what the largest problem left out is tried by who serves less") {
  LimitFixture f;
  f.family.options.scratchBytes = 0;
  f.family.options.scratchPerRow = 10;
  f.runner.scripts["fast.t32"].ns = 1150;
  const Problem largest = makeProblem(f.family, "fake m=128 n=64");
  const Allowance ofRange{.workspaceBytes = 1000, .largest = &largest};
  CHECK(f.tuneUnder(ofRange).choice.plan.configText() == "fast.t32");
  CHECK(f.recordedPoint()->leftOutBytes == 640);
  CHECK(f.tuneUnder(ofRange).stop == StopReason::Recorded);
  CHECK(f.tuneUnder({1000}).choice.plan.configText() == "fast.t64");
  CHECK(f.tuneUnder(ofRange).choice.plan.configText() == "fast.t32");
  CHECK(f.recordedPoint()->winner == "fast.t64");
}

TEST_CASE("tuning again under a limit leaves others their winner") {
  LimitFixture f;
  f.tuneUnder({});
  f.options.retune = true;
  f.runner.scripts["fast.t32"].ns = 1100;
  CHECK(f.tuneUnder(kLittle).choice.plan.configText() == "fast.t32");
  CHECK(f.recordedPoint()->winner == "fast.t64");
  CHECK(f.recordedPoint()->generation == 0);
  CHECK(f.recordedPoint()->leftOutBytes == Allowance::kUnlimited);
  CHECK(f.recordedPoint()->find("fast.t32")->medianNs == 1100);
  SUBCASE("but not one of another kernel") {
    f.family.options.comment = "another text";
    f.compileAll();
    f.tuneUnder(kLittle);
    CHECK(f.recordedPoint()->winner == "fast.t32");
    CHECK(f.recordedPoint()->generation == 1);
  }
}

TEST_CASE("S3: trials go on three times at most where the winner is others'") {
  LimitFixture f;
  f.tuneUnder({});
  RecordPoint point = *f.recordedPoint();
  point.truncated = 1;
  point.generation = 1;
  f.records()->store(f.family, f.problem, deviceClassKey(f.device), point);
  SUBCASE("they ended") {}
  SUBCASE("they were truncated again") {
    f.runner.scripts["fast.t16"].status = TrialStatus::NotTried;
  }
  f.options.top = 8;
  f.runner.scripts["plain.t32"].ns = 1300; // of 20000; rules nothing out
  for (int64_t session = 2; session <= kMaxTruncated; ++session) {
    CHECK(f.tuneUnder(kLittle).stop != StopReason::Recorded);
    CHECK(f.recordedPoint()->truncated == session);
    CHECK(f.recordedPoint()->generation == 1);
    CHECK(f.recordedPoint()->winner == "fast.t64");
  }
  CHECK(f.tuneUnder(kLittle).stop == StopReason::Recorded);
}

TEST_CASE("a config is found by any text of it") {
  LimitFixture f;
  const TuningContext context{f.device, *f.artifacts, *f.records(), &f.runner,
                              deviceClassKey(f.device)};
  const TuningTask task{context, f.family, f.problem, f.options, {}};
  CandidateList list(task);
  must(list.explore());
  const size_t count = list.entries().size();
  TuningCandidate *found = list.findOrAdd("fast.t32.s1");
  REQUIRE(found);
  CHECK(found->config == "fast.t32");
  CHECK(list.entries().size() == count);
}
