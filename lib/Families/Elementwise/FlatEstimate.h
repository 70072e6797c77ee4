//===- FlatEstimate.h - the memory pass of the flat template --------------===//
#pragma once

#include "Families/Elementwise/ElementwiseProblem.h"
#include "Model/MemoryPass.h"
#include "elementwise/FlatElementwiseConfig.h"

namespace kiln {

/// Bytes of the widest access; a larger vector is split.
inline constexpr int64_t kAccessBytes = 16;

/// The memory pass of \p config for the problem \p p: bytes, instructions and
/// waits. Pure, less than a microsecond.
template <Number N>
MemoryPass<N> flatStreamKernel(const ElementwiseProblem &p,
                               const ElementwiseSignature &signature,
                               const FlatElementwiseConfig &config,
                               const DeviceModel &device);

} // namespace kiln
