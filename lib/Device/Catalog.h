//===- Catalog.h - known GPUs and the rules of architectures --------------===//
//
// Known GPUs as data, so that kernels can be planned, estimated and compiled
// for a GPU that is not here. A DeviceModel is put together strongest source
// first: each fill function sets only the fields that no stronger source has
// set.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

namespace kiln {

/// One product's entry in the catalog. 0 means: by the architecture's rule.
struct CatalogEntry {
  const char *name = nullptr; ///< "h200-sxm"
  /// Marketing names as the driver reports them, separated by '|'.
  const char *marketingNames = nullptr;
  /// PCI device ids (the upper half of NVML's pciDeviceId), 0 where unknown.
  uint16_t pciDeviceIds[2] = {};
  struct Capability {
    int8_t major = 0, minor = 0;
  } capability;
  int16_t smCount = 0;
  int16_t smClockMHz = 0;
  int16_t memoryClockMHz = 0;
  int16_t memoryBusBits = 0;
  int16_t powerLimitWatts = 0;
  int32_t memoryGB = 0; ///< as sold, 2^30 bytes
  int32_t l2Bytes = 0;
  int16_t sustainedTensorClockMHz = 0;
  int16_t dramGBs = 0, dramWriteGBs = 0, l2GBs = 0;
  int16_t dramLatencyCycles = 0, l2LatencyCycles = 0; ///< at smClockMHz
  int16_t launchNs = 0, rampNs = 0;
  int16_t maxClusters2 = 0, maxClusters4 = 0, maxClusters8 = 0;
  /// Tensor rates relative to the architecture's rule in percent; GeForce
  /// boards accumulate in fp32 at half rate.
  int16_t tensorPercent = 0;
};

/// Names of all known GPUs in catalog order.
std::vector<llvm::StringRef> catalogNames();

/// The complete model of the GPU called \p name, with the values of the JSON
/// file \p overridePath in front if it is not empty. Errors (InvalidArgument):
/// an unknown name lists the known ones; a bad file names file and key.
llvm::Expected<DeviceModel> findDevice(llvm::StringRef name,
                                       llvm::StringRef overridePath = "");

/// The entry of a live GPU: by marketing name ("NVIDIA H200", with or without
/// the "NVIDIA " in front and any "MIG ..." behind), then by PCI device id (0
/// for unknown). Null if none matches.
const CatalogEntry *matchLiveDevice(llvm::StringRef marketingName,
                                    uint32_t pciDeviceId);

/// Fills unset values from \p entry (source Catalog). Figures that scale with
/// the number of SMs are left to the architecture's rule where the model
/// already has another SM count (a MIG slice).
void fillFromCatalog(DeviceModel &model, const CatalogEntry &entry);

} // namespace kiln
