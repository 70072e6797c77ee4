// Trials in a process with other work: waits, captures, memory and kernels.
#include "Runtime/RuntimeFixture.h"
#include "trial/TrialParams.h"

#include <cuda.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Engines whose trials find everything right.
struct TrialsFixture : RuntimeFixture {
  TrialsFixture() { judgeTrials(); }

  kiln_engine *tuner(int64_t timeoutMs = 0) {
    kiln_engine_options made = options(KILN_MODE_TUNE);
    made.tune_budget_ms = 10000;
    made.trial_timeout_ms = timeoutMs;
    return engine(made);
  }
  /// The kernel that is launched for \p args, which is tuned first if need be.
  std::string winner(kiln_engine *engine, const kiln_gemm_args &args) {
    kiln_problem problem = problemOf(args);
    kiln_plan *plan = nullptr;
    CAPTURE(lastError());
    REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
    REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) ==
            KILN_SUCCESS);
    char text[512] = "";
    REQUIRE(kiln_plan_describe(plan, text, sizeof(text), nullptr) ==
            KILN_SUCCESS);
    kiln_plan_release(plan);
    return text;
  }
  kiln_source sourceOf(kiln_engine *engine, const kiln_gemm_args &args) {
    kiln_problem problem = problemOf(args);
    kiln_query_result result = KILN_INIT(kiln_query_result);
    REQUIRE(kiln_query(engine, &problem, nullptr, &result) == KILN_SUCCESS);
    return result.source;
  }
  /// The content of the cache, one file behind the other.
  std::string cacheText() const {
    std::stringstream text;
    for (const auto &entry :
         std::filesystem::recursive_directory_iterator(cachePath))
      if (entry.is_regular_file())
        text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    return text.str();
  }
};

const kiln_gemm_args kShapes[] = {gemmArgs(128, 256, 512),
                                  gemmArgs(256, 1536, 1024),
                                  gemmArgs(512, 512, 2048)};

/// Calls cuCtxSynchronize in a loop, as an engine's other threads do. While a
/// launch is being captured the capturing thread waits for such a call.
class Waiter {
public:
  explicit Waiter(const FakeGpu &gpu) : thread([this, &gpu] { loop(gpu); }) {
    kilnFakeOnStep(
        [](const KilnFakeStep *step, void *user) {
          auto *self = static_cast<Waiter *>(user);
          const long seen = self->calls;
          while (step->isCaptured && !self->ends && self->calls == seen)
            std::this_thread::yield();
        },
        this);
  }
  ~Waiter() { stop(); }
  void stop() {
    ends = true;
    if (thread.joinable())
      thread.join();
    kilnFakeOnStep(nullptr, nullptr);
  }

  std::atomic<long> calls{0}, failed{0};

private:
  void loop(const FakeGpu &gpu) {
    cuCtxPushCurrent(gpu.context());
    while (!ends) {
      failed += cuCtxSynchronize() != CUDA_SUCCESS;
      ++calls;
      std::this_thread::yield();
    }
  }
  std::atomic<bool> ends{false};
  std::thread thread;
};

} // namespace

TEST_CASE("S3: tuning and another thread's waits do not mind each other") {
  std::vector<std::string> quiet;
  {
    TrialsFixture fixture;
    kiln_engine *engine = fixture.tuner();
    for (const kiln_gemm_args &args : kShapes)
      quiet.push_back(fixture.winner(engine, args));
    REQUIRE(statisticsOf(engine).trials > 0);
    REQUIRE(statisticsOf(engine).trial_failures == 0);
  }
  TrialsFixture fixture;
  kiln_engine *engine = fixture.tuner();
  Waiter waiter(fixture.gpu);
  for (size_t i = 0; i < std::size(kShapes); ++i)
    CHECK(fixture.winner(engine, kShapes[i]) == quiet[i]);
  waiter.stop();
  CHECK(waiter.calls > 0);
  CHECK(waiter.failed == 0);
  CHECK(statisticsOf(engine).trials > 0);
  CHECK(statisticsOf(engine).trial_failures == 0);
  CHECK(kilnFakeCallCount("cuStreamBeginCapture") == 0);
}

