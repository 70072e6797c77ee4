#include "Driver/Launcher.h"

#include "Driver/CudaApi.h"
#include "Driver/DeviceMemory.h"
#include "Driver/Event.h"
#include "Driver/Graph.h"
#include "Driver/Module.h"
#include "Driver/Stream.h"
#include "Driver/TensorMapElement.h"
#include "FakeDriver.h"
#include "Fakes/FakeCubin.h"
#include "common/Types.h"

#include <cuda.h>

#include <vector>

using namespace kiln;

namespace {

struct Params {
  EncodedTensorMap map;
  DeviceAddress counter = 0;
  int32_t n = 0;
};

/// The launch that a callback saw.
struct Seen {
  std::string function;
  Dim3 grid, block, cluster;
  uint32_t sharedBytes = 0;
  bool dependent = false, cooperative = false;
  int32_t n = 0;
  uint8_t counterBefore = 0;
  KilnFakeTensorMap map = {};
};

/// Notes the launch and counts in device memory.
void record(KilnFakeLaunch *launch, void *user) {
  Params params;
  std::memcpy(static_cast<void *>(&params), launch->params, sizeof(params));
  auto *counter = reinterpret_cast<uint8_t *>(params.counter);
  Seen seen;
  seen.function = launch->function;
  seen.grid = {launch->grid[0], launch->grid[1], launch->grid[2]};
  seen.block = {launch->block[0], launch->block[1], launch->block[2]};
  seen.cluster = {launch->cluster[0], launch->cluster[1], launch->cluster[2]};
  seen.sharedBytes = launch->sharedBytes;
  seen.dependent = launch->dependentLaunch != 0;
  seen.cooperative = launch->cooperative != 0;
  seen.n = params.n;
  seen.counterBefore = *counter;
  std::memcpy(&seen.map, params.map.opaque, sizeof(seen.map));
  *counter += static_cast<uint8_t>(params.n);
  launch->durationNs = 250;
  static_cast<std::vector<Seen> *>(user)->push_back(seen);
}

TensorMapSpec matrixSpec() {
  TensorMapSpec spec;
  spec.elementType = static_cast<int32_t>(DType::BF16);
  spec.rank = 2;
  spec.dims[0] = 4096;
  spec.dims[1] = 1000;
  spec.strides[0] = 8192;
  spec.box[0] = 64;
  spec.box[1] = 128;
  spec.swizzle = TensorMapSwizzle::B128;
  return spec;
}

/// Two functions of one module and the memory they work on.
struct Plan : FakeDriver {
  Plan() {
    functions = {require(module.function("first")),
                 require(module.function("second"))};
    llvm::cantFail(setMaxDynamicShared(*driver, functions[1], 100000));
  }

  /// memset, first, second.
  void fill(LaunchSpec &spec, const EncodedTensorMap &map) {
    spec.addMemset(memory.address(), 4, 7);
    Params params;
    params.counter = memory.address();
    params.n = 1;
    KernelStep &first = spec.addKernel(params);
    first.function = 0;
    first.grid = {3, 2, 1};
    first.block = {128, 1, 1};
    params.n = 2;
    KernelStep &second = spec.addKernel(params);
    second.function = 1;
    second.grid = {4, 2, 1};
    second.block = {384, 1, 1};
    second.cluster = {2, 1, 1};
    second.sharedBytes = 100000;
    second.dependentLaunch = true;
    spec.tensorMaps[spec.tensorMapCount++] = {&map, memory.address(),
                                              second.paramOffset};
  }

  Module module = require(
      Module::load(*driver, makeFakeCubin("void first() void second()")));
  Stream stream = require(Stream::create(*driver));
  DeviceMemory memory = require(DeviceMemory::allocate(*driver, 4096));
  std::vector<CudaFunction> functions;
  std::vector<Seen> seen;
};

} // namespace

