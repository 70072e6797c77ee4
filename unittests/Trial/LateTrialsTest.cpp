// Work of trials that takes long: launches that do not end in time, and
// references that take longer than there is time.
#include "Trial/InProcessTrials.h"

#include "Trial/TrialsFixture.h"

#include <cuda.h>

#include <atomic>
#include <string>
#include <thread>

using namespace kiln;
using namespace kiln::fake;

namespace {
/// Trials in which a launch counts as late at once, and what would wait for it
/// fails instead.
struct LateFixture : TrialsFixture {
  LateFixture() {
    runnerOptions.hangLimit = std::chrono::milliseconds(5);
    kilnFakeSetBlockLimit(1);
  }

  /// A request of one config whose launch has not ended when this returns.
  TrialRequest runLate() {
    TrialRequest late = request({"fast.t64"});
    kilnFakeHoldWork("// fast.t64");
    CHECK(run(late)[0].status == TrialStatus::Late);
    return late;
  }
};
} // namespace

TEST_CASE(
    "S13: a late launch ends the trials of its problem, not the context") {
  LateFixture f;
  TrialRequest request = f.request({"fast.t64", "fast.t32"});
  f.run(request);
  const uint64_t memory = kilnFakeBytesInUse(), frees = calls("cuMemFree"),
                 unloads = calls("cuModuleUnload");
  kilnFakeHoldWork("// fast.t64");
  auto results = f.run(request);
  CHECK(results[0].status == TrialStatus::Late);
  CHECK(results[1].status == TrialStatus::NotTried);
  for (const TrialResult &result : results)
    CHECK_FALSE(isConfigFault(result.status));
  CHECK(f.runner().isAlive());
  CHECK(f.runner().isBusy());
  // Memory that it may use stays, and nothing waits for it.
  f.runner().releaseScratch();
  CHECK(codeOf(f.runner().run(request)) == ErrorCode::InProgress);
  CHECK(kilnFakeBytesInUse() == memory);
  CHECK(calls("cuMemFree") == frees);
  CHECK(calls("cuModuleUnload") == unloads);
  CHECK(kilnFakeBlockedCalls() == 0);
  // Trials begin again when it has ended.
  kilnFakeReleaseWork();
  results = f.run(request);
  CHECK(results[0].status == TrialStatus::Ok);
  CHECK(results[1].validated);
  CHECK_FALSE(f.runner().isBusy());
  f.made.reset();
  results.clear();
  CHECK(kilnFakeBytesInUse() == 0);
  CHECK(kilnFakeModulesLoaded() == 0);
  CHECK(kilnFakeBlockedCalls() == 0);
}

TEST_CASE("S13: dropping a result does not wait for a late launch") {
  LateFixture f;
  auto results = f.run(f.request({"fast.t32"}));
  REQUIRE(results[0].loaded);
  TrialRequest request = f.runLate();
  const uint64_t unloads = calls("cuModuleUnload");
  results.clear();
  CHECK(calls("cuModuleUnload") == unloads);
  SUBCASE("and its code goes when that has ended") {
    kilnFakeReleaseWork();
    CHECK_FALSE(f.runner().isBusy());
    CHECK(calls("cuModuleUnload") > unloads);
  }
  SUBCASE("nor when the trials have gone") {
    f.made.reset();
    CHECK(calls("cuModuleUnload") == unloads);
    kilnFakeReleaseWork();
  }
  CHECK(kilnFakeBlockedCalls() == 0);
}

TEST_CASE("S13: trials that are late end without waiting") {
  LateFixture f;
  TrialRequest request = f.runLate();
  const uint64_t memory = kilnFakeBytesInUse();
  f.made.reset();
  CHECK(kilnFakeBlockedCalls() == 0);
  CHECK(kilnFakeBytesInUse() == memory);
  kilnFakeReleaseWork(); // writes to what is still there
}

TEST_CASE(
    "S13: the reference is cut by its work, and its slabs heed the deadline") {
  TrialsFixture f;
  TrialRequest request = f.request({"fast.t64", "fast.t32"}, "fake m=640 n=8");
  request.options.measure = false;
  // About a second of the reference at the H200's rate: 64 rows at least.
  f.options->flops = 2e13;
  for (const TrialResult &result : f.run(request))
    CHECK(result.status == TrialStatus::Ok);
  CHECK(f.trials.references >= 8); // once for both
  CHECK(f.trials.references <= 10);

  TrialsFixture late; // computes all of it for each, as far as time goes
  late.options->flops = 2e13;
  late.runnerOptions.scratchBytes = 150 << 10;
  request = late.request({"fast.t64", "fast.t32"}, "fake m=640 n=8");
  request.options.measure = false;
  request.options.timeLimit = std::chrono::milliseconds(300);
  kilnFakeOnStep(
      [](const KilnFakeStep *step, void *) {
        if (std::string(step->function) == "kilnCompareTolerance")
          std::this_thread::sleep_for(std::chrono::milliseconds(301));
      },
      nullptr);
  auto results = late.run(request);
  CHECK(results[0].status == TrialStatus::Timeout);
  CHECK(results[0].message.find("not validated") != std::string::npos);
  CHECK(late.trials.references <= 1);
}

