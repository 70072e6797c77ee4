//===- Context.cpp --------------------------------------------------------===//
#include "Driver/Context.h"

#include "Driver/CudaApi.h"

#include <utility>

namespace kiln {

llvm::Expected<CudaContext> currentContext(const Driver &driver) {
  CUcontext context = nullptr;
  if (llvm::Error error = driver.check(driver.api().cuCtxGetCurrent(&context),
                                       "cuCtxGetCurrent"))
    return error;
  return context;
}

llvm::Expected<uint64_t> contextId(const Driver &driver, CudaContext context) {
  unsigned long long id = 0;
  if (llvm::Error error =
          driver.check(driver.api().cuCtxGetId(context, &id), "cuCtxGetId"))
    return error;
  return id;
}

bool isAlive(const Driver &driver, CudaContext context, uint64_t id) {
  auto now = contextId(driver, context);
  if (now)
    return *now == id;
  llvm::consumeError(now.takeError());
  return false;
}

llvm::Expected<CudaContext> contextOf(const Driver &driver, CudaStream stream) {
  CUcontext context = nullptr;
  if (llvm::Error error = driver.check(
          driver.api().cuStreamGetCtx(stream, &context), "cuStreamGetCtx"))
    return error;
  return context;
}

llvm::Expected<int> deviceOf(const Driver &driver, CudaContext context) {
  llvm::Expected<ScopedContext> scope = ScopedContext::push(driver, context);
  if (!scope)
    return scope.takeError();
  CUdevice device = 0;
  if (llvm::Error error =
          driver.check(driver.api().cuCtxGetDevice(&device), "cuCtxGetDevice"))
    return error;
  return device;
}

llvm::Expected<int64_t> smCountOf(const Driver &driver, CudaContext context) {
  CUdevResource resource = {};
  CUresult result = driver.api().cuCtxGetDevResource(context, &resource,
                                                     CU_DEV_RESOURCE_TYPE_SM);
  if (llvm::Error error = driver.check(result, "cuCtxGetDevResource"))
    return error;
  return static_cast<int64_t>(resource.sm.smCount);
}

llvm::Expected<CaptureStatus> captureStatus(const Driver &driver,
                                            CudaStream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (llvm::Error error =
          driver.check(driver.api().cuStreamIsCapturing(stream, &status),
                       "cuStreamIsCapturing"))
    return error;
  switch (status) {
  case CU_STREAM_CAPTURE_STATUS_NONE:
    return CaptureStatus::None;
  case CU_STREAM_CAPTURE_STATUS_ACTIVE:
    return CaptureStatus::Active;
  case CU_STREAM_CAPTURE_STATUS_INVALIDATED:
    return CaptureStatus::Invalidated;
  }
  return makeError(ErrorCode::DriverError,
                   "cuStreamIsCapturing: unknown status {}",
                   static_cast<int>(status));
}

llvm::Expected<ScopedContext> ScopedContext::push(const Driver &driver,
                                                  CudaContext context) {
  if (llvm::Error error = driver.check(driver.api().cuCtxPushCurrent(context),
                                       "cuCtxPushCurrent"))
    return error;
  return ScopedContext(driver);
}

ScopedContext::ScopedContext(ScopedContext &&other) noexcept
    : driver(std::exchange(other.driver, nullptr)) {}

ScopedContext::~ScopedContext() {
  CUcontext popped = nullptr;
  if (driver)
    driver->api().cuCtxPopCurrent(&popped);
}

llvm::Expected<PrimaryContext> PrimaryContext::retain(const Driver &driver,
                                                      int ordinal) {
  if (ordinal < 0 || ordinal >= driver.deviceCount())
    return makeError(ErrorCode::InvalidArgument,
                     "device {} does not exist: there are {}", ordinal,
                     driver.deviceCount());
  CUdevice device = 0;
  if (llvm::Error error = driver.check(
          driver.api().cuDeviceGet(&device, ordinal), "cuDeviceGet"))
    return error;
  CUcontext context = nullptr;
  if (llvm::Error error =
          driver.check(driver.api().cuDevicePrimaryCtxRetain(&context, device),
                       "cuDevicePrimaryCtxRetain"))
    return error;
  return PrimaryContext(driver, device, context);
}

PrimaryContext::PrimaryContext(PrimaryContext &&other) noexcept
    : driver(std::exchange(other.driver, nullptr)), device(other.device),
      context(other.context) {}

PrimaryContext::~PrimaryContext() {
  if (driver)
    driver->api().cuDevicePrimaryCtxRelease(device);
}

CaptureModeGuard::CaptureModeGuard(const Driver &driver) : driver(driver) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  exchanged =
      driver.api().cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
  previousMode = mode;
}

CaptureModeGuard::~CaptureModeGuard() {
  auto mode = static_cast<CUstreamCaptureMode>(previousMode);
  if (exchanged)
    driver.api().cuThreadExchangeStreamCaptureMode(&mode);
}

} // namespace kiln