TEST_CASE("S3: another thread's capture of a blocking stream survives tuning") {
  for (CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED}) {
    CAPTURE(mode);
    TrialsFixture fixture;
    kiln_engine *engine = fixture.tuner();
    std::atomic<int> phase{0};
    CUresult ended = CUDA_ERROR_UNKNOWN;
    std::thread other([&] {
      cuCtxPushCurrent(fixture.gpu.context());
      CUstream stream = nullptr;
      cuStreamCreate(&stream, CU_STREAM_DEFAULT);
      cuStreamBeginCapture(stream, mode);
      phase = 1;
      phase.notify_all();
      phase.wait(1);
      CUgraph graph = nullptr;
      ended = cuStreamEndCapture(stream, &graph);
    });
    phase.wait(0);
    kiln_status status = tuneValue(engine, kShapes[0]);
    phase = 2;
    phase.notify_all();
    other.join();
    CHECK(status == KILN_SUCCESS);
    CHECK(ended == CUDA_SUCCESS);
    CHECK(statisticsOf(engine).trials > 0);
    CHECK(statisticsOf(engine).trial_failures == 0);
  }
}

TEST_CASE("S3: what others did to a trial is not stored, and tried again") {
  TrialsFixture fixture;
  kiln_engine *engine = fixture.tuner();
  const std::string best = fixture.winner(engine, kShapes[1]);
  kilnFakeFailCall("cuGraphInstantiateWithFlags", 1,
                   CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, KilnFakeOnce);
  kiln_gemm_args args = kShapes[0];
  REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trial_failures == 1);
  const std::string stored = fixture.cacheText();
  CHECK(stored.find("measurements") != std::string::npos);
  CHECK(stored.find("CAPTURE_INVALIDATED") == std::string::npos);
  CHECK(stored.find("launch-failed") == std::string::npos);
}

TEST_CASE("S3: the next engine takes up trials that were truncated") {
  TrialsFixture fixture;
  kiln_gemm_args args = kShapes[0];
  auto trialsOf = [&](kiln_engine *engine) {
    REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
    CHECK(fixture.sourceOf(engine, args) == KILN_SOURCE_RECORD);
    const uint64_t trials = statisticsOf(engine).trials;
    fixture.destroy(engine);
    return trials;
  };
  kilnFakeFailCall("cuGraphInstantiateWithFlags", 1,
                   CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, KilnFakeOnce);
  CHECK(trialsOf(fixture.tuner()) > 0);
  CHECK(fixture.cacheText().find("truncated") != std::string::npos);
  CHECK(trialsOf(fixture.engine(fixture.options(KILN_MODE_PREDICT))) == 0);
  CHECK(trialsOf(fixture.tuner()) > 0);
  CHECK(trialsOf(fixture.tuner()) == 0);
}

TEST_CASE("S13: what trials loaded is unloaded before others may make theirs") {
  TrialsFixture fixture;
  struct Unloads {
    uint64_t atFirstEvent = 0;
    bool isWatched = false;
  } unloads;
  kiln_engine_options options = fixture.options(KILN_MODE_TUNE);
  options.event_user = &unloads;
  // Trials are reported when their turn is over.
  options.event = [](void *user, const kiln_event *event) {
    auto *unloads = static_cast<Unloads *>(user);
    if (event->kind == KILN_EVENT_TRIAL &&
        !std::exchange(unloads->isWatched, true))
      unloads->atFirstEvent = kilnFakeCallCount("cuModuleUnload");
  };
  kiln_engine *engine = fixture.engine(options);
  kiln_problem problem = problemOf(kShapes[0]);
  kiln_prepare_options retune = KILN_INIT(kiln_prepare_options);
  retune.flags = KILN_PREPARE_RETUNE;
  // The second winner's kernel is there already, so it is not adopted.
  for (const kiln_prepare_options *how :
       {static_cast<kiln_prepare_options *>(nullptr), &retune}) {
    unloads.isWatched = false;
    REQUIRE(kiln_prepare(engine, &problem, 1, how, nullptr) == KILN_SUCCESS);
    REQUIRE(unloads.isWatched);
    CHECK(kilnFakeCallCount("cuModuleUnload") == unloads.atFirstEvent);
  }
}

