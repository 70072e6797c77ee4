//===- DeviceProbe.h - from what a live GPU answers to a DeviceModel ------===//
//
// lib/Driver asks the GPU and fills ProbedAttributes; everything after that is
// plain data and works the same in tests. No probe is essential: the value of
// one that did not answer is taken from the next source, and noted.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// The answers of the driver and NVML, in their own units. A value is
/// disengaged where its probe failed or was never made.
struct ProbedAttributes {
  // Driver: cuDeviceGetName, cuDeviceGetUuid, cuDeviceTotalMem and
  // CU_DEVICE_ATTRIBUTE_*.
  std::optional<std::string> marketingName; ///< "NVIDIA H200"
  std::optional<std::string> uuid;          ///< "GPU-..." or "MIG-..."
  std::optional<int64_t> ccMajor, ccMinor;
  std::optional<int64_t> smCount;
  std::optional<int64_t> smClockKHz;     ///< maximum; newer drivers say 0
  std::optional<int64_t> memoryClockKHz; ///< maximum; newer drivers say 0
  std::optional<int64_t> memoryBusBits;
  std::optional<int64_t> memoryBytes;
  std::optional<int64_t> l2Bytes;
  std::optional<int64_t> sharedBytesPerSm;
  std::optional<int64_t> sharedBytesPerBlockOptin;
  std::optional<int64_t> sharedBytesReservedPerBlock;
  std::optional<int64_t> registersPerSm;
  std::optional<int64_t> maxThreadsPerSm;
  std::optional<int64_t> maxThreadsPerBlock;
  std::optional<int64_t> maxBlocksPerSm;
  std::optional<int64_t> warpSize;

  // NVML, asked of the device with the same PCI id.
  std::optional<uint32_t> pciDeviceId;       ///< upper half of pciDeviceId
  std::optional<int64_t> nvmlSmClockMHz;     ///< nvmlDeviceGetMaxClockInfo
  std::optional<int64_t> nvmlMemoryClockMHz; ///< nvmlDeviceGetMaxClockInfo
  std::optional<int64_t> nvmlMemoryBusBits;
  std::optional<double> powerLimitWatts; ///< enforced limit
  std::optional<std::string> migProfile; ///< "1g.18gb"

  /// Why probes failed, e.g. "nvml: libnvidia-ml.so.1 not found".
  std::vector<std::string> failures;
};

/// Builds the model of a live GPU, each value from the first that knows it: the
/// JSON file \p overridePath (empty: none), driver, NVML, catalog, rule of the
/// architecture, fallback. Appends to \p notes each failed probe and each
/// answer that was not believed (0, negative); none is fatal. Errors
/// (InvalidArgument): the override file alone, since the user named it.
llvm::Expected<DeviceModel>
assembleDeviceModel(const ProbedAttributes &probed,
                    llvm::StringRef overridePath,
                    std::vector<std::string> &notes);

} // namespace kiln
