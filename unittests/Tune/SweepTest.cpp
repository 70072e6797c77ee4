#include "Tune/Sweep.h"

#include "Tune/ScriptedRunner.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

struct SweepFixture : TunerFixture {
  SweepResult sweep() {
    return must(
        sweepSpace(family, problem, device, *artifacts, runner, sweeps));
  }
  const SweptConfig &find(const SweepResult &result, llvm::StringRef config) {
    for (const SweptConfig &one : result.configs)
      if (one.result.config == config)
        return one;
    FAIL("no such config");
    return result.configs.front();
  }
  SweepOptions sweeps;
};

} // namespace

TEST_CASE("a sweep measures every config, the best of each batch again") {
  SweepFixture f;
  f.sweeps.batch = 3;
  SweepResult result = f.sweep();
  CHECK(result.isComplete);
  CHECK(result.configs.size() == 8);
  CHECK(result.measured() == 8);
  REQUIRE(result.best());
  CHECK(result.best()->result.config == "fast.t64");
  CHECK(result.share(1) == 1);
  CHECK(result.correlation() > 0.9);
  for (size_t i = 0; i < 8; ++i)
    CHECK(result.configs[i].rank == static_cast<int>(i));
  // 3 configs, then the anchor and two more.
  CHECK(f.runner.requests.size() == 4);
  for (size_t i = 1; i < f.runner.requests.size(); ++i)
    CHECK(f.runner.requests[i].candidates[0].config == "fast.t64");
  CHECK(f.runner.configs().size() == 8 + 3);
}

TEST_CASE("shares are of the best, whatever its rank") {
  SweepFixture f;
  f.runner.scripts["fast.t256"].ns = 800;
  SweepResult result = f.sweep();
  CHECK(result.best()->result.config == "fast.t256");
  CHECK(result.share(1) == doctest::Approx(0.8));
  CHECK(result.share(8) == 1);
  CHECK(result.best()->rank > 1);
}

TEST_CASE("times of later batches are brought to those of the first") {
  SweepFixture f;
  f.sweeps.batch = 4;
  // The clock drops after the first batch: everything takes twice as long.
  f.runner.onRun = [&] {
    if (f.runner.requests.size() != 2)
      return;
    for (const char *config :
         {"fast.t16", "fast.t32", "fast.t64", "fast.t128", "fast.t256",
          "pair.t64", "pair.t128", "plain.t32"})
      f.runner.scripts[config].ns = 2 * ScriptedRunner::defaultNs(config);
  };
  SweepResult result = f.sweep();
  for (const SweptConfig &config : result.configs)
    CHECK(config.result.medianNs ==
          doctest::Approx(ScriptedRunner::defaultNs(config.result.config)));
}

TEST_CASE("a wrong config is not the best, and a first choice without a time "
          "has no share") {
  SweepFixture f;
  f.runner.scripts["fast.t64"].status = TrialStatus::Wrong;
  SweepResult result = f.sweep();
  CHECK(f.find(result, "fast.t64").result.status == TrialStatus::Wrong);
  CHECK(result.best()->result.config == "fast.t32");
  CHECK(result.share(1) == 0);
  CHECK(result.share(8) == 1);
  CHECK(result.isComplete);
  CHECK(result.measured() == 7);
  CHECK(result.faulty() == 1);
}

TEST_CASE("an anchor that fails beside others is not the best any more") {
  SweepFixture f;
  f.sweeps.batch = 4;
  TrialStatus status = TrialStatus::Wrong;
  SUBCASE("wrong, which shows when it is validated") {
    f.runner.onRun = [&] {
      if (f.runner.requests.size() == 2)
        f.runner.scripts["fast.t64"] = {1000, 0.002, TrialStatus::Wrong, true};
    };
  }
  SUBCASE("late, in a batch that is slow") {
    status = TrialStatus::Timeout;
    f.runner.onRun = [&] {
      if (f.runner.requests.size() != 2)
        return;
      f.runner.scripts["fast.t64"].status = TrialStatus::Timeout;
      for (const char *config :
           {"fast.t16", "fast.t32", "fast.t128", "fast.t256", "pair.t64",
            "pair.t128", "plain.t32"})
        f.runner.scripts[config].ns = 2 * ScriptedRunner::defaultNs(config);
    };
  }
  SweepResult result = f.sweep();
  CHECK(f.find(result, "fast.t64").result.status == status);
  CHECK(result.isComplete == (status == TrialStatus::Wrong));
  CHECK(result.measured() == 7);
  REQUIRE(f.runner.requests.size() > 2);
  // The same configs again, beside the next fastest of the first batch.
  const auto &failed = f.runner.requests[1].candidates;
  const auto &again = f.runner.requests[2].candidates;
  CHECK(failed[0].config == "fast.t64");
  CHECK(again[0].config != "fast.t64");
  CHECK(again[1].config == failed[1].config);
  // Which was not validated yet beside the first, and keeps the times' scale.
  REQUIRE(result.best());
  CHECK(result.best()->result.config == again[0].config);
  CHECK(result.best()->result.medianNs == 1200);
  for (const SweptConfig &config : result.configs)
    if (config.isMeasured())
      CHECK(config.result.medianNs ==
            doctest::Approx(ScriptedRunner::defaultNs(config.result.config)));
}

TEST_CASE("what does not compile is told and the rest is measured") {
  SweepFixture f;
  f.nvrtc.failWhen("fast.t128", "no such register");
  SweepResult result = f.sweep();
  CHECK(result.failedCompiles == 1);
  const SweptConfig &failed = f.find(result, "fast.t128");
  CHECK_FALSE(failed.isMeasured());
  CHECK(failed.result.status == TrialStatus::LaunchFailed);
  CHECK_FALSE(failed.result.message.empty());
  CHECK(result.measured() == 7);
  CHECK(result.faulty() == 1);
}

TEST_CASE("a sweep ends at its deadline and says so") {
  SweepFixture f;
  f.sweeps.batch = 2;
  f.sweeps.deadline = SweepOptions::Clock::now();
  SweepResult none = f.sweep();
  CHECK_FALSE(none.isComplete);
  CHECK(none.measured() == 0);
  CHECK(none.faulty() == 0); // late is nobody's fault
  CHECK(none.best() == nullptr);
  CHECK(none.share(1) == 0);
  std::atomic<bool> cancel = false;
  f.sweeps.deadline = SweepOptions::Clock::time_point::max();
  f.sweeps.cancel = &cancel;
  f.runner.onRun = [&] { cancel = true; };
  SweepResult some = f.sweep();
  CHECK_FALSE(some.isComplete);
  CHECK(some.measured() == 2);
}

TEST_CASE("a device that dies ends the sweep") {
  SweepFixture f;
  f.runner.scripts["pair.t64"].status = TrialStatus::ContextDead;
  auto result = sweepSpace(f.family, f.problem, f.device, *f.artifacts,
                           f.runner, f.sweeps);
  REQUIRE_FALSE(result);
  CHECK(summarize(result.takeError()).code == ErrorCode::ContextDead);
}
