//===- Arena.h - workspaces of streams without their own ------------------===//
//
// There is one arena for each (context, stream): launches of a stream follow
// one another and may share it, and each region is as large as the largest that
// they need. An arena never moves and is never freed before its engine, because
// a graph may hold its address. When a plan needs more, a larger one replaces
// it for later launches and the old one stays.
//
// The end of a stream cannot be seen, and the driver reuses its handle. An
// arena is found by handle and belongs to one stream by its id, which is unique
// in the process. When a handle comes with another id, the new stream takes the
// arena over, so that there are no more arenas than streams at one time.
// Exception: an arena that a graph holds, which the graph would share
// unknowingly. The driver reports when such a graph is destroyed: then the next
// stream of the handle that needs an arena finds that one again.
//
//   For a caller's stream, kiln.h requires that its launches have completed
//   when it is destroyed, so no wait is needed. For CU_STREAM_PER_THREAD each
//   thread has a place. Work of a thread that ended may still run: an event
//   marks its end, and the stream of the thread that gets the place waits for
//   it. For a stream in capture, the handle alone finds its arena, because
//   asking for its id would end the capture.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Driver/Event.h"
#include "Kernel/Workspace.h"
#include "Support/ByteGauge.h"
#include "Workspace/PublishedTable.h"
#include "Workspace/ThreadPlace.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace kiln {

/// The stream of a launch as the key of its arena.
struct ArenaStream {
  uint64_t contextId = 0;
  CudaStream handle = nullptr; ///< null for CU_STREAM_LEGACY
  /// The calling thread's if the stream is CU_STREAM_PER_THREAD, else 0.
  uint64_t place = 0;
  /// Distinguishes successive streams of one handle or place; 0: not known, in
  /// a capture.
  uint64_t id = 0;
  bool isCaptured = false;

  /// Takes two driver look-ups, some 30 ns, for a caller's stream. Errors:
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
  /// The number of graphs that hold the address; no other stream may use it
  /// meanwhile. Shared with the graphs, which may outlive the engine.
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

/// A source of arenas other than the driver. Called with the stream's context
/// current and no lock held.
struct ArenaAllocator {
  /// Returns memory that may be used in the order of \p stream; null if there
  /// is none.
  std::function<void *(size_t bytes, size_t alignment, CudaStream stream)>
      allocate;
  /// Takes it back; \p stream is null if that may be destroyed.
  std::function<void(void *memory, size_t bytes, CudaStream stream)> deallocate;
};

/// All arenas of an engine. Thread-safe; find() takes no lock.
class ArenaPool {
public:
  /// \p gauge counts the memory of the arenas.
  ArenaPool(uint64_t limitBytes, std::optional<ArenaAllocator> allocator,
            ByteGaugePtr gauge = std::make_shared<ByteGauge>());

  /// Returns the workspace for a launch of a plan that needs \p needed; it has
  /// no address if the stream's arena is too small.
  Workspace find(const ArenaStream &stream,
                 const WorkspaceLayout &needed) const noexcept;

  /// Keeps the arena that find() gave for \p stream, which is captured, as long
  /// as the graph exists; for good if the driver does not support that.
  void holdForGraph(const Driver &driver, const ArenaStream &stream) const;

  /// Makes sure that find() succeeds from now on. The stream's context must be
  /// current, the stream must not be captured, and a CaptureModeGuard must be
  /// in place. Errors: DeviceOutOfMemory, those of the driver.
  llvm::Error ensure(const Driver &driver, const ArenaStream &stream,
                     const WorkspaceLayout &needed);

  /// Frees the arenas of a context, which must be current.
  void release(const Driver &driver, uint64_t contextId);
  /// Forgets the arenas of a destroyed context.
  void forget(uint64_t contextId);

  uint64_t bytesInUse() const { return gauge->read().bytes; }

private:
  /// Memory of an arena: the driver's or the caller's allocator's.
  struct Block {
    const Driver *driver = nullptr;
    uint64_t contextId = 0;
    CudaContext context = nullptr;
    CudaStream stream = nullptr; ///< whose work may still touch it
    ByteAmount bytes;
    DeviceMemory memory;
    void *foreign = nullptr;
    const Arena *arena = nullptr; ///< null: kept for the next one
    /// For CU_STREAM_PER_THREAD: the driver's id of the owner's stream, and the
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
  const ByteGaugePtr gauge;
  PublishedTable<Arena> table;
  mutable std::mutex mutex; ///< guards blocks, and the owners of arenas
  std::vector<Block> blocks;
  ThreadExitHook threadExit; ///< last: it is called while all else exists
};

} // namespace kiln
