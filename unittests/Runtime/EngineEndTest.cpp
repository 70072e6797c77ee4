// The end of tasks and engines, also while a compiler hangs.
#include "Runtime/WaitingFixture.h"

#include <atomic>
#include <chrono>
#include <thread>

using namespace kiln::testing;

using Clock = std::chrono::steady_clock;

/// Releases a task that waits for a compilation that hangs, and destroys its
/// engine; returns how many seconds that took.
static double secondsToEnd(uint64_t prepareFlags) {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.device_model = "h200-sxm";
  kiln_engine *engine = fixture.engine(options);
  fixture.nvrtc.holdWhen("");
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.text = "gemm m=64 n=64 k=64 dtype=bf16 layout=NT";
  kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
  prepare.flags = prepareFlags;
  kiln_task *task = nullptr;
  REQUIRE(kiln_prepare(engine, &problem, 1, &prepare, &task) == KILN_SUCCESS);
  for (int i = 0; i < 60000 && fixture.nvrtc.heldCount() == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(fixture.nvrtc.heldCount() == 1);
  const Clock::time_point start = Clock::now();
  kiln_task_release(task);
  fixture.destroy(engine);
  std::chrono::duration<double> time = Clock::now() - start;
  fixture.nvrtc.release();
  return time.count();
}

TEST_CASE("F12: tasks and engines end though a compilation hangs") {
  // The grace is 2 s; a hung compilation would be given up after 120.
  CHECK(secondsToEnd(0) < 20);
  CHECK(secondsToEnd(KILN_PREPARE_COMPILE_ONLY) < 20);
}

TEST_CASE("an engine ends soon though a task has just begun to open its "
          "services") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  // Opening the cache warns, on the thread of the task.
  TemporaryFolder file;
  writeBytes(file / "cache", "no folder");
  const std::string path = file / "cache";
  options.cache_dir = path.c_str();
  struct Opening {
    Signal begun, destroying;
    std::atomic<bool> isFirst{true};
  } opening;
  options.log_user = &opening;
  options.log_level = KILN_LOG_WARNING;
  options.log = [](void *user, kiln_log_level, const char *) {
    auto *opening = static_cast<Opening *>(user);
    if (!opening->isFirst.exchange(false))
      return;
    opening->begun.happen();
    opening->destroying.wait();
    // Destroying looks at the services right away.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  };
  fixture.nvrtc.holdWhen("");
  kiln_engine *engine = fixture.engine(options);
  kiln_problem problem = problemOf("gemm m=64 n=64 k=64 dtype=bf16 layout=NT");
  // It cannot be released after its engine, so it is static, where leaks are
  // not reported.
  static kiln_task *task = nullptr;
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, &task) == KILN_SUCCESS);
  REQUIRE(opening.begun.wait());
  opening.destroying.happen();
  const Clock::time_point start = Clock::now();
  fixture.destroy(engine);
  CHECK(Clock::now() - start < std::chrono::seconds(20));
  fixture.nvrtc.release();
}

TEST_CASE("the thread of a task is gone when the task is released") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  static std::atomic<bool> isGone;
  isGone = false;
  struct Leaving {
    bool isUsed = false;
    ~Leaving() {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      isGone = isUsed;
    }
  };
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.progress = [](void *, const kiln_progress *) -> int32_t {
    thread_local Leaving leaving;
    leaving.isUsed = true;
    return 0;
  };
  kiln_problem problem = problemOf("gemm m=64 n=64 k=64 dtype=bf16 layout=NT");
  kiln_task *task = nullptr;
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, &task) == KILN_SUCCESS);
  REQUIRE(kiln_task_wait(task, -1) == KILN_SUCCESS);
  kiln_task_release(task);
  CHECK(isGone);
}
