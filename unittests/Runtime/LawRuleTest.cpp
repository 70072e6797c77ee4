// The law of choices at each launch: whatever serves it, it is the first of the
// estimate's ranking, as on an empty cache (P), or ties with P by the estimate
// that nothing calibrated, or trials found it no slower beside P nearby, or it
// takes no longer than P. The world's times are read without noise, so measured
// times are exact.
//
// The law does not hold, and is not asked, for launches of the mode background
// before its thread is done, for the mode strict without kernels of other
// engines, for launches while compilations are in flight, and if a limit of
// workspaces or a verdict keeps P from being launched.
//
// KILN_LAW_SEED: another seed than the test's.
#include "Law/LawSession.h"

#include <cstdlib>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// The part of the rule that \p launch breaks; empty: none.
std::string breachOf(const LawLaunch &launch) {
  constexpr double kNoise = 1.01;
  if (launch.launched.config == launch.predicted.config || launch.isTie() ||
      launch.isSupported || launch.gain() * kNoise >= 1)
    return "";
  return launch.text();
}

std::vector<std::unique_ptr<LawLayer>> lawLayers() {
  std::vector<std::unique_ptr<LawLayer>> layers;
  layers.push_back(LawLayer::gemm(2048, 4096));
  layers.push_back(LawLayer::rmsNorm(4096));
  layers.push_back(LawLayer::decode(32, 8));
  return layers;
}

/// Launches \p count values of each layer, and lists the breaches.
void checkLaw(const LawPlan &plan, size_t count = 32) {
  const char *seed = std::getenv("KILN_LAW_SEED");
  std::mt19937_64 random(seed ? std::strtoull(seed, nullptr, 10) : 7);
  for (const auto &layer : lawLayers()) {
    LawWorld world(random(), LawFactors::exact());
    std::vector<LawValue> values;
    for (size_t i = 0; i < count; ++i)
      values.push_back(layer->draw(random));
    size_t breaches = 0;
    std::string first;
    runSession(world, *layer, plan, values, [&](const LawLaunch &launch) {
      const std::string breach = breachOf(launch);
      if (!breach.empty() && breaches++ == 0)
        first = breach;
    });
    CAPTURE(plan.text());
    CAPTURE(layer->name());
    CAPTURE(first);
    CHECK(breaches == 0);
  }
}

} // namespace

TEST_CASE("law: predict launches what the estimate prefers, or a tie") {
  checkLaw({.server = LawServer::Predict});
}

TEST_CASE("law: tune launches nothing slower") {
  checkLaw({.server = LawServer::Tune,
            .order = LawOrder::Descending,
            .budgetMs = 60000});
}

TEST_CASE("law: a prepared range launches nothing slower") {
  checkLaw({.server = LawServer::Prepared, .budgetMs = 60000});
}

TEST_CASE("law: background launches nothing slower once it is quiet") {
  checkLaw({.server = LawServer::Background, .order = LawOrder::Descending});
}