TEST_CASE("a spec's steps run in order with their geometry and maps") {
  Plan plan;
  kilnFakeOnLaunch("void", record, &plan.seen, sizeof(Params));
  EncodedTensorMap map =
      require(encodeTensorMap(*plan.driver, matrixSpec(), 0));
  LaunchSpec spec;
  plan.fill(spec, map);
  REQUIRE(!launch(*plan.driver, spec, plan.functions, plan.stream.handle()));

  REQUIRE(plan.seen.size() == 2);
  const Seen &first = plan.seen[0], &second = plan.seen[1];
  CHECK(first.function == "first");
  CHECK(first.grid == Dim3{3, 2, 1});
  CHECK(first.cluster == Dim3{1, 1, 1});
  CHECK(!first.dependent);
  CHECK(!first.cooperative);
  CHECK(first.counterBefore == 7); // the memset came before
  CHECK(second.function == "second");
  CHECK(second.block == Dim3{384, 1, 1});
  CHECK(second.cluster == Dim3{2, 1, 1});
  CHECK(second.sharedBytes == 100000);
  CHECK(second.dependent);
  CHECK(second.n == 2);
  CHECK(second.counterBefore == 8);
  CHECK(second.map.address == plan.memory.address());
  CHECK(second.map.dims[1] == 1000);
  CHECK(second.map.box[0] == 64);
  CHECK(kilnFakeClockNs() == doctest::Approx(500));

  uint8_t bytes[4] = {};
  REQUIRE(!copyToHost(*plan.driver, bytes, plan.memory.address(), 4));
  CHECK(bytes[0] == 10);
  CHECK(bytes[3] == 7);
}

TEST_CASE("a map whose sizes changed is encoded at launch") {
  Plan plan;
  kilnFakeOnLaunch("void", record, &plan.seen, sizeof(Params));
  EncodedTensorMap prototype =
      require(encodeTensorMap(*plan.driver, matrixSpec(), 0));
  LaunchSpec spec;
  for (uint32_t function : {0u, 1u}) {
    Params params;
    params.counter = plan.memory.address();
    KernelStep &step = spec.addKernel(params);
    step.function = function;
    step.block = {128, 1, 1};
  }
  TensorMapSpec shorter = matrixSpec();
  shorter.dims[1] = 77;
  shorter.strides[0] = 8208;
  uint32_t second = spec.steps[1].kernel.paramOffset;
  spec.addTensorMap(prototype, plan.memory.address(), 0);
  spec.addTensorMap(shorter, plan.memory.address() + 64, second);
  shorter.dims[1] = 1; // the launch has a copy
  REQUIRE(!launch(*plan.driver, spec, plan.functions, plan.stream.handle()));

  REQUIRE(plan.seen.size() == 2);
  const KilnFakeTensorMap &same = plan.seen[0].map, &map = plan.seen[1].map;
  CHECK(same.dims[1] == 1000);
  CHECK(same.address == plan.memory.address());
  CHECK(map.dims[1] == 77);
  CHECK(map.strides[0] == 8208);
  CHECK(map.box[1] == 128);
  CHECK(map.address == plan.memory.address() + 64);
  CHECK(kilnFakeCallCount("cuTensorMapReplaceAddress") == 1);
}

TEST_CASE("a map that cannot be encoded launches nothing") {
  Plan plan;
  LaunchSpec spec;
  KernelStep &step = spec.addKernel(Params{});
  step.block = {128, 1, 1};
  TensorMapSpec odd = matrixSpec();
  odd.strides[0] = 8200;
  spec.addTensorMap(odd, plan.memory.address(), 0);
  ErrorSummary error =
      errorOf(launch(*plan.driver, spec, plan.functions, plan.stream.handle()));
  CHECK(error.code == ErrorCode::InvalidArgument);
  CHECK(error.message.find("stride 8200") != std::string::npos);
  CHECK(kilnFakeCallCount("cuLaunchKernelEx") == 0);
}

TEST_CASE("a cooperative step runs with all of its blocks or not at all") {
  Plan plan;
  kilnFakeOnLaunch("void", record, &plan.seen, sizeof(Params));
  auto run = [&](uint32_t blocks, bool cooperative) {
    LaunchSpec spec;
    Params params;
    params.counter = plan.memory.address();
    KernelStep &step = spec.addKernel(params);
    step.function = 1;
    step.grid = {blocks, 1, 1};
    step.block = {384, 1, 1};
    step.sharedBytes = 100000;
    step.cooperative = cooperative;
    return errorOf(
        launch(*plan.driver, spec, plan.functions, plan.stream.handle()));
  };
  // 132 SMs of two blocks each.
  CHECK(run(264, true).code == ErrorCode::Success);
  REQUIRE(plan.seen.size() == 1);
  CHECK(plan.seen[0].cooperative);
  CHECK(run(265, false).code == ErrorCode::Success);
  REQUIRE(plan.seen.size() == 2);
  CHECK(!plan.seen[1].cooperative);
  ErrorSummary error = run(265, true);
  CHECK(error.code == ErrorCode::Unsupported);
  CHECK(error.message.find("grid 265x1x1") != std::string::npos);
  CHECK(plan.seen.size() == 2);
}

