//===- Arena.cpp - workspaces of streams that were given none -------------===//
#include "Runtime/Arena.h"

#include "Driver/Stream.h"

#include <algorithm>
#include <bit>

namespace kiln {

/// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD of the driver's interface.
static const CudaStream kLegacyStream = reinterpret_cast<CudaStream>(1);
static const CudaStream kPerThreadStream = reinterpret_cast<CudaStream>(2);

/// A number that no other thread of the process has or will have.
static uint64_t threadNumber() noexcept {
  static std::atomic<uint64_t> next{1};
  thread_local const uint64_t number =
      next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

ArenaKey ArenaKey::of(uint64_t contextId, CudaStream stream) noexcept {
  if (stream == kLegacyStream)
    stream = nullptr;
  return {contextId, stream, stream == kPerThreadStream ? threadNumber() : 0};
}

uint64_t ArenaKey::hash() const noexcept {
  uint64_t mixed = contextId * 0x9e3779b97f4a7c15u;
  mixed ^= reinterpret_cast<uintptr_t>(stream) + (thread << 17);
  mixed *= 0xbf58476d1ce4e5b9u;
  return mixed ^ (mixed >> 29);
}

const Arena *ArenaPool::newest(const ArenaKey &key) const noexcept {
  return table.find(
      key.hash(), [&](const Arena &candidate) { return candidate.key == key; });
}

Workspace ArenaPool::find(const ArenaKey &key,
                          const WorkspaceLayout &needed) const noexcept {
  const Arena *arena = newest(key);
  if (!arena || arena->zeroedBytes < needed.zeroedBytes ||
      arena->bytes < needed.bytesBehind(arena->zeroedBytes))
    return {};
  return {arena->address, arena->bytes, /*isZeroed=*/true, arena->zeroedBytes};
}

llvm::Expected<ArenaPool::Block> ArenaPool::allocate(const Driver &driver,
                                                     const ArenaKey &key,
                                                     uint64_t bytes) const {
  Block block;
  block.contextId = key.contextId;
  block.stream = key.stream;
  block.bytes = bytes;
  if (!allocator) {
    auto memory = DeviceMemory::allocate(driver, bytes);
    if (!memory)
      return addContext(memory.takeError(), "arena");
    block.memory = std::move(*memory);
    return block;
  }
  constexpr size_t kAlignment = 256;
  block.foreign = allocator->allocate(allocator->user, bytes, kAlignment,
                                      static_cast<kiln_stream>(key.stream));
  if (!block.foreign)
    return makeError(ErrorCode::DeviceOutOfMemory,
                     "arena: the allocator has no {} bytes", bytes);
  return block;
}

/// Zeroes the region that kernels expect to be zero. Memory of an allocator is
/// good in its stream's order only; the driver's may be cleared beside it.
llvm::Error ArenaPool::clear(const Driver &driver, const Block &block,
                             const Arena &arena) const {
  if (arena.zeroedBytes == 0)
    return llvm::Error::success();
  if (block.foreign)
    return fillAsync(driver, arena.address, 0, arena.zeroedBytes, block.stream);
  auto stream = Stream::create(driver);
  if (!stream)
    return stream.takeError();
  if (auto error = fillAsync(driver, arena.address, 0, arena.zeroedBytes,
                             stream->handle()))
    return error;
  return stream->synchronize();
}

/// A power of two, so that a region grows a few times only; no more than
/// \p limit unless so much is needed.
static uint64_t roomFor(uint64_t bytes, uint64_t least, uint64_t limit) {
  uint64_t room = std::max(std::bit_ceil(bytes), least);
  return bytes == 0 ? 0 : std::max(bytes, std::min(room, limit));
}

llvm::Error ArenaPool::ensure(const Driver &driver, const ArenaKey &key,
                              const WorkspaceLayout &needed) {
  if (find(key, needed).address)
    return llvm::Error::success();
  WorkspaceLayout layout = needed;
  if (const Arena *old = newest(key)) {
    uint64_t begin = WorkspaceLayout::scratchBegin(old->zeroedBytes);
    layout.merge(
        {old->zeroedBytes, old->bytes > begin ? old->bytes - begin : 0});
  }
  constexpr uint64_t kLeastZeroed = 64 << 10, kLeastScratch = 1 << 20;
  layout.zeroedBytes = roomFor(layout.zeroedBytes, kLeastZeroed, limitBytes);
  layout.scratchBytes = roomFor(layout.scratchBytes, kLeastScratch, limitBytes);
  auto block = allocate(driver, key, layout.bytes());
  if (!block)
    return block.takeError();
  auto arena = std::make_unique<Arena>();
  arena->hash = key.hash();
  arena->key = key;
  arena->address = block->foreign ? reinterpret_cast<uintptr_t>(block->foreign)
                                  : block->memory.address();
  arena->bytes = layout.bytes();
  arena->zeroedBytes = layout.zeroedBytes;
  llvm::Error cleared = clear(driver, *block, *arena);
  totalBytes.fetch_add(arena->bytes, std::memory_order_relaxed);
  std::lock_guard<std::mutex> lock(mutex);
  blocks.push_back(std::move(*block));
  if (cleared)
    return cleared;
  // Another thread may have made one that serves both meanwhile.
  if (!find(key, layout).address)
    table.publish(std::move(arena),
                  [&](const Arena &old) { return old.key == key; });
  return llvm::Error::success();
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
  for (Block &block : released) {
    totalBytes.fetch_sub(block.bytes, std::memory_order_relaxed);
    if (block.foreign)
      allocator->deallocate(allocator->user, block.foreign, block.bytes,
                            static_cast<kiln_stream>(block.stream));
  }
}

void ArenaPool::forget(uint64_t contextId) {
  std::lock_guard<std::mutex> lock(mutex);
  for (Block &block : blocks)
    if (block.contextId == contextId) {
      totalBytes.fetch_sub(block.bytes, std::memory_order_relaxed);
      block.memory.leak();
    }
  std::erase_if(
      blocks, [&](const Block &block) { return block.contextId == contextId; });
}

} // namespace kiln
