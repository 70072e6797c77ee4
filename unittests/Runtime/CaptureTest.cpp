// Streams under capture, arenas and the caller's workspaces.
#include "Driver/DeviceMemory.h"
#include "Runtime/Captures.h"
#include "Runtime/RuntimeFixture.h"

#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

kiln_workspace zeroedWorkspace(uint64_t bytes) {
  kiln_workspace workspace = KILN_INIT(kiln_workspace);
  workspace.data = address(0xa00000);
  workspace.bytes = bytes;
  workspace.flags = KILN_WORKSPACE_ZEROED;
  return workspace;
}

kiln_workspace_info workspaceOf(kiln_engine *engine,
                                const kiln_problem &problem) {
  kiln_plan *plan = nullptr;
  CAPTURE(lastError());
  REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) == KILN_SUCCESS);
  kiln_workspace_info info = KILN_INIT(kiln_workspace_info);
  REQUIRE(kiln_plan_workspace(plan, &info) == KILN_SUCCESS);
  kiln_plan_release(plan);
  return info;
}

kiln_status prepare(kiln_engine *engine, const kiln_problem &problem,
                    kiln_stream stream) {
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.streams = &stream;
  options.stream_count = 1;
  return kiln_prepare(engine, &problem, 1, &options, nullptr);
}

/// Ends a capture and tells how many nodes it recorded.
} // namespace

TEST_CASE("a capture of an unknown problem is refused and goes on") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  kiln_gemm_args args = gemmArgs();
  REQUIRE(beginCapture(fixture, stream));
  CHECK(kiln_gemm(engine, &args, nullptr, stream) == KILN_NOT_PREPARED);
  CHECK(lastErrorHas("kiln_prepare"));
  CHECK(lastErrorHas("gemm m=128 n=256 k=512")); // the problem, to compare
  CHECK(fixture.nvrtc.compileCount() == 0);
  CHECK(endCapture(fixture, stream) == 0);
  CHECK(kiln_gemm(engine, &args, nullptr, stream) == KILN_SUCCESS);
}

TEST_CASE("after prepare a capture records one kernel and makes nothing") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  for (const kiln_gemm_args &args : {gemmArgs(), splitArgs()}) {
    CAPTURE(args.k);
    CAPTURE(lastError());
    REQUIRE(prepare(engine, problemOf(args), stream) == KILN_SUCCESS);
    uint64_t memory = kilnFakeBytesInUse();
    uint64_t modules = kilnFakeModulesLoaded();
    REQUIRE(beginCapture(fixture, stream));
    CHECK(kiln_gemm(engine, &args, nullptr, stream) == KILN_SUCCESS);
    CHECK(endCapture(fixture, stream) == 1);
    CHECK(kilnFakeBytesInUse() == memory);
    CHECK(kilnFakeModulesLoaded() == modules);
  }
}

TEST_CASE("a capture on a stream without an arena takes a workspace only") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  kiln_workspace_info need = workspaceOf(engine, problemOf(args));
  REQUIRE(need.bytes > 0);
  REQUIRE(need.zeroed_bytes > 0);
  kiln_stream stream = fixture.gpu.stream();
  REQUIRE(beginCapture(fixture, stream));
  CHECK(kiln_gemm(engine, &args, nullptr, stream) == KILN_NOT_PREPARED);
  kiln_workspace workspace = zeroedWorkspace(need.bytes);
  CHECK(kiln_gemm(engine, &args, &workspace, stream) == KILN_SUCCESS);
  CHECK(endCapture(fixture, stream) == 1);
}

TEST_CASE("other threads may capture while a problem is made ready") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  auto other = Stream::create(fixture.gpu.driver());
  REQUIRE(static_cast<bool>(other));
  beginCapture(fixture, fixture.gpu.stream());
  kiln_gemm_args args = splitArgs();
  CAPTURE(lastError());
  CHECK(kiln_gemm(engine, &args, nullptr, other->handle()) == KILN_SUCCESS);
  CHECK(endCapture(fixture, fixture.gpu.stream()) == 0);
}

