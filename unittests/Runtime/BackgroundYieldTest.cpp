// The mode background: events that cut trials short, and their cost.
#include "Runtime/Background.h"
#include "Runtime/BackgroundFixture.h"
#include "Runtime/Capi.h"
#include "Runtime/Engine.h"

#include <algorithm>
#include <chrono>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

kiln_prepare_options retuneOptions() {
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.flags = KILN_PREPARE_RETUNE;
  return options;
}

} // namespace

TEST_CASE("background: trials that are made again go on after a pause") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.background();
  const PreparedLayer layer;
  const kiln_prepare_options again = retuneOptions();
  auto trialsWith = [&](int pauses, uint64_t between) {
    const uint64_t before = statisticsOf(engine).trials;
    REQUIRE(kiln_prepare(engine, &layer.problem, 1, &again, nullptr) ==
            KILN_SUCCESS);
    for (int i = 0; i < pauses; ++i) {
      awaitTrials(engine, between);
      REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
      REQUIRE(kiln_background_wait(engine, kLongMs) == KILN_SUCCESS);
      REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
    }
    fixture.awaitQuiet(engine);
    return statisticsOf(engine).trials - before;
  };
  trialsWith(0, 0);
  const uint64_t once = trialsWith(0, 0);
  REQUIRE(once > 4);
  const uint64_t cut = trialsWith(8, once / 2);
  CAPTURE(once);
  CHECK(cut >= once / 2);
  CHECK(cut < 3 * once);
}

TEST_CASE("background: trials of a problem alone come to their end") {
  BackgroundFixture fixture;
  kiln_engine_options options = fixture.backgroundOptions();
  options.background_permille = 100;
  kiln_engine *engine = fixture.engine(options);
  const kiln_problem problem =
      problemOf("gemm m=64 n=512 k=512 dtype=bf16 layout=NT");
  const kiln_prepare_options again = retuneOptions();
  REQUIRE(kiln_prepare(engine, &problem, 1, &again, nullptr) == KILN_SUCCESS);
  awaitTrials(engine, 1);
  // Trials are counted while they are made.
  CHECK(statisticsOf(engine).trials > 0);
  CHECK(statisticsOf(engine).background_done == 0);
  const kiln_gemm_args later = gemmArgs(64, 1024, 512);
  REQUIRE(launch(engine, later) == KILN_SUCCESS);
  awaitChoice(engine, later);
  CHECK(statisticsOf(engine).background_done >= 1);
}

TEST_CASE("background: a hook that hears of a layer holds up no loads") {
  using Clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  BackgroundFixture fixture;
  struct Hook {
    kiln_engine *engine = nullptr;
    Clock::duration shortest = std::chrono::hours(1);
  } hook;
  kiln_engine_options options = fixture.backgroundOptions();
  options.event_user = &hook;
  options.event = [](void *user, const kiln_event *event) {
    auto *hook = static_cast<Hook *>(user);
    if (event->kind != KILN_EVENT_PENDING || !hook->engine)
      return;
    // This is the call that the background's thread, which is idle, would make.
    const Clock::time_point start = Clock::now();
    hook->engine->engine->background()->pace().awaitLoad();
    hook->shortest = std::min(hook->shortest, Clock::now() - start);
  };
  kiln_engine *engine = fixture.engine(options);
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
  hook.engine = engine;
  for (int64_t n : {512, 768, 1024}) {
    REQUIRE(launch(engine, gemmArgs(64, n, 512)) == KILN_SUCCESS);
    std::this_thread::sleep_for(milliseconds(60)); // loads may follow a load
  }
  hook.engine = nullptr;
  // In a pause a load waits for calls in progress for 50 ms.
  CHECK(hook.shortest < milliseconds(40));
}