TEST_CASE("S10: trials follow what is free when they begin") {
  TrialsFixture fixture;
  kilnFakeSetHollowMemory(4 << 20);
  kilnFakeSetDeviceMemory(0, uint64_t(8) << 30);
  kiln_engine *engine = fixture.tuner();
  static uint64_t most;
  kilnFakeOnStep([](const KilnFakeStep *,
                    void *) { most = std::max(most, kilnFakeBytesInUse()); },
                 nullptr);
  auto tune = [&](kiln_gemm_args args, uint64_t freeBytes) {
    kilnFakeSetFreeMemory(0, freeBytes);
    const uint64_t trials = statisticsOf(engine).trials,
                   before = most = kilnFakeBytesInUse();
    CHECK(tuneValue(engine, args) == KILN_SUCCESS);
    CHECK(most - before <= freeBytes / 2);
    return statisticsOf(engine).trials - trials;
  };
  // A device that is nearly full at first, as behind weights and a KV cache.
  CHECK(tune(gemmArgs(2048, 2048, 2048), 40 << 20) == 0);
  CHECK(tune(gemmArgs(2048, 2048, 4096), uint64_t(8) << 30) > 0);
  // A device that is nearly full later.
  CHECK(tune(gemmArgs(4096, 8192, 2048), uint64_t(1) << 30) > 0);
}

TEST_CASE("S10: large products are tuned by default on a large device") {
  TrialsFixture fixture;
  kilnFakeSetHollowMemory(4 << 20);
  kiln_engine *engine = fixture.tuner();
  kiln_gemm_args args = gemmArgs(16384, 16384, 8192);
  REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials > 0);
  CHECK(fixture.sourceOf(engine, args) == KILN_SOURCE_RECORD);
}

TEST_CASE("S13: behind a late launch the estimate is launched, and no trial") {
  TrialsFixture fixture;
  kilnFakeSetBlockLimit(60000);
  kiln_engine *engine = fixture.tuner(/*timeoutMs=*/20);
  REQUIRE(tuneValue(engine, kShapes[1]) == KILN_SUCCESS);
  uint64_t trials = statisticsOf(engine).trials;
  kilnFakeHoldWork("kiln_*");
  // To load a kernel the driver waits for the device.
  std::atomic<bool> hasReturned{false};
  std::thread releaser([&] {
    while (kilnFakeBlockedCalls() == 0 && !hasReturned)
      std::this_thread::yield();
    kilnFakeReleaseWork();
  });
  const kiln_status status = tuneValue(engine, kShapes[0]);
  CAPTURE(lastError());
  hasReturned = true;
  releaser.join();
  CHECK(status == KILN_SUCCESS);
  CHECK(fixture.sourceOf(engine, kShapes[0]) == KILN_SOURCE_ESTIMATE);
  CHECK(statisticsOf(engine).trials > trials);
  // The context lives, and trials begin again.
  trials = statisticsOf(engine).trials;
  CHECK(tuneValue(engine, kShapes[2]) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials > trials);
  CHECK(fixture.sourceOf(engine, kShapes[2]) == KILN_SOURCE_RECORD);
}

TEST_CASE("S13: memory of a late launch is freed without another tuning") {
  TrialsFixture fixture;
  kilnFakeSetBlockLimit(1);
  kiln_engine *engine = fixture.tuner(/*timeoutMs=*/20);
  kiln_gemm_args args = kShapes[1];
  REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
  // A problem that another engine measured needs no trial.
  kiln_gemm_args other = gemmArgs(64, 64, 64);
  REQUIRE(tuneValue(fixture.engine(KILN_MODE_TUNE), other) == KILN_SUCCESS);
  const uint64_t before = kilnFakeBytesInUse();
  kilnFakeHoldWork("kiln_*");
  CHECK(tuneValue(engine, kShapes[0]) != KILN_CONTEXT_DEAD);
  CHECK(kilnFakeBytesInUse() > before + (uint64_t(1) << 20));
  kilnFakeReleaseWork();
  const uint64_t trials = statisticsOf(engine).trials;
  CHECK(kiln_gemm(engine, &other, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials == trials);
  CHECK(kilnFakeBytesInUse() < before + (uint64_t(1) << 20));
}

TEST_CASE("S13: an engine is destroyed beside a trial that hangs") {
  TrialsFixture fixture;
  kilnFakeSetBlockLimit(1);
  kiln_engine *engine = fixture.tuner(/*timeoutMs=*/20);
  REQUIRE(tuneValue(engine, kShapes[1]) == KILN_SUCCESS);
  kilnFakeHoldWork("kiln_*");
  // Its kernel cannot be loaded here, because a load waits for the kernel that
  // hangs.
  CHECK(tuneValue(engine, kShapes[0]) != KILN_CONTEXT_DEAD);
  const uint64_t blocked = kilnFakeBlockedCalls();
  fixture.destroy(engine);
  CHECK(kilnFakeBlockedCalls() == blocked);
  kilnFakeReleaseWork(); // its memory is still there
}
