#include "cli/TuneAll.h"

#include "Tune/ScriptedRunner.h"

#include <set>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::fake;

namespace {

struct TuneAllFixture : TunerFixture {
  std::vector<TuningOutcome>
  tuneAll(llvm::ArrayRef<Registry::NamedProblem> problems) {
    return cli::tuneAll(
        {device, *artifacts, *records(), &runner, deviceClassKey(device)},
        problems, options);
  }
  std::vector<TuningOutcome> tuneAll(std::vector<const char *> texts) {
    std::vector<Registry::NamedProblem> problems;
    for (const char *text : texts)
      problems.push_back({&family, makeProblem(family, text)});
    return tuneAll(problems);
  }
};

bool allUsable(const std::vector<TuningOutcome> &outcomes) {
  for (const TuningOutcome &outcome : outcomes)
    if (outcome.error.code != ErrorCode::Success ||
        outcome.result.choice.artifacts.empty())
      return false;
  return !outcomes.empty();
}

TEST_CASE("outcomes come in the order of the problems, equal ones tuned once") {
  TuneAllFixture f;
  auto outcomes = f.tuneAll(
      {"fake m=4 n=64", "fake m=0 n=64", "fake m=8 n=64", "fake m=4 n=64"});
  REQUIRE(outcomes.size() == 4);
  CHECK(outcomes[0].result.choice.plan.problem.text() == "fake m=4 n=64");
  CHECK(outcomes[1].result.choice.origin == ChoiceOrigin::Empty);
  CHECK(outcomes[2].result.choice.plan.problem.text() == "fake m=8 n=64");
  CHECK(outcomes[3].result.choice.plan.problem.text() == "fake m=4 n=64");
  CHECK(outcomes[3].result.choice.origin == ChoiceOrigin::Measured);
  std::set<std::string> problems;
  for (const TrialRequest &request : f.runner.requests)
    problems.insert(request.problem.text());
  CHECK(problems.size() == 2);
  CHECK(f.runner.measured().size() == 8);
}

TEST_CASE("a second run of all measures nothing") {
  TuneAllFixture f;
  f.tuneAll({"fake m=4 n=64", "fake m=8 n=64"});
  f.reopen();
  f.runner.requests.clear();
  f.options.budget = std::chrono::milliseconds(0);
  auto outcomes = f.tuneAll({"fake m=4 n=64", "fake m=8 n=64"});
  CHECK(allUsable(outcomes));
  CHECK(outcomes[0].result.stop == StopReason::Recorded);
  CHECK(outcomes[1].result.stop == StopReason::Recorded);
  CHECK(f.runner.requests.empty());
  CHECK_FALSE(f.artifacts->isCompilerLoaded());
}

TEST_CASE("what is cheap is measured first") {
  TuneAllFixture f;
  FakeOptions options;
  options.predictNs = [](const std::string &config) {
    return 100 * ScriptedRunner::defaultNs(config);
  };
  FakeFamily costly(options);
  auto outcomes = f.tuneAll(llvm::ArrayRef<Registry::NamedProblem>{
      {&costly, makeProblem(costly, "fake m=4 n=64")},
      {&f.family, makeProblem(f.family, "fake m=8 n=64")}});
  REQUIRE(f.runner.requests.size() >= 2);
  CHECK(f.runner.requests.front().problem.text() == "fake m=8 n=64");
  CHECK(f.runner.requests.back().problem.text() == "fake m=4 n=64");
  CHECK(outcomes[0].result.choice.plan.problem.text() == "fake m=4 n=64");
}

TEST_CASE("all problems get a choice within one budget") {
  TuneAllFixture f;
  f.options.budget = std::chrono::milliseconds(600);
  f.runner.delay = std::chrono::milliseconds(30);
  std::vector<std::string> texts;
  for (int m = 1; m <= 24; ++m)
    texts.push_back(fmt::format("fake m={} n=64", m));
  std::vector<const char *> problems;
  for (const std::string &text : texts)
    problems.push_back(text.c_str());
  const auto start = TuningOptions::Clock::now();
  auto outcomes = f.tuneAll(problems);
  const auto elapsed = TuningOptions::Clock::now() - start;
  CHECK(allUsable(outcomes));
  CHECK(elapsed < std::chrono::milliseconds(3000));
  // Each problem has a share: the first did not take all, and some were
  // measured.
  CHECK(f.runner.requests.size() >= 2);
  CHECK(f.runner.requests.size() < 24);
  CHECK(outcomes.back().result.stop == StopReason::Budget);
}

TEST_CASE("a kernel that compiles for long does not eat a problem's share") {
  TuneAllFixture f;
  f.options.budget = std::chrono::milliseconds(600);
  f.nvrtc.delayWhen("// fast.t32", 1500);
  auto outcomes = f.tuneAll({"fake m=4 n=64"});
  f.nvrtc.delayWhen("// fast.t32", 0);
  REQUIRE(allUsable(outcomes));
  CHECK(outcomes[0].result.trials.size() >= 1);
  CHECK(outcomes[0].result.choice.origin == ChoiceOrigin::Measured);
}

TEST_CASE("a dead context stops all but what records answer") {
  TuneAllFixture f;
  must(f.tune("fake m=4 n=64"));
  f.runner.requests.clear();
  f.runner.scripts["fast.t64"].status = TrialStatus::ContextDead;
  auto outcomes =
      f.tuneAll({"fake m=8 n=32", "fake m=9 n=32", "fake m=4 n=64"});
  CHECK(f.runner.requests.size() == 1);
  CHECK(outcomes[0].error.code == ErrorCode::ContextDead);
  CHECK(outcomes[0].result.stop == StopReason::Device);
  CHECK(outcomes[0].result.trials.size() >= 1);
  CHECK(outcomes[1].error.code == ErrorCode::ContextDead);
  CHECK(outcomes[2].error.code == ErrorCode::Success);
  CHECK(outcomes[2].result.choice.origin == ChoiceOrigin::Record);
}

TEST_CASE("a problem that fails stops no other") {
  TuneAllFixture f;
  f.nvrtc.failWhen("type 8193", "fake.cu(1): error: not this type\n"); // fp32
  auto outcomes = f.tuneAll({"fake m=4 n=64", "fake m=4 n=64 type=fp16"});
  CHECK(outcomes[0].error.code == ErrorCode::CompileFailed);
  CHECK(outcomes[1].error.code == ErrorCode::Success);
}

TEST_CASE("progress tells problems, trials and the best") {
  TuneAllFixture f;
  f.compileAll();
  std::vector<TuningProgress> seen;
  f.options.progress = [&](const TuningProgress &p) { seen.push_back(p); };
  f.tuneAll({"fake m=4 n=64", "fake m=8 n=64"});
  REQUIRE(seen.size() == 5); // begin and batch of each, and the end
  CHECK(seen[0].problemsDone == 0);
  CHECK(seen[0].problems == 2);
  CHECK(seen[1].trials == 4);
  CHECK(seen[1].bestNs == 1000);
  CHECK(seen[1].bestConfig == "fast.t64");
  CHECK(seen[2].problemsDone == 1);
  CHECK(seen[2].problem == 1);
  CHECK(seen[4].problemsDone == 2);
}

TEST_CASE("a cancelled campaign keeps what is ready") {
  TuneAllFixture f;
  f.compileAll();
  std::atomic<bool> cancel = false;
  f.options.cancel = &cancel;
  f.runner.onRun = [&] { cancel = true; };
  auto outcomes = f.tuneAll({"fake m=4 n=64", "fake m=8 n=64"});
  CHECK(f.runner.requests.size() == 1);
  CHECK(allUsable(outcomes));
  CHECK(outcomes[0].result.choice.origin == ChoiceOrigin::Measured);
  CHECK(outcomes[1].result.choice.origin == ChoiceOrigin::Estimated);
  CHECK(outcomes[1].result.stop == StopReason::Cancelled);
}

} // namespace
