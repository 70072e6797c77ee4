//===- ProbeStore.h - NVML's answers, kept until the next boot ------------===//
//
// Starting NVML costs 15 ms, most of the way from a cached kernel to its first
// launch, and what Kiln asks it holds still: maximum clocks, bus width, power
// limit. So its answers are kept in the cache, for this GPU, driver and boot of
// the machine. A power limit that is changed in between is noticed by the
// caller that asks NVML again, as kiln tune and kiln bench do.
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

  /// Fills NVML's fields of \p probed, whose uuid names the GPU. False: nothing
  /// is known of it since this boot, or nothing that can be read.
  bool restore(ProbedAttributes &probed, int driverVersion) const;

  /// Keeps NVML's fields, if they are new. Incomplete answers are not kept.
  void store(const ProbedAttributes &probed, int driverVersion);

private:
  cache::Store *cache;
};

} // namespace kiln
