#include "Workspace/StreamLock.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

using namespace kiln;

namespace {
CudaStream streamAt(uintptr_t value) {
  return reinterpret_cast<CudaStream>(value);
}
CudaStream const kLegacy = streamAt(1), kPerThread = streamAt(2);

/// Another thread that wants the lock of a stream, and its result.
class Waiter {
public:
  Waiter(uint64_t contextId, CudaStream stream)
      : thread([this, contextId, stream] {
          auto lock = lockStream(contextId, stream);
          hasIt = true;
        }) {}
  ~Waiter() { thread.join(); }
  bool hasItSoon() const {
    for (int i = 0; i < 100 && !hasIt; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return hasIt;
  }

private:
  std::atomic<bool> hasIt{false};
  std::thread thread;
};
} // namespace

TEST_CASE("one thread at a time has a stream of a context") {
  auto held = lockStream(1, streamAt(0x100));
  CHECK(held.owns_lock());
  Waiter same(1, streamAt(0x100));
  Waiter otherStream(1, streamAt(0x200)), otherContext(2, streamAt(0x100));
  CHECK(otherStream.hasItSoon());
  CHECK(otherContext.hasItSoon());
  CHECK(!same.hasItSoon());
  held.unlock();
  CHECK(same.hasItSoon());
}

TEST_CASE("the default stream has one lock by all its names") {
  auto held = lockStream(3, nullptr);
  Waiter legacy(3, kLegacy);
  CHECK(!legacy.hasItSoon());
  held.unlock();
  CHECK(legacy.hasItSoon());
}

TEST_CASE("nothing is locked for the stream of each thread") {
  CHECK(!lockStream(1, kPerThread).owns_lock());
}
