//===- ChooserFixture.h - a chooser over a family without kernels ---------===//
#pragma once

#include "Choice/Chooser.h"
#include "Store/RecordFixture.h"
#include "Store/StoreFixture.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kiln::fake {

using Texts = std::vector<std::string>;

struct ChooserFixture : StoreFixture {
  Chooser chooser() {
    return Chooser({mode, device, deviceClass, plans, *portfolios, *artifacts,
                    records, portfolioStore, workspaceLimit},
                   request);
  }
  Texts offered(ChoiceStep step, const TrialIntent &trials = TrialIntent()) {
    Texts texts;
    auto take = [&](const Choice &choice) {
      texts.push_back(choice.config.text());
      return false;
    };
    must(chooser().offer(step, take, trials));
    return texts;
  }
  Texts stored(const TrialIntent &trials = TrialIntent()) {
    return offered(ChoiceStep::Stored, trials);
  }
  std::string digest(const char *config) {
    return kernelDigest(makePlan(family, problem, config, device));
  }
  /// Trials find that \p config computes wrong results.
  void findWrong(const char *config) {
    records.verdicts().found(deviceClass, {.kernel = digest(config),
                                           .config = config,
                                           .problem = problem.text(),
                                           .reason = "wrong"});
  }
  /// Stores that the estimator chose \p config for the problem, whose kernel is
  /// \p kernel.
  void decide(const char *config, const std::string &kernel) {
    StoredPortfolio decision;
    decision.low = decision.high = {64};
    const auto key = PortfolioKey::ofValue(problem, device);
    if (const auto known = portfolioStore.load(key); !known->ranges.empty())
      decision = known->ranges.front();
    decision.members.push_back({config, kernel, decision.low, decision.high});
    portfolioStore.store(key, decision, /*replaces=*/true);
  }
  void decide(const char *config) { decide(config, digest(config)); }
  /// Stores that trials at m = 64 found \p config to be the best.
  void measure(const char *config, const std::string &kernel) {
    Measurement found = measured(config, 500);
    found.kernel = kernel;
    records.store(family, problem, deviceClass, point(64, config, {found}));
  }

  kiln_mode mode = KILN_MODE_PREDICT;
  uint64_t workspaceLimit = 1 << 20;
  const std::string deviceClass = deviceClassKey(device);
  PlanPool plans;
  std::unique_ptr<PortfolioPool> portfolios = std::make_unique<PortfolioPool>();
  RecordStore records{*cache};
  PortfolioStore portfolioStore{*cache};
  PlanRequest request{family, problem};
};

} // namespace kiln::fake