TEST_CASE("a captured spec runs when its graph does, with its own parameters") {
  Plan plan;
  kilnFakeOnLaunch("void", record, &plan.seen, sizeof(Params));
  EncodedTensorMap map =
      require(encodeTensorMap(*plan.driver, matrixSpec(), 0));
  REQUIRE(!Graph::beginCapture(*plan.driver, plan.stream.handle()));
  {
    LaunchSpec spec;
    plan.fill(spec, map);
    REQUIRE(!launch(*plan.driver, spec, plan.functions, plan.stream.handle()));
    std::memset(spec.params, 0xff, sizeof(spec.params));
  }
  Graph graph = require(Graph::endCapture(*plan.driver, plan.stream.handle()));
  CHECK(graph.nodeCount() == 3);
  CHECK(plan.seen.empty());
  for (int run = 0; run < 2; ++run) {
    plan.seen.clear();
    REQUIRE(!graph.launch(plan.stream.handle()));
    REQUIRE(plan.seen.size() == 2);
    CHECK(plan.seen[1].counterBefore == 8);
    CHECK(plan.seen[1].map.address == plan.memory.address());
  }
}

TEST_CASE(
    "S3: a graph built by hand runs what its specs say, without a capture") {
  Plan plan;
  kilnFakeOnLaunch("void", record, &plan.seen, sizeof(Params));
  EncodedTensorMap map =
      require(encodeTensorMap(*plan.driver, matrixSpec(), 0));
  GraphBuilder builder = require(GraphBuilder::create(*plan.driver));
  for (int copy = 0; copy < 2; ++copy) {
    LaunchSpec spec;
    plan.fill(spec, map);
    spec.steps[1].kernel.dependentLaunch = true; // behind a memset: no edge
    spec.steps[1].kernel.cooperative = true;
    REQUIRE(!builder.add(spec, plan.functions));
    std::memset(spec.params, 0xff, sizeof(spec.params));
    // A wait for the context fails beside any capture, and ruins it.
    CHECK(plan.driver->api().cuCtxSynchronize() == CUDA_SUCCESS);
  }
  Graph graph = require(builder.instantiate());
  CHECK(graph.nodeCount() == 6);
  CHECK(kilnFakeCallCount("cuStreamBeginCapture") == 0);
  CHECK(kilnFakeCallCount("cuLaunchKernelEx") == 0);
  CHECK(plan.seen.empty());
  REQUIRE(!graph.launch(plan.stream.handle()));
  REQUIRE(plan.seen.size() == 4);
  for (size_t i : {0, 2}) {
    const Seen &first = plan.seen[i], &second = plan.seen[i + 1];
    CHECK(first.function == "first");
    CHECK(first.grid == Dim3{3, 2, 1});
    CHECK(first.cooperative);
    CHECK(!first.dependent);
    CHECK(first.counterBefore == 7); // each run's memset came before
    CHECK(second.cluster == Dim3{2, 1, 1});
    CHECK(second.sharedBytes == 100000);
    CHECK(second.dependent);
    CHECK(!second.cooperative);
    CHECK(second.n == 2);
    CHECK(second.counterBefore == 8);
    CHECK(second.map.address == plan.memory.address());
  }
}

