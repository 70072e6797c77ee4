//===- ProbeStore.h - NVML's answers, kept until the next boot ------------===//
//
// Starting NVML costs 15 ms, most of the time from a cached kernel to its first
// launch, and the values that Kiln reads are stable: maximum clocks, bus width,
// power limit. So its answers are kept in the cache, for this GPU, driver and
// boot of the machine. A caller that asks NVML again, as kiln tune and kiln
// bench do, notices a power limit that changed in between.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Device/DeviceProbe.h"

namespace kiln {

/// Probes in the cache. Thread-safe; the cache store must outlive it.
class ProbeStore {
public:
  explicit ProbeStore(cache::Store &cache) : cache(&cache) {}

  /// Fills NVML's fields of \p probed, whose uuid names the GPU. False if there
  /// is no readable entry for it since this boot.
  bool restore(ProbedAttributes &probed, int driverVersion) const;

  /// Keeps NVML's fields, if they are new. Incomplete answers are not kept.
  void store(const ProbedAttributes &probed, int driverVersion);

private:
  cache::Store *cache;
};

} // namespace kiln
