// The mode background with faults from outside: pauses, captures, destroyed
// contexts, hooks that throw, missing threads and compilers.
#include "Fakes/FakeCudaHazards.h"
#include "Runtime/BackgroundFixture.h"
#include "Runtime/Captures.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <pthread.h>
#include <stdexcept>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Lets no thread start while it lives: there is no room for a stack.
class NoThreads {
public:
  NoThreads() {
    pthread_attr_t huge;
    REQUIRE(pthread_getattr_default_np(&before) == 0);
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t(1) << 47);
    REQUIRE(pthread_setattr_default_np(&huge) == 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before);
    pthread_attr_destroy(&before);
  }

private:
  pthread_attr_t before;
};

/// Counts warnings.
void countWarnings(kiln_engine_options &options, std::atomic<int> &count) {
  options.log_user = &count;
  options.log = [](void *user, kiln_log_level level, const char *) {
    *static_cast<std::atomic<int> *>(user) += level >= KILN_LOG_WARNING;
  };
}

} // namespace

TEST_CASE("background: without a compiler what exists serves") {
  BackgroundFixture fixture;
  kiln_gemm_args args = gemmArgs();
  REQUIRE(launch(fixture.engine(), args) == KILN_SUCCESS);
  kiln_engine_options options = fixture.backgroundOptions();
  options.nvrtc_path = "/nowhere";
  std::atomic<int> warnings{0};
  countWarnings(options, warnings);
  kiln_engine *engine = fixture.engine(options);
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  CHECK(launch(engine, gemmArgs(64, 1024, 1024)) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(warnings > 0);
  const int told = warnings;
  // It is not tried again.
  CHECK(launch(engine, gemmArgs(65, 1024, 1024)) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(warnings == told);
  kiln_gemm_args other = gemmArgs();
  other.layout = KILN_LAYOUT_NN;
  CHECK(launch(engine, other) == KILN_COMPILER_MISSING);
}

TEST_CASE("background: where all is wrong nothing that was tried serves") {
  BackgroundFixture fixture;
  judgeTrials(/*wrong=*/true);
  kiln_engine *engine = fixture.background();
  kiln_gemm_args args = gemmArgs();
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(statisticsOf(engine).trial_failures > 0);
  const kiln_source source = queryOf(engine, problemOf(args)).source;
  CHECK(source != KILN_SOURCE_RECORD);
  CHECK(source != KILN_SOURCE_ESTIMATE);
}

TEST_CASE("background: an engine ends in the midst of its work") {
  BackgroundFixture fixture;
  for (int i = 0; i < 12; ++i) {
    kiln_engine_options options = fixture.backgroundOptions();
    if (i % 2)
      options.flags |= KILN_ENGINE_MEMORY_ONLY;
    if (i % 3 == 0)
      options.background_permille = 1;
    kiln_engine *engine = fixture.engine(options);
    REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
    REQUIRE(launch(engine, gemmArgs(64, 512, 512)) == KILN_SUCCESS);
    if (i % 4 == 1)
      REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * i));
    fixture.destroy(engine);
  }
  CHECK(kilnFakeModulesLoaded() == 0);
  CHECK(kilnFakeBytesInUse() == 0);
}

TEST_CASE("background: a context may go while it is paused") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.background();
  CUctx_st *own = kilnFakeCreateContext(0);
  cuCtxPushCurrent(own);
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  REQUIRE(launch(engine, gemmArgs(64, 512, 512)) == KILN_SUCCESS);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
  REQUIRE(kiln_background_wait(engine, kLongMs) == KILN_SUCCESS);
  CUcontext popped = nullptr;
  cuCtxPopCurrent(&popped);
  kilnFakeDestroyContext(own);
  // A context at the same address is another one.
  CUctx_st *next = kilnFakeCreateContext(0);
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  cuCtxPushCurrent(next);
  CHECK(launch(engine, gemmArgs()) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  const kiln_gemm_args args = gemmArgs();
  CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
  cuCtxPopCurrent(&popped);
  fixture.destroy(engine);
  kilnFakeDestroyContext(next);
}

TEST_CASE("background: of a context that is gone only the id is asked") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.paused();
  CUctx_st *own = kilnFakeCreateContext(0);
  cuCtxPushCurrent(own);
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  CUcontext popped = nullptr;
  cuCtxPopCurrent(&popped);
  kilnFakeDestroyContext(own);
  kilnFakeCountMisuse(1); // else it ends the process
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(statisticsOf(engine).background_done == 1);
  CHECK(statisticsOf(engine).trials == 0);
  fixture.destroy(engine);
  CHECK(kilnFakeMisuses() == 0);
}

