// Tests that need a real driver. No kernel is compiled here: launches are
// tested where a compiler is at hand.
#include "Driver/CudaApi.h"
#include "Driver/DeviceMemory.h"
#include "Driver/DeviceQuery.h"
#include "Driver/Event.h"
#include "Driver/Graph.h"
#include "Driver/Launcher.h"
#include "Driver/Module.h"
#include "Driver/Stream.h"
#include "FakeDriver.h"
#include "Fakes/FakeCubin.h"
#include "common/Types.h"

#include <vector>

using namespace kiln;

namespace {

/// The real driver with its first device's primary context current.
struct RealDriver {
  Environment environment = Environment::fromProcess();
  std::shared_ptr<Driver> driver = require(Driver::load(environment));
  PrimaryContext primary = require(PrimaryContext::retain(*driver, 0));
  ScopedContext scope = require(ScopedContext::push(*driver, primary.handle()));
};

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("a real device's attributes are plausible") {
    RealDriver real;
    CHECK(real.driver->version() >= 12080);
    ProbedAttributes probed = require(queryDriver(*real.driver, 0));
    queryNvml(*real.driver, real.environment, 0, probed);
    for (const std::string &failure : probed.failures)
      MESSAGE(failure);
    REQUIRE(probed.marketingName);
    CHECK(!probed.marketingName->empty());
    CHECK(probed.uuid->size() == 40);
    CHECK(probed.ccMajor.value_or(0) >= 7);
    CHECK(probed.smCount.value_or(0) > 0);
    CHECK(probed.warpSize == 32);
    CHECK(probed.l2Bytes.value_or(0) > 1 << 20);
    CHECK(probed.memoryBytes.value_or(0) > int64_t(1) << 30);
    CHECK(probed.sharedBytesPerBlockOptin.value_or(0) >= 48 << 10);
  }

  TEST_CASE("a real context, stream and event work together") {
    RealDriver real;
    const Driver &driver = *real.driver;
    auto stream = require(Stream::create(driver));
    CHECK(require(contextOf(driver, stream.handle())) == real.primary.handle());
    CHECK(require(contextId(driver)) ==
          require(contextId(driver, real.primary.handle())));
    CHECK(require(deviceOf(driver, real.primary.handle())) == 0);

    constexpr uint64_t kBytes = 64 << 20;
    auto memory = require(DeviceMemory::allocate(driver, kBytes));
    auto start = require(Event::create(driver));
    auto stop = require(Event::create(driver));
    REQUIRE(!start.record(stream.handle()));
    REQUIRE(
        !fillAsync(driver, memory.address(), 0x5a, kBytes, stream.handle()));
    REQUIRE(!stop.record(stream.handle()));
    REQUIRE(!stream.synchronize());
    CHECK(require(elapsedNs(driver, start, stop)) > 0);
    std::vector<uint8_t> bytes(4096);
    REQUIRE(!copyToHost(driver, bytes.data(),
                        memory.address() + kBytes - bytes.size(),
                        bytes.size()));
    CHECK(bytes == std::vector<uint8_t>(4096, 0x5a));
  }

  TEST_CASE("a real capture records a spec and replays it") {
    RealDriver real;
    const Driver &driver = *real.driver;
    auto stream = require(Stream::create(driver));
    auto memory = require(DeviceMemory::allocate(driver, 256));
    LaunchSpec spec;
    spec.addMemset(memory.address(), 256, 1);
    spec.addMemset(memory.address(), 128, 2);
    REQUIRE(!Graph::beginCapture(driver, stream.handle()));
    {
      CaptureModeGuard guard(driver);
      CHECK(require(DeviceMemory::allocate(driver, 256)).bytes() == 256);
    }
    REQUIRE(!launch(driver, spec, {}, stream.handle()));
    CHECK(require(captureStatus(driver, stream.handle())) ==
          CaptureStatus::Active);
    Graph graph = require(Graph::endCapture(driver, stream.handle()));
    CHECK(graph.nodeCount() == 2);
    REQUIRE(!graph.launch(stream.handle()));
    REQUIRE(!stream.synchronize());
    uint8_t bytes[256] = {};
    REQUIRE(!copyToHost(driver, bytes, memory.address(), 256));
    CHECK(bytes[0] == 2);
    CHECK(bytes[255] == 1);
  }

  TEST_CASE("S3: a real graph is built while others wait for the context") {
    RealDriver real;
    const Driver &driver = *real.driver;
    auto stream = require(Stream::create(driver));
    auto memory = require(DeviceMemory::allocate(driver, 256));
    auto builder = require(GraphBuilder::create(driver));
    for (uint8_t value : {1, 2}) {
      LaunchSpec spec;
      spec.addMemset(memory.address(), 256, value);
      spec.addMemset(memory.address(), 128, value + 2);
      REQUIRE(!builder.add(spec, {}));
      CHECK(driver.api().cuCtxSynchronize() == CUDA_SUCCESS);
    }
    Graph graph = require(builder.instantiate());
    CHECK(graph.nodeCount() == 4);
    REQUIRE(!graph.launch(stream.handle()));
    REQUIRE(!stream.synchronize());
    uint8_t bytes[256] = {};
    REQUIRE(!copyToHost(driver, bytes, memory.address(), 256));
    CHECK(bytes[0] == 4);
    CHECK(bytes[255] == 2);
  }

  TEST_CASE("a real driver refuses an empty cubin by a typed error") {
    RealDriver real;
    ErrorSummary error =
        errorOf(Module::load(*real.driver, makeFakeCubin("no code")));
    CHECK(error.code != ErrorCode::Success);
    CHECK(error.code != ErrorCode::ContextDead);
    CHECK(error.driverCode != 0);
    CHECK(real.driver->api().cuCtxSynchronize() == CUDA_SUCCESS);
  }

  TEST_CASE("a real tensor map takes another address") {
    RealDriver real;
    TensorMapSpec spec;
    spec.elementType = static_cast<int32_t>(DType::BF16);
    spec.rank = 2;
    spec.dims[0] = spec.dims[1] = 256;
    spec.strides[0] = 512;
    spec.box[0] = 64;
    spec.box[1] = 128;
    spec.swizzle = TensorMapSwizzle::B128;
    auto prototype = encodeTensorMap(*real.driver, spec, 0);
    if (require(queryDriver(*real.driver, 0)).ccMajor < 9) {
      llvm::consumeError(prototype.takeError());
      return;
    }
    require(std::move(prototype));
  }

} // TEST_SUITE
