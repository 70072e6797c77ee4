// Layers whose trials come to nothing: each is searched once, not at each of
// its values, and is measured when that can be done.
#include "Runtime/BackgroundFixture.h"
#include "Runtime/Capi.h"
#include "Runtime/Engine.h"

#include <cuda.h>

#include <atomic>
#include <chrono>

using namespace kiln;
using namespace kiln::testing;
using std::chrono::seconds;

namespace {

/// An engine of the mode tune whose layers wait by a clock of the test's.
struct DelayFixture : RuntimeFixture {
  DelayFixture() {
    judgeTrials();
    kilnFakeSetHollowMemory(1 << 20); // of a layer's largest values
  }
  kiln_engine *tuner(int64_t timeoutMs = 0) {
    kiln_engine_options made = options(KILN_MODE_TUNE);
    made.trial_timeout_ms = timeoutMs;
    made.log_level = KILN_LOG_INFO;
    made.log_user = this;
    made.log = [](void *user, kiln_log_level level, const char *message) {
      auto *self = static_cast<DelayFixture *>(user);
      if (!std::strstr(message, "until they can be made"))
        return;
      ++self->delays;
      self->warnings += level == KILN_LOG_WARNING;
    };
    kiln_engine *tuner = engine(made);
    trialsOf(tuner).setClock(
        [this] { return LayerTrials::Clock::time_point(seconds(now.load())); });
    return tuner;
  }
  LayerTrials &trialsOf(kiln_engine *engine) const {
    const Driver *driver = llvm::cantFail(engine->engine->driver());
    auto context = llvm::cantFail(findContext(*driver, gpu.stream()));
    return llvm::cantFail(engine->engine->contextState(*driver, context))
        ->layerTrials;
  }
  static void fillDevice() { kilnFakeSetFreeMemory(0, uint64_t(200) << 20); }
  static void emptyDevice() { kilnFakeSetFreeMemory(0, uint64_t(8) << 30); }

  std::atomic<int64_t> now{1000};
  std::atomic<int> delays{0}, warnings{0}; ///< that were reported
};

/// Too large for trials on a device that is nearly full.
kiln_gemm_args wide(int64_t m, int64_t n = 8192) {
  return gemmArgs(m, n, 8192);
}

} // namespace

TEST_CASE("a layer waits twice as long after each trial in vain") {
  LayerTrials trials;
  LayerTrials::Clock::time_point now{};
  trials.setClock([&] { return now; });
  CHECK(trials.mayBegin("a"));
  int64_t total = 0;
  for (int64_t expected : {10, 20, 40, 80, 160, 320, 320, 320}) {
    const LayerTrials::Delay delay = trials.putOff("a", {"full", true});
    CHECK(delay.time == seconds(expected));
    CHECK(delay.isFirst == (total == 0));
    total += expected;
    CHECK(trials.lacksRoom("a"));
    CHECK_FALSE(trials.mayBegin("a"));
    CHECK(trials.mayBegin("b"));
    now += seconds(expected) - std::chrono::milliseconds(1);
    CHECK_FALSE(trials.mayBegin("a"));
    now += std::chrono::milliseconds(1);
    CHECK(trials.mayBegin("a"));
  }
  trials.advance("a");
  CHECK_FALSE(trials.lacksRoom("a"));
  CHECK(trials.putOff("a", {}).time == seconds(10));
  CHECK_FALSE(trials.lacksRoom("a"));
}

TEST_CASE("a layer without room for trials is searched once, not for each "
          "value") {
  DelayFixture fixture;
  kiln_engine *engine = fixture.tuner();
  fixture.fillDevice();
  REQUIRE(launch(engine, wide(16)) == KILN_SUCCESS);
  const uint64_t before = statisticsOf(engine).compiles;
  for (int64_t m : {17, 33, 100, 500, 1000}) {
    CAPTURE(m);
    const kiln_gemm_args args = wide(m);
    REQUIRE(launch(engine, args) == KILN_SUCCESS);
    CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_ESTIMATE);
    CHECK(queryOf(engine, problemOf(args)).state == KILN_STATE_FALLBACK);
  }
  CHECK(statisticsOf(engine).compiles == before);
  CHECK(statisticsOf(engine).trials == 0);
  CHECK(fixture.delays == 1);
  CHECK(fixture.warnings == 1);
  // Another layer is another matter, and waits by itself.
  REQUIRE(launch(engine, wide(16, 16384)) == KILN_SUCCESS);
  CHECK(fixture.delays == 2);
  REQUIRE(launch(engine, wide(64, 16384)) == KILN_SUCCESS);
  CHECK(fixture.delays == 2);
}