TEST_CASE("background: several contexts share what one measured") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.background();
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  const uint64_t trials = statisticsOf(engine).trials;
  CUctx_st *own = kilnFakeCreateContext(0);
  cuCtxPushCurrent(own);
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(statisticsOf(engine).trials == trials);
  const kiln_gemm_args args = gemmArgs();
  CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
  CUcontext popped = nullptr;
  cuCtxPopCurrent(&popped);
  fixture.destroy(engine);
  kilnFakeDestroyContext(own);
}

TEST_CASE("background: hooks hear of it, launch, and do not wait for it") {
  BackgroundFixture fixture;
  struct Heard {
    kiln_engine *engine = nullptr;
    std::atomic<int> pending{0}, chosen{0}, waits{0}, failed{0};
  } heard;
  kiln_engine_options options = fixture.backgroundOptions();
  options.event_user = &heard;
  options.event = [](void *user, const kiln_event *event) {
    auto *heard = static_cast<Heard *>(user);
    heard->pending += event->kind == KILN_EVENT_PENDING;
    heard->chosen += event->kind == KILN_EVENT_CHOSEN;
    if (event->kind != KILN_EVENT_TRIAL || heard->waits++ > 0)
      return;
    // On the thread of the background.
    heard->failed +=
        kiln_background_wait(heard->engine, -1) != KILN_IN_PROGRESS;
    kiln_gemm_args args = gemmArgs(32, 640, 640);
    heard->failed +=
        kiln_gemm(heard->engine, &args, nullptr, nullptr) != KILN_SUCCESS;
  };
  kiln_engine *engine = heard.engine = fixture.engine(options);
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(heard.pending == 2);
  CHECK(heard.chosen > 0);
  CHECK(heard.waits > 0);
  CHECK(heard.failed == 0);
}

TEST_CASE("background: pauses are counted, and what is paused does nothing") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.background();
  CHECK(kiln_background_resume(engine) == KILN_INVALID_ARGUMENT);
  REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
  REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
  for (int64_t n : {256, 512, 1024})
    REQUIRE(launch(engine, gemmArgs(64, n, 512)) == KILN_SUCCESS);
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  CHECK(kiln_background_wait(engine, kLongMs) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).background_pending == 3);
  CHECK(statisticsOf(engine).trials == 0);
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  // Repeated interruptions: it goes on where it stopped.
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * i));
    REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
    REQUIRE(kiln_background_wait(engine, kLongMs) == KILN_SUCCESS);
    const uint64_t steps = kilnFakeCallCount("cuLaunchKernelEx");
    const uint64_t bytes = kilnFakeBytesInUse();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(kilnFakeCallCount("cuLaunchKernelEx") == steps);
    CHECK(kilnFakeBytesInUse() == bytes);
    REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  }
  fixture.awaitQuiet(engine);
  for (int64_t n : {256, 512, 1024}) {
    const kiln_gemm_args args = gemmArgs(64, n, 512);
    CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
  }
}

TEST_CASE("background: captures of others survive, and hold trials off") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.background();
  kiln_gemm_args args = gemmArgs();
  // The first call of a signature cannot be captured.
  kiln_stream stream = fixture.gpu.stream();
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
          CUDA_SUCCESS);
  CHECK(launch(engine, args, stream) == KILN_NOT_PREPARED);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  REQUIRE(launch(engine, args, stream) == KILN_SUCCESS);

  // From here on no thread uses the default stream, which blocking streams in
  // capture refuse.
  std::atomic<bool> ends{false};
  std::atomic<int> captures{0}, failed{0};
  std::thread other = onThread(fixture, [&] {
    CUstream own = nullptr;
    cuStreamCreate(&own, CU_STREAM_DEFAULT);
    for (int i = 0; !ends; ++i) {
      CUgraph made = nullptr;
      failed += cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_GLOBAL) !=
                CUDA_SUCCESS;
      const kiln_status status =
          launch(engine, gemmArgs(1 + i % 64, 512, 512), own);
      failed += status != KILN_SUCCESS;
      std::this_thread::yield();
      failed += cuStreamEndCapture(own, &made) != CUDA_SUCCESS;
      ++captures;
    }
    cuStreamDestroy(own);
  });
  for (int64_t n = 256; n <= 1024; n += 256)
    CHECK(launch(engine, gemmArgs(64, n, 512), stream) == KILN_SUCCESS);
  const kiln_status quiet = kiln_background_wait(engine, kLongMs);
  ends = true;
  other.join();
  CHECK(quiet == KILN_SUCCESS);
  CHECK(captures > 0);
  CHECK(failed == 0);
}

