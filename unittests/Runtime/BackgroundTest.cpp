// The mode background: what launches get at once, what they get later, and what
// they never wait for.
#include "Runtime/Background.h"

#include "Runtime/WaitingFixture.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <random>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Engines of the mode whose trials find everything right and rest little.
struct BackgroundFixture : RuntimeFixture {
  BackgroundFixture() {
    judgeTrials();
    kilnFakeSetHollowMemory(1 << 20); // of a layer's largest values
  }
  kiln_engine_options backgroundOptions() const {
    kiln_engine_options made = options(KILN_MODE_BACKGROUND);
    made.background_permille = 1000;
    made.threads = 2;
    return made;
  }
  kiln_engine *background() { return engine(backgroundOptions()); }
  /// One that begins nothing until it is resumed.
  kiln_engine *paused() {
    kiln_engine *made = background();
    REQUIRE(kiln_background_pause(made) == KILN_SUCCESS);
    return made;
  }
  void awaitQuiet(kiln_engine *engine) {
    CAPTURE(lastError());
    REQUIRE(kiln_background_wait(engine, kLongMs) == KILN_SUCCESS);
  }
};

kiln_status launch(kiln_engine *engine, const kiln_gemm_args &args,
                   kiln_stream stream = nullptr) {
  return kiln_gemm(engine, &args, nullptr, stream);
}

std::string describe(const kiln_plan *plan) {
  char text[512] = "";
  REQUIRE(kiln_plan_describe(plan, text, sizeof(text), nullptr) ==
          KILN_SUCCESS);
  return text;
}

} // namespace

TEST_CASE("background: a call launches at once and better follows") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.paused();
  kiln_gemm_args args = gemmArgs();
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  // The estimator's choice, and beside it the generic kernel.
  CHECK(fixture.nvrtc.compileCount() == 2);
  kiln_query_result first = queryOf(engine, problemOf(args));
  CHECK(first.state == KILN_STATE_FALLBACK);
  CHECK(first.source == KILN_SOURCE_ESTIMATE);
  kiln_statistics before = statisticsOf(engine);
  CHECK(before.background_pending == 1);
  CHECK(before.background_paused == 1);
  CHECK(before.trials == 0);

  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  kiln_query_result tuned = queryOf(engine, problemOf(args));
  CHECK(tuned.state == KILN_STATE_READY);
  CHECK(tuned.source == KILN_SOURCE_RECORD);
  kiln_statistics after = statisticsOf(engine);
  CHECK(after.background_pending == 0);
  CHECK(after.background_done == 1);
  CHECK(after.background_swaps > 0);
  CHECK(after.background_gpu_ns > 0);
  CHECK(after.trials > 0);
  CHECK(launch(engine, args) == KILN_SUCCESS);
  // The layer is prepared: another value only chooses.
  CHECK(launch(engine, gemmArgs(777)) == KILN_SUCCESS);
  CHECK(queryOf(engine, problemOf(gemmArgs(777))).source == KILN_SOURCE_RECORD);
  CHECK(statisticsOf(engine).background_pending == 0);
}

TEST_CASE("background: what is loaded stands in, and nobody loads for it") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.paused();
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  const int compiles = fixture.nvrtc.compileCount();
  const uint64_t loads = kilnFakeCallCount("cuModuleLoadData");
  constexpr int64_t kLayers[][2] = {{512, 512},   {1024, 512}, {4096, 1024},
                                    {256, 4096},  {768, 768},  {2048, 2048},
                                    {4096, 4096}, {128, 8192}};
  std::mt19937 random(7);
  for (int call = 0; call < 2000; ++call) {
    const auto &layer = kLayers[random() % std::size(kLayers)];
    kiln_gemm_args args =
        gemmArgs(1 + static_cast<int64_t>(random() % 2048), layer[0], layer[1]);
    CAPTURE(lastError());
    REQUIRE(launch(engine, args) == KILN_SUCCESS);
  }
  CHECK(fixture.nvrtc.compileCount() == compiles);
  CHECK(kilnFakeCallCount("cuModuleLoadData") == loads);
  kiln_gemm_args other = gemmArgs(33, 4096, 1024);
  REQUIRE(launch(engine, other) == KILN_SUCCESS);
  CHECK(queryOf(engine, problemOf(other)).source == KILN_SOURCE_STAND_IN);
  CHECK(queryOf(engine, problemOf(other)).state == KILN_STATE_FALLBACK);
  CHECK(statisticsOf(engine).background_pending == 1 + std::size(kLayers));
}

