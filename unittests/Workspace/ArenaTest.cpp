// The pool by itself; streams and threads that come and go under launches are
// tested in unittests/Runtime/ArenaTest.cpp.
#include "Workspace/Arena.h"

#include "Driver/FakeDriver.h"
#include "Driver/Stream.h"

#include <cstring>
#include <vector>

using namespace kiln;

namespace {

struct ArenaFixture : FakeDriver {
  ArenaFixture() : stream(require(Stream::create(*driver))) {}
  ArenaStream user() {
    return require(ArenaStream::find(*driver, contextId, stream.handle()));
  }
  Workspace ensure(ArenaPool &pool, const WorkspaceLayout &needed) {
    REQUIRE(errorOf(pool.ensure(*driver, user(), needed)).code ==
            ErrorCode::Success);
    return pool.find(user(), needed);
  }

  const uint64_t contextId = require(kiln::contextId(*driver));
  Stream stream;
};

constexpr uint64_t kLimit = 16 << 20;

} // namespace

TEST_CASE("an arena is made once, is zeroed and serves what is smaller") {
  ArenaFixture f;
  ArenaPool pool(kLimit, std::nullopt);
  CHECK(!pool.find(f.user(), {512, 1024}).address);
  Workspace made = f.ensure(pool, {512, 1024});
  REQUIRE(made.address);
  CHECK(made.isZeroed);
  CHECK(made.zeroedBytes >= 512);
  CHECK(made.bytes >= made.zeroedBytes + 1024);
  CHECK(pool.bytesInUse() == made.bytes);
  CHECK(f.ensure(pool, {256, 256}).address == made.address);
  CHECK(pool.bytesInUse() == made.bytes);
}

TEST_CASE("a gauge tells the arenas that the driver has, and their peak") {
  ArenaFixture f;
  auto gauge = std::make_shared<ByteGauge>();
  {
    ArenaPool pool(kLimit, std::nullopt, gauge);
    f.ensure(pool, {512, 1024});
    f.ensure(pool, {512, 4 << 20});
    CHECK(gauge->read().bytes == kilnFakeBytesInUse());
    CHECK(gauge->read().peakBytes == kilnFakePeakBytes());
    kilnFakeSetFreeMemory(0, 0);
    CHECK(errorOf(pool.ensure(*f.driver, f.user(), {512, 8 << 20})).code ==
          ErrorCode::DeviceOutOfMemory);
    CHECK(gauge->read().peakBytes == kilnFakePeakBytes());
    pool.release(*f.driver, f.contextId);
    CHECK(gauge->read().bytes == 0);
  }
  CHECK(gauge->read().peakBytes == kilnFakePeakBytes());
}

TEST_CASE("an allocator's memory counts, and goes with its context") {
  ArenaFixture f;
  auto gauge = std::make_shared<ByteGauge>();
  std::vector<std::vector<char>> given;
  ArenaAllocator allocator;
  allocator.allocate = [&](size_t bytes, size_t, CudaStream) -> void * {
    return given.emplace_back(bytes + 256).data();
  };
  allocator.deallocate = [](void *, size_t, CudaStream) {};
  ArenaPool pool(kLimit, allocator, gauge);
  const Workspace made = f.ensure(pool, {0, 1024});
  CHECK(gauge->read().bytes == made.bytes);
  pool.forget(f.contextId);
  CHECK(gauge->read().bytes == 0);
}

TEST_CASE("a larger arena takes the place of one that stays") {
  ArenaFixture f;
  ArenaPool pool(kLimit, std::nullopt);
  Workspace small = f.ensure(pool, {512, 1024});
  Workspace large = f.ensure(pool, {512, 4 << 20});
  CHECK(large.address != small.address);
  CHECK(large.zeroedBytes >= small.zeroedBytes);
  CHECK(pool.bytesInUse() == small.bytes + large.bytes);
  CHECK(f.ensure(pool, {512, 1024}).address == large.address);
  // Another stream has one of its own.
  Stream second = require(Stream::create(*f.driver));
  ArenaStream other =
      require(ArenaStream::find(*f.driver, f.contextId, second.handle()));
  CHECK(!pool.find(other, {512, 1024}).address);
  pool.release(*f.driver, f.contextId);
  CHECK(pool.bytesInUse() == 0);
}

TEST_CASE("an arena is no larger than the limit unless so much is needed") {
  ArenaFixture f;
  ArenaPool pool(1 << 20, std::nullopt);
  CHECK(f.ensure(pool, {0, (1 << 20) - 4096}).bytes == 1 << 20);
  CHECK(f.ensure(pool, {0, (1 << 20) + 4096}).bytes == (1 << 20) + 4096);
}

TEST_CASE("memory comes from the allocator, in the order of its stream") {
  ArenaFixture f;
  std::vector<CudaStream> allocated, freed;
  bool isEmpty = false;
  std::vector<DeviceMemory> memory;
  ArenaAllocator allocator;
  allocator.allocate = [&](size_t bytes, size_t, CudaStream stream) -> void * {
    allocated.push_back(stream);
    if (isEmpty)
      return nullptr;
    memory.push_back(require(DeviceMemory::allocate(*f.driver, bytes)));
    return reinterpret_cast<void *>(memory.back().address());
  };
  allocator.deallocate = [&](void *, size_t, CudaStream stream) {
    freed.push_back(stream);
  };
  ArenaPool pool(kLimit, allocator);
  Workspace made = f.ensure(pool, {512, 1024});
  REQUIRE(memory.size() == 1);
  CHECK(made.address == memory.front().address());
  CHECK(allocated == std::vector<CudaStream>{f.stream.handle()});
  isEmpty = true;
  CHECK(errorOf(pool.ensure(*f.driver, f.user(), {512, 4 << 20})).code ==
        ErrorCode::DeviceOutOfMemory);
  // The stream may be gone by then.
  pool.release(*f.driver, f.contextId);
  CHECK(freed == std::vector<CudaStream>{nullptr});
}
