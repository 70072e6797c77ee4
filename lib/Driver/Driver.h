//===- Driver.h - the CUDA driver, opened at run time ---------------------===//
//
// One object per process or engine, through which all of lib/Driver works. It
// owns nothing on a device; objects that are made with it must not outlive it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Environment.h"
#include "Support/Error.h"

#include <memory>
#include <string>

namespace kiln {

struct CudaApi;

/// The class of the driver's code \p result, by a caller's next step. Pure;
/// total: a code without a class of its own is DriverError.
ErrorCode classifyDriverResult(int result);

/// The loaded and initialised CUDA driver. Immutable after load, so every
/// method is thread-safe.
class Driver {
public:
  /// Opens libcuda (KILN_DRIVER alone if it is set, else the libcuda.so.1 that
  /// the loader finds), binds every symbol and calls cuInit. Costs up to a
  /// second on the first call of a process. Errors: DriverMissing (no library,
  /// no GPU), DriverTooOld (a symbol is missing, kernel module mismatch),
  /// DriverError.
  static llvm::Expected<std::shared_ptr<Driver>>
  load(const Environment &environment);

  ~Driver();
  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;

  /// The CUDA version the driver serves: 1000 * major + 10 * minor.
  int version() const { return driverVersion; }

  /// Devices that the process may use; at least 1.
  int deviceCount() const { return devices; }

  /// The file that was opened.
  const std::string &path() const { return libraryPath; }

  /// Success for result 0; else an error of the result's class that reads
  /// "what: CUDA_ERROR_NAME (code): description" and carries the code. \p what
  /// is the driver function's name, usually.
  llvm::Error check(int result, const char *what) const {
    if (result == 0) [[likely]]
      return llvm::Error::success();
    return fail(result, what);
  }

  /// The functions themselves; for Driver's own .cpp files (CudaApi.h).
  const CudaApi &api() const { return *table; }

private:
  Driver();
  llvm::Error bind(const Environment &environment);
  llvm::Error initialise();
  llvm::Error fail(int result, const char *what) const;

  std::unique_ptr<CudaApi> table;
  std::string libraryPath;
  int driverVersion = 0, devices = 0;
};

/// "13.0" for 13000.
std::string formatCudaVersion(int version);

} // namespace kiln
