#include "Choice/ChoiceOrder.h"

#include <llvm/ADT/STLExtras.h>

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("modes differ in what their lists may do") {
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
    llvm::ArrayRef<ChoiceStep> steps = choiceOrder(mode);
    CHECK(steps[0] == ChoiceStep::Record);
    CHECK(steps[1] == ChoiceStep::Portfolio);
    CHECK(steps[2] == ChoiceStep::Decision);
    CHECK(steps.back() == ChoiceStep::Existing);
    CHECK(hasStep(mode, ChoiceStep::Trials) == (mode == KILN_MODE_TUNE));
    CHECK(hasStep(mode, ChoiceStep::Compile) == (mode != KILN_MODE_STRICT));
    CHECK(hasStep(mode, ChoiceStep::Pool));
    CHECK(needsRanking(ChoiceStep::Pool, mode) == (mode != KILN_MODE_STRICT));
  }
  CHECK_FALSE(hasStep(KILN_MODE_BACKGROUND, ChoiceStep::Pool));
}

TEST_CASE("before trials nothing is taken that the estimator alone prefers") {
  llvm::ArrayRef<ChoiceStep> steps = choiceOrder(KILN_MODE_TUNE);
  auto before = steps.take_until(
      [](ChoiceStep step) { return step == ChoiceStep::Trials; });
  CHECK(before.size() == 3);
  CHECK(llvm::all_of(before, isStored));
  CHECK(llvm::none_of(before, [](ChoiceStep step) {
    return needsRanking(step, KILN_MODE_TUNE);
  }));
}
