//===- MemoryPassEstimate.h - estimates of memory-bound templates ---------===//
//
// Shared by all memory-bound families: turns the brick Model/MemoryPass.h into
// the terms and the prose that `kiln plan` and `kiln explain` show.
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
std::optional<Rejection> checkResident(const MemoryPass &kernel,
                                       const DeviceModel &device);

/// Total, bound and every term of passTime(), in ns unless a term names its
/// unit. \p kernel has tasks and threads and has passed checkResident(). About
/// a microsecond.
Estimate estimatePass(const MemoryPass &kernel, const DeviceModel &device,
                      Detail detail = Detail::Terms);
/// The estimate as readable steps: traffic, occupancy, Little's law, a task's
/// life, waves. For one config at a time, because it formats text.
Derivation explainPass(const MemoryPass &kernel, const DeviceModel &device);

/// A sentence such as "a load takes 288 ns on an idle DRAM and 2.5 times as
/// long, ...".
std::string busyDramText(const DeviceModel &device);

} // namespace kiln
