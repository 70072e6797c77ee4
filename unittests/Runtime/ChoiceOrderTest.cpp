// The steps of each mode, and that all who ask follow them.
#include "Runtime/ChoiceOrder.h"

#include "Runtime/RuntimeFixture.h"

#include <llvm/ADT/STLExtras.h>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("modes differ in what their lists may do") {
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
    llvm::ArrayRef<ChoiceStep> steps = choiceOrder(mode);
    CHECK(steps[0] == ChoiceStep::Record);
    CHECK(steps[1] == ChoiceStep::Decision);
    CHECK(steps.back() == ChoiceStep::Existing);
    CHECK(llvm::is_contained(steps, ChoiceStep::Trials) ==
          (mode == KILN_MODE_TUNE));
    CHECK(hasStep(mode, ChoiceStep::Compile) == (mode != KILN_MODE_STRICT));
    // Before trials nothing is taken that the estimator alone prefers.
    if (hasStep(mode, ChoiceStep::Trials))
      CHECK(llvm::none_of(steps.take_front(2), needsRanking));
  }
}

TEST_CASE("a query tells what a launch will take") {
  RuntimeFixture fixture;
  judgeTrials();
  kiln_gemm_args measured = gemmArgs(128), other = gemmArgs(1024);
  REQUIRE(kiln_gemm(fixture.engine(KILN_MODE_TUNE), &measured, nullptr,
                    nullptr) == KILN_SUCCESS);
  // Measured in another bucket: without trials its configs are taken.
  kiln_engine *engine = fixture.engine(KILN_MODE_PREDICT);
  kiln_problem problem = problemOf(other);
  kiln_query_result before = queryOf(engine, problem);
  CHECK(before.state == KILN_STATE_MISSING);
  REQUIRE(kiln_gemm(engine, &other, nullptr, nullptr) == KILN_SUCCESS);
  kiln_query_result after = queryOf(engine, problem);
  CHECK(after.source == KILN_SOURCE_RECORD);
  CHECK(before.source == after.source);
  CHECK(before.predicted_us == after.predicted_us);
  // The mode tune measures it instead.
  kiln_engine *tuner = fixture.engine(KILN_MODE_TUNE);
  CHECK(queryOf(tuner, problem).source == KILN_SOURCE_NONE);
}
