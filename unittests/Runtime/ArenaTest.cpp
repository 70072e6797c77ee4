// The arenas of streams and threads that come and go.
#include "Driver/DeviceMemory.h"
#include "Driver/Graph.h"
#include "Driver/Stream.h"
#include "Runtime/RuntimeFixture.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

kiln_stream const kPerThread = reinterpret_cast<kiln_stream>(2);

/// Runs \p body on a thread of its own, which has ended when this returns.
void onOwnThread(RuntimeFixture &fixture, const std::function<void()> &body) {
  onThreads(fixture, {body});
}

/// A caller's stream that can be destroyed.
class OwnStream {
public:
  explicit OwnStream(RuntimeFixture &fixture) {
    auto made = Stream::create(fixture.gpu.driver());
    REQUIRE(static_cast<bool>(made));
    stream.emplace(std::move(*made));
  }
  kiln_stream get() const { return stream->handle(); }

private:
  std::optional<Stream> stream;
};

/// Captures \p count calls on \p stream into a graph. Their driver calls leave
/// the capture alive.
Graph captureCalls(RuntimeFixture &fixture, kiln_engine *engine,
                   const kiln_gemm_args &args, kiln_stream stream,
                   size_t count) {
  const Driver &driver = fixture.gpu.driver();
  bool begun = !Graph::beginCapture(driver, stream);
  REQUIRE(begun);
  for (size_t i = 0; i < count; ++i)
    CHECK(kiln_gemm(engine, &args, nullptr, stream) == KILN_SUCCESS);
  auto graph = Graph::endCapture(driver, stream);
  REQUIRE(static_cast<bool>(graph));
  CHECK(graph->nodeCount() == count);
  return std::move(*graph);
}

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
  onOwnThread(fixture, launch);
  unsigned *first = launches.last().counters;
  REQUIRE(first != nullptr);
  uint64_t one = statisticsOf(engine).arena_bytes;
  uint64_t records = kilnFakeCallCount("cuEventRecord");
  uint64_t waits = kilnFakeCallCount("cuStreamWaitEvent");
  CHECK(records >= 1); // the end of work that may still run
  constexpr int kThreads = 20;
  for (int i = 0; i < kThreads; ++i) {
    onOwnThread(fixture, [&] {
      launch();
      launch();
    });
    CHECK(launches.last().counters == first);
  }
  CHECK(statisticsOf(engine).arena_bytes == one);
  // Each thread waited once for the one before, and marked its own end.
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
  onOwnThread(fixture, launch);
  unsigned *first = launches.last().counters;
  uint64_t one = statisticsOf(engine).arena_bytes;
  onOwnThread(fixture, launch);
  CHECK(launches.last().counters != first);
  CHECK(statisticsOf(engine).arena_bytes == 2 * one);
  CHECK(failed == 0);
}