TEST_CASE("the caller's workspace: size, alignment, zeroes") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  kiln_workspace_info need = workspaceOf(engine, problemOf(args));
  CHECK(need.alignment <= 256);
  auto memory = DeviceMemory::allocate(fixture.gpu.driver(), need.bytes + 4096);
  REQUIRE(static_cast<bool>(memory));
  kiln_workspace workspace = KILN_INIT(kiln_workspace);
  workspace.data = address(memory->address());
  workspace.bytes = need.bytes;
  auto run = [&] { return kiln_gemm(engine, &args, &workspace, nullptr); };

  uint64_t memsets = kilnFakeCallCount("cuMemsetD8Async");
  CHECK(run() == KILN_SUCCESS);
  CHECK(launches.last().counters == workspace.data);
  CHECK(kilnFakeCallCount("cuMemsetD8Async") == memsets + 1);
  workspace.flags = KILN_WORKSPACE_ZEROED;
  CHECK(run() == KILN_SUCCESS);
  CHECK(kilnFakeCallCount("cuMemsetD8Async") == memsets + 1);
  CHECK(statisticsOf(engine).arena_bytes == 0);

  workspace.bytes = need.bytes - 1;
  CHECK(run() == KILN_INVALID_ARGUMENT);
  workspace.bytes = need.bytes;
  workspace.data = address(memory->address() + 16);
  CHECK(run() == KILN_INVALID_ARGUMENT);
  workspace.flags = 2;
  CHECK(run() == KILN_UNSUPPORTED);
  workspace.flags = 0;
  workspace.struct_size = 4;
  CHECK(run() == KILN_INVALID_ARGUMENT);
}

TEST_CASE("plans share a workspace whose zeroed region is the larger one's") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  kiln_workspace_info need = workspaceOf(engine, problemOf(args));
  kiln_workspace workspace = zeroedWorkspace(need.bytes + (1 << 20));
  workspace.zeroed_bytes = need.zeroed_bytes + (1 << 20);
  CHECK(kiln_gemm(engine, &args, &workspace, nullptr) == KILN_SUCCESS);
  auto *counters = reinterpret_cast<char *>(launches.last().counters);
  CHECK(counters == workspace.data);
  CHECK(reinterpret_cast<char *>(launches.last().partials) >=
        counters + workspace.zeroed_bytes);
  workspace.bytes -= 1;
  CHECK(kiln_gemm(engine, &args, &workspace, nullptr) == KILN_INVALID_ARGUMENT);
  workspace.bytes += 1;
  workspace.zeroed_bytes = need.zeroed_bytes - 1;
  CHECK(kiln_gemm(engine, &args, &workspace, nullptr) == KILN_INVALID_ARGUMENT);
  // Behind a region of this size scratch would begin at 0 again.
  workspace.zeroed_bytes = ~uint64_t(0);
  CHECK(kiln_gemm(engine, &args, &workspace, nullptr) == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("more than bytes"));
}

TEST_CASE("a small limit of workspaces leaves every problem a plan") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.workspace_limit_bytes = 1 << 20;
  kiln_engine *engine = fixture.engine(options);
  for (const char *text :
       {"gemm m=16 n=256 k=65536 dtype=bf16 layout=NT",
        "gemm m=16 n=256 k=65535 dtype=bf16 layout=NT",
        "gemm m=16 n=256 k=65536 dtype=fp32 compute=tf32",
        "reduce rows=1 cols=10000000 dtype=fp32 axis=all op=sum",
        "softmax rows=1 cols=100000 dtype=fp32",
        "transpose2d rows=1000 cols=1000 dtype=bf16"}) {
    CAPTURE(text);
    kiln_problem problem = problemOf(text);
    CHECK(workspaceOf(engine, problem).bytes <= options.workspace_limit_bytes);
  }
}

