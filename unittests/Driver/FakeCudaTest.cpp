// The stand-in is as strict as a driver: the calls that it refuses, and the
// counts that it keeps.
#include "Fakes/FakeCuda.h"

#include "Driver/DeviceMemory.h"
#include "Driver/Event.h"
#include "Driver/Graph.h"
#include "Driver/Launcher.h"
#include "Driver/Module.h"
#include "Driver/Stream.h"
#include "FakeDriver.h"
#include "Fakes/FakeCubin.h"

#include <cuda.h>

#include <functional>
#include <thread>

using namespace kiln;

namespace {

/// Sets the mode of the calling thread for its lifetime.
struct ThreadMode {
  explicit ThreadMode(CUstreamCaptureMode mode) : mode(mode) {
    cuThreadExchangeStreamCaptureMode(&this->mode);
  }
  ~ThreadMode() { cuThreadExchangeStreamCaptureMode(&mode); }
  CUstreamCaptureMode mode;
};

CUstream makeStream(bool blocking) {
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, blocking ? CU_STREAM_DEFAULT
                                           : CU_STREAM_NON_BLOCKING) ==
          CUDA_SUCCESS);
  return stream;
}

/// The result of \p call beside a capture of \p mode of another thread, and
/// whether the capture survived.
struct Answer {
  CUresult result;
  bool survived;
  bool operator==(const Answer &) const = default;
};
Answer askBeside(CUstreamCaptureMode mode, bool blocking,
                 const std::function<CUresult()> &call) {
  CUstream stream = makeStream(blocking);
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  std::thread([&] {
    cuCtxPushCurrent(context);
    cuStreamBeginCapture(stream, mode);
  }).join();
  Answer answer{call(), false};
  CUstreamCaptureStatus status;
  REQUIRE(cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS);
  answer.survived = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  cuStreamDestroy(stream);
  return answer;
}

constexpr CUstreamCaptureMode kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL,
                              kLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                              kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

/// A module with two functions, a stream and some memory.
struct Work : FakeDriver {
  llvm::Error run(const char *name, CudaStream target) {
    CudaFunction function = require(module.function(name));
    LaunchSpec spec;
    spec.addKernel(int64_t(1)).block = {32, 1, 1};
    return launch(*driver, spec, function, target);
  }

  Module module =
      require(Module::load(*driver, makeFakeCubin("void slow() void quick()")));
  Stream stream = require(Stream::create(*driver));
  DeviceMemory memory = require(DeviceMemory::allocate(*driver, 4096));
};

} // namespace

TEST_CASE("the stand-in is as strict as the driver beside captures") {
  Work work;
  CUdeviceptr memory = work.memory.address();
  char bytes[8] = {};
  const Answer refused{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false};
  const Answer implicit{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, false};
  const Answer fine{CUDA_SUCCESS, true};
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, 0) == CUDA_SUCCESS);
  for (CUstreamCaptureMode own : {kGlobal, kLocal, kRelaxed})
    for (CUstreamCaptureMode mode : {kGlobal, kLocal, kRelaxed})
      for (bool blocking : {false, true}) {
        CAPTURE(own);
        CAPTURE(mode);
        CAPTURE(blocking);
        ThreadMode guard(own);
        auto *other = work.stream.handle();
        auto ask = [&](auto call) { return askBeside(mode, blocking, call); };
        CHECK(ask([] { return cuCtxSynchronize(); }) == refused);

        const Answer legacy = blocking ? implicit : fine;
        CHECK(ask([&] { return cuMemsetD8Async(memory, 0, 8, nullptr); }) ==
              legacy);
        CHECK(ask([&] { return cuEventRecord(event, nullptr); }) == legacy);
        CHECK(ask([&] {
                return cuMemcpyDtoHAsync(bytes, memory, 8, nullptr);
              }) == legacy);

        const Answer unsafe =
            own == kGlobal && mode == kGlobal ? refused : fine;
        CHECK(ask([&] { return cuMemcpyDtoH(bytes, memory, 8); }) == legacy);
        CHECK(ask([&] { return cuStreamSynchronize(nullptr); }) ==
              (blocking ? implicit : unsafe));
        CHECK(ask([&] { return cuStreamSynchronize(other); }) == unsafe);
        CHECK(ask([&] { return cuEventQuery(event); }) == unsafe);
        CHECK(ask([] {
                CUdeviceptr made = 0;
                return cuMemAlloc(&made, 8);
              }) == unsafe);
        CHECK(ask([&] { return cuMemsetD8Async(memory, 0, 8, other); }) ==
              fine);
        CHECK(ask([&] { return cuMemcpyDtoHAsync(bytes, memory, 8, other); }) ==
              fine);
      }
}

