// How tasks and engines end while a compiler hangs.
#include "Runtime/RuntimeFixture.h"

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
