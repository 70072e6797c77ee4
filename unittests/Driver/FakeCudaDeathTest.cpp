// The stand-in is as strict as a driver where a context has died.
#include "Driver/Module.h"
#include "FakeDriver.h"
#include "Fakes/FakeCubin.h"

#include <cuda.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

using namespace kiln;

namespace {

struct Call {
  const char *name;
  std::function<CUresult()> make;
};

/// A handle of each kind, all of the primary context.
struct Handles : FakeDriver {
  Handles() {
    const std::string cubin = makeFakeCubin("void slow() void quick()");
    REQUIRE(cuModuleLoadData(&module, cubin.c_str()) == CUDA_SUCCESS);
    REQUIRE(cuModuleGetFunction(&slow, module, "slow") == CUDA_SUCCESS);
    REQUIRE(cuModuleGetFunction(&quick, module, "quick") == CUDA_SUCCESS);
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    REQUIRE(cuEventCreate(&event, 0) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(event, stream) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc(&memory, 64) == CUDA_SUCCESS);
    REQUIRE(cuMemHostAlloc(&pinned, 64, 0) == CUDA_SUCCESS);
    CUmemPoolProps properties = {};
    REQUIRE(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
    capture();
  }
  /// Calls free nothing of a dead context.
  ~Handles() { std::free(pinned); }

  /// Makes a graph of the kernel "slow", a memset and the kernel "quick".
  void capture() {
    REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) ==
            CUDA_SUCCESS);
    enqueue();
    REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    REQUIRE(cuGraphInstantiateWithFlags(&executable, graph, 0) == CUDA_SUCCESS);
  }
  void enqueue() const {
    REQUIRE(launch(slow) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD8Async(memory, 9, 1, stream) == CUDA_SUCCESS);
    REQUIRE(launch(quick) == CUDA_SUCCESS);
  }

  CUresult launch(CUfunction function) const {
    CUlaunchConfig config = {};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    return cuLaunchKernelEx(&config, function, nullptr, nullptr);
  }
  CUresult copyRows() const {
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = pinned;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = memory;
    copy.srcPitch = copy.dstPitch = copy.WidthInBytes = copy.Height = 8;
    return cuMemcpy2DAsync(&copy, stream);
  }
  /// The first byte of the memory.
  uint8_t byte() const { return *reinterpret_cast<const uint8_t *>(memory); }

  /// Calls on these handles.
  std::vector<Call> onHandles();
  /// Calls that concern the current context, or the device.
  std::vector<Call> inContext();

  CUmodule module = nullptr;
  CUfunction slow = nullptr, quick = nullptr, found = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
  void *pinned = nullptr;
  CUmemoryPool pool = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  unsigned long long id = 0;
  CUcontext owner = nullptr;
  CUstreamCaptureStatus status = {};
  float elapsed = 0;
};

std::vector<Call> Handles::onHandles() {
#define CALL(expression)                                                       \
  {                                                                            \
#expression, [this] { return expression; }                                 \
  }
  return {
      CALL(cuStreamSynchronize(stream)),
      CALL(cuStreamGetId(stream, &id)),
      CALL(cuStreamGetCtx(stream, &owner)),
      CALL(cuStreamIsCapturing(stream, &status)),
      CALL(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)),
      CALL(cuStreamWaitEvent(stream, event, 0)),
      CALL(cuEventRecord(event, stream)),
      CALL(cuEventQuery(event)),
      CALL(cuEventSynchronize(event)),
      CALL(cuEventElapsedTime(&elapsed, event, event)),
      CALL(cuMemcpyHtoD(memory, pinned, 8)),
      CALL(cuMemcpyDtoH(pinned, memory, 8)),
      CALL(cuMemcpyHtoDAsync(memory, pinned, 8, stream)),
      CALL(cuMemcpyDtoHAsync(pinned, memory, 8, stream)),
      CALL(cuMemcpyDtoDAsync(memory, memory + 8, 8, stream)),
      CALL(cuMemsetD8Async(memory, 1, 8, stream)),
      CALL(copyRows()),
      CALL(cuModuleGetFunction(&found, module, "slow")),
      CALL(cuFuncLoad(slow)),
      CALL(cuFuncSetAttribute(
          slow, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0)),
      CALL(launch(quick)),
      CALL(cuGraphLaunch(executable, stream)),
      CALL(cuMemPoolTrimTo(pool, 0)),
      // Calls that end a handle, too.
      CALL(cuMemFree(memory)),
      CALL(cuMemFreeAsync(memory, stream)),
      CALL(cuMemPoolDestroy(pool)),
      CALL(cuGraphExecDestroy(executable)),
      CALL(cuModuleUnload(module)),
      CALL(cuEventDestroy(event)),
      CALL(cuStreamDestroy(stream)),
      CALL(cuDevicePrimaryCtxRelease(0)),
      CALL(cuDevicePrimaryCtxRetain(&owner, 0)),
  };
}

