//===- rows/ReferenceRowsConfig.h - shape of the reference over rows ------===//
#pragma once

#include "rows/RowSignature.h"

namespace kiln {

/// One block for each row. The tuner does not choose it, so it has no fields.
struct ReferenceRowsConfig {
  int blockThreads = 256;

  static constexpr int kMaxThreads = 1024;
  static constexpr long long kMaxBlocks = 1ll << 20;

  constexpr int threads() const { return blockThreads; }
  constexpr int sharedBytes(const RowSignature &) const { return 0; }
  constexpr bool isValid(const RowSignature &signature) const {
    return signature.isWellFormed() && blockThreads >= 32 &&
           blockThreads <= kMaxThreads && blockThreads % 32 == 0;
  }
  /// Blocks of the one-dimensional grid for \p rows of the slab: the kernel
  /// strides over the rows by its grid.
  constexpr long long blocks(long long rows) const {
    return rows < kMaxBlocks ? rows : kMaxBlocks;
  }

  friend constexpr bool operator==(const ReferenceRowsConfig &,
                                   const ReferenceRowsConfig &) = default;
};

} // namespace kiln
