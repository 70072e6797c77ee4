//===- Nvml.h - the management library as a table -------------------------===//
//
// Private to Driver's sources. NVML tells maximum clocks, bus width, power
// limit and MIG, which the driver does not.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Environment.h"
#include "Support/Error.h"

namespace kiln {

using NvmlResult = int; ///< nvmlReturn_t
using NvmlDevice = void *;

enum class NvmlClock : int { Graphics = 0, Sm = 1, Memory = 2 };

/// nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3.
struct NvmlPciInfo {
  char busIdLegacy[16];
  unsigned domain, bus, device;
  unsigned pciDeviceId; ///< device id in the upper half, vendor in the lower
  unsigned pciSubSystemId;
  char busId[32];
};

/// An initialised NVML; shut down on destruction. Thread-safe.
class Nvml {
public:
  /// Opens KILN_NVML alone if it is set, else libnvidia-ml.so.1. A function
  /// that this version lacks stays null. Errors: DriverMissing, DriverError.
  static llvm::Expected<Nvml> load(const Environment &environment);

  Nvml(Nvml &&other) noexcept;
  Nvml &operator=(Nvml &&) = delete;
  ~Nvml();

  /// Success for result 0, else "what: description (code)".
  llvm::Error check(NvmlResult result, const char *what) const;

#define KILN_NVML_SYMBOL(name, returnType, arguments)                          \
  returnType(*name) arguments = nullptr;
#include "Driver/NvmlSymbols.def"

private:
  Nvml() = default;
  bool initialised = false;
};

} // namespace kiln