TEST_CASE("S11: threads and engines end in any order") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  CudaContext context = kilnFakeCreateContext(0);
  std::atomic<int> failed{0};
  onOwnThread(fixture, [&] {
    {
      auto scope = ScopedContext::push(fixture.gpu.driver(), context);
      failed += !scope;
      failed += kiln_gemm(engine, &args, nullptr, kPerThread) != KILN_SUCCESS;
    }
    failed += kiln_gemm(engine, &args, nullptr, kPerThread) != KILN_SUCCESS;
    kilnFakeDestroyContext(context); // one arena's context is gone
  });
  onOwnThread(fixture, [&] {
    failed += kiln_gemm(engine, &args, nullptr, kPerThread) != KILN_SUCCESS;
    fixture.destroy(engine); // the thread outlives the engine
  });
  onOwnThread(fixture, [&] {
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
    graphs.push_back(captureCalls(fixture, engine, args, handle, 1));
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

  // Destroyed graphs hold nothing: the second arena serves again.
  graphs.clear();
  for (int i = 0; i < 10; ++i) {
    OwnStream stream(fixture);
    kiln_stream handle = stream.get();
    REQUIRE(handle == handles[0]);
    REQUIRE(kiln_gemm(engine, &args, nullptr, handle) == KILN_SUCCESS);
    CHECK(launches.last().counters == counters[1]);
    captureCalls(fixture, engine, args, handle, 3);
  }
  CHECK(statisticsOf(engine).arena_bytes == both);
}

TEST_CASE("S12: an arena stays a graph's where the driver does not take part") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
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
    kilnFakeFailCall(fails, 1, /*CUDA_ERROR_NOT_SUPPORTED=*/801, KilnFakeOnce);
    captureCalls(fixture, engine, args, handle, 1);
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

TEST_CASE("S13: a launch that makes its stream's arena waits for nothing") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  auto waits = [] {
    uint64_t count = 0;
    for (const char *call :
         {"cuStreamSynchronize", "cuCtxSynchronize", "cuMemFree_v2"})
      count += kilnFakeCallCount(call);
    return count;
  };
  OwnStream stream(fixture);
  const uint64_t before = waits();
  kilnFakeLogSteps(1);
  CHECK(kiln_gemm(engine, &args, nullptr, stream.get()) == KILN_SUCCESS);
  CHECK(waits() == before);
  // The region is clear when the kernel begins.
  REQUIRE(kilnFakeStepCount() == 2);
  CHECK(kilnFakeStepAt(0).kind == KilnFakeStepMemset);
  CHECK(kilnFakeStepAt(1).kind == KilnFakeStepKernel);
  for (size_t i = 0; i < 2; ++i)
    CHECK(kilnFakeStepAt(i).stream == stream.get());
  kilnFakeLogSteps(0);

  // The legacy stream gets only its launches as work.
  kilnFakeLogSteps(1);
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  REQUIRE(kilnFakeStepCount() == 2);
  CHECK(kilnFakeStepAt(0).streamId != 0);
  CHECK(kilnFakeStepAt(1).streamId == 0);
  kilnFakeLogSteps(0);
}

TEST_CASE("S14b: of two threads that make arenas, none hides the other's") {
  RuntimeFixture fixture;
  Books books(fixture.gpu.driver());
  kiln_engine_options options = fixture.options();
  options.allocator = &books.hook;
  kiln_engine *engine = fixture.engine(options);
  kiln_stream stream = fixture.gpu.stream();
  // One call needs a large zeroed region, the other scratch.
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
    onOwnThread(fixture, [&] {
      failed += kiln_gemm(engine, &scratch, nullptr, stream) != KILN_SUCCESS;
    });
  };
  failed += kiln_gemm(engine, &zeroed, nullptr, stream) != KILN_SUCCESS;
  CHECK(failed == 0);
  // Both are served now, also in a capture, because nothing has to be made.
  bool begun = !Graph::beginCapture(fixture.gpu.driver(), stream);
  REQUIRE(begun);
  CHECK(kiln_gemm(engine, &zeroed, nullptr, stream) == KILN_SUCCESS);
  CHECK(kiln_gemm(engine, &scratch, nullptr, stream) == KILN_SUCCESS);
  auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
  CHECK(static_cast<bool>(graph));
  // The arena that lost the race went back in the order of its stream.
  CHECK(books.streams == std::vector<kiln_stream>{stream});
  CHECK(books.given.size() == 2);
  fixture.destroy(engine); // before the books
}

TEST_CASE("arenas of graphs that are gone are used again") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  const kiln_gemm_args args = splitArgs();
  uint64_t before = 0;
  for (int cycle = 0; cycle < 4; ++cycle) {
    std::vector<Graph> graphs;
    for (int i = 0; i < 5; ++i) {
      OwnStream stream(fixture);
      REQUIRE(kiln_gemm(engine, &args, nullptr, stream.get()) == KILN_SUCCESS);
      graphs.push_back(captureCalls(fixture, engine, args, stream.get(), 1));
    }
    const uint64_t now = statisticsOf(engine).arena_bytes;
    CAPTURE(cycle);
    if (cycle > 0)
      CHECK(now == before);
    before = now;
  }
}