TEST_CASE("S13: what a late launch held is freed once it has ended") {
  LateFixture f;
  TrialRequest request = f.runLate();
  f.runner().releaseScratch();
  CHECK(kilnFakeBytesInUse() > 0);
  kilnFakeReleaseWork();
  f.runner().releaseScratch();
  CHECK(kilnFakeBytesInUse() == 0);
  CHECK(kilnFakeBlockedCalls() == 0);
}

TEST_CASE("S13: a context that dies under a late launch is told as dead") {
  LateFixture f;
  TrialRequest request = f.runLate();
  kilnFakeKillContext(CUDA_ERROR_ILLEGAL_ADDRESS);
  SUBCASE("to the next request, in the driver's words") {
    auto results = f.runner().run(request);
    REQUIRE_FALSE(results);
    ErrorSummary error = summarize(results.takeError());
    CHECK(error.code == ErrorCode::ContextDead);
    CHECK(error.driverCode == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(error.message.find("CUDA_ERROR_ILLEGAL_ADDRESS") !=
          std::string::npos);
  }
  SUBCASE("to who asks for it") {
    CHECK_FALSE(f.runner().isBusy());
    CHECK(codeOf(f.runner().run(request)) == ErrorCode::ContextDead);
  }
  CHECK_FALSE(f.runner().isAlive());
}

/// About a second of the reference at the H200's rate, in ten slabs of 64 rows,
/// of which each takes 20 ms.
struct SlowReferenceFixture : TrialsFixture {
  SlowReferenceFixture() {
    options->flops = 2e13;
    trials.onReference = [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
    slow = request({"fast.t64", "fast.t32"}, "fake m=640 n=8");
    slow.options.measure = false;
    slow.options.timeLimit = std::chrono::milliseconds(30);
  }
  TrialRequest slow;
};

TEST_CASE("S13: a reference that is kept goes on where it was left") {
  SlowReferenceFixture f;
  TrialStatus status = TrialStatus::Timeout;
  int requests = 0;
  for (; status == TrialStatus::Timeout && requests < 100; ++requests)
    status = f.run(f.slow)[0].status;
  CHECK(status == TrialStatus::Ok);
  CHECK(requests > 1);
  CHECK(f.trials.references == 10);
  CHECK(f.run(f.slow)[1].status == TrialStatus::Ok);
  CHECK(f.trials.references == 10);
}

TEST_CASE("S13: a comparison waits for its reference as long as it may") {
  SlowReferenceFixture f;
  // The reference is not kept: none of it serves a later request.
  f.runnerOptions.scratchBytes = 150 << 10;
  CHECK(f.run(f.slow)[0].status == TrialStatus::Timeout);
  SUBCASE("to the end, if that is in time") {
    f.slow.options.extraTime = std::chrono::milliseconds(10000);
    CHECK(f.run(f.slow)[0].status == TrialStatus::Ok);
  }
  SUBCASE("also where its time is over when it begins") {
    f.slow.options.timeLimit = std::chrono::milliseconds(-1);
    f.slow.options.extraTime = std::chrono::milliseconds(10000);
    CHECK(f.run(f.slow)[0].status == TrialStatus::Ok);
  }
  SUBCASE("and not at all, if it is not") {
    f.slow.options.timeLimit = std::chrono::milliseconds(1);
    f.slow.options.extraTime = std::chrono::milliseconds(100);
    const int before = f.trials.references;
    CHECK(f.run(f.slow)[0].status == TrialStatus::Timeout);
    CHECK(f.trials.references - before <= 2);
  }
  SUBCASE("nor beyond the limit of a hang") {
    f.made.reset();
    f.runnerOptions.hangLimit = std::chrono::milliseconds(100);
    f.slow.options.timeLimit = std::chrono::milliseconds(1);
    f.slow.options.extraTime = std::chrono::milliseconds(10000);
    CHECK(f.run(f.slow)[0].status == TrialStatus::Timeout);
  }
}

TEST_CASE(
    "S13: a comparison that is cancelled does not wait for its reference") {
  SlowReferenceFixture f;
  for (uint64_t scratchBytes : {uint64_t(32) << 20, uint64_t(150) << 10}) {
    f.made.reset();
    f.runnerOptions.scratchBytes = scratchBytes;
    f.slow.options.timeLimit = std::chrono::milliseconds(10000);
    f.trials.references = 0;
    std::atomic<bool> cancel = false;
    f.trials.onReference = [&] { cancel = f.trials.references >= 2; };
    auto results = must(f.runner().run(f.slow, &cancel));
    for (const TrialResult &result : results)
      CHECK(result.status == TrialStatus::Timeout);
    CHECK(f.trials.references == 2);
  }
}
