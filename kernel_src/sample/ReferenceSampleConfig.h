//===- sample/ReferenceSampleConfig.h - shape of the reference ------------===//
#pragma once

#include "sample/SampleParams.h"
#include "sample/SampleSignature.h"

namespace kiln {

/// One block for each row. The tuner does not choose it, so it has no fields.
struct ReferenceSampleConfig {
  static constexpr long long kMaxBlocks = 1ll << 20;

  constexpr int threads() const { return 256; }
  constexpr int sharedBytes(const SampleSignature &) const { return 0; }
  constexpr bool isValid(const SampleSignature &) const { return true; }
  /// Blocks of the one-dimensional grid for \p rows of the slab: the kernel
  /// strides over them by its grid.
  constexpr long long blocks(long long rows) const {
    return rows < kMaxBlocks ? rows : kMaxBlocks;
  }

  friend constexpr bool operator==(const ReferenceSampleConfig &,
                                   const ReferenceSampleConfig &) = default;
};

} // namespace kiln
