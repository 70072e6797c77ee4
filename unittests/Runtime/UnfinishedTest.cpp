// Rules that do not hold yet: each case fails, and says so once it does not.
#include "Runtime/BackgroundFixture.h"

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("a layer without room for trials is searched once, not for each "
          "value" *
          doctest::should_fail()) {
  RuntimeFixture fixture;
  kiln_engine *engine = tuningEngine(fixture, 2000);
  kilnFakeSetFreeMemory(0, uint64_t(200) << 20);
  REQUIRE(launch(engine, gemmArgs(16, 8192, 8192)) == KILN_SUCCESS);
  REQUIRE(statisticsOf(engine).trials == 0);
  const uint64_t before = statisticsOf(engine).compiles;
  REQUIRE(launch(engine, gemmArgs(1000, 8192, 8192)) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).compiles == before);
}

TEST_CASE("a range that was measured in part is finished when it is prepared "
          "again" *
          doctest::should_fail()) {
  RuntimeFixture fixture;
  kiln_engine *engine = tuningEngine(fixture, 60000);
  PreparedLayer layer;
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.progress = [](void *, const kiln_progress *progress) {
    return int32_t(progress->trials_done >= 4);
  };
  REQUIRE(kiln_prepare(engine, &layer.problem, 1, &options, nullptr) ==
          KILN_CANCELLED);
  const uint64_t before = statisticsOf(engine).trials;
  REQUIRE(before > 0);
  REQUIRE(kiln_prepare(engine, &layer.problem, 1, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials > before);
}

TEST_CASE("background: a wider range leaves what was measured measured" *
          doctest::should_fail()) {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.background();
  PreparedLayer layer;
  const kiln_gemm_args args = gemmArgs(16, 512, 512);
  REQUIRE(kiln_prepare(engine, &layer.problem, 1, nullptr, nullptr) ==
          KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  REQUIRE(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
  REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
  layer.values.last = 128;
  REQUIRE(kiln_prepare(engine, &layer.problem, 1, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
}
