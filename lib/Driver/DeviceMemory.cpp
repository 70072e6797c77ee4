//===- DeviceMemory.cpp ---------------------------------------------------===//
#include "Driver/DeviceMemory.h"

#include "Driver/Context.h"
#include "Driver/CudaApi.h"

#include <utility>

namespace kiln {

llvm::Expected<DeviceMemory> DeviceMemory::allocate(const Driver &driver,
                                                    uint64_t bytes) {
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
  memory.size = bytes;
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory &&other) noexcept
    : driver(other.driver), context(other.context),
      base(std::exchange(other.base, 0)), size(std::exchange(other.size, 0)) {}

DeviceMemory &DeviceMemory::operator=(DeviceMemory &&other) noexcept {
  if (this != &other) {
    free();
    driver = other.driver;
    context = other.context;
    base = std::exchange(other.base, 0);
    size = std::exchange(other.size, 0);
  }
  return *this;
}

DeviceMemory::~DeviceMemory() { free(); }

void DeviceMemory::leak() { base = size = 0; }

void DeviceMemory::free() {
  if (!base)
    return;
  // Nothing to do about a failure: a dead context takes its memory with it.
  const CudaApi &api = driver->api();
  CaptureModeGuard guard(*driver);
  CUcontext popped = nullptr;
  if (api.cuCtxPushCurrent(context) == CUDA_SUCCESS) {
    api.cuMemFree(base);
    api.cuCtxPopCurrent(&popped);
  }
  leak();
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