std::vector<Call> Handles::inContext() {
  static CUdeviceptr address = 0;
  static void *host = nullptr;
  static size_t bytes[2];
  static CUstream newStream = nullptr;
  static CUevent newEvent = nullptr;
  static CUmodule newModule = nullptr;
  static const std::string cubin = makeFakeCubin("void other()");
  return {
      CALL(cuCtxSynchronize()),
      CALL(cuStreamSynchronize(nullptr)),
      CALL(cuMemsetD8Async(memory, 1, 8, nullptr)),
      CALL(cuMemAlloc(&address, 8)),
      CALL(cuMemHostAlloc(&host, 8, 0)),
      CALL(cuMemFreeHost(pinned)),
      CALL(cuMemGetInfo(&bytes[0], &bytes[1])),
      CALL(cuStreamCreate(&newStream, 0)),
      CALL(cuEventCreate(&newEvent, 0)),
      CALL(cuModuleLoadData(&newModule, cubin.c_str())),
      CALL(cuGraphInstantiateWithFlags(&executable, graph, 0)),
  };
#undef CALL
}

void checkAnswers(const std::vector<Call> &calls, CUresult answer) {
  for (const Call &call : calls) {
    CAPTURE(call.name);
    CHECK(call.make() == answer);
  }
}

/// Makes launches of "slow" fault.
void makeFault() {
  kilnFakeOnLaunch(
      "slow",
      [](KilnFakeLaunch *launch, void *) {
        launch->result = CUDA_ERROR_ILLEGAL_ADDRESS;
      },
      nullptr, 0);
}

} // namespace

TEST_CASE("every call in a dead context, or on its handles, tells its error") {
  Handles handles;
  const uint64_t bytes = kilnFakeBytesInUse();
  kilnFakeKillContext(CUDA_ERROR_ILLEGAL_ADDRESS);
  checkAnswers(handles.inContext(), CUDA_ERROR_ILLEGAL_ADDRESS);
  checkAnswers(handles.onHandles(), CUDA_ERROR_ILLEGAL_ADDRESS);
  {
    auto other =
        require(ScopedContext::push(*handles.driver, kilnFakeCreateContext(0)));
    checkAnswers(handles.onHandles(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  }
  // Nothing was destroyed, freed or unloaded.
  checkAnswers(handles.onHandles(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(kilnFakeBytesInUse() == bytes);
  CHECK(kilnFakeModulesLoaded() == 1);
  // The host alone knows these.
  CUcontext context = nullptr;
  CUdevice device = -1;
  CHECK(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
  CHECK(context == handles.primary.handle());
  CHECK(cuCtxGetDevice(&device) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(handles.graph) == CUDA_SUCCESS);
}

TEST_CASE("nothing runs behind a fault") {
  Handles handles;
  REQUIRE(cuMemsetD8Async(handles.memory, 3, 8, handles.stream) ==
          CUDA_SUCCESS);
  static int quickLaunches = 0;
  quickLaunches = 0;
  kilnFakeOnLaunch(
      "quick", [](KilnFakeLaunch *, void *) { ++quickLaunches; }, nullptr, 0);
  SUBCASE("in a graph, whose launch succeeds") {
    makeFault();
    handles.capture();
    CHECK(cuGraphLaunch(handles.executable, handles.stream) == CUDA_SUCCESS);
  }
  SUBCASE("in a stream that waits, and its waiters are told") {
    makeFault();
    kilnFakeSetBlockLimit(60000);
    kilnFakeHoldWork("slow");
    handles.enqueue();
    REQUIRE(cuEventRecord(handles.event, handles.stream) == CUDA_SUCCESS);
    std::thread releaser([] {
      while (kilnFakeBlockedCalls() == 0)
        std::this_thread::yield();
      kilnFakeReleaseWork();
    });
    CHECK(cuStreamSynchronize(handles.stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
    releaser.join();
  }
  CHECK(handles.byte() == 3);
  CHECK(quickLaunches == 0);
  CHECK(cuEventQuery(handles.event) == CUDA_ERROR_ILLEGAL_ADDRESS);
}
