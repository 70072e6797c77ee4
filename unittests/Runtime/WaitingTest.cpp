// Waits of threads for each other: hooks that launch, turns at trials.
#include "Runtime/WaitingFixture.h"

#include <chrono>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Waits until a thread works on \p args.
void awaitWork(kiln_engine *engine, const kiln_gemm_args &args,
               kiln_state state = KILN_STATE_TUNING) {
  auto end = std::chrono::steady_clock::now() + kForever;
  while (queryOf(engine, problemOf(args)).state != state) {
    REQUIRE(std::chrono::steady_clock::now() < end);
    std::this_thread::yield();
  }
}

} // namespace

TEST_CASE("S9: a hook may launch what a thread works on that waits for it") {
  RuntimeFixture fixture;
  kiln_engine *engine = tuningEngine(fixture, kLongMs);
  kiln_gemm_args first = gemmArgs(), second = gemmArgs(256, 512, 1024);
  kiln_status inHook = KILN_INTERNAL, beside = KILN_INTERNAL;
  kiln_state workMeanwhile = KILN_STATE_MISSING;
  Signal begun;
  std::thread other = onThread(fixture, [&] {
    begun.wait();
    beside = kiln_gemm(engine, &second, nullptr, nullptr);
  });
  kiln_status status = prepareWith(engine, problemOf(first), [&] {
    begun.happen();
    awaitWork(engine, second); // the other thread waits for our turn
    inHook = kiln_gemm(engine, &second, nullptr, nullptr);
    workMeanwhile = queryOf(engine, problemOf(second)).state;
  });
  other.join();
  CHECK(status == KILN_SUCCESS);
  CHECK(inHook == KILN_SUCCESS);
  CHECK(workMeanwhile == KILN_STATE_TUNING); // it did not wait for that
  CHECK(beside == KILN_SUCCESS);
  // The plan that was launched meanwhile does not stay.
  CHECK(queryOf(engine, problemOf(second)).source == KILN_SOURCE_RECORD);
}

TEST_CASE("S9: hooks of two contexts' trials launch in each other's context") {
  RuntimeFixture fixture;
  kiln_engine *engine = tuningEngine(fixture, kLongMs);
  CudaContext contexts[2] = {kilnFakeCreateContext(0),
                             kilnFakeCreateContext(0)};
  Signal inHook[2];
  kiln_status statuses[2] = {KILN_INTERNAL, KILN_INTERNAL};
  kiln_status nested[2] = {KILN_INTERNAL, KILN_INTERNAL};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      auto own = ScopedContext::push(fixture.gpu.driver(), contexts[i]);
      kiln_gemm_args args = gemmArgs(), other = gemmArgs(64 << i, 512, 1024);
      statuses[i] = prepareWith(engine, problemOf(args), [&] {
        inHook[i].happen();
        inHook[1 - i].wait(); // both have their turns now
        auto theirs =
            ScopedContext::push(fixture.gpu.driver(), contexts[1 - i]);
        nested[i] = kiln_gemm(engine, &other, nullptr, nullptr);
      });
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int i = 0; i < 2; ++i) {
    CHECK(statuses[i] == KILN_SUCCESS);
    CHECK(nested[i] == KILN_SUCCESS);
  }
  fixture.destroy(engine);
  for (CudaContext context : contexts)
    kilnFakeDestroyContext(context);
}

