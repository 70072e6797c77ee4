//===- TrialsFixture.h - trials under the stand-in driver -----------------===//
#pragma once

#include "Store/FakeDevice.h"
#include "Store/StoreFixture.h"
#include "Trial/FakeTrials.h"
#include "Trial/InProcessTrials.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

namespace kiln::fake {

/// A runner of trials, and the family that it tries.
struct TrialsFixture : FakeDevice, StoreFixture {
  TrialsFixture() {
    auto owned = std::make_unique<FakeFamily>();
    options = &owned->options;
    tried = owned.get();
    must(registry.add(std::move(owned)));
    runnerOptions.scratchBytes = 32 << 20;
  }

  InProcessTrials &runner() {
    if (!made)
      made = must(
          InProcessTrials::create(*driver, device, *artifacts, runnerOptions));
    return *made;
  }

  TrialRequest request(std::vector<const char *> configs,
                       const char *text = "fake m=48 n=33") {
    TrialRequest request;
    request.family = tried;
    request.problem = makeProblem(*tried, text);
    request.options.validation = TrialValidation::All;
    for (const char *config : configs) {
      TrialCandidate &candidate = request.candidates.emplace_back();
      candidate.plan = makePlan(*tried, request.problem, config, device);
      for (const TranslationUnit &unit : candidate.plan.kernels)
        candidate.artifacts.push_back(must(artifacts->get(unit)));
    }
    return request;
  }
  std::vector<TrialResult> run(const TrialRequest &request) {
    return must(runner().run(request));
  }
  /// The only result of a config that does \p misdeed.
  TrialResult tryMisdeed(Misdeed misdeed) {
    trials.misdeeds["fast.t64"] = misdeed;
    TrialRequest one = request({"fast.t64"});
    one.options.measure = false;
    return run(one).at(0);
  }

  Registry registry;
  FakeTrials trials;
  FakeOptions *options = nullptr;
  const FakeFamily *tried = nullptr;
  InProcessTrialsOptions runnerOptions;
  std::unique_ptr<InProcessTrials> made;
};

inline uint64_t calls(const char *symbol) { return kilnFakeCallCount(symbol); }

/// The code of what must have failed.
inline ErrorCode codeOf(llvm::Expected<std::vector<TrialResult>> results) {
  REQUIRE_FALSE(results);
  return summarize(results.takeError()).code;
}

} // namespace kiln::fake
