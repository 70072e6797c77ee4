// Several threads, contexts and devices on one engine.
#include "Runtime/RuntimeFixture.h"

#include <atomic>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Runs \p body on \p count threads with the first device's context current.
template <class Body>
void onThreads(RuntimeFixture &fixture, int count, const Body &body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      auto scope =
          ScopedContext::push(fixture.gpu.driver(), fixture.gpu.context());
      if (scope)
        body(i);
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace

TEST_CASE("concurrent first calls of one problem compile once") {
  RuntimeFixture fixture;
  fixture.nvrtc.delayWhen("", 30);
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  std::atomic<int> good{0};
  onThreads(fixture, 8, [&](int) {
    good += kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS;
  });
  CHECK(good == 8);
  CHECK(fixture.nvrtc.compileCount() == 1);
  CHECK(statisticsOf(engine).plans == 1);
}

TEST_CASE("a failure reaches all who wait, with its message") {
  RuntimeFixture fixture;
  fixture.nvrtc.delayWhen("", 20);
  fixture.nvrtc.failWhen("kiln_", "error: nothing works");
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  std::atomic<int> told{0};
  onThreads(fixture, 4, [&](int) {
    told += kiln_gemm(engine, &args, nullptr, nullptr) == KILN_COMPILE_FAILED &&
            lastErrorHas("nothing works");
  });
  CHECK(told == 4);
}

TEST_CASE("threads hammer one engine with many problems") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  constexpr int kThreads = 6, kRounds = 400;
  std::atomic<int> bad{0};
  onThreads(fixture, kThreads, [&](int seed) {
    for (int round = 0; round < kRounds; ++round) {
      int value = round * 7 + seed * 13;
      kiln_gemm_args args = gemmArgs(1 + value % 150, 64, 4096);
      args.beta = value % 2;
      bad += kiln_gemm(engine, &args, nullptr, nullptr) != KILN_SUCCESS;
      kiln_problem problem = problemOf(args);
      kiln_query_result result = KILN_INIT(kiln_query_result);
      if (round % 50 == 0)
        bad += kiln_query(engine, &problem, nullptr, &result) != KILN_SUCCESS ||
               result.state != KILN_STATE_READY;
    }
  });
  CHECK(bad == 0);
  CHECK(statisticsOf(engine).launches == kThreads * kRounds);
}

TEST_CASE("each device has its plans, and the stream says which is meant") {
  RuntimeFixture fixture;
  kilnFakeSetDeviceCount(2);
  Environment environment;
  environment.kilnDriver = FakeGpu::driverPath();
  auto driver = Driver::load(environment);
  REQUIRE(static_cast<bool>(driver));
  auto second = PrimaryContext::retain(**driver, 1);
  REQUIRE(static_cast<bool>(second));
  CudaStream stream = nullptr;
  std::optional<Stream> owner;
  {
    auto scope = ScopedContext::push(**driver, second->handle());
    REQUIRE(static_cast<bool>(scope));
    auto made = Stream::create(**driver);
    REQUIRE(static_cast<bool>(made));
    owner.emplace(std::move(*made));
    stream = owner->handle();
  }
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  uint64_t modules = kilnFakeModulesLoaded();
  CAPTURE(lastError());
  REQUIRE(kiln_gemm(engine, &args, nullptr, stream) == KILN_SUCCESS);
  CHECK(kilnFakeModulesLoaded() == modules + 1);
  CHECK(fixture.nvrtc.compileCount() == 1);
  CHECK(statisticsOf(engine).plans == 2);
  auto current = currentContext(**driver);
  REQUIRE(static_cast<bool>(current));
  CHECK(*current == fixture.gpu.context());
}

TEST_CASE("a context that was destroyed is forgotten, its twin is new") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs(16, 256, 65536); // with an arena
  auto runIn = [&](CudaContext context) {
    auto scope = ScopedContext::push(fixture.gpu.driver(), context);
    REQUIRE(static_cast<bool>(scope));
    CAPTURE(lastError());
    CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  };
  CudaContext first = kilnFakeCreateContext(0);
  runIn(first);
  uint64_t arena = statisticsOf(engine).arena_bytes;
  kiln_problem problem = problemOf(args);
  kiln_plan *plan = nullptr;
  {
    auto scope = ScopedContext::push(fixture.gpu.driver(), first);
    REQUIRE(static_cast<bool>(scope));
    REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) ==
            KILN_SUCCESS);
  }
  kilnFakeDestroyContext(first);
  CudaContext second = kilnFakeCreateContext(0);
  REQUIRE(second == first); // the driver uses handles again
  runIn(second);
  CHECK(statisticsOf(engine).arena_bytes == arena);
  CHECK(statisticsOf(engine).dispatch_misses == 2);
  kiln_plan_release(plan);
  kilnFakeDestroyContext(second);
}

TEST_CASE("S7: contexts that come and go leave no plans") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  for (int time = 0; time < 4; ++time) {
    CudaContext context = kilnFakeCreateContext(0);
    {
      auto scope = ScopedContext::push(fixture.gpu.driver(), context);
      REQUIRE(static_cast<bool>(scope));
      CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
    }
    CHECK(statisticsOf(engine).plans == 1);
    kilnFakeDestroyContext(context);
  }
}

TEST_CASE("without a current context the default stream is refused") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  kiln_status status = KILN_SUCCESS;
  std::string message;
  std::thread([&] {
    status = kiln_gemm(engine, &args, nullptr, nullptr);
    message = lastError();
  }).join();
  CHECK(status == KILN_INVALID_ARGUMENT);
  CHECK(message.find("no context is current") != std::string::npos);
}

TEST_CASE("a hook may launch, also the problem that is worked on") {
  RuntimeFixture fixture;
  struct Hook {
    kiln_engine *engine = nullptr;
    kiln_gemm_args same = gemmArgs(), other = gemmArgs(64);
    std::vector<kiln_status> statuses;
    bool entered = false;
  } hook;
  kiln_engine_options options = fixture.options();
  options.event = [](void *user, const kiln_event *event) {
    auto *hook = static_cast<Hook *>(user);
    if (event->kind != KILN_EVENT_COMPILED || hook->entered)
      return;
    hook->entered = true;
    for (kiln_gemm_args *args : {&hook->same, &hook->other})
      hook->statuses.push_back(kiln_gemm(hook->engine, args, nullptr, nullptr));
  };
  options.event_user = &hook;
  hook.engine = fixture.engine(options);
  CHECK(kiln_gemm(hook.engine, &hook.same, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(hook.statuses ==
        std::vector<kiln_status>{KILN_IN_PROGRESS, KILN_SUCCESS});
}
