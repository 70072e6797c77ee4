//===- Arena.h - workspaces of streams that were given none ---------------===//
//
// One arena for each (context, stream): launches of a stream follow one another
// and may share it, each region as large as the largest that they need. An
// arena never moves and is never freed before its engine, because a graph may
// hold its address; when a plan needs more, a larger one takes its place for
// later launches and the old one stays.
//
// Streams end without telling, and the driver gives their handles to others. An
// arena is found by handle and belongs to one stream by its id, which is unique
// in the process. When a handle comes with another id, the new stream takes the
// arena over, so that there are no more arenas than streams at one time; except
// for one that a graph holds, which would share it unknowingly. The driver
// tells when such a graph is gone: then the next stream of the handle that
// needs an arena finds that one again.
//
//   A stream of the caller's: kiln.h asks that its launches have completed when
//   it is destroyed, so nothing has to be waited for.
//   CU_STREAM_PER_THREAD: a place for each thread. What a thread leaves behind
//   when it ends may still run: an event marks its end, and the stream of the
//   thread that gets the place waits for it.
//   A stream in capture: asking for its id would end the capture, so that the
//   handle alone finds its arena.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Driver/Event.h"
#include "Kernel/Workspace.h"
#include "Workspace/PublishedTable.h"
#include "Workspace/ThreadPlace.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace kiln {

/// The stream of a launch, as arenas are found by it.
struct ArenaStream {
  uint64_t contextId = 0;
  CudaStream handle = nullptr; ///< null for CU_STREAM_LEGACY
  /// The calling thread's if the stream is CU_STREAM_PER_THREAD, else 0.
  uint64_t place = 0;
  /// Tells streams apart that had one handle or place after another; 0: not
  /// known, in a capture.
  uint64_t id = 0;
  bool isCaptured = false;

  /// Two driver look-ups, some 30 ns, for a stream of the caller's. Errors:
  /// those of the driver.
  static llvm::Expected<ArenaStream>
  find(const Driver &driver, uint64_t contextId, CudaStream stream);
  uint64_t hash() const noexcept;
};

struct Arena {
  uint64_t hash = 0;
  uint64_t contextId = 0;
  CudaStream handle = nullptr;
  uint64_t place = 0;
  DeviceAddress address = 0;
  uint64_t bytes = 0, zeroedBytes = 0;
  mutable std::atomic<uint64_t> owner{0}; ///< ArenaStream::id
  /// Graphs that hold the address; no other stream may use it meanwhile. Shared
  /// with the graphs, which may outlive the engine.
  std::shared_ptr<std::atomic<int64_t>> graphs =
      std::make_shared<std::atomic<int64_t>>(0);
  /// The last capture that was counted.
  mutable std::atomic<uint64_t> capture{0};

  bool covers(const WorkspaceLayout &needed) const {
    return zeroedBytes >= needed.zeroedBytes &&
           bytes >= needed.bytesBehind(zeroedBytes);
  }
  WorkspaceLayout layout() const;
};

/// Where arenas come from if not from the driver. Called with the stream's
/// context current and no lock held.
struct ArenaAllocator {
  /// Memory that is good in the order of \p stream; null: there is none.
  std::function<void *(size_t bytes, size_t alignment, CudaStream stream)>
      allocate;
  /// Takes it back; \p stream is null where that may be gone.
  std::function<void(void *memory, size_t bytes, CudaStream stream)> deallocate;
};

/// All arenas of an engine. Thread-safe; find() takes no lock.
class ArenaPool {
public:
  ArenaPool(uint64_t limitBytes, std::optional<ArenaAllocator> allocator);

  /// The workspace for a launch of a plan that needs \p needed; one without
  /// address if the stream has none that large yet.
  Workspace find(const ArenaStream &stream,
                 const WorkspaceLayout &needed) const noexcept;

  /// Keeps the arena that find() gave for \p stream, which is captured, as long
  /// as the graph exists; for good where the driver does not take part.
  void holdForGraph(const Driver &driver, const ArenaStream &stream) const;

  /// Makes sure that find() succeeds from now on. The stream's context must be
  /// current, the stream not be captured, and a CaptureModeGuard in place.
  /// Errors: DeviceOutOfMemory, those of the driver.
  llvm::Error ensure(const Driver &driver, const ArenaStream &stream,
                     const WorkspaceLayout &needed);

  /// Frees the arenas of a context, which must be current.
  void release(const Driver &driver, uint64_t contextId);
  /// Forgets those of a context that is gone.
  void forget(uint64_t contextId);

  uint64_t bytesInUse() const;

private:
  /// Memory of an arena: the driver's or the caller's allocator's.
  struct Block {
    const Driver *driver = nullptr;
    uint64_t contextId = 0;
    CudaContext context = nullptr;
    CudaStream stream = nullptr; ///< whose work may still touch it
    uint64_t bytes = 0;
    DeviceMemory memory;
    void *foreign = nullptr;
    const Arena *arena = nullptr; ///< null: kept for the next one
    /// Of CU_STREAM_PER_THREAD: the driver's id of the owner's stream, and the
    /// end of its work if the thread has ended.
    uint64_t streamId = 0;
    std::unique_ptr<Event> lastUse;

    DeviceAddress address() const;
  };

  const Arena *newest(const ArenaStream &stream) const noexcept;
  llvm::Expected<const Arena *> takeOver(const ArenaStream &stream,
                                         uint64_t streamId);
  bool takeUnheld(const ArenaStream &stream, const WorkspaceLayout &needed);
  llvm::Expected<Block> allocate(const Driver &driver,
                                 const ArenaStream &stream, uint64_t bytes);
  llvm::Error clear(const Driver &driver, const Block &block, CudaStream stream,
                    uint64_t bytes) const;
  bool publish(const ArenaStream &stream, const WorkspaceLayout &layout,
               uint64_t streamId, Block &block);
  void giveBack(Block block, CudaStream stream);
  void threadEnds(const ThreadPlace &ended) noexcept;

  const uint64_t limitBytes;
  const std::optional<ArenaAllocator> allocator;
  PublishedTable<Arena> table;
  mutable std::mutex mutex; ///< guards blocks, and what arenas belong to
  std::vector<Block> blocks;
  ThreadExitHook threadExit; ///< last: it is called while all else exists
};

} // namespace kiln