TEST_CASE("a launch depends on a kernel and on nothing else") {
  Plan plan;
  kilnFakeOnLaunch("void", record, &plan.seen, sizeof(Params));
  auto run = [&](bool cooperative = false) {
    LaunchSpec spec;
    Params params;
    params.counter = plan.memory.address();
    KernelStep &step = spec.addKernel(params);
    step.dependentLaunch = true;
    step.cooperative = cooperative;
    REQUIRE(!launch(*plan.driver, spec, plan.functions, plan.stream.handle()));
    return plan.seen.empty() ? false : plan.seen.back().dependent;
  };
  CHECK_FALSE(run()); // nothing is ahead
  CHECK(run());
  REQUIRE(!fillAsync(*plan.driver, plan.memory.address(), 0, 4,
                     plan.stream.handle()));
  CHECK_FALSE(run());
  CHECK(run());
  CHECK_FALSE(run(/*cooperative=*/true));
  CHECK(run());
  Event event = require(Event::create(*plan.driver));
  REQUIRE(!event.record(plan.stream.handle()));
  CHECK(run()); // a record is no work
  REQUIRE(!event.makeWait(plan.stream.handle()));
  CHECK_FALSE(run());

  // In a capture the kernels of the capture count.
  REQUIRE(!Graph::beginCapture(*plan.driver, plan.stream.handle()));
  for (int i = 0; i < 2; ++i)
    run(/*cooperative=*/i == 1);
  Graph graph = require(Graph::endCapture(*plan.driver, plan.stream.handle()));
  plan.seen.clear();
  REQUIRE(!graph.launch(plan.stream.handle()));
  REQUIRE(plan.seen.size() == 2);
  CHECK_FALSE(plan.seen[0].dependent);
  CHECK(plan.seen[1].dependent);
  CHECK_FALSE(run()); // behind a graph
}

TEST_CASE("S3: a step that a graph cannot take is named") {
  Plan plan;
  GraphBuilder builder = require(GraphBuilder::create(*plan.driver));
  LaunchSpec spec;
  KernelStep &step = spec.addKernel(Params{});
  step.function = 1;
  step.grid = {265, 1, 1};
  step.block = {384, 1, 1};
  step.sharedBytes = 100000;
  step.cooperative = true;
  REQUIRE(!builder.add(spec, plan.functions));
  CHECK(errorOf(builder.instantiate()).code == ErrorCode::Unsupported);
  spec.steps[0].kernel.sharedBytes = 1 << 20;
  ErrorSummary error = errorOf(builder.add(spec, plan.functions));
  CHECK(error.driverCode == CUDA_ERROR_INVALID_VALUE);
  CHECK(error.message.find("step 1 of 1 (grid 265x1x1") != std::string::npos);
}

TEST_CASE("a spec without steps launches nothing") {
  Plan plan;
  uint64_t calls = kilnFakeTotalCalls();
  LaunchSpec spec;
  CHECK(!launch(*plan.driver, spec, plan.functions, plan.stream.handle()));
  CHECK(kilnFakeTotalCalls() == calls);
}

TEST_CASE("a failed step is named and the later ones are not run") {
  Plan plan;
  EncodedTensorMap map =
      require(encodeTensorMap(*plan.driver, matrixSpec(), 0));
  LaunchSpec spec;
  plan.fill(spec, map);
  kilnFakeFailCall("cuLaunchKernelEx", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                   KilnFakeOnce);
  ErrorSummary error =
      errorOf(launch(*plan.driver, spec, plan.functions, plan.stream.handle()));
  CHECK(error.code == ErrorCode::Unsupported);
  CHECK(error.message.find("step 2 of 3") != std::string::npos);
  CHECK(error.message.find("grid 3x2x1") != std::string::npos);
  CHECK(kilnFakeCallCount("cuLaunchKernelEx") == 1);

  kilnFakeFailCall("cuMemsetD8Async", 1, CUDA_ERROR_ILLEGAL_ADDRESS,
                   KilnFakeKillsContext);
  error =
      errorOf(launch(*plan.driver, spec, plan.functions, plan.stream.handle()));
  CHECK(error.code == ErrorCode::ContextDead);
  CHECK(error.message.find("step 1 of 3 (memset of 4 bytes)") !=
        std::string::npos);
}

TEST_CASE("a kernel's fault shows in the calls that follow") {
  Plan plan;
  kilnFakeOnLaunch(
      "first",
      [](KilnFakeLaunch *launch, void *) {
        launch->result = CUDA_ERROR_ILLEGAL_ADDRESS;
      },
      nullptr, 0);
  LaunchSpec spec;
  KernelStep &step = spec.addKernel(Params{});
  step.block = {32, 1, 1};
  CHECK(!launch(*plan.driver, spec, plan.functions, plan.stream.handle()));
  CHECK(errorOf(plan.stream.synchronize()).code == ErrorCode::ContextDead);
}