TEST_CASE("a layer without room tries again when its time is over, or memory "
          "was freed") {
  for (bool isFreed : {false, true}) {
    CAPTURE(isFreed);
    DelayFixture fixture;
    kiln_engine *engine = fixture.tuner();
    fixture.fillDevice();
    REQUIRE(launch(engine, wide(16)) == KILN_SUCCESS);
    fixture.now += 9;
    REQUIRE(launch(engine, wide(17)) == KILN_SUCCESS);
    CHECK(fixture.delays == 1);
    if (!isFreed) {
      fixture.now += 1;
      REQUIRE(launch(engine, wide(18)) == KILN_SUCCESS);
      CHECK(fixture.delays == 2); // reported, without another warning
      CHECK(fixture.warnings == 1);
      fixture.now += 20;
    }
    fixture.emptyDevice();
    // A hit measures nothing.
    REQUIRE(launch(engine, wide(17)) == KILN_SUCCESS);
    CHECK(statisticsOf(engine).trials == 0);
    REQUIRE(launch(engine, wide(19)) == KILN_SUCCESS);
    const uint64_t trials = statisticsOf(engine).trials;
    CHECK(trials > 0);
    // The earlier values have measured plans as well.
    for (int64_t m : {16, 17, 19, 20}) {
      CAPTURE(m);
      const kiln_gemm_args args = wide(m);
      REQUIRE(launch(engine, args) == KILN_SUCCESS);
      CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
      CHECK(queryOf(engine, problemOf(args)).state == KILN_STATE_READY);
    }
    CHECK(statisticsOf(engine).trials == trials);
  }
}

TEST_CASE("threads that meet a layer without room at once search it once") {
  DelayFixture fixture;
  kiln_engine *engine = fixture.tuner();
  fixture.fillDevice();
  std::atomic<int> failures{0};
  std::vector<std::function<void()>> bodies;
  for (int64_t thread = 0; thread < 4; ++thread)
    bodies.push_back([&, thread] {
      for (int64_t i = 0; i < 3; ++i)
        failures += launch(engine, wide(1 + thread + 40 * i)) != KILN_SUCCESS;
    });
  onThreads(fixture, bodies);
  CHECK(failures == 0);
  CHECK(fixture.delays == 1);
  CHECK(statisticsOf(engine).trials == 0);
}

