// Several threads on one stream.
#include "Driver/DeviceMemory.h"
#include "Runtime/RuntimeFixture.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// A kernel that was launched.
struct Step {
  std::thread::id thread;
  bool isRepack = false;
};

/// The kernels that were launched, in the order of the driver's calls. A kernel
/// that copies an unaligned operand to the workspace calls `atRepack`, if it is
/// set.
class StepLog {
public:
  StepLog() { kilnFakeOnLaunch("kiln_*", &StepLog::note, this, 0); }
  ~StepLog() {
    auto drop = [](KilnFakeLaunch *, void *) {};
    kilnFakeOnLaunch("kiln_*", drop, nullptr, 0);
  }

  std::vector<Step> take() {
    std::lock_guard<std::mutex> lock(mutex);
    return std::move(steps);
  }

  std::function<void()> atRepack;

private:
  static void note(KilnFakeLaunch *launch, void *user) {
    auto *self = static_cast<StepLog *>(user);
    bool isRepack = std::strstr(launch->moduleText, "Repack.cuh") != nullptr;
    {
      std::lock_guard<std::mutex> lock(self->mutex);
      self->steps.push_back({std::this_thread::get_id(), isRepack});
    }
    if (isRepack && self->atRepack)
      self->atRepack();
  }

  std::mutex mutex;
  std::vector<Step> steps;
};

/// Kernels that ran between two steps of another thread's plan.
int countBetween(const std::vector<Step> &steps) {
  int wrong = 0;
  for (size_t i = 0; i + 1 < steps.size(); ++i)
    wrong += steps[i].isRepack && steps[i + 1].thread != steps[i].thread;
  return wrong;
}

} // namespace

TEST_CASE("S1: threads on one stream enqueue a plan's steps as a whole") {
  RuntimeFixture fixture;
  StepLog steps;
  // An invitation to the others.
  steps.atRepack = [] { std::this_thread::yield(); };
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = repackedArgs(), split = splitArgs();
  kiln_problem problem = problemOf(args);
  kiln_plan *plan = nullptr;
  REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) == KILN_SUCCESS);
  kiln_workspace_info need = KILN_INIT(kiln_workspace_info);
  REQUIRE(kiln_plan_workspace(plan, &need) == KILN_SUCCESS);
  REQUIRE(need.bytes > 0);
  auto memory = DeviceMemory::allocate(fixture.gpu.driver(), need.bytes);
  REQUIRE(static_cast<bool>(memory));
  kiln_workspace workspace = KILN_INIT(kiln_workspace);
  workspace.data = address(memory->address());
  workspace.bytes = need.bytes;
  void *operands[] = {args.a.data, args.b.data, nullptr, args.d.data};
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  arguments.operands = operands;
  arguments.operand_count = 4;
  auto *legacy = reinterpret_cast<kiln_stream>(1);

  // Every way to launch, and both names of the stream.
  std::atomic<int> failed{0};
  auto repeat = [&](std::function<kiln_status()> launch) {
    return [&failed, launch] {
      constexpr int kRounds = 300;
      for (int i = 0; i < kRounds; ++i)
        failed += launch() != KILN_SUCCESS;
    };
  };
  auto call = [&] { return kiln_gemm(engine, &args, nullptr, legacy); };
  auto callSplit = [&] { return kiln_gemm(engine, &split, nullptr, nullptr); };
  auto run = [&] {
    return kiln_run(engine, &problem, &arguments, nullptr, nullptr);
  };
  auto launch = [&] {
    return kiln_plan_launch(plan, &arguments, nullptr, legacy);
  };
  auto launchIn = [&] {
    return kiln_plan_launch(plan, &arguments, &workspace, nullptr);
  };
  REQUIRE(call() == KILN_SUCCESS);
  REQUIRE(steps.take().size() == 3); // two copies and the product
  REQUIRE(callSplit() == KILN_SUCCESS);
  REQUIRE(steps.take().size() == 1);
  onThreads(fixture, {repeat(call), repeat(callSplit)});
  CHECK(countBetween(steps.take()) == 0);
  onThreads(fixture, {repeat(run), repeat(launch)});
  CHECK(countBetween(steps.take()) == 0);
  onThreads(fixture, {repeat(launchIn), repeat(launchIn)});
  CHECK(countBetween(steps.take()) == 0);
  CHECK(failed == 0);
  kiln_plan_release(plan);
}

TEST_CASE("S1: only plans with a workspace wait, and only for their stream") {
  RuntimeFixture fixture;
  StepLog steps;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  auto *perThread = reinterpret_cast<kiln_stream>(2);
  kiln_gemm_args args = repackedArgs(), split = splitArgs();
  kiln_gemm_args plain = gemmArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, stream) == KILN_SUCCESS);
  REQUIRE(kiln_gemm(engine, &plain, nullptr, stream) == KILN_SUCCESS);
  REQUIRE(kiln_gemm(engine, &split, nullptr, nullptr) == KILN_SUCCESS);

  std::mutex mutex;
  std::condition_variable changed;
  bool isInside = false, othersDone = false;
  auto wait = [&](bool &what) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20),
                            [&] { return what; });
  };
  auto tell = [&](bool &what) {
    std::lock_guard<std::mutex> lock(mutex);
    what = true;
    changed.notify_all();
  };
  std::atomic<bool> waited{true};
  steps.atRepack = [&] {
    tell(isInside);
    waited = waited && wait(othersDone);
  };
  onThreads(fixture, {[&] { kiln_gemm(engine, &args, nullptr, stream); },
                      [&] {
                        wait(isInside);
                        kiln_gemm(engine, &plain, nullptr, stream);
                        kiln_gemm(engine, &split, nullptr, nullptr);
                        kiln_gemm(engine, &split, nullptr, perThread);
                        tell(othersDone);
                      }});
  CHECK(waited);
  CHECK(statisticsOf(engine).launches == 7);
}