TEST_CASE("S9: what the cache says is told by the thread that called") {
  RuntimeFixture fixture;
  struct Hook {
    kiln_engine *engine = nullptr;
    kiln_gemm_args other = gemmArgs(64, 64, 64);
    std::vector<std::thread::id> threads;
    kiln_status nested = KILN_INTERNAL;
  } hook;
  hook.other.layout = KILN_LAYOUT_TN;
  kiln_engine_options options = fixture.options(); // one thread compiles
  options.event = [](void *user, const kiln_event *event) {
    auto *hook = static_cast<Hook *>(user);
    if (event->kind != KILN_EVENT_CACHE_FAULT)
      return;
    hook->threads.push_back(std::this_thread::get_id());
    if (hook->threads.size() == 1)
      hook->nested = kiln_gemm(hook->engine, &hook->other, nullptr, nullptr);
  };
  options.event_user = &hook;
  hook.engine = fixture.engine(options);
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(hook.engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  REQUIRE(hook.threads.empty());
  // From now on no artifact can be written.
  std::filesystem::path artifacts =
      std::filesystem::path(fixture.cachePath) / "v1" / "artifact";
  REQUIRE(std::filesystem::remove_all(artifacts) > 0);
  writeBytes(artifacts.string(), "not a folder");
  args.layout = KILN_LAYOUT_NN;
  CHECK(kiln_gemm(hook.engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  REQUIRE_FALSE(hook.threads.empty());
  for (std::thread::id thread : hook.threads)
    CHECK(thread == std::this_thread::get_id());
  CHECK(hook.nested == KILN_SUCCESS);
}

TEST_CASE("S14c: waiting for others' trials is part of the budget") {
  RuntimeFixture fixture;
  kiln_engine *engine = tuningEngine(fixture, 20);
  kiln_gemm_args first = gemmArgs(), second = gemmArgs(256, 512, 1024);
  kiln_status beside = KILN_INTERNAL;
  Signal done;
  bool inTime = false;
  std::thread other;
  prepareWith(engine, problemOf(first), [&] {
    other = onThread(fixture, [&] {
      beside = kiln_gemm(engine, &second, nullptr, nullptr);
      done.happen();
    });
    inTime = done.wait(); // and we keep our turn until then
  });
  other.join();
  CHECK(inTime);
  CHECK(beside == KILN_SUCCESS);
  kiln_query_result result = queryOf(engine, problemOf(second));
  CHECK(result.state == KILN_STATE_FALLBACK);
  CHECK(result.source == KILN_SOURCE_ESTIMATE);
}

TEST_CASE("S14c: who waited for trials of its layer makes none") {
  RuntimeFixture fixture;
  kiln_engine *engine = tuningEngine(fixture, kLongMs);
  kiln_gemm_args first = gemmArgs(128), second = gemmArgs(120);
  kiln_range range = KILN_INIT(kiln_range);
  range.name = "m";
  range.first = 65;
  range.last = 128;
  kiln_problem problem = problemOf(first);
  problem.ranges = &range;
  problem.range_count = 1;
  std::thread other;
  CHECK(prepareWith(engine, problem, [&] {
          other = onThread(
              fixture, [&] { kiln_gemm(engine, &second, nullptr, nullptr); });
          awaitWork(engine, second);
        }) == KILN_SUCCESS);
  uint64_t trials = statisticsOf(engine).trials;
  other.join();
  CHECK(trials > 0);
  CHECK(statisticsOf(engine).trials == trials);
  CHECK(queryOf(engine, problemOf(second)).source == KILN_SOURCE_RECORD);
}

TEST_CASE("S14c: a budget may be longer than a clock counts") {
  RuntimeFixture fixture;
  kiln_engine *engine = tuningEngine(fixture, INT64_MAX);
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
  args.k = 1024;
  kiln_problem problem = problemOf(args);
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.budget_ms = INT64_MAX;
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  CHECK(queryOf(engine, problem).source == KILN_SOURCE_RECORD);
}

TEST_CASE("S14d: to measure again is not to wait for who does not") {
  RuntimeFixture fixture;
  struct Hook {
    Signal inWork, joined;
    std::atomic<bool> entered{false};
  } hook;
  judgeTrials();
  kiln_engine_options options = fixture.options(KILN_MODE_TUNE);
  options.event = [](void *user, const kiln_event *event) {
    auto *hook = static_cast<Hook *>(user);
    if (event->kind != KILN_EVENT_LOADED || hook->entered.exchange(true))
      return;
    hook->inWork.happen();
    hook->joined.wait();
  };
  options.event_user = &hook;
  kiln_engine *engine = fixture.engine(options);
  kiln_gemm_args args = gemmArgs();
  kiln_problem problem = problemOf(args);
  kiln_status first = KILN_INTERNAL;
  std::thread other = onThread(
      fixture, [&] { first = kiln_gemm(engine, &args, nullptr, nullptr); });
  REQUIRE(hook.inWork.wait());
  uint64_t trials = statisticsOf(engine).trials;
  CHECK(trials > 0);
  std::thread releaser([&] {
    // This is long enough for the call below to join; if it does not, the test
    // shows nothing.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    hook.joined.happen();
  });
  kiln_prepare_options retune = KILN_INIT(kiln_prepare_options);
  retune.flags = KILN_PREPARE_RETUNE;
  CHECK(kiln_prepare(engine, &problem, 1, &retune, nullptr) == KILN_SUCCESS);
  other.join();
  releaser.join();
  CHECK(first == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials > trials);
}

TEST_CASE("S14d: a range is prepared for its own hint") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs(2048, 4096, 4096);
  kiln_range range = KILN_INIT(kiln_range);
  range.name = "m";
  range.first = 1025;
  range.last = 2048;
  kiln_problem problem = problemOf(args);
  problem.ranges = &range;
  problem.range_count = 1;
  // The last value is asked for by a launch, by a prepare, and by a prepare
  // with a hint.
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  double forLast = queryOf(engine, problem).predicted_us;
  range.hint = 1100;
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  double forHint = queryOf(engine, problem).predicted_us;
  CHECK(forHint > 0);
  CHECK(forHint < 0.8 * forLast);
}

TEST_CASE("what cannot be measured again keeps what was measured") {
  RuntimeFixture fixture;
  judgeTrials();
  kilnFakeSetHollowMemory(1 << 20);
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  const kiln_gemm_args args = gemmArgs(112, 512, 512);
  const kiln_problem problem = problemOf(args);
  REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
  const double measuredUs = queryOf(engine, problem).measured_us;
  REQUIRE(measuredUs > 0);
  kiln_status again = KILN_INTERNAL;
  prepareWith(engine, problemOf(gemmArgs(64, 2048, 512)), [&] {
    onThreads(fixture, {[&] {
                kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
                options.flags = KILN_PREPARE_RETUNE;
                options.budget_ms = 50;
                again = kiln_prepare(engine, &problem, 1, &options, nullptr);
              }});
  });
  CHECK(again == KILN_SUCCESS);
  CHECK(queryOf(engine, problem).state == KILN_STATE_READY);
  CHECK(queryOf(engine, problem).measured_us == measuredUs);
}
