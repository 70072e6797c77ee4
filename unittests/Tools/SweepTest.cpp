#include "kiln-bench/Sweep.h"

#include "Tune/ScriptedRunner.h"

#include <algorithm>
#include <set>
#include <utility>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::fake;

namespace {

using Configs = std::vector<std::string>;

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
  Configs lastConfigs() {
    Configs configs;
    for (const TrialCandidate &one : runner.requests.back().candidates)
      configs.push_back(one.config());
    return configs;
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
  // 3 configs, then the reference, which is the best, and two more; nothing is
  // so near the best that a playoff would have to tell.
  CHECK(f.runner.requests.size() == 4);
  for (size_t i = 1; i < f.runner.requests.size(); ++i) {
    CHECK(f.runner.requests[i].candidates[0].config() == "fast.t64");
    CHECK(f.runner.requests[i].candidates[0].isKept);
    CHECK_FALSE(f.runner.requests[i].candidates[1].isKept);
  }
  CHECK(f.runner.configs().size() == 8 + 3);
}

TEST_CASE("a sweep of a part measures the first and a sample of the rest") {
  SweepFixture f;
  const SweepResult whole = f.sweep();
  f.sweeps.top = 3;
  f.sweeps.sample = 2;
  std::set<Configs> samples;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    f.sweeps.seed = seed;
    const SweepResult part = f.sweep(), again = f.sweep();
    CHECK(part.isComplete);
    CHECK(part.spaceSize == 8);
    REQUIRE(part.configs.size() == 5);
    Configs sample;
    for (size_t i = 0; i < 5; ++i) {
      const SweptConfig &config = part.configs[i];
      CHECK(config.rank >= static_cast<int>(i));
      CHECK(config.result.config == again.configs[i].result.config);
      CHECK(config.result.config ==
            whole.configs[static_cast<size_t>(config.rank)].result.config);
      if (i < 3)
        CHECK(config.rank == static_cast<int>(i));
      else
        sample.push_back(config.result.config);
    }
    CHECK(sample[0] != sample[1]);
    samples.insert(sample);
  }
  CHECK(samples.size() > 4);
  f.sweeps.top = 7;
  CHECK(f.sweep().configs.size() == 8);
}

TEST_CASE("what a later sweep needs is compiled ahead") {
  SweepFixture f;
  {
    auto requests = must(
        requestSwept(f.family, f.problem, f.device, *f.artifacts, f.sweeps, 1));
    for (const PendingArtifact &request : requests)
      CHECK(request.wait());
  }
  const uint64_t compiled = f.artifacts->statistics().compiled;
  CHECK(compiled > 0);
  CHECK(f.sweep().isComplete);
  CHECK(f.artifacts->statistics().compiled == compiled);
}

