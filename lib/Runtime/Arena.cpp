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

Workspace ArenaPool::find(const ArenaKey &key, uint64_t bytes) const noexcept {
  const Arena *arena = table.find(
      key.hash(), [&](const Arena &candidate) { return candidate.key == key; });
  if (!arena || arena->bytes < bytes)
    return {};
  return {arena->address, arena->bytes, /*zeroed=*/true};
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
                             DeviceAddress address) const {
  uint64_t bytes =
      std::min<uint64_t>(block.bytes, WorkspaceLayout::kZeroedRegionBytes);
  if (block.foreign)
    return fillAsync(driver, address, 0, bytes, block.stream);
  auto stream = Stream::create(driver);
  if (!stream)
    return stream.takeError();
  if (auto error = fillAsync(driver, address, 0, bytes, stream->handle()))
    return error;
  return stream->synchronize();
}

llvm::Error ArenaPool::ensure(const Driver &driver, const ArenaKey &key,
                              uint64_t bytes) {
  if (find(key, bytes).address)
    return llvm::Error::success();
  // Powers of two, so that an arena grows a few times only.
  constexpr uint64_t kLeastBytes = 1 << 20;
  uint64_t size = std::max(std::bit_ceil(bytes), kLeastBytes);
  size = std::max(bytes, std::min(size, limitBytes));
  auto block = allocate(driver, key, size);
  if (!block)
    return block.takeError();
  DeviceAddress address = block->foreign
                              ? reinterpret_cast<uintptr_t>(block->foreign)
                              : block->memory.address();
  llvm::Error cleared = clear(driver, *block, address);
  auto arena = std::make_unique<Arena>();
  arena->hash = key.hash();
  arena->key = key;
  arena->address = address;
  arena->bytes = size;
  totalBytes.fetch_add(size, std::memory_order_relaxed);
  std::lock_guard<std::mutex> lock(mutex);
  blocks.push_back(std::move(*block));
  if (cleared)
    return cleared;
  // Another thread may have grown it meanwhile: the larger one stays.
  if (!find(key, size).address)
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
