#include "Driver/DeviceMemory.h"

#include "Driver/Event.h"
#include "Driver/Graph.h"
#include "Driver/Stream.h"
#include "FakeDriver.h"

#include <cuda.h>

#include <array>
#include <memory>

using namespace kiln;

TEST_CASE("memory is owned, moved and freed") {
  FakeDriver fake;
  {
    auto memory = require(DeviceMemory::allocate(*fake.driver, 1000));
    CHECK(memory.address() % 256 == 0);
    DeviceMemory moved = std::move(memory);
    CHECK(memory.empty());
    CHECK(moved.bytes() == 1000);
    CHECK(kilnFakeBytesInUse() == 1000);
    moved = require(DeviceMemory::allocate(*fake.driver, 500));
    CHECK(kilnFakeBytesInUse() == 500);
  }
  CHECK(kilnFakeBytesInUse() == 0);
  CHECK(require(DeviceMemory::allocate(*fake.driver, 0)).address() == 0);
}

TEST_CASE("memory is freed in its own context, and beside a capture") {
  FakeDriver fake;
  auto stream = require(Stream::create(*fake.driver));
  {
    auto memory = require(DeviceMemory::allocate(*fake.driver, 64));
    auto scope =
        require(ScopedContext::push(*fake.driver, kilnFakeCreateContext(0)));
    REQUIRE(!Graph::beginCapture(*fake.driver, stream.handle()));
    memory = DeviceMemory();
    CHECK(kilnFakeBytesInUse() == 0);
  }
  CHECK(require(captureStatus(*fake.driver, stream.handle())) ==
        CaptureStatus::Active);
  require(Graph::endCapture(*fake.driver, stream.handle()));

  auto left = require(DeviceMemory::allocate(*fake.driver, 64));
  left.leak();
  CHECK(left.empty());
  CHECK(kilnFakeBytesInUse() == 64);
}

TEST_CASE("running out of device memory says how much was asked for") {
  FakeDriver fake;
  kilnFakeSetDeviceMemory(0, 4096);
  ErrorSummary error = errorOf(DeviceMemory::allocate(*fake.driver, 4097));
  CHECK(error.code == ErrorCode::DeviceOutOfMemory);
  CHECK(error.message.find("4097 bytes") != std::string::npos);
  auto memory = require(DeviceMemory::allocate(*fake.driver, 4000));
  MemoryInfo info = require(memoryInfo(*fake.driver));
  CHECK(info.totalBytes == 4096);
  CHECK(info.freeBytes == 96);
}

TEST_CASE("a gauge counts memory that is owned, and none that was refused") {
  FakeDriver fake;
  auto gauge = std::make_shared<ByteGauge>();
  kilnFakeSetDeviceMemory(0, 4096);
  {
    auto memory = require(DeviceMemory::allocate(*fake.driver, 1000, gauge));
    DeviceMemory moved = std::move(memory);
    CHECK(gauge->read().bytes == 1000);
    auto left = require(DeviceMemory::allocate(*fake.driver, 500, gauge));
    errorOf(DeviceMemory::allocate(*fake.driver, 4000, gauge));
    CHECK(gauge->read().peakBytes == 1500);
    left.leak();
    CHECK(gauge->read().bytes == 1000);
  }
  CHECK(gauge->read().bytes == 0);
  CHECK(gauge->read().peakBytes == 1500);
}

TEST_CASE("a pool holds the most that it gave until it is trimmed") {
  FakeDriver fake;
  auto gauge = std::make_shared<ByteGauge>();
  auto stream = require(Stream::create(*fake.driver));
  auto bytes = [&] { return gauge->read().bytes; };
  {
    auto pool = require(MemoryPool::create(*fake.driver, gauge));
    auto first = require(pool.allocate(1000, stream.handle()));
    {
      auto second = require(pool.allocate(500, stream.handle()));
      CHECK(bytes() == 1500);
    }
    CHECK(bytes() == 1500);
    auto third = require(pool.allocate(400, stream.handle()));
    CHECK(bytes() == 1500); // in the memory of the second
    pool.trim();
    CHECK(bytes() == 1400);
    pool.leak();
    CHECK(bytes() == 0);
  }
  CHECK(bytes() == 0);
  CHECK(gauge->read().peakBytes == 1500);
}

