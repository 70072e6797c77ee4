//===- Launcher.cpp -------------------------------------------------------===//
#include "Driver/Launcher.h"

#include "Driver/LaunchSteps.h"

namespace kiln {

[[gnu::noinline, gnu::cold]] llvm::Error
stepError(const Driver &driver, CUresult result, const LaunchSpec &spec,
          uint32_t index, const char *what) {
  llvm::Error error = driver.check(result, what);
  const LaunchStep &step = spec.steps[index];
  if (step.kind == LaunchStep::Kind::Memset)
    return addContext(std::move(error),
                      fmt::format("step {} of {} (memset of {} bytes)",
                                  index + 1, spec.stepCount,
                                  step.memset.bytes));
  const KernelStep &k = step.kernel;
  return addContext(
      std::move(error),
      fmt::format("step {} of {} (grid {}x{}x{}, block {}x{}x{}, cluster "
                  "{}x{}x{}, {} bytes of shared memory)",
                  index + 1, spec.stepCount, k.grid.x, k.grid.y, k.grid.z,
                  k.block.x, k.block.y, k.block.z, k.cluster.x, k.cluster.y,
                  k.cluster.z, k.sharedBytes));
}

static CUlaunchConfig configOf(const KernelStep &step, CudaStream stream,
                               CUlaunchAttribute *attributes, unsigned count) {
  CUlaunchConfig config;
  config.gridDimX = step.grid.x;
  config.gridDimY = step.grid.y;
  config.gridDimZ = step.grid.z;
  config.blockDimX = step.block.x;
  config.blockDimY = step.block.y;
  config.blockDimZ = step.block.z;
  config.sharedMemBytes = step.sharedBytes;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return config;
}

/// Enqueues one kernel; attributes only where they say something, because an
/// empty list takes the driver's shortest path.
static CUresult launchKernel(const CudaApi &api, const KernelStep &step,
                             std::byte *params, CudaFunction function,
                             CudaStream stream) {
  CUlaunchAttribute attributes[kMaxStepAttributes + 1];
  unsigned count = fillAttributes(step, attributes);
  if (step.dependentLaunch) {
    CUlaunchAttribute &attribute = attributes[count++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig config = configOf(step, stream, attributes, count);
  void *arguments[] = {params + step.paramOffset};
  return api.cuLaunchKernelEx(&config, function, arguments, nullptr);
}

llvm::Expected<int64_t> maxActiveClusters(const Driver &driver,
                                          const KernelStep &step,
                                          CudaFunction function) {
  CUlaunchAttribute attributes[kMaxStepAttributes];
  const unsigned count = fillAttributes(step, attributes);
  const CUlaunchConfig config = configOf(step, nullptr, attributes, count);
  int clusters = 0;
  if (llvm::Error error =
          driver.check(driver.api().cuOccupancyMaxActiveClusters(
                           &clusters, function, &config),
                       "cuOccupancyMaxActiveClusters"))
    return error;
  return clusters;
}

llvm::Error patchTensorMaps(const Driver &driver, LaunchSpec &spec) {
  for (uint32_t i = 0; i < spec.tensorMapCount; ++i) {
    const TensorMapPatch &patch = spec.tensorMaps[i];
    std::byte *target = spec.params + patch.paramOffset;
    assert(patch.paramOffset % alignof(EncodedTensorMap) == 0 &&
           patch.paramOffset + sizeof(EncodedTensorMap) <= spec.paramBytes &&
           "a tensor map lies aligned inside the parameters");
    if (!patch.prototype) {
      auto encoded = encodeTensorMap(driver, spec.mapSpec(i), patch.address);
      if (!encoded)
        return encoded.takeError();
      std::memcpy(target, &*encoded, sizeof(EncodedTensorMap));
      continue;
    }
    std::memcpy(target, patch.prototype, sizeof(EncodedTensorMap));
    CUresult result = driver.api().cuTensorMapReplaceAddress(
        reinterpret_cast<CUtensorMap *>(target),
        reinterpret_cast<void *>(patch.address));
    if (result != CUDA_SUCCESS)
      return driver.check(result, "cuTensorMapReplaceAddress");
  }
  return llvm::Error::success();
}

llvm::Error launch(const Driver &driver, LaunchSpec &spec,
                   llvm::ArrayRef<CudaFunction> functions, CudaStream stream) {
  const CudaApi &api = driver.api();
  if (llvm::Error error = patchTensorMaps(driver, spec))
    return error;

  for (uint32_t i = 0; i < spec.stepCount; ++i) {
    const LaunchStep &step = spec.steps[i];
    if (step.kind == LaunchStep::Kind::Memset) {
      const MemsetStep &memset = step.memset;
      CUresult result = api.cuMemsetD8Async(memset.address, memset.value,
                                            memset.bytes, stream);
      if (result != CUDA_SUCCESS)
        return stepError(driver, result, spec, i, "cuMemsetD8Async");
      continue;
    }
    assert(step.kernel.function < functions.size() && "no such function");
    CUresult result = launchKernel(api, step.kernel, spec.params,
                                   functions[step.kernel.function], stream);
    if (result != CUDA_SUCCESS)
      return stepError(driver, result, spec, i, "cuLaunchKernelEx");
  }
  return llvm::Error::success();
}

} // namespace kiln
