#include "Tune/StopRule.h"

#include "Tune/ScriptedRunner.h"

using namespace kiln;
using namespace kiln::fake;

TEST_CASE("the optimistic ratio is the least, or two deviations off the mean") {
  Ratios alike;
  for (double ratio : {1.0, 1.0, 1.0})
    alike.add(ratio);
  CHECK(alike.optimistic() == doctest::Approx(0.88)); // of 6 % at least
  Ratios spread;
  for (double ratio : {0.5, 1.5})
    spread.add(ratio);
  CHECK(spread.optimistic() == doctest::Approx(0));
  Ratios outlier;
  for (int i = 0; i < 99; ++i)
    outlier.add(1);
  outlier.add(0.7);
  CHECK(outlier.optimistic() == doctest::Approx(0.7));
  CHECK(outlier.count() == 100);
}

TEST_CASE("a bound needs a proof and a few trials, of each template its own") {
  TunerFixture f;
  Space space = must(exploreSpace(f.family, f.problem, f.device));
  std::vector<std::unique_ptr<TuningCandidate>> entries;
  for (size_t i = 0; i < space.ranked.size(); ++i)
    entries.push_back(std::make_unique<TuningCandidate>(space.ranked[i],
                                                        static_cast<int>(i)));
  std::vector<TuningCandidate *> tried;
  auto find = [&](const char *config) -> TuningCandidate & {
    for (auto &entry : entries)
      if (entry->config == config)
        return *entry;
    FAIL("no such config");
    return *entries.front();
  };
  // As fast as predicted.
  for (const char *config : {"fast.t64", "fast.t32", "fast.t16", "fast.t256"}) {
    TuningCandidate &entry = find(config);
    entry.stage = TuningCandidate::Stage::Tried;
    entry.trial.samples = 7;
    entry.trial.medianNs = entry.trial.ciLowNs = entry.trial.ciHighNs =
        entry.candidate.estimate.totalNs;
    tried.push_back(&entry);
  }
  const TuningCandidate *best = tried.front();
  auto isBeyond = [&](size_t trials, const TuningCandidate *best,
                      const char *config, unsigned maxTrials = 12) {
    return StopRule(llvm::ArrayRef(tried).take_front(trials), best, maxTrials)
        .isBeyondBound(find(config));
  };
  CHECK_FALSE(isBeyond(4, nullptr, "fast.t128"));
  CHECK_FALSE(isBeyond(3, best, "fast.t128"));
  CHECK(isBeyond(3, best, "fast.t128", /*maxTrials=*/3));
  CHECK(isBeyond(4, best, "fast.t128")); // 0.88 of 1200 ns against 1000
  // 0.8 of 3000 ns, since none of its template ran.
  CHECK(isBeyond(4, best, "pair.t64"));
  find("fast.t64").trial.ciHighNs = 1300; // 15 % of noise
  CHECK(isBeyond(4, best, "fast.t128"));
  find("fast.t128").candidate.estimate.totalNs = 940;
  CHECK_FALSE(isBeyond(4, best, "fast.t128"));
}
