//===- MemoryPassEstimate.h - estimates of memory-bound templates ---------===//
//
// Shared by all memory-bound families: turns the brick Model/MemoryPass.h into
// the estimate, and into the derivation that `kiln explain` shows.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"
#include "Model/MemoryPass.h"

#include <optional>

namespace kiln {

/// The rejection of a kernel if \p device cannot hold a single task, with the
/// resource that a block exceeds. Estimates require that it passes.
std::optional<Rejection> checkResident(const PassWork &kernel,
                                       const DeviceModel &device);

/// The time by PassModel. \p kernel has tasks and threads and has passed
/// checkResident(). Takes less than a microsecond.
Estimate estimatePass(const MemoryPass<double> &kernel,
                      const DeviceModel &device);

/// The same as steps: traffic, capacity, Little's law, a task's life, waves.
Derivation explainPass(const MemoryPass<Figure> &kernel,
                       const DeviceModel &device);

} // namespace kiln
