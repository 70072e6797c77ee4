//===- StreamEstimate.h - estimates of memory-bound templates -------------===//
//
// Shared by all families that stream: turns the brick Model/Stream.h into the
// terms and the prose that `kiln plan` and `kiln explain` show.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Estimate.h"
#include "Model/Stream.h"

namespace kiln {

/// Total, bound and every term of streamTime(), in ns unless a term names its
/// unit. \p kernel has tasks and threads and fits an SM. About a microsecond.
Estimate estimateStream(const StreamKernel &kernel, const DeviceModel &device);
/// The same as steps for people: traffic, occupancy, Little's law, a task's
/// life, waves. For one config at a time: it formats text.
Derivation explainStream(const StreamKernel &kernel, const DeviceModel &device);

} // namespace kiln
