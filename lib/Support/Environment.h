//===- Environment.h - every environment variable Kiln reads --------------===//
#pragma once

#include <optional>
#include <string>

namespace kiln {

/// The process environment, read in one place and once per engine: no other
/// code calls getenv. An unset or empty variable is nullopt; so is every one in
/// a program that runs with other rights than its caller (setuid).
struct Environment {
  std::optional<std::string> kilnCacheDir; ///< KILN_CACHE_DIR
  /// KILN_CACHE_READ_DIRS: tiers of the cache that are only read, between
  /// colons
  std::optional<std::string> kilnCacheReadDirs;
  std::optional<std::string> xdgCacheHome; ///< XDG_CACHE_HOME
  std::optional<std::string> home;         ///< HOME
  std::optional<std::string> kilnNvrtc;    ///< KILN_NVRTC: path of libnvrtc
  std::optional<std::string> kilnDriver;   ///< KILN_DRIVER: path of libcuda
  std::optional<std::string> kilnNvml;     ///< KILN_NVML: path of NVML
  std::optional<std::string> kilnCublasLt; ///< KILN_CUBLASLT: path (bench)
  std::optional<std::string> cudaHome;     ///< CUDA_HOME
  std::optional<std::string> cudaPath;     ///< CUDA_PATH
  std::optional<std::string> virtualEnv;   ///< VIRTUAL_ENV: a Python prefix
  std::optional<std::string> condaPrefix;  ///< CONDA_PREFIX: the same
  std::optional<std::string>
      kilnKernelSrc;                  ///< KILN_KERNEL_SRC: source override
  std::optional<std::string> kernels; ///< KERNELS: set of configs (bench)
  /// NVTX_INJECTION64_PATH: the library of an NVTX tool; KILN_NVTX: 0 for no
  /// ranges there
  std::optional<std::string> nvtxInjection, kilnNvtx;
  std::optional<std::string> kilnTrace; ///< KILN_TRACE: file of the trace
  /// KILN_LAUNCH_RANGES: 1 for ranges of launches that hit
  std::optional<std::string> kilnLaunchRanges;
  /// KILN_WAITS: "hits" for hits in the ledger of waits, too
  std::optional<std::string> kilnWaits;
  /// KILN_PROFILE: launches or steps between which profilers capture
  std::optional<std::string> kilnProfile;
  /// KILN_STATISTICS: file that holds an engine's statistics
  std::optional<std::string> kilnStatistics;
  /// KILN_HISTORY: file to which an engine adds what it is asked for
  std::optional<std::string> kilnHistory;

  /// Reads the process environment. Not safe beside setenv in other threads.
  static Environment fromProcess();
};

} // namespace kiln
