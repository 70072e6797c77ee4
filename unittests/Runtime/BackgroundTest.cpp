// The mode background: the plans that launches get at once and later, and the
// work that they never wait for.
#include "Runtime/BackgroundFixture.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <random>
#include <string_view>
#include <sys/inotify.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Counts how often files below a folder are opened.
class OpenedFiles {
public:
  explicit OpenedFiles(const std::string &folder)
      : events(inotify_init1(IN_NONBLOCK)) {
    REQUIRE(events >= 0);
    for (const auto &entry :
         std::filesystem::recursive_directory_iterator(folder))
      if (entry.is_directory())
        REQUIRE(inotify_add_watch(events, entry.path().c_str(), IN_OPEN) >= 0);
  }
  ~OpenedFiles() { close(events); }

  /// The number since the last call.
  int take() {
    int count = 0;
    alignas(inotify_event) char buffer[1 << 16];
    for (ssize_t bytes = 0; (bytes = read(events, buffer, sizeof(buffer))) > 0;)
      for (ssize_t at = 0; at < bytes;) {
        inotify_event event;
        std::memcpy(&event, buffer + at, sizeof(event));
        count += (event.mask & IN_ISDIR) == 0;
        at += static_cast<ssize_t>(sizeof(event) + event.len);
      }
    return count;
  }

private:
  const int events;
};

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

TEST_CASE("background: trials are counted while they are made") {
  BackgroundFixture fixture;
  kiln_engine_options options = fixture.backgroundOptions();
  options.background_permille = 20;
  kiln_engine *engine = fixture.engine(options);
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  kiln_statistics now = statisticsOf(engine);
  for (uint64_t before = 0, steps = 0; steps < 3 && now.background_pending;
       now = statisticsOf(engine)) {
    steps += now.trials > before;
    before = now.trials;
    std::this_thread::yield();
  }
  CHECK(now.trials > 0);
  CHECK(now.background_done == 0);
  CHECK(now.background_pending == 1);
}

TEST_CASE("background: one generic kernel serves all layers of a signature") {
  BackgroundFixture fixture;
  kiln_engine_options options = fixture.backgroundOptions();
  std::atomic<int> generic{0};
  options.event_user = &generic;
  options.event = [](void *user, const kiln_event *event) {
    const std::string_view config = event->config ? event->config : "";
    *static_cast<std::atomic<int> *>(user) +=
        event->kind == KILN_EVENT_LOADED &&
        (config.starts_with("simt") || config.starts_with("naive"));
  };
  kiln_engine *engine = fixture.engine(options);
  for (int64_t n : {256, 512, 1024, 4096})
    REQUIRE(launch(engine, gemmArgs(64, n, 512)) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  CHECK(generic.load() == 1);
}

TEST_CASE("background: a layer that is met later does not wait for trials") {
  BackgroundFixture fixture;
  kiln_engine_options options = fixture.backgroundOptions();
  options.background_permille = 20;
  kiln_engine *engine = fixture.engine(options);
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  awaitTrials(engine, 1);
  const kiln_gemm_args later = gemmArgs(64, 512, 512);
  REQUIRE(launch(engine, later) == KILN_SUCCESS);
  awaitChoice(engine, later);
  CHECK(queryOf(engine, problemOf(later)).source == KILN_SOURCE_ESTIMATE);
  // Both are not measured yet, and will be.
  CHECK(statisticsOf(engine).background_done == 0);
  CHECK(statisticsOf(engine).background_pending == 2);
  const uint64_t trials = statisticsOf(engine).trials;
  awaitTrials(engine, 1);
  CHECK(statisticsOf(engine).trials > trials);
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
  // From here on the device is busy, and a load has to wait for it.
  kilnFakeSetBlockLimit(60000);
  kilnFakeHoldWork("kiln_*");
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  const uint64_t blocked = kilnFakeBlockedCalls();
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  const auto end = std::chrono::steady_clock::now() + kForever;
  while (kilnFakeBlockedCalls() == blocked &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  REQUIRE(kilnFakeBlockedCalls() > blocked);
  // It waits inside of the driver, and does not block launches.
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
  // A stand-in does not suffice for a plan handle.
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

TEST_CASE("background: a layer's record is read by its first launch alone") {
  BackgroundFixture fixture;
  kiln_engine *maker = fixture.background();
  REQUIRE(launch(maker, gemmArgs()) == KILN_SUCCESS);
  REQUIRE(launch(maker, gemmArgs(64, 512, 512)) == KILN_SUCCESS);
  fixture.awaitQuiet(maker);
  fixture.destroy(maker);
  kiln_engine *engine = fixture.paused();
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  OpenedFiles opened(fixture.cachePath);
  REQUIRE(launch(engine, gemmArgs(64, 512, 512)) == KILN_SUCCESS);
  CHECK(opened.take() > 0);
  // Though another process might have written since.
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  for (const auto &entry :
       std::filesystem::recursive_directory_iterator(fixture.cachePath))
    if (entry.is_regular_file())
      std::filesystem::last_write_time(
          entry, std::filesystem::file_time_type::clock::now());
  opened.take();
  const kiln_gemm_args later = gemmArgs(65, 512, 512);
  CHECK(launch(engine, later) == KILN_SUCCESS);
  CHECK(opened.take() == 0);
  CHECK(queryOf(engine, problemOf(later)).source == KILN_SOURCE_STAND_IN);
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
  // All values that were launched meanwhile have measured plans.
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