TEST_CASE("a map rounds fp32 to tf32 where it is told to") {
  FakeDriver fake;
  TensorMapSpec spec = matrixSpec();
  spec.box[0] = 32;
  spec.strides[0] = 4 * 4096;
  auto typeOf = [&](int32_t elementType) {
    spec.elementType = elementType;
    EncodedTensorMap map = require(encodeTensorMap(*fake.driver, spec, 4096));
    KilnFakeTensorMap seen;
    std::memcpy(&seen, map.opaque, sizeof(seen));
    return static_cast<CUtensorMapDataType>(seen.dataType);
  };
  CHECK(typeOf(static_cast<int32_t>(DType::FP32)) ==
        CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  CHECK(typeOf(kTf32Element) == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
  // It is as wide as fp32: a row of the box fills the swizzle's.
  spec.box[0] = 64;
  CHECK(errorOf(encodeTensorMap(*fake.driver, spec, 4096)).code ==
        ErrorCode::InvalidArgument);
}

TEST_CASE("im2col maps are encoded too") {
  FakeDriver fake;
  TensorMapSpec spec;
  spec.elementType = static_cast<int32_t>(DType::FP16);
  spec.im2col = true;
  spec.rank = 4;
  const uint64_t dims[] = {64, 56, 56, 8};
  for (int i = 0; i < 4; ++i)
    spec.dims[i] = dims[i];
  for (int i = 0; i < 3; ++i)
    spec.strides[i] = (i ? spec.strides[i - 1] : 2) * dims[i];
  spec.lowerCorner[0] = spec.lowerCorner[1] = -1;
  spec.upperCorner[0] = spec.upperCorner[1] = -1;
  spec.channelsPerPixel = 64;
  spec.pixelsPerColumn = 128;
  spec.swizzle = TensorMapSwizzle::B128;
  EncodedTensorMap map = require(encodeTensorMap(*fake.driver, spec, 4096));
  KilnFakeTensorMap seen;
  std::memcpy(&seen, map.opaque, sizeof(seen));
  CHECK(seen.im2col == 1);
  CHECK(seen.box[1] == 128);
  CHECK(seen.address == 4096);

  spec.lowerCorner[0] = -129;
  CHECK(errorOf(encodeTensorMap(*fake.driver, spec, 4096)).code ==
        ErrorCode::InvalidArgument);
}

TEST_CASE("each limit of a tensor map is named with the value that breaks it") {
  FakeDriver fake;
  struct {
    const char *text;
    void (*breakIt)(TensorMapSpec &);
    DeviceAddress address;
  } const cases[] = {
      {"rank 0", [](TensorMapSpec &s) { s.rank = 0; }, 4096},
      {"rank 6", [](TensorMapSpec &s) { s.rank = 6; }, 4096},
      {"element type", [](TensorMapSpec &s) { s.elementType = 3; }, 4096},
      {"0x1008", [](TensorMapSpec &) {}, 4104},
      {"dimension 1 of 0", [](TensorMapSpec &s) { s.dims[1] = 0; }, 4096},
      {"stride 8200", [](TensorMapSpec &s) { s.strides[0] = 8200; }, 4096},
      {"stride 1099511627776",
       [](TensorMapSpec &s) { s.strides[0] = uint64_t(1) << 40; }, 4096},
      {"box 257", [](TensorMapSpec &s) { s.box[1] = 257; }, 4096},
      {"256 bytes exceeds", [](TensorMapSpec &s) { s.box[0] = 128; }, 4096},
      {"8 bytes is not", [](TensorMapSpec &s) { s.box[0] = 4; }, 4096},
      {"element stride 9", [](TensorMapSpec &s) { s.elementStrides[1] = 9; },
       4096},
  };
  for (const auto &c : cases) {
    TensorMapSpec spec = matrixSpec();
    c.breakIt(spec);
    ErrorSummary error =
        errorOf(encodeTensorMap(*fake.driver, spec, c.address));
    CAPTURE(error.message);
    CHECK(error.code == ErrorCode::InvalidArgument);
    CHECK(error.message.find(c.text) != std::string::npos);
  }
  CHECK(kilnFakeCallCount("cuTensorMapEncodeTiled") == 0);
}