TEST_CASE("copies and fills move the bytes") {
  FakeDriver fake;
  auto stream = require(Stream::create(*fake.driver));
  auto first = require(DeviceMemory::allocate(*fake.driver, 8));
  auto second = require(DeviceMemory::allocate(*fake.driver, 8));
  std::array<uint8_t, 8> in = {1, 2, 3, 4, 5, 6, 7, 8}, out = {};
  REQUIRE(!copyToDevice(*fake.driver, first.address(), in.data(), 8));
  REQUIRE(!copyOnDevice(*fake.driver, second.address(), first.address(), 8,
                        stream.handle()));
  REQUIRE(!fillAsync(*fake.driver, second.address(), 9, 2, stream.handle()));
  REQUIRE(!stream.synchronize());
  REQUIRE(!copyToHost(*fake.driver, out.data(), second.address(), 8));
  CHECK(out == std::array<uint8_t, 8>{9, 9, 3, 4, 5, 6, 7, 8});
  CHECK(bool(copyToDevice(*fake.driver, first.address(), in.data(), 9)));
  CHECK(!copyToHost(*fake.driver, nullptr, 0, 0));
}

TEST_CASE("events measure the virtual clock") {
  FakeDriver fake;
  auto stream = require(Stream::create(*fake.driver));
  auto start = require(Event::create(*fake.driver));
  auto stop = require(Event::create(*fake.driver));
  REQUIRE(!start.record(stream.handle()));
  kilnFakeAdvanceClock(12500);
  REQUIRE(!stop.record(stream.handle()));
  REQUIRE(!stream.synchronize());
  CHECK(require(stop.isDone()));
  CHECK(require(elapsedNs(*fake.driver, start, stop)) ==
        doctest::Approx(12500));

  kilnFakeFailCall("cuEventQuery", 1, CUDA_ERROR_NOT_READY, KilnFakeOnce);
  CHECK(!require(stop.isDone()));
  auto untimed = require(Event::create(*fake.driver, Event::Timing::Disabled));
  REQUIRE(!untimed.record(stream.handle()));
  CHECK(!untimed.makeWait(stream.handle()));
  CHECK(errorOf(elapsedNs(*fake.driver, start, untimed)).code ==
        ErrorCode::InvalidArgument);
}

TEST_CASE("memory of a pool waits for nothing") {
  FakeDriver fake;
  auto stream = require(Stream::create(*fake.driver));
  {
    auto pool = require(MemoryPool::create(*fake.driver));
    auto memory = require(pool.allocate(1000, stream.handle()));
    CHECK(kilnFakeBytesInUse() == 1000);
    CHECK(require(pool.allocate(0, stream.handle())).empty());
    const uint64_t frees = kilnFakeCallCount("cuMemFree");
    memory = DeviceMemory();
    pool.trim();
    CHECK(kilnFakeCallCount("cuMemFree") == frees);
    CHECK(kilnFakeBytesInUse() == 0);
    MemoryPool moved = std::move(pool);
    kilnFakeSetDeviceMemory(0, 4096);
    CHECK(errorOf(moved.allocate(4097, stream.handle())).code ==
          ErrorCode::DeviceOutOfMemory);
  }
  CHECK(kilnFakeCallCount("cuMemPoolDestroy") == 1);
}

TEST_CASE("a stream may have the least priority") {
  FakeDriver fake;
  auto usual = require(Stream::create(*fake.driver));
  CHECK(kilnFakeCallCount("cuStreamCreateWithPriority") == 0);
  auto least = require(Stream::create(*fake.driver, Stream::Priority::Lowest));
  CHECK(kilnFakeCallCount("cuStreamCreateWithPriority") == 1);
  CHECK(least.handle() != usual.handle());
}
