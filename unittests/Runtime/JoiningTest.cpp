// Calls for problems that another thread works on.
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Runtime/Allocations.h"
#include "Runtime/WaitingFixture.h"
#include "Store/ArtifactStore.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("S14c: a task that waits for another's work is cancelled at once") {
  RuntimeFixture fixture;
  kiln_engine *engine = tuningEngine(fixture, kLongMs);
  kiln_gemm_args args = gemmArgs();
  kiln_problem problem = problemOf(args);
  kiln_task *task = nullptr;
  kiln_status cancelled = KILN_INTERNAL;
  CHECK(prepareWith(engine, problem, [&] {
          REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, &task) ==
                  KILN_SUCCESS);
          // This is long enough for it to join us; if it does not, the test
          // shows nothing.
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          kiln_task_cancel(task);
          cancelled = kiln_task_wait(task, 10000);
        }) == KILN_SUCCESS);
  CHECK(cancelled == KILN_CANCELLED);
  kiln_task_release(task);
  CHECK(queryOf(engine, problem).source == KILN_SOURCE_RECORD);
}

TEST_CASE("S14c: waiting for another's work is part of the budget") {
  RuntimeFixture fixture;
  kiln_engine *engine = tuningEngine(fixture, 20);
  kiln_gemm_args args = gemmArgs();
  kiln_problem problem = problemOf(args);
  kiln_status launched = KILN_INTERNAL, prepared = KILN_INTERNAL;
  kiln_query_result meanwhile = KILN_INIT(kiln_query_result);
  uint64_t missesOfSecond = 1;
  bool inTime = false;
  Signal done;
  std::thread other;
  kiln_status status = prepareWith(
      engine, problem,
      [&] {
        other = onThread(fixture, [&] {
          launched = kiln_gemm(engine, &args, nullptr, nullptr);
          // The next launch does not wait.
          uint64_t misses = statisticsOf(engine).dispatch_misses;
          launched |= kiln_gemm(engine, &args, nullptr, nullptr);
          missesOfSecond = statisticsOf(engine).dispatch_misses - misses;
          kiln_prepare_options options = budgetOf(20);
          prepared = kiln_prepare(engine, &problem, 1, &options, nullptr);
          meanwhile = queryOf(engine, problem);
          done.happen();
        });
        inTime = done.wait(); // and we go on only then
      },
      budgetOf(kLongMs));
  other.join();
  CHECK(inTime);
  CHECK(launched == KILN_SUCCESS);
  CHECK(missesOfSecond == 0);
  CHECK(prepared == KILN_SUCCESS);
  CHECK(meanwhile.state == KILN_STATE_FALLBACK);
  CHECK(meanwhile.source == KILN_SOURCE_ESTIMATE);
  // The plan that served meanwhile does not stay.
  CHECK(status == KILN_SUCCESS);
  CHECK(queryOf(engine, problem).source == KILN_SOURCE_RECORD);
}

TEST_CASE("S14d: what is found late does not replace what was measured") {
  for (bool isRange : {false, true}) {
    CAPTURE(isRange);
    RuntimeFixture fixture;
    struct Hook {
      Signal chosen, ended;
      std::atomic<bool> entered{false};
    } hook;
    judgeTrials();
    kiln_engine_options options = fixture.options(KILN_MODE_TUNE);
    options.event_user = &hook;
    options.event = [](void *user, const kiln_event *event) {
      auto *hook = static_cast<Hook *>(user);
      if (event->kind != KILN_EVENT_CHOSEN || hook->entered.exchange(true))
        return;
      hook->chosen.happen();
      hook->ended.wait();
    };
    kiln_engine *engine = fixture.engine(options);
    kiln_gemm_args args = gemmArgs(128);
    kiln_range range = KILN_INIT(kiln_range);
    range.name = "m";
    range.first = 65;
    range.last = 128;
    kiln_problem problem = problemOf(args);
    problem.ranges = &range;
    problem.range_count = isRange;
    kiln_status late = KILN_INTERNAL;
    bool wasChosen = false;
    std::thread other;
    kiln_status status = prepareWith(
        engine, problem,
        [&] {
          other = onThread(fixture, [&] {
            kiln_prepare_options options = budgetOf(1);
            late = kiln_prepare(engine, &problem, 1, &options, nullptr);
          });
          wasChosen = hook.chosen.wait(std::chrono::seconds(10));
        },
        budgetOf(kLongMs));
    CHECK(queryOf(engine, problem).source == KILN_SOURCE_RECORD);
    hook.ended.happen();
    other.join();
    CHECK(wasChosen);
    CHECK(status == KILN_SUCCESS);
    CHECK(late == KILN_SUCCESS);
    CHECK(queryOf(engine, problem).source == KILN_SOURCE_RECORD);
    args.m = 100;
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
    CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
  }
}

