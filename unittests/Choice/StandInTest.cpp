// The stand-ins of launches that do not wait.
#include "Choice/ChooserFixture.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

struct StandInFixture : ChooserFixture {
  /// Adds \p config to the pool as loaded; it is never launched.
  void load(const char *config) {
    auto named = family.parseConfig(config);
    REQUIRE(static_cast<bool>(named));
    plans.add(problem, *named->tmpl, named->config, nullptr);
  }
  Texts standIns() {
    Texts texts;
    for (const Choice &choice : chooser().standIns())
      texts.push_back(choice.config.text());
    return texts;
  }
};

} // namespace

TEST_CASE("stand-ins are the latest that were loaded, and what is generic") {
  StandInFixture f;
  for (const char *config : {"plain.t32", "fast.t64", "fast.t32", "fast.t16"})
    f.load(config);
  Texts texts;
  for (const PlanPool::LoadedConfig &loaded :
       f.plans.loadedOf(f.problem.signature, 2))
    texts.push_back(loaded.config.text());
  CHECK(texts == Texts{"fast.t16", "fast.t32", "plain.t32"});
  CHECK(f.standIns().size() == 4);
  CHECK(f.standIns().front() == "fast.t64"); // by the estimate
}

TEST_CASE("what trials found wrong stands in for nothing") {
  StandInFixture f;
  f.load("fast.t64");
  f.load("fast.t32");
  f.findWrong("fast.t64");
  CHECK(f.standIns() == Texts{"fast.t32"});
}
