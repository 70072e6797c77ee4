// The mode background with little room: without a cache, beside other engines,
// and on a device that is full.
#include "Runtime/Background.h"
#include "Runtime/BackgroundFixture.h"
#include "Runtime/Capi.h"
#include "Runtime/Engine.h"

#include <cuda.h>

#include <chrono>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("background: without a cache a pause loses nothing either") {
  BackgroundFixture fixture;
  kiln_engine_options options = fixture.backgroundOptions();
  options.flags |= KILN_ENGINE_MEMORY_ONLY;
  auto trialsWith = [&](int pauses) {
    kiln_engine *engine = fixture.engine(options);
    REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
    for (int i = 0; i < pauses; ++i) {
      // Each pause comes after some further trials.
      const uint64_t before = statisticsOf(engine).trials;
      while (statisticsOf(engine).trials < before + 8 &&
             kiln_background_wait(engine, 0) == KILN_IN_PROGRESS)
        std::this_thread::yield();
      REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
      REQUIRE(kiln_background_wait(engine, kLongMs) == KILN_SUCCESS);
      REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
    }
    fixture.awaitQuiet(engine);
    const kiln_gemm_args args = gemmArgs();
    CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
    const uint64_t trials = statisticsOf(engine).trials;
    fixture.destroy(engine);
    return trials;
  };
  const uint64_t once = trialsWith(0);
  REQUIRE(once > 16);
  CHECK(trialsWith(4) < 2 * once);
}

TEST_CASE("background: engines of one process do not disturb each other") {
  BackgroundFixture fixture;
  kiln_engine *engines[] = {fixture.background(), fixture.background(),
                            fixture.background()};
  for (int64_t n : {256, 512})
    for (kiln_engine *engine : engines)
      REQUIRE(launch(engine, gemmArgs(64, n, 512)) == KILN_SUCCESS);
  while (statisticsOf(engines[0]).trials == 0 &&
         kiln_background_wait(engines[0], 0) == KILN_IN_PROGRESS)
    std::this_thread::yield();
  // One engine ends in between; the others are not affected.
  fixture.destroy(engines[0]);
  for (kiln_engine *engine : {engines[1], engines[2]}) {
    fixture.awaitQuiet(engine);
    for (int64_t n : {256, 512}) {
      const kiln_gemm_args args = gemmArgs(65, n, 512);
      CHECK(launch(engine, args) == KILN_SUCCESS);
      CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
    }
  }
}

/// Fills the device: nothing can be loaded or, with \p onlyTrials, no trials
/// run.
static void fillDevice(bool onlyTrials) {
  if (onlyTrials)
    kilnFakeSetFreeMemory(0, 4096);
  else
    kilnFakeFailCall("cuModuleLoadData", 1, CUDA_ERROR_OUT_OF_MEMORY,
                     KilnFakeAlways);
}
static void emptyDevice() {
  kilnFakeSetFreeMemory(0, uint64_t(8) << 30);
  kilnFakeFailCall("cuModuleLoadData", 1, CUDA_SUCCESS, KilnFakeOnce);
}
static void putOff(kiln_engine *engine, std::chrono::milliseconds time) {
  engine->engine->background()->setPutOff(time);
}

/// An engine whose work begins where the device is full, with a layer.
static kiln_engine *beginWithoutRoom(BackgroundFixture &fixture,
                                     bool onlyTrials,
                                     std::chrono::milliseconds time) {
  kiln_engine *engine = fixture.paused();
  putOff(engine, time);
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  fillDevice(onlyTrials);
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  return engine;
}

TEST_CASE("background: a full device puts work off, and launches go on") {
  for (bool onlyTrials : {true, false}) {
    CAPTURE(onlyTrials);
    BackgroundFixture fixture;
    kiln_engine *engine =
        beginWithoutRoom(fixture, onlyTrials, std::chrono::milliseconds(1500));
    // It does not try without end.
    CHECK(kiln_background_wait(engine, 500) == KILN_IN_PROGRESS);
    CHECK(statisticsOf(engine).trials == 0);
    CHECK(launch(engine, gemmArgs(65)) == KILN_SUCCESS);
    const kiln_gemm_args args = gemmArgs(66);
    CHECK(launch(engine, args) == KILN_SUCCESS);
    CHECK(queryOf(engine, problemOf(args)).state == KILN_STATE_FALLBACK);
    emptyDevice();
    fixture.awaitQuiet(engine);
    CHECK(statisticsOf(engine).trials > 0);
    CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
  }
}

TEST_CASE("background: what a full device ended begins again with a miss") {
  for (bool onlyTrials : {true, false}) {
    CAPTURE(onlyTrials);
    BackgroundFixture fixture;
    kiln_engine *engine =
        beginWithoutRoom(fixture, onlyTrials, std::chrono::milliseconds(100));
    fixture.awaitQuiet(engine);
    CHECK(statisticsOf(engine).background_done == 1);
    CHECK(statisticsOf(engine).trials == 0);
    emptyDevice();
    // A value beyond the range for which the layer was prepared so far.
    const kiln_gemm_args args = gemmArgs(10000);
    CHECK(launch(engine, args) == KILN_SUCCESS);
    fixture.awaitQuiet(engine);
    CHECK(statisticsOf(engine).background_done == 2);
    CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
  }
}

TEST_CASE("background: a wider range leaves what was measured measured") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.background();
  PreparedLayer layer;
  const kiln_gemm_args args = gemmArgs(16, 512, 512),
                       unseen = gemmArgs(17, 512, 512),
                       beyond = gemmArgs(100, 512, 512);
  REQUIRE(kiln_prepare(engine, &layer.problem, 1, nullptr, nullptr) ==
          KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  REQUIRE(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
  REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
  layer.values.last = 128;
  REQUIRE(kiln_prepare(engine, &layer.problem, 1, nullptr, nullptr) ==
          KILN_SUCCESS);
  for (const kiln_gemm_args *value : {&args, &unseen}) {
    CHECK(queryOf(engine, problemOf(*value)).source == KILN_SOURCE_RECORD);
    CHECK(queryOf(engine, problemOf(*value)).state == KILN_STATE_READY);
  }
  CHECK(queryOf(engine, layer.problem).state == KILN_STATE_FALLBACK);
  CHECK(queryOf(engine, problemOf(beyond)).source == KILN_SOURCE_ESTIMATE);
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(queryOf(engine, problemOf(beyond)).source == KILN_SOURCE_RECORD);
  CHECK(queryOf(engine, layer.problem).state == KILN_STATE_READY);
}
