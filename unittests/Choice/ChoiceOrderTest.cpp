#include "Choice/ChoiceOrder.h"

#include <llvm/ADT/STLExtras.h>

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("modes differ in what their lists may do") {
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
    llvm::ArrayRef<ChoiceStep> steps = choiceOrder(mode);
    CHECK(steps.front() == ChoiceStep::Stored);
    CHECK(steps.back() == ChoiceStep::Existing);
    CHECK(hasStep(mode, ChoiceStep::Trials) == (mode == KILN_MODE_TUNE));
    CHECK(hasStep(mode, ChoiceStep::Compile) == (mode != KILN_MODE_STRICT));
    CHECK(hasStep(mode, ChoiceStep::Pool) == (mode != KILN_MODE_BACKGROUND));
  }
}

TEST_CASE("before trials nothing is taken that the estimator alone prefers") {
  llvm::ArrayRef<ChoiceStep> steps = choiceOrder(KILN_MODE_TUNE);
  auto before = steps.take_until(
      [](ChoiceStep step) { return step == ChoiceStep::Trials; });
  CHECK(before.equals({ChoiceStep::Stored}));
  CHECK_FALSE(needsRanking(ChoiceStep::Stored, KILN_MODE_TUNE));
}
