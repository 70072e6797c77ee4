// Several threads on one stream, and the arenas of streams that come and go.
#include "Driver/DeviceMemory.h"
#include "Driver/Graph.h"
#include "Runtime/RuntimeFixture.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// A kernel that was launched.
struct Step {
  std::thread::id thread;
  bool isRepack = false;
};

/// The kernels that were launched, in the order of the driver's calls. What
/// copies an unaligned operand to the workspace calls `atRepack`, if it is set.
class StepLog {
public:
  StepLog() { kilnFakeOnLaunch("kilnEntry", &StepLog::note, this, 0); }
  ~StepLog() {
    auto drop = [](KilnFakeLaunch *, void *) {};
    kilnFakeOnLaunch("kilnEntry", drop, nullptr, 0);
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

/// A product whose operands are both copied to the workspace first.
kiln_gemm_args repackedArgs() { return gemmArgs(4096, 4096, 4095); }
/// A product of one kernel that works in the workspace, in both of its regions;
/// tf32, whose kernels take plain parameters.
kiln_gemm_args splitArgs() {
  kiln_gemm_args args = gemmArgs(16, 256, 65536);
  args.a.type = args.b.type = args.d.type = KILN_FP32;
  args.compute = KILN_COMPUTE_TF32;
  return args;
}

/// Runs each of \p bodies on a thread with the context current.
void onThreads(RuntimeFixture &fixture,
               const std::vector<std::function<void()>> &bodies) {
  std::vector<std::thread> threads;
  for (const std::function<void()> &body : bodies)
    threads.emplace_back([&] {
      auto scope =
          ScopedContext::push(fixture.gpu.driver(), fixture.gpu.context());
      if (scope)
        body();
    });
  for (std::thread &thread : threads)
    thread.join();
}

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

//===----------------------------------------------------------------------===//
// Arenas of streams that come and go
//===----------------------------------------------------------------------===//

namespace {

kiln_stream const kPerThread = reinterpret_cast<kiln_stream>(2);

/// Runs \p body on a thread of its own, which has ended when this returns.
void onThread(RuntimeFixture &fixture, const std::function<void()> &body) {
  onThreads(fixture, {body});
}

/// A stream of the caller's that is destroyed when told.
class OwnStream {
public:
  explicit OwnStream(RuntimeFixture &fixture) {
    auto made = Stream::create(fixture.gpu.driver());
    REQUIRE(static_cast<bool>(made));
    stream.emplace(std::move(*made));
  }
  kiln_stream get() const { return static_cast<kiln_stream>(stream->handle()); }

private:
  std::optional<Stream> stream;
};

/// Books of an allocator hook over the stand-in's memory.
struct Books {
  explicit Books(const Driver &driver) : driver(driver) {
    hook = KILN_INIT(kiln_allocator);
    hook.user = this;
    hook.allocate = [](void *user, size_t bytes, size_t,
                       kiln_stream) -> void * {
      auto *self = static_cast<Books *>(user);
      if (self->beforeAllocate)
        self->beforeAllocate();
      auto memory = DeviceMemory::allocate(self->driver, bytes);
      if (!memory) {
        llvm::consumeError(memory.takeError());
        return nullptr;
      }
      std::lock_guard<std::mutex> lock(self->mutex);
      self->given.push_back(std::move(*memory));
      return address(self->given.back().address());
    };
    hook.deallocate = [](void *user, void *data, size_t, kiln_stream stream) {
      auto *self = static_cast<Books *>(user);
      std::lock_guard<std::mutex> lock(self->mutex);
      self->streams.push_back(stream);
      std::erase_if(self->given, [&](const DeviceMemory &memory) {
        return memory.address() == reinterpret_cast<uintptr_t>(data);
      });
    };
  }

  const Driver &driver;
  kiln_allocator hook;
  std::function<void()> beforeAllocate;
  std::mutex mutex;
  std::vector<DeviceMemory> given;
  std::vector<kiln_stream> streams; ///< that deallocate was called with
};

} // namespace

TEST_CASE("S11: a thread that ends leaves its arena to a later one") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  std::atomic<int> failed{0};
  auto launch = [&] {
    failed += kiln_gemm(engine, &args, nullptr, kPerThread) != KILN_SUCCESS;
  };
  onThread(fixture, launch);
  unsigned *first = launches.last().counters;
  REQUIRE(first != nullptr);
  uint64_t one = statisticsOf(engine).arena_bytes;
  uint64_t records = kilnFakeCallCount("cuEventRecord");
  uint64_t waits = kilnFakeCallCount("cuStreamWaitEvent");
  CHECK(records >= 1); // the end of what may still run
  constexpr int kThreads = 20;
  for (int i = 0; i < kThreads; ++i) {
    onThread(fixture, [&] {
      launch();
      launch();
    });
    CHECK(launches.last().counters == first);
  }
  CHECK(statisticsOf(engine).arena_bytes == one);
  // Each waited once for the thread before, and marked an end of its own.
  CHECK(kilnFakeCallCount("cuStreamWaitEvent") == waits + kThreads);
  CHECK(kilnFakeCallCount("cuEventRecord") == records + kThreads);
  CHECK(failed == 0);
}

TEST_CASE("S11: an arena without a known end is nobody else's") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  std::atomic<int> failed{0};
  auto launch = [&] {
    failed += kiln_gemm(engine, &args, nullptr, kPerThread) != KILN_SUCCESS;
  };
  kilnFakeFailCall("cuEventRecord", 1, /*CUDA_ERROR_UNKNOWN=*/999,
                   KilnFakeOnce);
  onThread(fixture, launch);
  unsigned *first = launches.last().counters;
  uint64_t one = statisticsOf(engine).arena_bytes;
  onThread(fixture, launch);
  CHECK(launches.last().counters != first);
  CHECK(statisticsOf(engine).arena_bytes == 2 * one);
  CHECK(failed == 0);
}

