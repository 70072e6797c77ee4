//===- FakeCudaMemory.cpp - memory, copies, memsets -----------------------===//
#include "Fakes/FakeCudaState.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

using namespace kiln::fake;

namespace kiln::fake {

/// The allocation that holds \p address, or null; the mutex is held.
static const std::pair<const uint64_t, Allocation> *find(uint64_t address) {
  auto next = state.allocations.upper_bound(address);
  if (next == state.allocations.begin())
    return nullptr;
  const auto &found = *std::prev(next);
  return address - found.first <= found.second.bytes ? &found : nullptr;
}

CUresult checkMemory(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(state.mutex);
  const auto *found = find(address);
  if (!found || bytes > found->second.bytes - (address - found->first))
    return CUDA_ERROR_INVALID_VALUE;
  return stickyOf(found->second.context);
}

bool isHollow(const void *address, uint64_t bytes) {
  constexpr uint64_t kCopied = 1 << 20;
  std::lock_guard lock(state.mutex);
  if (bytes <= kCopied || state.hollowFrom == 0)
    return false;
  const auto *found = find(reinterpret_cast<uint64_t>(address));
  return found && found->second.isHollow;
}

void freeAllocation(uint64_t address, const Allocation &allocation) {
  state.devices[allocation.device].bytesInUse -= allocation.bytes;
  if (allocation.isHollow)
    munmap(reinterpret_cast<void *>(address), allocation.bytes);
  else
    std::free(reinterpret_cast<void *>(address));
}

/// Host memory that stands for \p bytes of the device, or null.
static void *makeMemory(uint64_t bytes, bool isHollow) {
  constexpr size_t kAlignment = 256;
  void *memory = nullptr;
  if (!isHollow)
    return posix_memalign(&memory, kAlignment, bytes) == 0 ? memory : nullptr;
  memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

static uint64_t freeBytesOf(const Device &device) {
  uint64_t used = device.bytesInUse + device.othersBytes;
  return device.memoryBytes - std::min(used, device.memoryBytes);
}

} // namespace kiln::fake

#pragma GCC visibility push(default)
extern "C" {

static CUresult allocate(CUdeviceptr *address, size_t bytes) {
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state.mutex);
  Device &device = state.devices[current->device];
  const bool isHollow = state.hollowFrom != 0 && bytes >= state.hollowFrom;
  void *memory =
      bytes > freeBytesOf(device) ? nullptr : makeMemory(bytes, isHollow);
  if (!memory)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  device.bytesInUse += bytes;
  state.peakBytes = std::max(state.peakBytes, state.bytesInUse());
  state.allocations[*address] = {bytes, current->device, current, isHollow};
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  KILN_FAKE_ENTER(cuMemAlloc, Needs::Quiet);
  return allocate(address, bytes);
}

// Pools keep nothing: freed memory leaves the device at once.

static MemoryPool *poolOf(CUmemoryPool handle, CUresult &result) {
  auto *pool = objectOf<MemoryPool>(handle, Kind::MemoryPool, result);
  if (result == CUDA_ERROR_INVALID_HANDLE)
    result = CUDA_ERROR_INVALID_VALUE;
  return pool;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
  KILN_FAKE_ENTER(cuMemPoolCreate, Needs::Init);
  std::lock_guard lock(state.mutex);
  if (props->location.id < 0 || props->location.id >= state.deviceCount)
    return CUDA_ERROR_INVALID_DEVICE;
  auto *made = state.make<MemoryPool>();
  made->context = current;
  *pool = handleOf<CUmemoryPool>(made);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  KILN_FAKE_ENTER(cuMemPoolDestroy, Needs::Init);
  CUresult result = CUDA_SUCCESS;
  if (MemoryPool *pool = poolOf(handle, result))
    pool->kind = Kind::Dead;
  return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute,
                               void *) {
  KILN_FAKE_ENTER(cuMemPoolSetAttribute, Needs::Init);
  CUresult result = CUDA_SUCCESS;
  poolOf(handle, result);
  return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t) {
  KILN_FAKE_ENTER(cuMemPoolTrimTo, Needs::Init);
  CUresult result = CUDA_SUCCESS;
  poolOf(handle, result);
  return result;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes,
                                 CUmemoryPool handle, CUstream streamHandle) {
  KILN_FAKE_ENTER(cuMemAllocFromPoolAsync, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  Stream *stream = streamOf(streamHandle, result);
  if (result != CUDA_SUCCESS || !poolOf(handle, result))
    return result;
  if (stream && stream->capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return ruinCapture(*stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return allocate(address, bytes);
}

/// Waits for nothing. Memory that held work may reach stays as it is until its
/// context ends.
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream streamHandle) {
  KILN_FAKE_ENTER(cuMemFreeAsync, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  Stream *stream = streamOf(streamHandle, result);
  if (result != CUDA_SUCCESS)
    return result;
  std::lock_guard lock(state.mutex);
  auto found = state.allocations.find(address);
  if (found == state.allocations.end())
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult dead = stickyOf(found->second.context); dead != CUDA_SUCCESS)
    return dead;
  if (stream && !stream->held.empty())
    return CUDA_SUCCESS;
  freeAllocation(address, found->second);
  state.allocations.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
  KILN_FAKE_ENTER(cuMemFree, Needs::Quiet);
  if (address == 0)
    return CUDA_SUCCESS;
  if (CUresult result = awaitDevice(); result != CUDA_SUCCESS)
    return result;
  std::lock_guard lock(state.mutex);
  auto found = state.allocations.find(address);
  if (found == state.allocations.end())
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult dead = stickyOf(found->second.context); dead != CUDA_SUCCESS)
    return dead;
  freeAllocation(address, found->second);
  state.allocations.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *freeBytes, size_t *totalBytes) {
  KILN_FAKE_ENTER(cuMemGetInfo, Needs::Context);
  std::lock_guard lock(state.mutex);
  const Device &device = state.devices[current->device];
  *totalBytes = device.memoryBytes;
  *freeBytes = freeBytesOf(device);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  KILN_FAKE_ENTER(cuMemcpyHtoD, Needs::Quiet);
  if (CUresult result = checkMemory(to, bytes); result != CUDA_SUCCESS)
    return result;
  if (CUresult result = awaitHeld(Awaits::Legacy); result != CUDA_SUCCESS)
    return result;
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  KILN_FAKE_ENTER(cuMemcpyDtoH, Needs::Quiet);
  if (CUresult result = checkMemory(from, bytes); result != CUDA_SUCCESS)
    return result;
  if (CUresult result = awaitHeld(Awaits::Legacy); result != CUDA_SUCCESS)
    return result;
  std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
  return CUDA_SUCCESS;
}

static CUresult enqueueCopy(void *to, const void *from, size_t bytes,
                            CUstream stream) {
  Node node;
  node.type = Node::Type::Copy;
  node.to = to;
  node.from = from;
  node.bytes = bytes;
  return enqueue(stream, std::move(node));
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                           CUstream stream) {
  KILN_FAKE_ENTER(cuMemcpyHtoDAsync, Needs::Context);
  if (CUresult result = checkMemory(to, bytes); result != CUDA_SUCCESS)
    return result;
  return enqueueCopy(reinterpret_cast<void *>(to), from, bytes, stream);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes,
                           CUstream stream) {
  KILN_FAKE_ENTER(cuMemcpyDtoHAsync, Needs::Context);
  if (CUresult result = checkMemory(from, bytes); result != CUDA_SUCCESS)
    return result;
  // All memory of the host is pageable here: the driver returns when it has
  // copied.
  CUresult result = CUDA_SUCCESS;
  Stream *queue = streamOf(stream, result);
  if (result == CUDA_SUCCESS)
    result =
        queue ? awaitHeld(Awaits::Stream, queue) : awaitHeld(Awaits::Legacy);
  if (result != CUDA_SUCCESS)
    return result;
  return enqueueCopy(to, reinterpret_cast<const void *>(from), bytes, stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                           CUstream stream) {
  KILN_FAKE_ENTER(cuMemcpyDtoDAsync, Needs::Context);
  for (CUdeviceptr address : {to, from})
    if (CUresult result = checkMemory(address, bytes); result != CUDA_SUCCESS)
      return result;
  return enqueueCopy(reinterpret_cast<void *>(to),
                     reinterpret_cast<const void *>(from), bytes, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
                         CUstream stream) {
  KILN_FAKE_ENTER(cuMemsetD8Async, Needs::Context);
  if (CUresult result = checkMemory(to, bytes); result != CUDA_SUCCESS)
    return result;
  Node node;
  node.type = Node::Type::Memset;
  node.to = reinterpret_cast<void *>(to);
  node.value = value;
  node.bytes = bytes;
  return enqueue(stream, std::move(node));
}

} // extern "C"
#pragma GCC visibility pop
