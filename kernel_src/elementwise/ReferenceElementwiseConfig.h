//===- elementwise/ReferenceElementwiseConfig.h - shape of the reference --===//
#pragma once

#include "elementwise/ElementwiseSignature.h"

namespace kiln {

/// referenceElementwise has a thread for each element. The tuner does not
/// choose it, so it has no fields.
struct ReferenceElementwiseConfig {
  constexpr int threads() const { return 256; }
  constexpr int minBlocks(const ElementwiseSignature &) const { return 1; }
  constexpr bool isValid(const ElementwiseSignature &signature) const {
    return signature.isWellFormed();
  }
  /// Blocks of the one-dimensional grid, over which the kernel strides.
  constexpr long long blocks(long long rows, long long cols) const {
    constexpr long long kMost = 1ll << 20;
    long long wanted = (rows * cols + threads() - 1) / threads();
    return wanted < kMost ? wanted : kMost;
  }

  friend constexpr bool
  operator==(const ReferenceElementwiseConfig &,
             const ReferenceElementwiseConfig &) = default;
};

} // namespace kiln