TEST_CASE("background: a call waits for no load of the background") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.paused();
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  // From here on the device is busy, and who loads has to wait for it.
  kilnFakeSetBlockLimit(60000);
  kilnFakeHoldWork("kilnEntry");
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  const uint64_t blocked = kilnFakeBlockedCalls();
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  const auto end = std::chrono::steady_clock::now() + kForever;
  while (kilnFakeBlockedCalls() == blocked &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  REQUIRE(kilnFakeBlockedCalls() > blocked);
  // It waits inside of the driver: nothing of it is in our way.
  for (int64_t n : {512, 768, 1024, 1280}) {
    CHECK(launch(engine, gemmArgs(64, n, 512)) == KILN_SUCCESS);
    CHECK(launch(engine, gemmArgs(65, n, 512)) == KILN_SUCCESS);
  }
  CHECK(statisticsOf(engine).background_pending == 5);
  kilnFakeReleaseWork();
  fixture.awaitQuiet(engine);
}

TEST_CASE("background: a handle and a graph keep what they have") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.paused();
  kiln_gemm_args args = gemmArgs();
  kiln_problem problem = problemOf(args);
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  kiln_gemm_args other = gemmArgs(64, 1024, 1024);
  // A stand-in will not do for what stays.
  REQUIRE(launch(engine, other) == KILN_SUCCESS);
  kiln_problem asked = problemOf(other);
  CHECK(queryOf(engine, asked).source == KILN_SOURCE_STAND_IN);
  kiln_plan *plan = nullptr, *second = nullptr;
  REQUIRE(kiln_plan_acquire(engine, &asked, nullptr, &plan) == KILN_SUCCESS);
  REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &second) ==
          KILN_SUCCESS);
  const std::string before = describe(plan);
  CHECK(before.find("by estimate") != std::string::npos);

  kiln_stream stream = fixture.gpu.stream();
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
          CUDA_SUCCESS);
  CHECK(launch(engine, args, stream) == KILN_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);

  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(queryOf(engine, problem).source == KILN_SOURCE_RECORD);
  CHECK(describe(plan) == before);
  CHECK(kiln_plan_launch_call(plan, KILN_FAMILY_GEMM, &other, nullptr,
                              nullptr) == KILN_SUCCESS);
  CHECK(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
  kiln_plan_release(plan);
  kiln_plan_release(second);
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

  // From here on nobody uses the default stream, which blocking streams in
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
  // Again and again in the midst of it: it goes on where it was.
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

TEST_CASE("background: what kiln_prepare has made is measured later") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.paused();
  kiln_gemm_args args = gemmArgs();
  kiln_problem problem = problemOf(args);
  kiln_range values = KILN_INIT(kiln_range);
  values.name = "m";
  values.first = 1;
  values.last = 64;
  kiln_problem range = problemOf("gemm m=64 n=512 k=512 dtype=bf16 layout=NT");
  range.ranges = &values;
  range.range_count = 1;
  CAPTURE(lastError());
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  REQUIRE(kiln_prepare(engine, &range, 1, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials == 0);
  for (const kiln_problem &prepared : {problem, range}) {
    kiln_query_result now = queryOf(engine, prepared);
    CHECK(now.state == KILN_STATE_FALLBACK);
    CHECK(now.source == KILN_SOURCE_ESTIMATE);
    CHECK(now.capturable == 1);
  }
  CHECK(statisticsOf(engine).background_pending == 2);
  // Once is enough.
  REQUIRE(kiln_prepare(engine, &range, 1, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).background_pending == 2);
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  for (const kiln_problem &prepared : {problem, range}) {
    CHECK(queryOf(engine, prepared).state == KILN_STATE_READY);
    CHECK(queryOf(engine, prepared).source == KILN_SOURCE_RECORD);
  }
  const uint64_t trials = statisticsOf(engine).trials;
  REQUIRE(kiln_prepare(engine, &range, 1, nullptr, nullptr) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(statisticsOf(engine).trials == trials);
  kiln_prepare_options again = KILN_INIT(kiln_prepare_options);
  again.flags = KILN_PREPARE_RETUNE;
  REQUIRE(kiln_prepare(engine, &range, 1, &again, nullptr) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(statisticsOf(engine).trials > trials);
}

TEST_CASE("background: a cache that others filled serves soon") {
  BackgroundFixture fixture;
  kiln_gemm_args args = gemmArgs();
  kiln_engine *maker = fixture.background();
  REQUIRE(launch(maker, args) == KILN_SUCCESS);
  fixture.awaitQuiet(maker);
  const int compiles = fixture.nvrtc.compileCount();
  kiln_engine *later = fixture.background();
  REQUIRE(launch(later, args) == KILN_SUCCESS);
  CHECK(queryOf(later, problemOf(args)).source == KILN_SOURCE_RECORD);
  fixture.awaitQuiet(later);
  CHECK(statisticsOf(later).trials == 0);
  CHECK(fixture.nvrtc.compileCount() == compiles);
  CHECK(queryOf(later, problemOf(args)).state == KILN_STATE_READY);
}

TEST_CASE("background: a cache that is not written is no hindrance") {
  for (uint32_t flag : {KILN_ENGINE_MEMORY_ONLY, KILN_ENGINE_READ_ONLY}) {
    BackgroundFixture fixture;
    kiln_engine_options options = fixture.backgroundOptions();
    options.flags |= flag;
    kiln_engine *engine = fixture.engine(options);
    kiln_gemm_args args = gemmArgs();
    REQUIRE(launch(engine, args) == KILN_SUCCESS);
    fixture.awaitQuiet(engine);
    CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
    CHECK(launch(engine, gemmArgs(55)) == KILN_SUCCESS);
    CHECK(filesIn(fixture.cachePath).empty());
  }
}

TEST_CASE("background: without a compiler what exists serves") {
  BackgroundFixture fixture;
  kiln_gemm_args args = gemmArgs();
  REQUIRE(launch(fixture.engine(), args) == KILN_SUCCESS);
  kiln_engine_options options = fixture.backgroundOptions();
  options.nvrtc_path = "/nowhere";
  std::atomic<int> warnings{0};
  options.log_user = &warnings;
  options.log = [](void *user, kiln_log_level level, const char *) {
    *static_cast<std::atomic<int> *>(user) += level >= KILN_LOG_WARNING;
  };
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
  // One at the same address is another.
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

TEST_CASE("background: launches of two threads while plans are swapped") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.background();
  kiln_stream stream = fixture.gpu.stream();
  std::atomic<int> failed{0};
  auto body = [&](unsigned seed) {
    return [&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 5000; ++i) {
        const auto m = 1 + static_cast<int64_t>(random() % 512);
        const auto n = 256 * (1 + static_cast<int64_t>(random() % 3));
        failed += launch(engine, gemmArgs(m, n, 512), stream) != KILN_SUCCESS;
      }
    };
  };
  onThreads(fixture, {body(1), body(2)});
  CHECK(failed == 0);
  fixture.awaitQuiet(engine);
  CHECK(statisticsOf(engine).launches == 10000);
  CHECK(statisticsOf(engine).background_swaps > 0);
  // Whatever was launched meanwhile has what was measured.
  for (int64_t m = 1; m <= 512; m += 37) {
    const kiln_gemm_args args = gemmArgs(m, 256, 512);
    CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
  }
}

TEST_CASE("background: a value beyond the layer's range widens it") {
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.background();
  REQUIRE(launch(engine, gemmArgs(64, 512, 512)) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  const kiln_gemm_args large = gemmArgs(10000, 512, 512);
  REQUIRE(launch(engine, large) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(queryOf(engine, problemOf(large)).source == KILN_SOURCE_RECORD);
}

TEST_CASE("background: other modes have none") {
  BackgroundFixture fixture;
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
    kiln_engine *engine = fixture.engine(mode);
    CHECK(kiln_background_pause(engine) == KILN_UNSUPPORTED);
    CHECK(kiln_background_resume(engine) == KILN_UNSUPPORTED);
    CHECK(kiln_background_wait(engine, 0) == KILN_UNSUPPORTED);
  }
  CHECK(kiln_background_wait(nullptr, 0) == KILN_INVALID_ARGUMENT);
}

TEST_CASE("background: code is loaded in a moment without launches") {
  using std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  std::atomic<uint64_t> launches{0};
  BackgroundPace pace(1, [&] { return launches.load(); });
  Clock::time_point start = Clock::now();
  pace.awaitLoad();
  CHECK(Clock::now() - start >= milliseconds(1));
  CHECK(Clock::now() - start < milliseconds(900));
  // Without such a moment it goes ahead all the same.
  std::atomic<bool> ends{false};
  std::thread launcher([&] {
    while (!ends)
      ++launches;
  });
  pace.awaitLoad();
  ends = true;
  launcher.join();
}

TEST_CASE("background: work of the GPU is followed by a rest") {
  using std::chrono::milliseconds;
  BackgroundPace pace(0.25, [] { return uint64_t(0); });
  REQUIRE(pace.begin());
  pace.end(milliseconds(10));
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(pace.begin());
  CHECK(std::chrono::steady_clock::now() - start >= milliseconds(29));
  CHECK(pace.waited() >= milliseconds(29));
  CHECK(pace.usedNs() == 10'000'000);
  pace.end(milliseconds(0));
  pace.noteCapture();
  const auto capture = std::chrono::steady_clock::now();
  REQUIRE(pace.begin());
  CHECK(std::chrono::steady_clock::now() - capture >= milliseconds(200));
  pace.end(std::chrono::hours(1));
  std::thread interrupter([&] {
    std::this_thread::sleep_for(milliseconds(20));
    pace.interrupt(true);
  });
  CHECK(!pace.begin());
  interrupter.join();
  CHECK(!pace.begin());
}
