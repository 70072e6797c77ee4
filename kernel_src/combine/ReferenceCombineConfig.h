//===- combine/ReferenceCombineConfig.h - shape of the reference ----------===//
#pragma once

#include "combine/CombineParams.h"
#include "combine/CombineSignature.h"

namespace kiln {

/// One block for each token. The tuner does not choose it, so it has no fields.
struct ReferenceCombineConfig {
  static constexpr long long kMaxBlocks = 1ll << 20;

  constexpr int threads() const { return 256; }
  constexpr int sharedBytes(const CombineSignature &) const { return 0; }
  constexpr bool isValid(const CombineSignature &) const { return true; }
  /// Blocks of the one-dimensional grid for \p rows of the slab: the kernel
  /// strides over them by its grid.
  constexpr long long blocks(long long rows) const {
    return rows < kMaxBlocks ? rows : kMaxBlocks;
  }

  friend constexpr bool operator==(const ReferenceCombineConfig &,
                                   const ReferenceCombineConfig &) = default;
};

} // namespace kiln
