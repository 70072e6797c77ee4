//===- allreduce/ReferenceAllReduceConfig.h - shape of the reference ------===//
#pragma once

namespace kiln {

/// referenceAllReduce has a block for each row. The tuner does not choose it,
/// so it has no fields.
struct ReferenceAllReduceConfig {
  static constexpr int threads() { return 256; }
  /// Blocks of the one-dimensional grid, over which the kernel strides.
  static constexpr long long blocks(long long rows) {
    constexpr long long kMost = 1ll << 20;
    return rows < kMost ? rows : kMost;
  }
};

} // namespace kiln
