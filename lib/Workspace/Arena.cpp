//===- Arena.cpp - workspaces of streams without their own ----------------===//
#include "Workspace/Arena.h"

#include "Driver/Context.h"
#include "Driver/Graph.h"
#include "Driver/Stream.h"

#include <algorithm>
#include <bit>
#include <new>

namespace kiln {

//===----------------------------------------------------------------------===//
// Finding
//===----------------------------------------------------------------------===//

llvm::Expected<ArenaStream>
ArenaStream::find(const Driver &driver, uint64_t contextId, CudaStream stream) {
  ArenaStream found;
  found.contextId = contextId;
  if (isLegacyStream(stream)) {
    // The legacy stream lives as long as its context, and cannot be captured.
    found.id = 1;
    return found;
  }
  found.handle = stream;
  auto capture = captureStatus(driver, stream);
  if (!capture)
    return capture.takeError();
  found.isCaptured = *capture != CaptureStatus::None;
  if (isPerThreadStream(stream)) {
    const ThreadPlace &thread = threadPlace();
    found.place = thread.place;
    found.id = thread.number;
    return found;
  }
  if (found.isCaptured)
    return found;
  auto id = streamId(driver, stream);
  if (!id)
    return id.takeError();
  found.id = *id;
  return found;
}

uint64_t ArenaStream::hash() const noexcept {
  uint64_t mixed = contextId * 0x9e3779b97f4a7c15u;
  mixed ^= reinterpret_cast<uintptr_t>(handle) + (place << 17);
  mixed *= 0xbf58476d1ce4e5b9u;
  return mixed ^ (mixed >> 29);
}

WorkspaceLayout Arena::layout() const {
  uint64_t begin = WorkspaceLayout::scratchBegin(zeroedBytes);
  return {zeroedBytes, bytes > begin ? bytes - begin : 0};
}

const Arena *ArenaPool::newest(const ArenaStream &stream) const noexcept {
  return table.find(stream.hash(), [&](const Arena &candidate) {
    return candidate.contextId == stream.contextId &&
           candidate.handle == stream.handle && candidate.place == stream.place;
  });
}

Workspace ArenaPool::find(const ArenaStream &stream,
                          const WorkspaceLayout &needed) const noexcept {
  const Arena *arena = newest(stream);
  if (!arena || !arena->covers(needed))
    return {};
  if (stream.id && arena->owner.load(std::memory_order_acquire) != stream.id)
    return {};
  return {arena->address, arena->bytes, /*isZeroed=*/true, arena->zeroedBytes};
}

void ArenaPool::holdForGraph(const Driver &driver,
                             const ArenaStream &stream) const {
  const Arena *arena = newest(stream);
  auto capture = openCapture(driver, stream.handle);
  // An invalid capture records nothing.
  if (capture &&
      (!capture->graph ||
       arena->capture.load(std::memory_order_acquire) == capture->id))
    return;
  arena->graphs->fetch_add(1, std::memory_order_release);
  using Count = std::shared_ptr<std::atomic<int64_t>>;
  auto *count = new Count(arena->graphs);
  llvm::Error error =
      capture ? callWhenGone(
                    driver, capture->graph,
                    [](void *user) {
                      auto *count = static_cast<Count *>(user);
                      (*count)->fetch_sub(1, std::memory_order_acq_rel);
                      delete count;
                    },
                    count)
              : capture.takeError();
  if (!error) {
    arena->capture.store(capture->id, std::memory_order_release);
    return;
  }
  llvm::consumeError(std::move(error)); // the graph stays counted
  delete count;
}

//===----------------------------------------------------------------------===//
// Making
//===----------------------------------------------------------------------===//

ArenaPool::ArenaPool(uint64_t limitBytes,
                     std::optional<ArenaAllocator> allocator,
                     ByteGaugePtr gauge)
    : limitBytes(limitBytes), allocator(std::move(allocator)),
      gauge(std::move(gauge)),
      threadExit(
          [](void *user, const ThreadPlace &ended) {
            static_cast<ArenaPool *>(user)->threadEnds(ended);
          },
          this) {}

DeviceAddress ArenaPool::Block::address() const {
  return foreign ? reinterpret_cast<uintptr_t>(foreign) : memory.address();
}

/// Returns the arena of \p stream, or takes over that of the stream that had
/// its handle or place before; null if there is none. \p streamId is the
/// driver's.
llvm::Expected<const Arena *> ArenaPool::takeOver(const ArenaStream &stream,
                                                  uint64_t streamId) {
  std::lock_guard<std::mutex> lock(mutex);
  const Arena *arena = newest(stream);
  if (!arena || arena->owner.load(std::memory_order_relaxed) == stream.id)
    return arena;
  if (arena->graphs->load(std::memory_order_acquire) != 0)
    return nullptr;
  if (stream.place) {
    auto block =
        std::find_if(blocks.begin(), blocks.end(), [&](const Block &candidate) {
          return candidate.arena == arena;
        });
    // Without a known end, the earlier thread's work may still run.
    if (block == blocks.end() || !block->lastUse)
      return nullptr;
    if (auto error = block->lastUse->makeWait(stream.handle))
      return error;
    block->lastUse.reset();
    block->streamId = streamId;
  }
  arena->owner.store(stream.id, std::memory_order_release);
  return arena;
}

/// Publishes an arena of an earlier stream of the same handle again. A graph
/// held it when the handle came to another stream, and no graph does any more.
/// False if none covers \p needed.
bool ArenaPool::takeUnheld(const ArenaStream &stream,
                           const WorkspaceLayout &needed) {
  // A place gets the arena of its last thread, which has an end to wait for.
  if (stream.place)
    return false;
  std::lock_guard<std::mutex> lock(mutex);
  const Arena *least = nullptr;
  for (const Block &block : blocks) {
    const Arena *arena = block.arena;
    // Only one stream has the handle at a time, so any other owner is
    // destroyed.
    if (arena && !arena->place && arena->contextId == stream.contextId &&
        arena->handle == stream.handle &&
        arena->owner.load(std::memory_order_relaxed) != stream.id &&
        arena->graphs->load(std::memory_order_acquire) == 0 &&
        arena->covers(needed) && (!least || arena->bytes < least->bytes))
      least = arena;
  }
  if (!least)
    return false;
  least->owner.store(stream.id, std::memory_order_release);
  table.publishAgain(least, [&](const Arena &old) {
    return old.contextId == stream.contextId && old.handle == stream.handle &&
           old.place == stream.place;
  });
  return true;
}

llvm::Expected<ArenaPool::Block> ArenaPool::allocate(const Driver &driver,
                                                     const ArenaStream &stream,
                                                     uint64_t bytes) {
  if (!allocator) {
    std::lock_guard<std::mutex> lock(mutex);
    auto spare =
        std::find_if(blocks.begin(), blocks.end(), [&](const Block &block) {
          return !block.arena && block.contextId == stream.contextId &&
                 block.stream == stream.handle && block.bytes.bytes() >= bytes;
        });
    if (spare != blocks.end()) {
      Block taken = std::move(*spare);
      blocks.erase(spare);
      return taken;
    }
  }
  auto context = currentContext(driver);
  if (!context)
    return context.takeError();
  Block block;
  block.driver = &driver;
  block.contextId = stream.contextId;
  block.context = *context;
  block.stream = stream.handle;
  if (!allocator) {
    auto memory = DeviceMemory::allocate(driver, bytes);
    if (!memory)
      return addContext(memory.takeError(), "arena");
    block.memory = std::move(*memory);
    block.bytes = ByteAmount(gauge, bytes);
    return block;
  }
  constexpr size_t kAlignment = 256;
  block.foreign = allocator->allocate(bytes, kAlignment, stream.handle);
  if (!block.foreign)
    return makeError(ErrorCode::DeviceOutOfMemory,
                     "arena: the allocator has no {} bytes", bytes);
  block.bytes = ByteAmount(gauge, bytes);
  return block;
}

/// Zeroes the region that kernels expect to be zero, the first \p bytes, in the
/// order of \p stream, which alone will use the block.
llvm::Error ArenaPool::clear(const Driver &driver, const Block &block,
                             CudaStream stream, uint64_t bytes) const {
  if (bytes == 0)
    return llvm::Error::success();
  // Work of the legacy stream would end captures of other threads, and a caller
  // that prepares it need not launch on it now. Memory of an allocator may only
  // be used in the order of its stream.
  if (block.foreign || !isLegacyStream(stream))
    return fillAsync(driver, block.address(), 0, bytes, stream);
  auto own = Stream::create(driver);
  if (!own)
    return own.takeError();
  if (auto error = fillAsync(driver, block.address(), 0, bytes, own->handle()))
    return error;
  return own->synchronize();
}

/// Takes back memory that no launch used. Freeing the driver's memory would
/// wait for kernels of other threads, so it is kept for the same stream, which
/// may still be clearing it.
void ArenaPool::giveBack(Block block, CudaStream stream) {
  if (block.foreign) {
    allocator->deallocate(block.foreign, block.bytes.bytes(), stream);
    return;
  }
  std::lock_guard<std::mutex> lock(mutex);
  blocks.push_back(std::move(block));
}

/// Publishes \p block as the stream's arena. False, and \p block is untouched,
/// if another thread made one meanwhile that this one does not cover.
bool ArenaPool::publish(const ArenaStream &stream,
                        const WorkspaceLayout &layout, uint64_t streamId,
                        Block &block) {
  auto arena = std::make_unique<Arena>();
  arena->hash = stream.hash();
  arena->contextId = stream.contextId;
  arena->handle = stream.handle;
  arena->place = stream.place;
  arena->address = block.address();
  arena->bytes = block.bytes.bytes();
  arena->zeroedBytes = layout.zeroedBytes;
  arena->owner.store(stream.id, std::memory_order_relaxed);
  std::lock_guard<std::mutex> lock(mutex);
  const Arena *now = newest(stream);
  bool isOwn = now && now->owner.load(std::memory_order_relaxed) == stream.id;
  if (isOwn && !arena->covers(now->layout()))
    return false;
  block.streamId = streamId;
  blocks.push_back(std::move(block));
  blocks.back().arena = table.publish(std::move(arena), [&](const Arena &old) {
    return old.contextId == stream.contextId && old.handle == stream.handle &&
           old.place == stream.place;
  });
  return true;
}

/// Returns a power of two, so that a region grows only a few times; no more
/// than \p limit unless so much is needed.
static uint64_t roomFor(uint64_t bytes, uint64_t least, uint64_t limit) {
  uint64_t room = std::max(std::bit_ceil(bytes), least);
  return bytes == 0 ? 0 : std::max(bytes, std::min(room, limit));
}

llvm::Error ArenaPool::ensure(const Driver &driver, const ArenaStream &stream,
                              const WorkspaceLayout &needed) {
  assert(!stream.isCaptured && stream.id && "memory cannot be recorded");
  uint64_t idOfThread = 0;
  if (stream.place) {
    auto id = streamId(driver, stream.handle);
    if (!id)
      return id.takeError();
    idOfThread = *id;
  }
  for (;;) {
    auto old = takeOver(stream, idOfThread);
    if (!old)
      return old.takeError();
    if (*old && (*old)->covers(needed))
      return llvm::Error::success();
    WorkspaceLayout layout = needed;
    if (*old)
      layout.merge((*old)->layout());
    if (takeUnheld(stream, layout))
      return llvm::Error::success();
    constexpr uint64_t kLeastZeroed = 64 << 10, kLeastScratch = 1 << 20;
    layout.zeroedBytes = roomFor(layout.zeroedBytes, kLeastZeroed, limitBytes);
    layout.scratchBytes =
        roomFor(layout.scratchBytes, kLeastScratch, limitBytes);
    auto block = allocate(driver, stream, layout.bytes());
    if (!block)
      return block.takeError();
    if (auto error = clear(driver, *block, stream.handle, layout.zeroedBytes)) {
      giveBack(std::move(*block), stream.handle);
      return error;
    }
    if (publish(stream, layout, idOfThread, *block))
      return llvm::Error::success();
    giveBack(std::move(*block), stream.handle);
  }
}

//===----------------------------------------------------------------------===//
// Ending
//===----------------------------------------------------------------------===//

/// Records an event at the end of the work of this thread's
/// CU_STREAM_PER_THREAD in \p context. Fails if the context is destroyed, or if
/// the stream is captured or no longer the one called \p id.
static llvm::Expected<Event> markEnd(const Driver &driver, CudaContext context,
                                     uint64_t contextId, CudaStream stream,
                                     uint64_t id) {
  auto alive = kiln::contextId(driver, context);
  if (!alive)
    return alive.takeError();
  if (*alive != contextId)
    return makeError(ErrorCode::ContextDead, "another context");
  auto scope = ScopedContext::push(driver, context);
  if (!scope)
    return scope.takeError();
  auto capture = captureStatus(driver, stream);
  if (!capture)
    return capture.takeError();
  if (*capture != CaptureStatus::None)
    return makeError(ErrorCode::NotPrepared, "in capture");
  auto now = streamId(driver, stream);
  if (!now)
    return now.takeError();
  if (*now != id)
    return makeError(ErrorCode::InvalidArgument, "another stream");
  auto event = Event::create(driver, Event::Timing::Disabled);
  if (!event)
    return event.takeError();
  if (auto error = event->record(stream))
    return error;
  return event;
}

/// Lets the next thread of the place have the arenas of the one that ends. An
/// arena whose end cannot be marked stays until the engine's end.
void ArenaPool::threadEnds(const ThreadPlace &ended) noexcept try {
  std::lock_guard<std::mutex> lock(mutex);
  for (Block &block : blocks) {
    const Arena *arena = block.arena;
    if (!arena || arena->place != ended.place ||
        arena->owner.load(std::memory_order_relaxed) != ended.number)
      continue;
    if (newest({arena->contextId, arena->handle, arena->place}) != arena)
      continue; // outgrown: no thread will get it
    CaptureModeGuard relaxed(*block.driver);
    auto end = markEnd(*block.driver, block.context, block.contextId,
                       arena->handle, block.streamId);
    if (end)
      block.lastUse = std::make_unique<Event>(std::move(*end));
    else
      llvm::consumeError(end.takeError());
  }
} catch (const std::bad_alloc &) {
  // There is no caller to report to.
}

void ArenaPool::release(const Driver &driver, uint64_t contextId) {
  std::vector<Block> released;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto kept =
        std::partition(blocks.begin(), blocks.end(), [&](const Block &block) {
          return block.contextId != contextId;
        });
    std::move(kept, blocks.end(), std::back_inserter(released));
    blocks.erase(kept, blocks.end());
  }
  for (Block &block : released)
    if (block.foreign) // the stream may be destroyed
      allocator->deallocate(block.foreign, block.bytes.bytes(),
                            /*stream=*/nullptr);
}

void ArenaPool::forget(uint64_t contextId) {
  std::lock_guard<std::mutex> lock(mutex);
  for (Block &block : blocks)
    if (block.contextId == contextId) {
      block.memory.leak();
      if (block.lastUse)
        block.lastUse->leak();
    }
  std::erase_if(
      blocks, [&](const Block &block) { return block.contextId == contextId; });
}

} // namespace kiln
