//===- Environment.cpp ----------------------------------------------------===//
#include "Support/Environment.h"

#include <stdlib.h>

namespace kiln {

static std::optional<std::string> read(const char *name) {
  // Null in a program that has more rights than its caller (setuid): these
  // variables name libraries and folders.
  const char *value = ::secure_getenv(name);
  if (!value || !*value)
    return std::nullopt;
  return std::string(value);
}

Environment Environment::fromProcess() {
  Environment environment;
  environment.kilnCacheDir = read("KILN_CACHE_DIR");
  environment.kilnCacheReadDirs = read("KILN_CACHE_READ_DIRS");
  environment.xdgCacheHome = read("XDG_CACHE_HOME");
  environment.home = read("HOME");
  environment.kilnNvrtc = read("KILN_NVRTC");
  environment.kilnDriver = read("KILN_DRIVER");
  environment.kilnNvml = read("KILN_NVML");
  environment.kilnCublasLt = read("KILN_CUBLASLT");
  environment.cudaHome = read("CUDA_HOME");
  environment.cudaPath = read("CUDA_PATH");
  environment.virtualEnv = read("VIRTUAL_ENV");
  environment.condaPrefix = read("CONDA_PREFIX");
  environment.kilnKernelSrc = read("KILN_KERNEL_SRC");
  environment.kernels = read("KERNELS");
  environment.nvtxInjection = read("NVTX_INJECTION64_PATH");
  environment.kilnNvtx = read("KILN_NVTX");
  environment.kilnTrace = read("KILN_TRACE");
  environment.kilnLaunchRanges = read("KILN_LAUNCH_RANGES");
  environment.kilnWaits = read("KILN_WAITS");
  environment.kilnProfile = read("KILN_PROFILE");
  environment.kilnStatistics = read("KILN_STATISTICS");
  environment.kilnHistory = read("KILN_HISTORY");
  return environment;
}

} // namespace kiln
