//===- Counter.h - a count that many threads raise ------------------------===//
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kiln {

/// Counts on the dispatch path. Threads use different cache lines, so that they
/// do not slow one another down. The sum is exact when no thread is counting.
class Counter {
public:
  void add() noexcept {
    shards[shardOfThread()].value.fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t value() const noexcept {
    uint64_t sum = 0;
    for (const Shard &shard : shards)
      sum += shard.value.load(std::memory_order_relaxed);
    return sum;
  }

private:
  static constexpr size_t kShards = 16;
  struct alignas(64) Shard {
    std::atomic<uint64_t> value{0};
  };

  static size_t shardOfThread() noexcept {
    static std::atomic<size_t> next{0};
    thread_local const size_t shard =
        next.fetch_add(1, std::memory_order_relaxed) % kShards;
    return shard;
  }

  Shard shards[kShards];
};

} // namespace kiln