TEST_CASE("S5: what trials found wrong is not launched beside further ones") {
  RuntimeFixture fixture;
  struct Hook {
    kiln_engine *engine = nullptr;
    kiln_gemm_args wrong = gemmArgs();
    std::optional<std::thread::id> launcher;
    kiln_status nested = KILN_INTERNAL;
  } hook;
  kiln_engine_options options = fixture.options(KILN_MODE_TUNE);
  options.tune_budget_ms = 20;
  options.event_user = &hook;
  options.event = [](void *user, const kiln_event *event) {
    auto *hook = static_cast<Hook *>(user);
    if (event->kind == KILN_EVENT_LOADED &&
        hook->launcher == std::this_thread::get_id())
      hook->nested = kiln_gemm(hook->engine, &hook->wrong, nullptr, nullptr);
  };
  kiln_engine *engine = hook.engine = fixture.engine(options);
  kiln_problem problem = problemOf(hook.wrong);
  kiln_prepare_options retune = budgetOf(kLongMs);
  judgeTrials(/*wrong=*/true);
  REQUIRE(kiln_prepare(engine, &problem, 1, &retune, nullptr) ==
          KILN_NO_CANDIDATE);
  judgeTrials();
  retune.flags = KILN_PREPARE_RETUNE;
  kiln_gemm_args good = gemmArgs(256, 512, 1024);
  kiln_status beside = KILN_INTERNAL, ofGood = KILN_INTERNAL;
  uint64_t launches = 0;
  Signal done;
  std::thread other;
  kiln_status status = prepareWith(
      engine, problem,
      [&] {
        other = onThread(fixture, [&] {
          beside = kiln_gemm(engine, &hook.wrong, nullptr, nullptr);
          // A hook of work on another problem asks as well, and gets no trials.
          hook.launcher = std::this_thread::get_id();
          ofGood = kiln_gemm(engine, &good, nullptr, nullptr);
          hook.launcher.reset();
          launches = statisticsOf(engine).launches;
          done.happen();
        });
        done.wait();
      },
      retune);
  other.join();
  CHECK(beside == KILN_NO_CANDIDATE);
  CHECK(hook.nested == KILN_NO_CANDIDATE);
  CHECK(ofGood == KILN_SUCCESS);
  CHECK(launches == 1);
  // Now they are right.
  CHECK(status == KILN_SUCCESS);
  CHECK(kiln_gemm(engine, &hook.wrong, nullptr, nullptr) == KILN_SUCCESS);
}

TEST_CASE("S9: nobody waits for work that memory did not suffice for") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs(), other = gemmArgs(64, 64, 64);
  // Loads the driver and all other parts that are made once.
  REQUIRE(kiln_gemm(engine, &other, nullptr, nullptr) == KILN_SUCCESS);
  kiln_status status = KILN_INTERNAL;
  int failures = 0;
  // The work begins with the first of them.
  constexpr int64_t kEach = 100;
  for (int64_t count = 1; status != KILN_SUCCESS && count < 100000000;
       count += count < kEach ? 1 : count / 4) {
    CAPTURE(count);
    {
      AllocationsFail fail(count);
      status = kiln_gemm(engine, &args, nullptr, nullptr);
    }
    failures += status == KILN_OUT_OF_MEMORY;
    queryOf(engine, problemOf(args)); // looks for work under way
  }
  CHECK(failures > kEach);
  CHECK(status == KILN_SUCCESS);
}

TEST_CASE("S9: nobody waits for a kernel that memory did not suffice for") {
  RuntimeFixture fixture;
  Registry registry = makeBuiltinRegistry();
  auto device = findDevice("h200-sxm");
  REQUIRE(static_cast<bool>(device));
  auto named = registry.parseProblem("gemm m=64 n=64 k=64 dtype=bf16");
  REQUIRE(static_cast<bool>(named));
  const TranslationUnit unit =
      named->family->reference(named->problem, *device)->translationUnit();
  auto cache = cache::Store::open({});
  ArtifactStoreOptions options;
  options.nvrtc.explicitPath = fixture.nvrtcPath;
  options.pool.threads = 1;
  ArtifactStore artifacts(*cache, options);
  int64_t number = 0;
  auto unitLikeIt = [&] {
    UnitParts made = unit.parts();
    made.source +=
        "constexpr int kNumber = " + std::to_string(++number) + ";\n";
    return TranslationUnit(std::move(made));
  };
  auto canBeHad = [&](const TranslationUnit &asked) {
    PendingArtifact pending = artifacts.request(asked, compile_priority::kNow);
    const auto end = std::chrono::steady_clock::now() + kForever;
    while (!pending.isReady() && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    return pending.isReady() && static_cast<bool>(pending.wait());
  };
  REQUIRE(canBeHad(unitLikeIt())); // all that is made once
  int64_t failures = 0;
  for (bool isDone = false; !isDone;) {
    CAPTURE(failures);
    TranslationUnit asked = unitLikeIt();
    try {
      AllocationsFail fail(failures);
      artifacts.request(asked, compile_priority::kNow);
      isDone = true;
    } catch (const std::bad_alloc &) {
      ++failures;
    }
    REQUIRE(canBeHad(asked));
  }
  CHECK(failures > 10);
  // A request that no caller wants any more, behind one that holds the thread.
  fixture.nvrtc.holdWhen("");
  PendingArtifact first = artifacts.request(unitLikeIt(), 0);
  while (fixture.nvrtc.heldCount() == 0)
    std::this_thread::yield();
  std::vector<TranslationUnit> left;
  for (int64_t count = 0; count < 20; ++count) {
    left.push_back(unitLikeIt());
    PendingArtifact pending = artifacts.request(left.back(), 0);
    AllocationsFail fail(count);
    pending = PendingArtifact();
  }
  fixture.nvrtc.release();
  for (const TranslationUnit &asked : left)
    REQUIRE(canBeHad(asked));
}

TEST_CASE("S9: nobody waits for a task that could not begin") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_problem problem = problemOf("gemm m=64 n=64 k=64 dtype=bf16 layout=NT");
  // From now on each call allocates as much as the one before.
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  kiln_task *task = nullptr;
  kiln_status status = KILN_INTERNAL;
  for (int64_t count = 0; status != KILN_SUCCESS; ++count) {
    REQUIRE(count < 10000);
    AllocationsFail fail(count);
    status = kiln_prepare(engine, &problem, 1, nullptr, &task);
  }
  CHECK(kiln_task_wait(task, -1) == KILN_SUCCESS);
  kiln_task_release(task);
  fixture.destroy(engine); // which ends all tasks
}
