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

Estimate estimateStream(const StreamKernel &kernel, const DeviceModel &device);
Derivation explainStream(const StreamKernel &kernel, const DeviceModel &device);

} // namespace kiln