TEST_CASE("background: without a thread launches go on, and nobody waits") {
  BackgroundFixture fixture;
  kiln_engine *maker = fixture.background();
  REQUIRE(launch(maker, gemmArgs()) == KILN_SUCCESS);
  fixture.awaitQuiet(maker);
  kiln_engine_options options = fixture.backgroundOptions();
  std::atomic<int> warnings{0};
  countWarnings(options, warnings);
  kiln_engine *engine = fixture.engine(options);
  {
    NoThreads scope;
    for (int64_t n : {256, 512, 1024})
      CHECK(launch(engine, gemmArgs(128, n, 512)) == KILN_SUCCESS);
    CHECK(kiln_background_wait(engine, -1) == KILN_SUCCESS);
  }
  CHECK(statisticsOf(engine).background_pending == 0);
  CHECK(warnings == 1);
  // A later launch tries again.
  const kiln_gemm_args later = gemmArgs(128, 768, 512);
  CHECK(launch(engine, later) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(queryOf(engine, problemOf(later)).source == KILN_SOURCE_RECORD);
}

TEST_CASE("background: a hook that throws ends its layer and nothing else") {
  BackgroundFixture fixture;
  struct Thrower {
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> thrown{0};
  } thrower;
  kiln_engine_options options = fixture.backgroundOptions();
  options.event_user = &thrower;
  options.event = [](void *user, const kiln_event *event) {
    auto *thrower = static_cast<Thrower *>(user);
    if (event->kind != KILN_EVENT_TRIAL ||
        std::this_thread::get_id() == thrower->caller || thrower->thrown++ > 0)
      return;
    throw std::runtime_error("of a hook");
  };
  kiln_engine *engine = fixture.engine(options);
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(thrower.thrown == 1);
  CHECK(statisticsOf(engine).background_done == 1);
  // Its layer is not begun again, and other layers are.
  CHECK(launch(engine, gemmArgs(10000)) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).background_pending == 0);
  const kiln_gemm_args other = gemmArgs(64, 512, 512);
  CHECK(launch(engine, other) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(queryOf(engine, problemOf(other)).source == KILN_SOURCE_RECORD);
}

TEST_CASE("background: misses in captures hold trials off") {
  using Clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.background();
  kiln_stream stream = fixture.gpu.stream();
  REQUIRE(launch(engine, gemmArgs(), stream) == KILN_SUCCESS);
  auto gpuNs = [&] { return statisticsOf(engine).background_gpu_ns; };
  while (gpuNs() == 0 && kiln_background_wait(engine, 0) == KILN_IN_PROGRESS)
    std::this_thread::yield();
  // Stand-ins, and later plans of a range, each at another value.
  uint64_t before = 0;
  milliseconds longest(0);
  Clock::time_point last = Clock::now();
  for (int64_t m = 1; m <= 40; ++m) {
    CUgraph graph = nullptr;
    REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
            CUDA_SUCCESS);
    CHECK(launch(engine, gemmArgs(m, 768, 512), stream) == KILN_SUCCESS);
    REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    longest = std::max(
        longest, std::chrono::duration_cast<milliseconds>(Clock::now() - last));
    last = Clock::now();
    std::this_thread::sleep_for(milliseconds(20));
    if (m == 10)
      before = gpuNs(); // the piece that was in progress has ended
  }
  const uint64_t after = gpuNs();
  // Unless this thread was kept from running.
  CHECK((after == before || longest > milliseconds(200)));
  // The held time is counted once trials are due again.
  auto heldNs = [&] { return statisticsOf(engine).background_held_ns; };
  for (int64_t m = 1; heldNs() == 0 && m <= 2000; ++m) {
    CUgraph graph = nullptr;
    REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
            CUDA_SUCCESS);
    CHECK(launch(engine, gemmArgs(m), stream) == KILN_SUCCESS);
    REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    std::this_thread::sleep_for(milliseconds(5));
  }
  CHECK(heldNs() > 0);
  fixture.awaitQuiet(engine);
  CHECK(gpuNs() > after);
}

