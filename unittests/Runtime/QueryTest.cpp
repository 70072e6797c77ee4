// What kiln_query tells of problems that were not launched yet.
#include "Runtime/RuntimeFixture.h"

using namespace kiln;
using namespace kiln::testing;

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