TEST_CASE("the stand-in ruins a capture for good, and knows whose it is") {
  Work work;
  auto *stream = work.stream.handle();
  CUgraph graph = nullptr;
  REQUIRE(cuStreamBeginCapture(stream, kRelaxed) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuMemsetD8Async(work.memory.address(), 0, 8, stream) ==
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(cuStreamEndCapture(stream, &graph) ==
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);

  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, 0) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture(stream, kLocal) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(event, stream) == CUDA_SUCCESS);
  ThreadMode relaxed(kRelaxed);
  CHECK(cuEventQuery(event) == CUDA_ERROR_CAPTURED_EVENT);
  unsigned long long id = 0;
  CHECK(cuStreamGetId(stream, &id) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUresult foreign = CUDA_SUCCESS;
  std::thread([&] {
    cuCtxPushCurrent(work.primary.handle());
    foreign = cuStreamEndCapture(stream, &graph);
  }).join();
  CHECK(foreign == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

TEST_CASE("the stand-in gives handles out again, but no id") {
  FakeDriver fake;
  CUstream first = makeStream(true);
  unsigned long long firstId = 0, secondId = 0;
  REQUIRE(cuStreamGetId(first, &firstId) == CUDA_SUCCESS);
  REQUIRE(cuStreamDestroy(first) == CUDA_SUCCESS);
  CHECK(cuStreamGetId(first, &secondId) == CUDA_ERROR_INVALID_HANDLE);
  CUstream second = makeStream(false);
  CHECK(second == first);
  REQUIRE(cuStreamGetId(second, &secondId) == CUDA_SUCCESS);
  CHECK(secondId != firstId);
  CUevent events[2] = {};
  REQUIRE(cuEventCreate(&events[0], 0) == CUDA_SUCCESS);
  REQUIRE(cuEventDestroy(events[0]) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&events[1], 0) == CUDA_SUCCESS);
  CHECK(events[1] == events[0]);
}

TEST_CASE("the stand-in tells who enqueued what, and lets others in between") {
  Work work;
  static Work *self = nullptr;
  self = &work;
  kilnFakeLogSteps(1);
  kilnFakeOnStep(
      [](const KilnFakeStep *step, void *) {
        if (std::string(step->function) != "slow")
          return;
        std::thread([] {
          auto scope = require(
              ScopedContext::push(*self->driver, self->primary.handle()));
          REQUIRE(!self->run("quick", nullptr));
        }).join();
      },
      nullptr);
  REQUIRE(!work.run("slow", work.stream.handle()));
  REQUIRE(!fillAsync(*work.driver, work.memory.address(), 1, 8,
                     work.stream.handle()));
  REQUIRE(kilnFakeStepCount() == 3);
  KilnFakeStep slow = kilnFakeStepAt(0), quick = kilnFakeStepAt(1),
               fill = kilnFakeStepAt(2);
  CHECK(std::string(quick.function) == "quick");
  CHECK(slow.thread == kilnFakeThread());
  CHECK(quick.thread != slow.thread);
  CHECK(fill.kind == KilnFakeStepMemset);
  CHECK(fill.streamId == slow.streamId);
  CHECK(quick.stream == nullptr);
}

TEST_CASE("the stand-in's memory runs out, and others take some") {
  FakeDriver fake;
  kilnFakeSetDeviceMemory(0, uint64_t(8) << 30);
  kilnFakeSetHollowMemory(64 << 20);
  auto most = require(DeviceMemory::allocate(*fake.driver, uint64_t(6) << 30));
  kilnFakeSetFreeMemory(0, 1 << 20);
  CHECK(require(memoryInfo(*fake.driver)).freeBytes == 1 << 20);
  CHECK(errorOf(DeviceMemory::allocate(*fake.driver, 2 << 20)).code ==
        ErrorCode::DeviceOutOfMemory);
  most = DeviceMemory();
  CHECK(require(memoryInfo(*fake.driver)).freeBytes ==
        (uint64_t(6) << 30) + (1 << 20));
}

TEST_CASE("the stand-in blocks behind work that does not end") {
  Work work;
  auto other = require(Stream::create(*work.driver));
  auto event = require(Event::create(*work.driver));
  uint8_t byte = 0;
  REQUIRE(!fillAsync(*work.driver, work.memory.address(), 1, 8,
                     work.stream.handle()));
  kilnFakeSetBlockLimit(1);
  kilnFakeHoldWork("slow");
  REQUIRE(!work.run("slow", work.stream.handle()));
  REQUIRE(!fillAsync(*work.driver, work.memory.address(), 7, 8,
                     work.stream.handle()));
  REQUIRE(!event.record(work.stream.handle()));
  CHECK_FALSE(require(event.isDone()));
  // A call that does not wait for that stream goes on.
  REQUIRE(!work.run("slow", nullptr));
  kilnFakeReleaseWork();
  kilnFakeHoldWork("slow");
  REQUIRE(!work.run("slow", work.stream.handle()));
  CHECK(!other.synchronize());
  CHECK(!copyToHost(*work.driver, &byte, work.memory.address(), 1));
  CHECK(byte == 7);
  CHECK(require(event.isDone()));
  CHECK(kilnFakeBlockedCalls() == 0);
  // A call that waits fails here, where a driver would wait.
  CHECK(cuMemcpyDtoHAsync(&byte, work.memory.address(), 1,
                          work.stream.handle()) == CUDA_ERROR_UNKNOWN);
  CHECK(bool(work.stream.synchronize()));
  CHECK(cuCtxSynchronize() != CUDA_SUCCESS);
  CHECK(cuMemFree(work.memory.address()) == CUDA_ERROR_UNKNOWN);
  CHECK(kilnFakeBlockedCalls() == 4);
  kilnFakeReleaseWork();
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
}

TEST_CASE("the stand-in knows contexts of streams and limits of functions") {
  FakeDriver fake;
  kilnFakeSetFunctionAttribute("narrow",
                               CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 256);
  auto load = [&](const char *text) {
    return require(Module::load(*fake.driver, makeFakeCubin(text)));
  };
  Module first = load("void narrow()"), second = load("void wide()");
  Stream stream = require(Stream::create(*fake.driver));
  LaunchSpec spec;
  KernelStep &step = spec.addKernel(int64_t(1));
  step.block.x = 512;
  CudaFunction narrow = require(first.function("narrow")),
               wide = require(second.function("wide"));
  auto codeOf = [&](CudaFunction function, const Stream &target) {
    llvm::Error error = launch(*fake.driver, spec, function, target.handle());
    return summarize(std::move(error)).driverCode;
  };
  CHECK(codeOf(narrow, stream) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK(codeOf(wide, stream) == 0);
  step.grid.x = step.cluster.x = 16;
  CHECK(codeOf(wide, stream) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK(cuFuncSetAttribute(wide,
                           CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                           1) == CUDA_SUCCESS);
  CHECK(codeOf(wide, stream) == 0);

  auto *other = kilnFakeCreateContext(0);
  REQUIRE(cuCtxPushCurrent(other) == CUDA_SUCCESS);
  Stream elsewhere = require(Stream::create(*fake.driver));
  REQUIRE(cuCtxPopCurrent(nullptr) == CUDA_SUCCESS);
  CHECK(codeOf(wide, elsewhere) == CUDA_ERROR_INVALID_HANDLE);
  step.grid = step.cluster = {};
  CHECK(codeOf(wide, elsewhere) == CUDA_ERROR_INVALID_HANDLE);
}