TEST_CASE("shares are of the best, whatever its rank") {
  SweepFixture f;
  f.runner.scripts["fast.t256"].ns = 800;
  SweepResult result = f.sweep();
  CHECK(result.best()->result.config == "fast.t256");
  CHECK(result.share(1) == doctest::Approx(0.8));
  CHECK(result.share(8) == 1);
  CHECK(result.best()->rank > 1);
  // The first choice is held against the best in the playoff.
  CHECK(f.lastConfigs() == Configs{"fast.t64", "fast.t256"});
  CHECK(result.configs[0].inPlayoff);
  CHECK(result.best()->inPlayoff);
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

TEST_CASE("a reference that fails beside others is not the best any more") {
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
  CHECK(failed[0].config() == "fast.t64");
  CHECK(again[0].config() != "fast.t64");
  CHECK(again[1].config() == failed[1].config());
  // Which was not validated yet beside the first, and keeps the times' scale.
  REQUIRE(result.best());
  CHECK(result.best()->result.config == again[0].config());
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
  CHECK(none.faulty() == 0); // a late config is no fault
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

TEST_CASE("a clock that drifts does not change who is the best") {
  SweepFixture f;
  f.sweeps.batch = 3;
  f.runner.scripts["fast.t16"].ns = 960;
  f.runner.scripts["fast.t256"].ns = 980;
  // Up and down by 30 % from batch to batch.
  f.runner.factor = [](const std::string &, size_t request) {
    return request % 2 ? 1.0 : request % 4 ? 1.3 : 0.75;
  };
  SweepResult result = f.sweep();
  REQUIRE(result.best());
  CHECK(result.best()->result.config == "fast.t16");
  CHECK(result.share(1) == doctest::Approx(0.96));
  for (const SweptConfig &config : result.configs) {
    const std::string &name = config.result.config;
    const double ns = f.runner.scripts[name].ns;
    CHECK(config.result.medianNs ==
          doctest::Approx(ns > 0 ? ns : ScriptedRunner::defaultNs(name)));
  }
}

TEST_CASE("over a hundred batches errors do not compound") {
  FakeOptions options;
  options.fastTiles.clear();
  for (int tile = 1; tile <= 200; ++tile)
    options.fastTiles.push_back(tile);
  FakeFamily large(options);
  SweepFixture f;
  f.sweeps.batch = 4;
  f.runner.anyScript = ScriptedRunner::Script{.ns = 1000};
  f.runner.factor = noisyClock(0.01);
  SweepResult result =
      must(sweepSpace(large, makeProblem(large, "fake m=64 n=64"), f.device,
                      *f.artifacts, f.runner, f.sweeps));
  CHECK(f.runner.requests.size() > 100);
  CHECK(result.measured() == 203);
  // Each time has the noise of its own and of the reference in two batches.
  for (const SweptConfig &config : result.configs)
    CHECK(std::abs(config.result.medianNs / 1000 - 1) < 0.045);
}

TEST_CASE("a reference that fails hands its scale to the best beside it") {
  SweepFixture f;
  f.sweeps.batch = 4;
  f.runner.scripts["fast.t32"].ns = 800; // the best of the first batch
  f.runner.factor = [](const std::string &, size_t request) {
    return request == 1 ? 1 : 1.3;
  };
  f.runner.onRun = [&] {
    if (f.runner.requests.size() == 2)
      f.runner.scripts["fast.t64"].status = TrialStatus::LaunchFailed;
  };
  SweepResult result = f.sweep();
  CHECK(f.find(result, "fast.t64").result.status == TrialStatus::LaunchFailed);
  CHECK(result.measured() == 7);
  REQUIRE(f.runner.requests.size() == 3);
  CHECK(f.runner.requests[2].candidates[0].config() == "fast.t32");
  // Nothing ran in vain: two new ones, then the other two.
  CHECK(f.runner.configs().size() == 4 + 4 + 3);
  for (const SweptConfig &config : result.configs)
    if (config.isMeasured() && config.result.config != "fast.t32")
      CHECK(config.result.medianNs ==
            doctest::Approx(ScriptedRunner::defaultNs(config.result.config)));
}

TEST_CASE("the playoff decides among those that are near the best") {
  SweepFixture f;
  f.sweeps.batch = 8;
  f.runner.scripts["fast.t32"].ns = 960;
  f.runner.scripts["fast.t128"].ns = 980;
  size_t playoff = 2;
  // Lucky in the batch where all are measured.
  f.runner.factor = [&](const std::string &config, size_t request) {
    return (request < playoff ? 1 : 1.2) *
           (request < playoff && config == "fast.t128" ? 0.96 : 1);
  };
  SUBCASE("by its times") {
    SweepResult result = f.sweep();
    CHECK(f.lastConfigs() == Configs{"fast.t64", "fast.t128", "fast.t32"});
    const TrialRequest &last = f.runner.requests.back();
    CHECK(last.options.minSamples == 2 * TrialOptions().minSamples);
    CHECK(last.options.maxSamples == 2 * TrialOptions().maxSamples);
    REQUIRE(result.best());
    CHECK(result.best()->result.config == "fast.t32");
    CHECK(result.best()->result.medianNs == doctest::Approx(960));
    CHECK(f.find(result, "fast.t128").result.medianNs == doctest::Approx(980));
    CHECK(result.share(1) == doctest::Approx(0.96));
    CHECK(result.isComplete);
  }
  SUBCASE("of the best few alone") {
    f.sweeps.playoff = 1;
    SweepResult result = f.sweep();
    CHECK(f.lastConfigs() == Configs{"fast.t64", "fast.t128"});
    // fast.t32 may have been as lucky.
    CHECK(result.best()->result.config == "fast.t128");
  }
  SUBCASE("again, where one turns out to be faulty") {
    f.runner.onRun = [&] {
      if (f.runner.requests.size() == 2)
        f.runner.scripts["fast.t64"].status = TrialStatus::LaunchFailed;
    };
    SweepResult result = f.sweep();
    CHECK(f.runner.requests.size() == 3);
    CHECK(result.best()->result.config == "fast.t32");
    CHECK(result.share(1) == 0);
    CHECK(result.faulty() == 1);
  }
  SUBCASE("not where time is over before") {
    std::atomic<bool> cancel = false;
    f.sweeps.cancel = &cancel;
    f.runner.onRun = [&] { cancel = true; };
    SweepResult result = f.sweep();
    CHECK(f.runner.requests.size() == 1);
    CHECK(result.measured() == 8);
    CHECK_FALSE(result.isComplete);
    CHECK(result.best()->result.config == "fast.t128");
    CHECK_FALSE(result.best()->inPlayoff);
  }
}

TEST_CASE("a device that dies ends the sweep") {
  SweepFixture f;
  f.runner.scripts["pair.t64"].status = TrialStatus::ContextDead;
  auto result = sweepSpace(f.family, f.problem, f.device, *f.artifacts,
                           f.runner, f.sweeps);
  REQUIRE_FALSE(result);
  CHECK(summarize(result.takeError()).code == ErrorCode::ContextDead);
}

TEST_CASE("S13: a late launch ends a sweep with what was measured before") {
  SweepFixture f;
  f.sweeps.batch = 3;
  f.runner.onRun = [&] {
    if (f.runner.requests.size() == 2)
      f.runner.scripts[f.runner.requests.back().candidates.back().config()]
          .status = TrialStatus::Late;
    if (f.runner.requests.size() == 3)
      f.runner.error = {ErrorCode::InProgress, "an earlier trial still runs"};
  };
  SweepResult result = f.sweep();
  CHECK(f.runner.requests.size() == 3);
  CHECK_FALSE(result.isComplete);
  CHECK(result.measured() == 4);
  CHECK(result.faulty() == 0);
  REQUIRE(result.best());
  CHECK(result.best()->result.config == "fast.t64");
  auto count = [&](TrialStatus status) {
    return std::count_if(
        result.configs.begin(), result.configs.end(),
        [&](const SweptConfig &c) { return c.result.status == status; });
  };
  CHECK(count(TrialStatus::Late) == 1);
  CHECK(count(TrialStatus::NotTried) == 3);
  CHECK(result.configs.back().result.message == "an earlier trial still runs");
}

TEST_CASE("S13: a sweep behind a late launch is an error") {
  SweepFixture f;
  f.runner.error = {ErrorCode::InProgress, "an earlier trial still runs"};
  auto result = sweepSpace(f.family, f.problem, f.device, *f.artifacts,
                           f.runner, f.sweeps);
  REQUIRE_FALSE(result);
  CHECK(summarize(result.takeError()).code == ErrorCode::InProgress);
}

TEST_CASE("S3: what was kept from being tried makes a sweep incomplete") {
  for (auto [status, isComplete] : {std::pair(TrialStatus::NotTried, false),
                                    {TrialStatus::Late, false},
                                    {TrialStatus::OutOfMemory, false},
                                    {TrialStatus::Timeout, false},
                                    {TrialStatus::Wrong, true},
                                    {TrialStatus::LaunchFailed, true}}) {
    CAPTURE(nameOf(status).str());
    SweepFixture f;
    f.runner.scripts["fast.t128"].status = status;
    CHECK(f.sweep().isComplete == isComplete);
  }
}
