//===- Arena.h - workspaces of streams that were given none ---------------===//
//
// One arena for each (context, stream): launches of a stream follow one another
// and may share it, each region as large as the largest that they need. An
// arena never moves and is never freed before its engine, because a graph may
// hold its address; when a plan needs more, a larger one takes its place for
// later launches and the old one stays.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Runtime/PublishedTable.h"
#include "Tune/LoadedPlan.h"
#include "kiln/kiln.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

namespace kiln {

/// Which arena: CU_STREAM_PER_THREAD is another stream in each thread.
struct ArenaKey {
  uint64_t contextId = 0;
  CudaStream stream = nullptr;
  uint64_t thread = 0; ///< 0 unless the handle is per-thread

  static ArenaKey of(uint64_t contextId, CudaStream stream) noexcept;
  uint64_t hash() const noexcept;
  friend bool operator==(const ArenaKey &, const ArenaKey &) = default;
};

struct Arena {
  uint64_t hash = 0;
  ArenaKey key;
  DeviceAddress address = 0;
  uint64_t bytes = 0, zeroedBytes = 0;
};

/// All arenas of an engine. Thread-safe; find() takes no lock.
class ArenaPool {
public:
  ArenaPool(uint64_t limitBytes, std::optional<kiln_allocator> allocator)
      : limitBytes(limitBytes), allocator(allocator) {}

  /// The workspace for a launch of a plan that needs \p needed; one without
  /// address if there is none that large yet.
  Workspace find(const ArenaKey &key,
                 const WorkspaceLayout &needed) const noexcept;

  /// Makes sure that find() succeeds. The stream's context must be current, the
  /// stream not be captured, and a CaptureModeGuard in place. Errors:
  /// DeviceOutOfMemory, those of the driver.
  llvm::Error ensure(const Driver &driver, const ArenaKey &key,
                     const WorkspaceLayout &needed);

  /// Frees the arenas of a context, which must be current.
  void release(const Driver &driver, uint64_t contextId);
  /// Forgets those of a context that is gone.
  void forget(uint64_t contextId);

  uint64_t bytesInUse() const {
    return totalBytes.load(std::memory_order_relaxed);
  }

private:
  /// Memory behind an arena: the driver's or the caller's allocator's.
  struct Block {
    uint64_t contextId = 0;
    CudaStream stream = nullptr;
    uint64_t bytes = 0;
    DeviceMemory memory;
    void *foreign = nullptr;
  };

  llvm::Expected<Block> allocate(const Driver &driver, const ArenaKey &key,
                                 uint64_t bytes) const;
  llvm::Error clear(const Driver &driver, const Block &block,
                    const Arena &arena) const;
  const Arena *newest(const ArenaKey &key) const noexcept;

  const uint64_t limitBytes;
  const std::optional<kiln_allocator> allocator;
  PublishedTable<Arena> table;
  std::atomic<uint64_t> totalBytes{0};
  std::mutex mutex; ///< guards blocks
  std::vector<Block> blocks;
};

} // namespace kiln
