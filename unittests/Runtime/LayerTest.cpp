// The mode tune without kiln_prepare: a layer is measured at its first call.
#include "Driver/Graph.h"
#include "Runtime/WaitingFixture.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Finds all results right and notes the threads that compare.
class Comparers {
public:
  Comparers() {
    judgeTrials();
    kilnFakeOnStep(
        [](const KilnFakeStep *step, void *user) {
          auto *self = static_cast<Comparers *>(user);
          std::lock_guard<std::mutex> lock(self->mutex);
          self->steps[step->thread] += 1;
        },
        this);
  }
  ~Comparers() { kilnFakeOnStep(nullptr, nullptr); }

  /// Threads that enqueued more than a launch of their own.
  size_t busyThreads() {
    std::lock_guard<std::mutex> lock(mutex);
    size_t busy = 0;
    for (auto [thread, count] : steps)
      busy += count > 8;
    return busy;
  }

private:
  std::mutex mutex;
  std::map<uint64_t, uint64_t> steps;
};

/// Trials of the largest values would only fill memory.
struct LayerFixture : RuntimeFixture {
  LayerFixture() {
    judgeTrials();
    kilnFakeSetHollowMemory(1 << 20);
  }
};

kiln_status launch(kiln_engine *engine, int64_t m, int64_t n = 256) {
  kiln_gemm_args args = gemmArgs(m, n, 512);
  return kiln_gemm(engine, &args, nullptr, nullptr);
}

kiln_query_result query(kiln_engine *engine, int64_t m, int64_t n = 256) {
  kiln_gemm_args args = gemmArgs(m, n, 512);
  return queryOf(engine, problemOf(args));
}

} // namespace

TEST_CASE("a layer is measured once, at its first call") {
  LayerFixture fixture;
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  CAPTURE(lastError());
  REQUIRE(launch(engine, 100) == KILN_SUCCESS);
  const uint64_t trials = statisticsOf(engine).trials;
  const int compiles = fixture.nvrtc.compileCount();
  CHECK(trials > 0);
  CHECK(query(engine, 100).state == KILN_STATE_READY);
  CHECK(query(engine, 100).source == KILN_SOURCE_RECORD);
  for (int64_t m : {1, 3, 16, 33, 99, 101, 128, 129, 1000, 4097, 8192}) {
    CAPTURE(m);
    REQUIRE(launch(engine, m) == KILN_SUCCESS);
    CHECK(query(engine, m).source == KILN_SOURCE_RECORD);
  }
  CHECK(statisticsOf(engine).trials == trials);
  CHECK(fixture.nvrtc.compileCount() == compiles);
  CHECK(statisticsOf(engine).fallback_launches == 0);
  // Another process has it from the cache, whatever its mode.
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
    CAPTURE(mode);
    kiln_engine *later = fixture.engine(mode);
    for (int64_t m : {50, 100, 3000}) {
      CHECK(query(later, m).state == KILN_STATE_MISSING);
      CHECK(query(later, m).source == KILN_SOURCE_RECORD);
      REQUIRE(launch(later, m) == KILN_SUCCESS);
      CHECK(query(later, m).source == KILN_SOURCE_RECORD);
    }
    CHECK(statisticsOf(later).trials == 0);
    CHECK(fixture.nvrtc.compileCount() == compiles);
  }
  // Another layer, and values that the first call did not cover.
  REQUIRE(launch(engine, 100, 512) == KILN_SUCCESS);
  const uint64_t ofBoth = statisticsOf(engine).trials;
  CHECK(ofBoth > trials);
  REQUIRE(launch(engine, 8193) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials > ofBoth);
}

TEST_CASE("one thread measures a layer while others launch it") {
  LayerFixture fixture;
  Comparers comparers;
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  std::atomic<int> failures{0};
  std::vector<std::function<void()>> bodies;
  for (int64_t thread = 0; thread < 4; ++thread)
    bodies.push_back([&, thread] {
      for (int64_t i = 0; i < 4; ++i)
        failures += launch(engine, 1 + thread + 40 * i) != KILN_SUCCESS;
    });
  onThreads(fixture, bodies);
  CHECK(failures == 0);
  CHECK(comparers.busyThreads() == 1);
  const uint64_t trials = statisticsOf(engine).trials;
  REQUIRE(launch(engine, 999) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials == trials);
}