TEST_CASE("a stream keeps its arena, another stream has its own") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = splitArgs();
  auto counters = [&](kiln_stream stream) {
    REQUIRE(kiln_gemm(engine, &args, nullptr, stream) == KILN_SUCCESS);
    return launches.last().counters;
  };
  unsigned *first = counters(fixture.gpu.stream());
  CHECK(first != nullptr);
  CHECK(counters(fixture.gpu.stream()) == first);
  CHECK(counters(nullptr) != first);
  // CU_STREAM_LEGACY is the stream that null is.
  CHECK(counters(reinterpret_cast<kiln_stream>(1)) == counters(nullptr));
  for (size_t i = 0; i < 64; ++i)
    CHECK(first[i] == 0); // the stand-in's device memory is the host's

  // CU_STREAM_PER_THREAD is another stream in each thread.
  kiln_stream perThread = reinterpret_cast<kiln_stream>(2);
  unsigned *here = counters(perThread);
  unsigned *there = nullptr;
  CudaContext context = fixture.gpu.context();
  std::thread([&] {
    auto scope = ScopedContext::push(fixture.gpu.driver(), context);
    if (scope && kiln_gemm(engine, &args, nullptr, perThread) == KILN_SUCCESS)
      there = launches.last().counters;
  }).join();
  CHECK(there != nullptr);
  CHECK(there != here);
}

TEST_CASE("a larger need gets a larger arena and the old one stays") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  kiln_gemm_args small = splitArgs();
  REQUIRE(kiln_gemm(engine, &small, nullptr, stream) == KILN_SUCCESS);
  uint64_t before = statisticsOf(engine).arena_bytes;
  REQUIRE(before > 0);
  // With bf16 the sums of splits are in the zeroed region, so each region is
  // the largest of another problem.
  kiln_gemm_args large = gemmArgs(256, 512, 131072);
  kiln_workspace_info few = workspaceOf(engine, problemOf(small));
  kiln_workspace_info need = workspaceOf(engine, problemOf(large));
  REQUIRE(need.zeroed_bytes > few.bytes);
  REQUIRE(few.bytes - few.zeroed_bytes > need.bytes - need.zeroed_bytes);
  REQUIRE(kiln_gemm(engine, &large, nullptr, stream) == KILN_SUCCESS);
  uint64_t both = statisticsOf(engine).arena_bytes;
  CHECK(both >= before + need.bytes + few.bytes - few.zeroed_bytes);
  REQUIRE(kiln_gemm(engine, &small, nullptr, stream) == KILN_SUCCESS);
  REQUIRE(kiln_gemm(engine, &large, nullptr, stream) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).arena_bytes == both);
  fixture.destroy(engine);
  CHECK(kilnFakeBytesInUse() == 0);
  CHECK(kilnFakeModulesLoaded() == 0);
}

TEST_CASE("arenas come from the caller's allocator and go back to it") {
  RuntimeFixture fixture;
  struct Books {
    std::vector<void *> given;
    size_t returned = 0;
    bool empty = false;
  } books;
  kiln_allocator allocator = KILN_INIT(kiln_allocator);
  allocator.user = &books;
  allocator.allocate = [](void *user, size_t bytes, size_t alignment,
                          kiln_stream) -> void * {
    auto *books = static_cast<Books *>(user);
    if (books->empty)
      return nullptr;
    void *memory = std::aligned_alloc(alignment, bytes);
    books->given.push_back(memory);
    return memory;
  };
  allocator.deallocate = [](void *user, void *data, size_t, kiln_stream) {
    ++static_cast<Books *>(user)->returned;
    std::free(data);
  };
  kiln_engine_options options = fixture.options();
  options.allocator = &allocator;
  kiln_engine *engine = fixture.engine(options);
  kiln_gemm_args args = splitArgs();
  books.empty = true;
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) ==
        KILN_DEVICE_OUT_OF_MEMORY);
  books.empty = false;
  // The stand-in does not know the memory: it refuses to fill it.
  kiln_status status = kiln_gemm(engine, &args, nullptr, nullptr);
  CHECK((status == KILN_SUCCESS || status == KILN_DRIVER_ERROR ||
         status == KILN_INVALID_ARGUMENT));
  CHECK(books.given.size() == 1);
  fixture.destroy(engine);
  CHECK(books.returned == 1);
}
