#include "Driver/Context.h"

#include "Driver/DeviceMemory.h"
#include "Driver/Graph.h"
#include "Driver/Stream.h"
#include "FakeDriver.h"
#include "Fakes/FakeCudaHazards.h"

#include <cuda.h>

#include <thread>

using namespace kiln;

TEST_CASE("without a current context nothing is guessed") {
  kilnFakeReset();
  auto driver = require(Driver::load(fakeEnvironment()));
  CHECK(require(currentContext(*driver)) == nullptr);
  CHECK(errorOf(contextId(*driver)).code == ErrorCode::InvalidArgument);
  CHECK(errorOf(contextOf(*driver, nullptr)).code ==
        ErrorCode::InvalidArgument);
}

TEST_CASE("contexts are pushed and popped, and know their device") {
  FakeDriver fake;
  kilnFakeSetDeviceCount(2);
  CudaContext own = kilnFakeCreateContext(1);
  CHECK(require(currentContext(*fake.driver)) == fake.primary.handle());
  {
    auto scope = require(ScopedContext::push(*fake.driver, own));
    auto moved = std::move(scope);
    CHECK(require(currentContext(*fake.driver)) == own);
  }
  CHECK(require(currentContext(*fake.driver)) == fake.primary.handle());
  CHECK(require(deviceOf(*fake.driver, own)) == 1);
  CHECK(require(deviceOf(*fake.driver, fake.primary.handle())) == 0);
}

TEST_CASE("a context knows how many SMs it may use") {
  FakeDriver fake;
  CHECK(require(smCountOf(*fake.driver, fake.primary.handle())) == 132);
  kilnFakeLimitSms(16);
  CHECK(require(smCountOf(*fake.driver, nullptr)) == 16);
  kilnFakeFailCall("cuCtxGetDevResource", 1, CUDA_ERROR_NOT_SUPPORTED,
                   KilnFakeOnce);
  CHECK(errorOf(smCountOf(*fake.driver, nullptr)).code ==
        ErrorCode::Unsupported);
}

TEST_CASE("an id tells contexts apart that share a handle") {
  FakeDriver fake;
  CudaContext first = kilnFakeCreateContext(0);
  uint64_t firstId = require(contextId(*fake.driver, first));
  kilnFakeDestroyContext(first);
  CHECK(errorOf(contextId(*fake.driver, first)).code == ErrorCode::ContextDead);
  CudaContext second = kilnFakeCreateContext(0);
  CHECK(second == first);
  CHECK(require(contextId(*fake.driver, second)) != firstId);
}

TEST_CASE("a destroyed context is asked for its id and for nothing else") {
  FakeDriver fake;
  kilnFakeCountMisuse(1); // which else ends the process
  const CudaContext own = kilnFakeCreateContext(0);
  const uint64_t id = require(contextId(*fake.driver, own));
  CHECK(isAlive(*fake.driver, own, id));
  kilnFakeDestroyContext(own);
  CHECK_FALSE(isAlive(*fake.driver, own, id));
  CHECK(kilnFakeMisuses() == 0);
  CHECK(errorOf(ScopedContext::push(*fake.driver, own)).code ==
        ErrorCode::ContextDead);
  CHECK(kilnFakeMisuses() == 1);
  CHECK(errorOf(smCountOf(*fake.driver, own)).code == ErrorCode::ContextDead);
  CHECK(kilnFakeMisuses() == 2);
  CHECK(kilnFakeCreateContext(0) == own);
  CHECK_FALSE(isAlive(*fake.driver, own, id));
}

TEST_CASE("a stream leads to its context") {
  FakeDriver fake;
  auto stream = require(Stream::create(*fake.driver));
  CudaContext own = kilnFakeCreateContext(0);
  auto scope = require(ScopedContext::push(*fake.driver, own));
  CHECK(require(contextOf(*fake.driver, stream.handle())) ==
        fake.primary.handle());
  CHECK(require(contextOf(*fake.driver, nullptr)) == own);
}

TEST_CASE("the last release of a primary context ends it") {
  FakeDriver fake;
  uint64_t id = require(contextId(*fake.driver));
  kilnFakeSetDeviceCount(2);
  {
    auto again = require(PrimaryContext::retain(*fake.driver, 0));
    CHECK(again.handle() == fake.primary.handle());
  }
  CHECK(require(contextId(*fake.driver)) == id);
}

TEST_CASE("an ordinal out of range is the caller's fault") {
  FakeDriver fake;
  for (int ordinal : {-1, 1}) {
    ErrorSummary error = errorOf(PrimaryContext::retain(*fake.driver, ordinal));
    CHECK(error.code == ErrorCode::InvalidArgument);
  }
}

TEST_CASE("a sticky error kills every later call of the context only") {
  FakeDriver fake;
  kilnFakeKillContext(CUDA_ERROR_ILLEGAL_ADDRESS);
  ErrorSummary error = errorOf(DeviceMemory::allocate(*fake.driver, 16));
  CHECK(error.code == ErrorCode::ContextDead);
  CHECK(error.driverCode == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(errorOf(DeviceMemory::allocate(*fake.driver, 16)).code ==
        ErrorCode::ContextDead);
  auto scope =
      require(ScopedContext::push(*fake.driver, kilnFakeCreateContext(0)));
  require(DeviceMemory::allocate(*fake.driver, 16));
}

TEST_CASE("under a guard a capture survives what it cannot record") {
  FakeDriver fake;
  auto stream = require(Stream::create(*fake.driver));
  CHECK(require(captureStatus(*fake.driver, stream.handle())) ==
        CaptureStatus::None);
  REQUIRE(!Graph::beginCapture(*fake.driver, stream.handle()));
  CHECK(require(captureStatus(*fake.driver, stream.handle())) ==
        CaptureStatus::Active);
  {
    CaptureModeGuard guard(*fake.driver);
    auto memory = require(DeviceMemory::allocate(*fake.driver, 256));
    CHECK(memory.bytes() == 256);
  }
  CHECK(require(captureStatus(*fake.driver, stream.handle())) ==
        CaptureStatus::Active);

  // The guard is over: the same call is refused and ruins the capture.
  CHECK(errorOf(DeviceMemory::allocate(*fake.driver, 256)).driverCode ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(require(captureStatus(*fake.driver, stream.handle())) ==
        CaptureStatus::Invalidated);
  CHECK(errorOf(Graph::endCapture(*fake.driver, stream.handle())).driverCode ==
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(require(captureStatus(*fake.driver, stream.handle())) ==
        CaptureStatus::None);
}

TEST_CASE("a thread-local capture lets other threads allocate") {
  FakeDriver fake;
  auto stream = require(Stream::create(*fake.driver));
  REQUIRE(!Graph::beginCapture(*fake.driver, stream.handle()));
  ErrorSummary other{ErrorCode::Internal, "never ran"};
  std::thread([&] {
    auto scope =
        require(ScopedContext::push(*fake.driver, fake.primary.handle()));
    other = errorOf(DeviceMemory::allocate(*fake.driver, 256));
  }).join();
  CHECK(other.code == ErrorCode::Success);
  CHECK(require(Graph::endCapture(*fake.driver, stream.handle())).nodeCount() ==
        0);
}