TEST_CASE("an engine without a stream for trials is asked for one later") {
  DelayFixture fixture;
  kiln_engine *engine = fixture.tuner();
  auto refuse = [](CUresult result) {
    for (const char *symbol : {"cuStreamCreate", "cuStreamCreateWithPriority"})
      kilnFakeFailCall(symbol, 1, result, KilnFakeAlways);
  };
  auto asked = [] {
    return kilnFakeCallCount("cuStreamCreate") +
           kilnFakeCallCount("cuStreamCreateWithPriority");
  };
  refuse(CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(launch(engine, gemmArgs(16)) == KILN_SUCCESS);
  const uint64_t before = asked();
  REQUIRE(launch(engine, gemmArgs(100)) == KILN_SUCCESS);
  REQUIRE(launch(engine, gemmArgs(1000)) == KILN_SUCCESS);
  CHECK(asked() == before);
  refuse(CUDA_SUCCESS);
  fixture.now += 10;
  REQUIRE(launch(engine, gemmArgs(101)) == KILN_SUCCESS);
  CHECK(asked() > before);
  CHECK(statisticsOf(engine).trials > 0);
}

TEST_CASE("behind a late trial a layer is searched once") {
  DelayFixture fixture;
  kilnFakeSetBlockLimit(60000);
  kiln_engine *engine = fixture.tuner(/*timeoutMs=*/20);
  REQUIRE(launch(engine, gemmArgs(16, 512)) == KILN_SUCCESS);
  kilnFakeHoldWork("kiln_*");
  // To load a kernel the driver waits for the device.
  std::atomic<bool> hasReturned{false};
  std::thread releaser([&] {
    while (kilnFakeBlockedCalls() == 0 && !hasReturned)
      std::this_thread::yield();
    kilnFakeReleaseWork();
  });
  const kiln_status status = launch(engine, gemmArgs(16));
  CAPTURE(lastError());
  hasReturned = true;
  releaser.join();
  CHECK(status == KILN_SUCCESS);
  CHECK(fixture.delays == 1);
  const uint64_t trials = statisticsOf(engine).trials;
  REQUIRE(launch(engine, gemmArgs(17)) == KILN_SUCCESS);
  REQUIRE(launch(engine, gemmArgs(500)) == KILN_SUCCESS);
  CHECK(fixture.delays == 1);
  CHECK(statisticsOf(engine).trials == trials);
  fixture.now += 10;
  const kiln_gemm_args args = gemmArgs(501);
  REQUIRE(launch(engine, args) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials > trials);
  CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
}

//===----------------------------------------------------------------------===//
// Layers that were measured in part
//===----------------------------------------------------------------------===//

/// Leaves the results of four trials of a layer in the cache.
static void measureInPart(DelayFixture &fixture) {
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  kiln_range range = rangeOf("m", 1, 8192);
  kiln_problem problem = problemOf("gemm m=8192 n=512 k=512 dtype=bf16 "
                                   "layout=NT");
  problem.ranges = &range;
  problem.range_count = 1;
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.progress = [](void *, const kiln_progress *progress) {
    return int32_t(progress->trials_done >= 4);
  };
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) ==
          KILN_CANCELLED);
  REQUIRE(statisticsOf(engine).trials > 0);
  fixture.destroy(engine);
}

TEST_CASE("a launch goes on with a layer that was measured in part") {
  DelayFixture fixture;
  measureInPart(fixture);
  kiln_engine *engine = fixture.tuner();
  const kiln_gemm_args first = gemmArgs(16, 512, 512);
  REQUIRE(launch(engine, first) == KILN_SUCCESS);
  const uint64_t trials = statisticsOf(engine).trials;
  CHECK(trials > 0);
  CHECK(queryOf(engine, problemOf(first)).state == KILN_STATE_READY);
  for (int64_t m : {16, 17, 1000})
    REQUIRE(launch(engine, gemmArgs(m, 512, 512)) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials == trials);
  // A mode without trials takes it as it is.
  kiln_engine *predict = fixture.engine();
  REQUIRE(launch(predict, first) == KILN_SUCCESS);
  CHECK(statisticsOf(predict).trials == 0);
}

TEST_CASE("a layer of which trials find no more is not gone on with at each "
          "value") {
  DelayFixture fixture;
  measureInPart(fixture);
  kiln_engine *engine = fixture.tuner();
  kilnFakeSetFreeMemory(0, 4096);
  for (int64_t m : {16, 17, 1000}) {
    CAPTURE(m);
    const kiln_gemm_args args = gemmArgs(m, 512, 512);
    REQUIRE(launch(engine, args) == KILN_SUCCESS);
    CHECK(queryOf(engine, problemOf(args)).state == KILN_STATE_FALLBACK);
  }
  CHECK(fixture.delays == 1);
  CHECK(statisticsOf(engine).trials == 0);
  fixture.emptyDevice();
  // Requested kernels are in flight, and no launch waits for them.
  const auto end = std::chrono::steady_clock::now() + kForever;
  for (int64_t m = 1001; statisticsOf(engine).trials == 0 &&
                         std::chrono::steady_clock::now() < end;
       ++m) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    REQUIRE(launch(engine, gemmArgs(m, 512, 512)) == KILN_SUCCESS);
  }
  CHECK(statisticsOf(engine).trials > 0);
  for (int64_t m : {16, 17, 1000, 1001}) {
    CAPTURE(m);
    const kiln_gemm_args args = gemmArgs(m, 512, 512);
    REQUIRE(launch(engine, args) == KILN_SUCCESS);
    CHECK(queryOf(engine, problemOf(args)).state == KILN_STATE_READY);
  }
}
