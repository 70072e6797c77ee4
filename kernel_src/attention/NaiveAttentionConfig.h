//===- attention/NaiveAttentionConfig.h - knobs of the naive attention ----===//
#pragma once

#include "attention/AttentionSignature.h"

namespace kiln {

/// One warp for each row of queries of a head, with fp32 arithmetic. It takes
/// any type, head dimension, mask, alignment and stride.
struct NaiveAttentionConfig {
  int warps = 4; ///< of a block; each has rows of its own

  static constexpr const char *kName = "naive";

  template <class F> static constexpr void forEachField(F &&f) {
    f("w", "warps", &NaiveAttentionConfig::warps, 4);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  constexpr int threads() const { return 32 * warps; }
  constexpr int minBlocks() const { return 1; }
  constexpr int sharedBytes(const AttentionSignature &) const { return 0; }

  constexpr bool isValid(const AttentionSignature &) const {
    return warps >= 1 && warps <= 32;
  }

  /// Blocks of the one-dimensional grid for \p rows. Fewer work too: the kernel
  /// strides over the rows by its grid.
  constexpr long long blocks(double rows) const {
    double wanted = rows / warps;
    return wanted < kMaxBlocks ? static_cast<long long>(wanted) + 1
                               : kMaxBlocks;
  }

  friend constexpr bool operator==(const NaiveAttentionConfig &,
                                   const NaiveAttentionConfig &) = default;

  static constexpr long long kMaxBlocks = 1ll << 30;
};

} // namespace kiln