TEST_CASE("background: what was measured to its end is not measured again") {
  BackgroundFixture fixture;
  // Interrupts the background when it has chosen, while it is on its thread.
  struct Interrupter {
    kiln_engine *engine = nullptr;
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<bool> isArmed{false};
  } interrupter;
  kiln_engine_options options = fixture.backgroundOptions();
  options.event_user = &interrupter;
  options.event = [](void *user, const kiln_event *event) {
    auto *self = static_cast<Interrupter *>(user);
    if (event->kind != KILN_EVENT_CHOSEN ||
        std::this_thread::get_id() == self->caller ||
        !self->isArmed.exchange(false))
      return;
    kiln_background_pause(self->engine);
    kiln_background_resume(self->engine);
  };
  kiln_engine *engine = interrupter.engine = fixture.engine(options);
  const PreparedLayer layer;
  kiln_prepare_options again = KILN_INIT(kiln_prepare_options);
  again.flags = KILN_PREPARE_RETUNE;
  auto trialsOf = [&](bool isInterrupted) {
    const uint64_t before = statisticsOf(engine).trials;
    // It is armed when the thread works on this layer and no other.
    REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
    REQUIRE(kiln_prepare(engine, &layer.problem, 1, &again, nullptr) ==
            KILN_SUCCESS);
    interrupter.isArmed = isInterrupted;
    REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
    fixture.awaitQuiet(engine);
    CHECK_FALSE(interrupter.isArmed);
    return statisticsOf(engine).trials - before;
  };
  REQUIRE(trialsOf(false) > 0);
  const uint64_t once = trialsOf(false);
  CHECK(trialsOf(true) < 2 * once);
}

TEST_CASE("background: a range whose kernels are found wrong while it is made "
          "is no candidate") {
  struct Hooked {
    std::atomic<bool> isArmed{false};
    std::thread::id caller = std::this_thread::get_id();
    kiln_engine *engine = nullptr;
  };
  for (bool isPrepared : {false, true}) {
    CAPTURE(isPrepared);
    BackgroundFixture fixture;
    judgeTrials(/*wrong=*/true);
    Hooked hooked;
    kiln_engine_options options = fixture.backgroundOptions();
    options.event_user = &hooked;
    options.event = [](void *user, const kiln_event *event) {
      auto *hooked = static_cast<Hooked *>(user);
      if (event->kind != KILN_EVENT_CHOSEN ||
          std::this_thread::get_id() != hooked->caller ||
          !hooked->isArmed.exchange(false))
        return;
      kiln_background_resume(hooked->engine);
      kiln_background_wait(hooked->engine, kLongMs);
    };
    kiln_engine *engine = hooked.engine = fixture.engine(options);
    REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
    REQUIRE(launch(engine, gemmArgs(16, 512, 512)) == KILN_SUCCESS);
    const kiln_range range = rangeOf("m", 1, 8192);
    kiln_problem problem =
        problemOf("gemm m=16 n=512 k=512 dtype=bf16 layout=NT");
    problem.ranges = &range;
    problem.range_count = 1;
    hooked.isArmed = true;
    kiln_plan *plan = nullptr;
    CHECK((isPrepared ? kiln_prepare(engine, &problem, 1, nullptr, nullptr)
                      : kiln_plan_acquire(engine, &problem, nullptr, &plan)) ==
          KILN_NO_CANDIDATE);
    CHECK_FALSE(hooked.isArmed);
    kiln_plan_release(plan);
  }
}

TEST_CASE("background: a launch that fails again and again pushes no other "
          "value out") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.paused();
  kiln_gemm_args other = gemmArgs(64, 256, 256);
  other.a.type = KILN_FP16;
  REQUIRE(launch(engine, other) == KILN_SUCCESS); // the context is known
  kiln_stream stream = fixture.gpu.stream();
  for (int i = 0; i < 10; ++i) {
    REQUIRE(beginCapture(fixture, stream));
    CHECK(launch(engine, gemmArgs(16, 512, 512), stream) == KILN_NOT_PREPARED);
    CHECK(endCapture(fixture, stream) == 0);
  }
  // More values than are remembered, the largest last.
  std::vector<int64_t> values = {16};
  for (int64_t m = 100; m < 110; ++m)
    values.push_back(m);
  values.insert(values.end(), {10000, 20000, 11000});
  for (int64_t m : values)
    REQUIRE(launch(engine, gemmArgs(m, 512, 512)) == KILN_SUCCESS);
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  for (int64_t m : values) {
    CAPTURE(m);
    const kiln_gemm_args args = gemmArgs(m, 512, 512);
    CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
  }
}

TEST_CASE("background: trials are made again of what is pending as well") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.paused();
  const kiln_problem problem =
      problemOf("gemm m=64 n=512 k=512 dtype=bf16 layout=NT");
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  // Another engine measures it: the job finds that in the cache.
  REQUIRE(kiln_prepare(fixture.engine(KILN_MODE_TUNE), &problem, 1, nullptr,
                       nullptr) == KILN_SUCCESS);
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.flags = KILN_PREPARE_RETUNE;
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(statisticsOf(engine).trials > 0);
}
