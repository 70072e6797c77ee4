//===- DeviceMemory.cpp ---------------------------------------------------===//
#include "Driver/DeviceMemory.h"

#include "Driver/Context.h"
#include "Driver/CudaApi.h"

#include <utility>

namespace kiln {

llvm::Expected<DeviceMemory> DeviceMemory::allocate(const Driver &driver,
                                                    uint64_t bytes,
                                                    ByteGaugePtr gauge) {
  DeviceMemory memory;
  if (bytes == 0)
    return memory;
  llvm::Expected<CudaContext> context = currentContext(driver);
  if (!context)
    return context.takeError();
  CUdeviceptr base = 0;
  if (llvm::Error error =
          driver.check(driver.api().cuMemAlloc(&base, bytes), "cuMemAlloc"))
    return addContext(std::move(error),
                      fmt::format("{} bytes of device memory", bytes));
  memory.driver = &driver;
  memory.context = *context;
  memory.base = base;
  memory.size = ByteAmount(std::move(gauge), bytes);
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory &&other) noexcept
    : driver(other.driver), context(other.context),
      base(std::exchange(other.base, 0)), size(std::move(other.size)),
      stream(other.stream) {}

DeviceMemory &DeviceMemory::operator=(DeviceMemory &&other) noexcept {
  if (this != &other) {
    free();
    driver = other.driver;
    context = other.context;
    base = std::exchange(other.base, 0);
    size = std::move(other.size);
    stream = other.stream;
  }
  return *this;
}

DeviceMemory::~DeviceMemory() { free(); }

void DeviceMemory::leak() {
  base = 0;
  size.set(0);
}

void DeviceMemory::free() {
  if (!base)
    return;
  // Nothing to do about a failure: a dead context takes its memory with it.
  const CudaApi &api = driver->api();
  CaptureModeGuard guard(*driver);
  CUcontext popped = nullptr;
  if (api.cuCtxPushCurrent(context) == CUDA_SUCCESS) {
    if (stream)
      api.cuMemFreeAsync(base, stream);
    else
      api.cuMemFree(base);
    api.cuCtxPopCurrent(&popped);
  }
  leak();
}

llvm::Expected<MemoryPool> MemoryPool::create(const Driver &driver,
                                              ByteGaugePtr gauge) {
  llvm::Expected<CudaContext> context = currentContext(driver);
  if (!context)
    return context.takeError();
  llvm::Expected<int> device = deviceOf(driver, *context);
  if (!device)
    return device.takeError();
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = *device;
  CUmemoryPool pool = nullptr;
  if (llvm::Error error = driver.check(
          driver.api().cuMemPoolCreate(&pool, &props), "cuMemPoolCreate"))
    return error;
  MemoryPool made(driver, pool, std::move(gauge));
  cuuint64_t all = UINT64_MAX;
  if (llvm::Error error =
          driver.check(driver.api().cuMemPoolSetAttribute(
                           pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all),
                       "cuMemPoolSetAttribute"))
    return error;
  return made;
}

MemoryPool::MemoryPool(MemoryPool &&other) noexcept
    : driver(other.driver), pool(std::exchange(other.pool, nullptr)),
      allocated(std::move(other.allocated)), kept(std::move(other.kept)) {}

MemoryPool::~MemoryPool() {
  if (pool)
    driver->api().cuMemPoolDestroy(static_cast<CUmemoryPool>(pool));
}

llvm::Expected<DeviceMemory> MemoryPool::allocate(uint64_t bytes,
                                                  CudaStream stream) {
  DeviceMemory memory;
  if (bytes == 0)
    return memory;
  llvm::Expected<CudaContext> context = currentContext(*driver);
  if (!context)
    return context.takeError();
  CUdeviceptr base = 0;
  if (llvm::Error error = driver->check(
          driver->api().cuMemAllocFromPoolAsync(
              &base, bytes, static_cast<CUmemoryPool>(pool), stream),
          "cuMemAllocFromPoolAsync"))
    return addContext(std::move(error),
                      fmt::format("{} bytes of device memory", bytes));
  memory.driver = driver;
  memory.context = *context;
  memory.base = base;
  memory.size = ByteAmount(allocated, bytes);
  memory.stream = stream;
  kept.set(allocated->read().peakBytes);
  return memory;
}

void MemoryPool::trim() {
  // Nothing to do about a failure: the memory stays for later.
  driver->api().cuMemPoolTrimTo(static_cast<CUmemoryPool>(pool), 0);
  allocated->resetPeak();
  kept.set(allocated->read().bytes);
}

llvm::Error copyToDevice(const Driver &driver, DeviceAddress to,
                         const void *from, uint64_t bytes) {
  if (bytes == 0)
    return llvm::Error::success();
  return driver.check(driver.api().cuMemcpyHtoD(to, from, bytes),
                      "cuMemcpyHtoD");
}

llvm::Error copyToHost(const Driver &driver, void *to, DeviceAddress from,
                       uint64_t bytes) {
  if (bytes == 0)
    return llvm::Error::success();
  return driver.check(driver.api().cuMemcpyDtoH(to, from, bytes),
                      "cuMemcpyDtoH");
}

llvm::Error copyOnDevice(const Driver &driver, DeviceAddress to,
                         DeviceAddress from, uint64_t bytes,
                         CudaStream stream) {
  if (bytes == 0)
    return llvm::Error::success();
  return driver.check(driver.api().cuMemcpyDtoDAsync(to, from, bytes, stream),
                      "cuMemcpyDtoDAsync");
}

llvm::Error copyToDeviceAsync(const Driver &driver, DeviceAddress to,
                              const void *from, uint64_t bytes,
                              CudaStream stream) {
  if (bytes == 0)
    return llvm::Error::success();
  return driver.check(driver.api().cuMemcpyHtoDAsync(to, from, bytes, stream),
                      "cuMemcpyHtoDAsync");
}

llvm::Error copyToHostAsync(const Driver &driver, void *to, DeviceAddress from,
                            uint64_t bytes, CudaStream stream) {
  if (bytes == 0)
    return llvm::Error::success();
  return driver.check(driver.api().cuMemcpyDtoHAsync(to, from, bytes, stream),
                      "cuMemcpyDtoHAsync");
}

llvm::Error fillAsync(const Driver &driver, DeviceAddress to, uint8_t value,
                      uint64_t bytes, CudaStream stream) {
  if (bytes == 0)
    return llvm::Error::success();
  return driver.check(driver.api().cuMemsetD8Async(to, value, bytes, stream),
                      "cuMemsetD8Async");
}

llvm::Expected<MemoryInfo> memoryInfo(const Driver &driver) {
  size_t freeBytes = 0, totalBytes = 0;
  if (llvm::Error error = driver.check(
          driver.api().cuMemGetInfo(&freeBytes, &totalBytes), "cuMemGetInfo"))
    return error;
  return MemoryInfo{freeBytes, totalBytes};
}

} // namespace kiln
