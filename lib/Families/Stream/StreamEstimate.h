//===- StreamEstimate.h - estimates of memory-bound templates -------------===//
//
// Shared by all families that stream: turns the brick Model/Stream.h into the
// terms and the prose that `kiln plan` and `kiln explain` show.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"
#include "Model/Stream.h"

#include <optional>

namespace kiln {

/// The rejection of a kernel of which \p device holds no task at once, with
/// the resource that a block exceeds. Of estimates it is the precondition.
std::optional<Rejection> checkResident(const StreamKernel &kernel,
                                       const DeviceModel &device);

/// Total, bound and every term of streamTime(), in ns unless a term names its
/// unit. \p kernel has tasks and threads and passed checkResident(). About a
/// microsecond.
Estimate estimateStream(const StreamKernel &kernel, const DeviceModel &device,
                        Detail detail = Detail::Terms);
/// The same as steps for people: traffic, occupancy, Little's law, a task's
/// life, waves. For one config at a time: it formats text.
Derivation explainStream(const StreamKernel &kernel, const DeviceModel &device);

/// "a load takes 288 ns on an idle DRAM and 2.5 times as long, ...".
std::string busyDramText(const DeviceModel &device);

} // namespace kiln