TEST_CASE("S11: threads and engines end in any order") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  void *context = kilnFakeCreateContext(0);
  std::atomic<int> failed{0};
  onThread(fixture, [&] {
    {
      auto scope = ScopedContext::push(fixture.gpu.driver(), context);
      failed += !scope;
      failed += kiln_gemm(engine, &args, nullptr, kPerThread) != KILN_SUCCESS;
    }
    failed += kiln_gemm(engine, &args, nullptr, kPerThread) != KILN_SUCCESS;
    kilnFakeDestroyContext(context); // one arena's context is gone
  });
  onThread(fixture, [&] {
    failed += kiln_gemm(engine, &args, nullptr, kPerThread) != KILN_SUCCESS;
    fixture.destroy(engine); // the thread outlives the engine
  });
  onThread(fixture, [&] {
    kiln_engine *later = fixture.engine();
    failed += kiln_gemm(later, &args, nullptr, kPerThread) != KILN_SUCCESS;
    fixture.destroy(later);
  });
  CHECK(failed == 0);
  CHECK(kilnFakeBytesInUse() == 0);
}

TEST_CASE("S11: a task does not prepare the stream of another thread") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  kiln_problem problem = problemOf(args);
  kiln_stream streams[2] = {fixture.gpu.stream(), kPerThread};
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.streams = streams;
  options.stream_count = 2;
  kiln_task *task = reinterpret_cast<kiln_task *>(&options);
  CHECK(kiln_prepare(engine, &problem, 1, &options, &task) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("stream 1 is CU_STREAM_PER_THREAD"));
  CHECK(task == nullptr);
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  uint64_t prepared = statisticsOf(engine).arena_bytes;
  CHECK(kiln_gemm(engine, &args, nullptr, kPerThread) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).arena_bytes == prepared);
}

TEST_CASE("S12: a stream that gets an old handle gets its arena as well") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  kiln_stream handle = nullptr;
  unsigned *counters = nullptr;
  uint64_t bytes = 0;
  for (int i = 0; i < 10; ++i) {
    OwnStream stream(fixture);
    REQUIRE(kiln_gemm(engine, &args, nullptr, stream.get()) == KILN_SUCCESS);
    if (i == 0) {
      handle = stream.get();
      counters = launches.last().counters;
      bytes = statisticsOf(engine).arena_bytes;
    }
    REQUIRE(stream.get() == handle); // as a driver does
    CHECK(launches.last().counters == counters);
  }
  CHECK(statisticsOf(engine).arena_bytes == bytes);
}

TEST_CASE("S12: an arena that a graph holds stays that graph's") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  const Driver &driver = fixture.gpu.driver();
  kiln_gemm_args args = splitArgs();
  kiln_problem problem = problemOf(args);
  std::vector<Graph> graphs;
  std::vector<kiln_stream> handles;
  for (int i = 0; i < 2; ++i) {
    OwnStream stream(fixture);
    kiln_stream handle = stream.get();
    handles.push_back(handle);
    kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
    options.streams = &handle;
    options.stream_count = 1;
    REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) ==
            KILN_SUCCESS);
    bool begun = !Graph::beginCapture(driver, handle);
    REQUIRE(begun);
    CHECK(kiln_gemm(engine, &args, nullptr, handle) == KILN_SUCCESS);
    // What this asks of the driver leaves the capture alive.
    auto graph = Graph::endCapture(driver, handle);
    REQUIRE(static_cast<bool>(graph));
    CHECK(graph->nodeCount() == 1);
    graphs.push_back(std::move(*graph));
  }
  REQUIRE(handles[0] == handles[1]);
  uint64_t both = statisticsOf(engine).arena_bytes;
  std::vector<unsigned *> counters;
  auto replay = std::make_unique<OwnStream>(fixture);
  for (Graph &graph : graphs) {
    bool launched = !graph.launch(replay->get());
    REQUIRE(launched);
    counters.push_back(launches.last().counters);
  }
  CHECK(counters[0] != nullptr);
  CHECK(counters[0] != counters[1]);
  replay.reset();

  // Graphs that are gone hold nothing: the second's arena serves again.
  graphs.clear();
  for (int i = 0; i < 10; ++i) {
    OwnStream stream(fixture);
    kiln_stream handle = stream.get();
    REQUIRE(handle == handles[0]);
    REQUIRE(kiln_gemm(engine, &args, nullptr, handle) == KILN_SUCCESS);
    CHECK(launches.last().counters == counters[1]);
    bool begun = !Graph::beginCapture(driver, handle);
    REQUIRE(begun);
    for (int j = 0; j < 3; ++j)
      CHECK(kiln_gemm(engine, &args, nullptr, handle) == KILN_SUCCESS);
    auto graph = Graph::endCapture(driver, handle);
    REQUIRE(static_cast<bool>(graph));
    CHECK(graph->nodeCount() == 3);
  }
  CHECK(statisticsOf(engine).arena_bytes == both);
}

