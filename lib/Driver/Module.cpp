//===- Module.cpp ---------------------------------------------------------===//
#include "Driver/Module.h"

#include "Driver/Context.h"
#include "Driver/CudaApi.h"

#include <utility>

namespace kiln {

/// Whether code for capability \p code runs on \p device: same major, minor
/// not newer (CUDA C++ Programming Guide, binary compatibility). Code of an "a"
/// variant also needs equal minors, which only the driver can tell.
static bool runsOn(int code, int device) {
  return code / 10 == device / 10 && code % 10 <= device % 10;
}

/// Capability of the device of the current context.
static llvm::Expected<int> currentCapability(const Driver &driver) {
  const CudaApi &api = driver.api();
  CUdevice device = 0;
  int major = 0, minor = 0;
  CUresult result = api.cuCtxGetDevice(&device);
  if (result == CUDA_SUCCESS)
    result = api.cuDeviceGetAttribute(
        &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  if (result == CUDA_SUCCESS)
    result = api.cuDeviceGetAttribute(
        &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  if (llvm::Error error = driver.check(result, "compute capability"))
    return error;
  return major * 10 + minor;
}

llvm::Expected<Module> Module::load(const Driver &driver, llvm::StringRef cubin,
                                    ByteGaugePtr gauge) {
  llvm::Expected<CubinHeader> header = inspectCubin(cubin);
  if (!header)
    return header.takeError();
  llvm::Expected<int> capability = currentCapability(driver);
  if (!capability)
    return capability.takeError();
  if (header->capability != 0 && !runsOn(header->capability, *capability))
    return makeError(ErrorCode::Unsupported,
                     "cubin for sm_{} does not run on a device of sm_{}",
                     header->capability, *capability);
  llvm::Expected<CudaContext> context = currentContext(driver);
  if (!context)
    return context.takeError();

  CUmodule module = nullptr;
  llvm::Error error = driver.check(
      driver.api().cuModuleLoadData(&module, cubin.data()), "cuModuleLoadData");
  if (!error)
    return Module(driver, *context, module,
                  ByteAmount(std::move(gauge), loadedBytes(cubin)));
  ErrorSummary summary = summarize(std::move(error));
  if (summary.code == ErrorCode::DriverTooOld)
    summary.message += fmt::format(
        "; the driver serves CUDA {}: if the cubin comes from a newer NVRTC, "
        "upgrade the driver to that version or compile with NVRTC {} or older",
        formatCudaVersion(driver.version()),
        formatCudaVersion(driver.version()));
  return errorOf(summary);
}

Module::Module(Module &&other) noexcept
    : driver(other.driver), context(other.context),
      module(std::exchange(other.module, nullptr)),
      bytes(std::move(other.bytes)) {}

Module::~Module() { unload(); }

void Module::unload() {
  if (!module)
    return;
  // Nothing to do about a failure: a dead context takes its modules with it.
  const CudaApi &api = driver->api();
  CaptureModeGuard guard(*driver);
  CUcontext popped = nullptr;
  if (api.cuCtxPushCurrent(context) == CUDA_SUCCESS) {
    api.cuModuleUnload(module);
    api.cuCtxPopCurrent(&popped);
  }
  leak();
}

llvm::Expected<CudaFunction> Module::function(const char *name) const {
  CUfunction function = nullptr;
  CUresult result = driver->api().cuModuleGetFunction(&function, module, name);
  if (result == CUDA_ERROR_NOT_FOUND)
    return makeError(ErrorCode::InvalidArgument,
                     "the module has no function '{}'", name);
  if (llvm::Error error = driver->check(result, "cuModuleGetFunction"))
    return error;
  if (llvm::Error error =
          driver->check(driver->api().cuFuncLoad(function), "cuFuncLoad"))
    return error;
  return function;
}

llvm::Error setMaxDynamicShared(const Driver &driver, CudaFunction function,
                                uint32_t bytes) {
  CUresult result = driver.api().cuFuncSetAttribute(
      function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
      static_cast<int>(bytes));
  if (result == CUDA_ERROR_INVALID_VALUE)
    return llvm::make_error<KilnError>(
        ErrorCode::Unsupported,
        fmt::format(
            "{} bytes of dynamic shared memory exceed the device's limit "
            "for a block",
            bytes),
        result);
  return driver.check(result, "cuFuncSetAttribute(max dynamic shared)");
}

} // namespace kiln