TEST_CASE("who has no time for a layer launches the estimator's choice") {
  LayerFixture fixture;
  kiln_engine *engine = tuningEngine(fixture, 20);
  kiln_status beside = KILN_INTERNAL;
  kiln_query_result told = KILN_INIT(kiln_query_result);
  Signal done;
  bool inTime = false;
  std::thread other;
  kiln_gemm_args args = gemmArgs(100, 512, 512);
  prepareWith(engine, problemOf(args), [&] {
    other = onThread(fixture, [&] {
      beside = launch(engine, 100);
      told = query(engine, 100);
      done.happen();
    });
    inTime = done.wait(); // and we keep our turn until then
  });
  other.join();
  CHECK(inTime);
  CHECK(beside == KILN_SUCCESS);
  CHECK(told.state == KILN_STATE_FALLBACK);
  CHECK(told.source == KILN_SOURCE_ESTIMATE);
  // Later values are not affected by that.
  REQUIRE(launch(engine, 101) == KILN_SUCCESS);
  // Nor is this one, but it may be captured with its earlier plan.
  kiln_stream stream = fixture.gpu.stream();
  REQUIRE_FALSE(
      llvm::errorToBool(Graph::beginCapture(fixture.gpu.driver(), stream)));
  kiln_gemm_args given = gemmArgs(100, 256, 512);
  const kiln_status captured = kiln_gemm(engine, &given, nullptr, stream);
  auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
  CHECK(captured == KILN_SUCCESS);
  CHECK(static_cast<bool>(graph));
  REQUIRE(launch(engine, 100) == KILN_SUCCESS);
}

TEST_CASE("a hook may launch the layer that is measured") {
  LayerFixture fixture;
  struct Hook {
    kiln_engine *engine = nullptr;
    std::vector<kiln_status> statuses;
    bool entered = false;
  } hook;
  judgeTrials();
  kiln_engine_options options = fixture.options(KILN_MODE_TUNE);
  options.event_user = &hook;
  options.event = [](void *user, const kiln_event *event) {
    auto *hook = static_cast<Hook *>(user);
    if (event->kind != KILN_EVENT_TRIAL || std::exchange(hook->entered, true))
      return;
    hook->statuses = {launch(hook->engine, 77), launch(hook->engine, 100)};
  };
  hook.engine = fixture.engine(options);
  CHECK(launch(hook.engine, 100) == KILN_SUCCESS);
  // The second is the problem that the hook's caller works on.
  CHECK(hook.statuses ==
        std::vector<kiln_status>{KILN_SUCCESS, KILN_IN_PROGRESS});
  CHECK(query(hook.engine, 100).source == KILN_SOURCE_RECORD);
}

TEST_CASE("where trials find a layer wrong, nothing of it is launched") {
  LayerFixture fixture;
  judgeTrials(/*wrong=*/true);
  for (int process = 0; process < 2; ++process) {
    kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
    for (int64_t m : {100, 100, 64}) {
      CHECK(launch(engine, m) == KILN_NO_CANDIDATE);
      CHECK(lastErrorHas("no kernel is known to compute gemm m="));
    }
    const kiln_statistics statistics = statisticsOf(engine);
    CHECK(statistics.launches == 0);
    // Trials are reported, and are not repeated.
    CHECK((statistics.trials > 0) == (process == 0));
    CHECK(statistics.trial_failures == statistics.trials);
  }
  // Measuring again may give another result.
  judgeTrials();
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  kiln_gemm_args args = gemmArgs(128);
  kiln_range range = KILN_INIT(kiln_range);
  range.name = "m";
  range.first = 1;
  range.last = 8192; // kernels that are wrong there are compared there
  kiln_problem problem = problemOf(args);
  problem.ranges = &range;
  problem.range_count = 1;
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.flags = KILN_PREPARE_RETUNE;
  CAPTURE(lastError());
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  CHECK(launch(engine, 100) == KILN_SUCCESS);
}

TEST_CASE("a layer's plans keep to the limit of workspaces") {
  LayerFixture fixture;
  kiln_engine_options options = fixture.options(KILN_MODE_TUNE);
  options.workspace_limit_bytes = 64 << 10;
  kiln_engine *engine = fixture.engine(options);
  kiln_gemm_args args = gemmArgs(16, 256, 16384);
  CAPTURE(lastError());
  for (args.m = 1; args.m < 3000; args.m = args.m * 3 + 1) {
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
    CHECK(queryOf(engine, problemOf(args)).workspace.bytes <=
          options.workspace_limit_bytes);
  }
}