TEST_CASE("S12: an arena stays a graph's where the driver does not take part") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  const Driver &driver = fixture.gpu.driver();
  kiln_gemm_args args = splitArgs();
  unsigned *counters = nullptr;
  for (const char *fails : {"cuUserObjectCreate", "cuGraphRetainUserObject",
                            "cuStreamGetCaptureInfo_v3"}) {
    CAPTURE(fails);
    OwnStream stream(fixture);
    kiln_stream handle = stream.get();
    REQUIRE(kiln_gemm(engine, &args, nullptr, handle) == KILN_SUCCESS);
    CHECK(launches.last().counters != counters);
    counters = launches.last().counters;
    bool begun = !Graph::beginCapture(driver, handle);
    REQUIRE(begun);
    kilnFakeFailCall(fails, 1, /*CUDA_ERROR_NOT_SUPPORTED=*/801, KilnFakeOnce);
    CHECK(kiln_gemm(engine, &args, nullptr, handle) == KILN_SUCCESS);
    auto graph = Graph::endCapture(driver, handle);
    REQUIRE(static_cast<bool>(graph));
    CHECK(graph->nodeCount() == 1);
  }
}

TEST_CASE("S12: deallocate is never handed the handle of a stream that ended") {
  RuntimeFixture fixture;
  Books books(fixture.gpu.driver());
  kiln_engine_options options = fixture.options();
  options.allocator = &books.hook;
  kiln_engine *engine = fixture.engine(options);
  kiln_gemm_args args = splitArgs();
  {
    OwnStream stream(fixture);
    REQUIRE(kiln_gemm(engine, &args, nullptr, stream.get()) == KILN_SUCCESS);
  }
  REQUIRE(books.given.size() == 1);
  fixture.destroy(engine);
  CHECK(books.given.empty());
  CHECK(books.streams == std::vector<kiln_stream>{nullptr});
}

TEST_CASE("S14b: of two threads that make arenas, none hides the other's") {
  RuntimeFixture fixture;
  Books books(fixture.gpu.driver());
  kiln_engine_options options = fixture.options();
  options.allocator = &books.hook;
  kiln_engine *engine = fixture.engine(options);
  kiln_stream stream = fixture.gpu.stream();
  // One needs a large zeroed region, the other scratch.
  kiln_gemm_args zeroed = splitArgs(), scratch = repackedArgs();
  for (const kiln_gemm_args *args : {&zeroed, &scratch}) {
    kiln_problem problem = problemOf(*args);
    REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) ==
            KILN_SUCCESS);
  }
  // While the first thread is in the allocator, the second finishes.
  std::atomic<int> failed{0};
  bool isFirst = true;
  books.beforeAllocate = [&] {
    if (!isFirst)
      return;
    isFirst = false;
    onThread(fixture, [&] {
      failed += kiln_gemm(engine, &scratch, nullptr, stream) != KILN_SUCCESS;
    });
  };
  failed += kiln_gemm(engine, &zeroed, nullptr, stream) != KILN_SUCCESS;
  CHECK(failed == 0);
  // Both are served now: nothing has to be made, also in a capture.
  bool begun = !Graph::beginCapture(fixture.gpu.driver(), stream);
  REQUIRE(begun);
  CHECK(kiln_gemm(engine, &zeroed, nullptr, stream) == KILN_SUCCESS);
  CHECK(kiln_gemm(engine, &scratch, nullptr, stream) == KILN_SUCCESS);
  auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
  CHECK(static_cast<bool>(graph));
  // What lost the race went back in the order of its stream.
  CHECK(books.streams == std::vector<kiln_stream>{stream});
  CHECK(books.given.size() == 2);
  fixture.destroy(engine); // before the books
}
