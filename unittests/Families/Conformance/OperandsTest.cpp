// Operand tables of every family of Families.def, held against arguments and
// launches.
#include "Families/Conformance/Draw.h"
#include "Families/Conformance/LaunchCheck.h"

#include "Kernel/Space.h"

#include <doctest/doctest.h>

#include <set>

using namespace kiln;
using namespace kiln::conformance;

TEST_CASE("conformance: the operand table agrees with the arguments") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    for (Sizes sizes : {Sizes::Small, Sizes::Usual, Sizes::Extreme})
      for (const DrawnProblem &drawn : drawProblems(*family, sizes, 100)) {
        CAPTURE(drawn.problem.text());
        CHECK(faultOfOperands(*family, drawn.problem) == "");
      }
    for (const Problem &problem : suiteProblems(*family)) {
      CAPTURE(problem.text());
      CHECK(faultOfOperands(*family, problem) == "");
    }
  }
}

TEST_CASE("conformance: launches of each template carry every operand") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    std::set<const Template *> seen;
    for (Sizes sizes : {Sizes::Small, Sizes::Usual})
      for (const Problem &problem : drawWork(*family, sizes, 40)) {
        CAPTURE(problem.text());
        CHECK(faultOfReference(*family, problem, h200()) == "");
        Space space = llvm::cantFail(exploreSpace(*family, problem, h200()));
        std::set<const Template *> here;
        for (const Candidate &candidate : space.ranked) {
          if (!here.insert(candidate.tmpl).second)
            continue;
          CAPTURE(candidate.config.text());
          Plan plan = candidate.tmpl->plan(problem, candidate.config, h200());
          CHECK(faultOfPlan(plan, h200()) == "");
          CHECK(faultOfLaunch(*family, problem, plan, h200()) == "");
        }
        seen.insert(here.begin(), here.end());
      }
    // Problems of any kind reach every template.
    CHECK(seen.size() == family->templates().size());
  }
}
