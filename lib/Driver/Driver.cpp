//===- Driver.cpp ---------------------------------------------------------===//
#include "Driver/Driver.h"

#include "Driver/CudaApi.h"
#include "Support/DynamicLibrary.h"

namespace kiln {

ErrorCode classifyDriverResult(int result) {
  switch (result) {
  case CUDA_SUCCESS:
    return ErrorCode::Success;
  case CUDA_ERROR_OUT_OF_MEMORY:
    return ErrorCode::DeviceOutOfMemory;
  case CUDA_ERROR_NOT_READY:
    return ErrorCode::InProgress;

  case CUDA_ERROR_INVALID_DEVICE:
  case CUDA_ERROR_INVALID_CONTEXT:
  case CUDA_ERROR_INVALID_HANDLE:
    return ErrorCode::InvalidArgument;

  case CUDA_ERROR_STUB_LIBRARY:
  case CUDA_ERROR_NO_DEVICE:
    return ErrorCode::DriverMissing;

  // The errors for an image of a newer toolkit, and for a library newer than
  // the kernel module.
  case CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER:
  case CUDA_ERROR_INVALID_IMAGE:
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
  case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    return ErrorCode::DriverTooOld;

  // A launch that this device can never take.
  case CUDA_ERROR_UNSUPPORTED_LIMIT:
  case CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY:
  case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
  case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
  case CUDA_ERROR_NOT_SUPPORTED:
  case CUDA_ERROR_INVALID_CLUSTER_SIZE:
    return ErrorCode::Unsupported;

  // Sticky: every later call on the context fails too, whatever caused it.
  case CUDA_ERROR_DEINITIALIZED:
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_CONTAINED:
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_CONTEXT_IS_DESTROYED:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_TENSOR_MEMORY_LEAK:
  case CUDA_ERROR_MPS_CLIENT_TERMINATED:
  case CUDA_ERROR_EXTERNAL_DEVICE:
    return ErrorCode::ContextDead;

  default:
    return ErrorCode::DriverError;
  }
}

std::string formatCudaVersion(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Driver::Driver() : table(std::make_unique<CudaApi>()) {}
Driver::~Driver() = default;

llvm::Expected<std::shared_ptr<Driver>>
Driver::load(const Environment &environment) {
  std::shared_ptr<Driver> driver(new Driver);
  if (llvm::Error error = driver->bind(environment))
    return error;
  if (llvm::Error error = driver->initialise())
    return addContext(std::move(error), driver->libraryPath);
  return driver;
}

llvm::Error Driver::bind(const Environment &environment) {
  // A path that was asked for is not silently replaced by another driver.
  std::string candidate = environment.kilnDriver.value_or("libcuda.so.1");
  llvm::Expected<DynamicLibrary> library = DynamicLibrary::openFirst(
      {candidate}, "the NVIDIA driver", ErrorCode::DriverMissing);
  if (!library)
    return environment.kilnDriver
               ? addContext(library.takeError(), "driver_path or KILN_DRIVER")
               : library.takeError();
  libraryPath = library->path();

  // The version comes first: it tells an old driver from no driver at all.
  if (auto getVersion =
          library->find<decltype(&::cuDriverGetVersion)>("cuDriverGetVersion"))
    getVersion(&driverVersion);
  else
    return makeError(ErrorCode::DriverMissing,
                     "{} is not a CUDA driver: it has no cuDriverGetVersion",
                     libraryPath);

  std::string missing;
#define KILN_NAME_OF(name) #name
#define KILN_BIND(name, text)                                                  \
  table->name = library->find<decltype(table->name)>(text);                    \
  if (!table->name)                                                            \
    missing += missing.empty() ? text : " " text;
#define KILN_CUDA_SYMBOL(name) KILN_BIND(name, KILN_NAME_OF(name))
#include "Driver/CudaSymbols.def"
#undef KILN_BIND
#undef KILN_NAME_OF
  if (missing.empty())
    return llvm::Error::success();
  return makeError(ErrorCode::DriverTooOld,
                   "{} (driver for CUDA {}) lacks {}; Kiln needs the driver "
                   "for CUDA {} (r570) or newer",
                   libraryPath, formatCudaVersion(driverVersion), missing,
                   formatCudaVersion(kOldestDriver));
}

llvm::Error Driver::initialise() {
  CUresult result = table->cuInit(0);
  if (result == CUDA_ERROR_NO_DEVICE)
    return addContext(check(result, "cuInit"),
                      "no GPU is visible (is CUDA_VISIBLE_DEVICES empty?)");
  // The error of the toolkit's stub for linkers, which does not even know this
  // error's name.
  if (result == CUDA_ERROR_STUB_LIBRARY)
    return addContext(check(result, "cuInit"),
                      "this libcuda is the toolkit's stub for linking, no "
                      "driver: take the toolkit's folder stubs out of "
                      "LD_LIBRARY_PATH and KILN_DRIVER");
  if (llvm::Error error = check(result, "cuInit"))
    return error;
  if (llvm::Error error =
          check(table->cuDeviceGetCount(&devices), "cuDeviceGetCount"))
    return error;
  if (devices == 0)
    return makeError(ErrorCode::DriverMissing, "no GPU is visible");
  return llvm::Error::success();
}

llvm::Error Driver::fail(int result, const char *what) const {
  auto code = static_cast<CUresult>(result);
  const char *name = nullptr, *text = nullptr;
  table->cuGetErrorName(code, &name);
  table->cuGetErrorString(code, &text);
  return llvm::make_error<KilnError>(
      classifyDriverResult(result),
      fmt::format("{}: {} ({}): {}", what, name ? name : "unknown error",
                  result, text ? text : "no description"),
      result);
}

} // namespace kiln
