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

TEST_CASE("frozen lists measure nothing and prefer no kernel that is there") {
  CHECK_FALSE(frozenForm(KILN_MODE_TUNE));
  CHECK_FALSE(frozenForm(KILN_MODE_BACKGROUND));
  for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
    CHECK_FALSE(isFrozen(mode));
    const kiln_mode frozen = *frozenForm(mode);
    CHECK(isFrozen(frozen));
    CHECK_FALSE(hasStep(frozen, ChoiceStep::Trials));
    CHECK_FALSE(hasStep(frozen, ChoiceStep::Loaded));
    CHECK_FALSE(hasStep(frozen, ChoiceStep::Close));
    CHECK(hasStep(frozen, ChoiceStep::Compile) ==
          hasStep(mode, ChoiceStep::Compile));
    CHECK_FALSE(asksSpace(frozen));
    CHECK_FALSE(triesFirst(frozen));
  }
  CHECK_FALSE(hasStep(kFrozenPredict, ChoiceStep::Existing));
}

TEST_CASE("before trials nothing is taken that the estimator alone prefers") {
  llvm::ArrayRef<ChoiceStep> steps = choiceOrder(KILN_MODE_TUNE);
  auto before = steps.take_until(
      [](ChoiceStep step) { return step == ChoiceStep::Trials; });
  CHECK(before.equals({ChoiceStep::Stored}));
  CHECK_FALSE(needsRanking(ChoiceStep::Stored, KILN_MODE_TUNE));
}
