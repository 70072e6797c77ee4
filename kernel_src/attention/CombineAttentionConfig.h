//===- attention/CombineAttentionConfig.h - the merge of splits -----------===//
#pragma once

#include "attention/AttentionSignature.h"

namespace kiln {

/// The second step of split-KV kernels: a block has a row of O.
struct CombineAttentionConfig {
  int warps = 4;
  /// 1: the partial results are those of `decode`, which writes sequences with
  /// one split itself, and nothing for splits without keys. 0: every split has
  /// an LSE.
  int decode = 0;

  template <class F> static constexpr void forEachField(F &&f) {
    f("w", "warps", &CombineAttentionConfig::warps, 4);
    f("d", "decode", &CombineAttentionConfig::decode, 0);
  }

  constexpr int threads() const { return warps * 32; }
  constexpr int sharedBytes(const AttentionSignature &) const { return 0; }
  constexpr bool isValid(const AttentionSignature &signature) const {
    return warps >= 1 && warps <= 32 && signature.align >= 4;
  }
  friend constexpr bool operator==(const CombineAttentionConfig &,
                                   const CombineAttentionConfig &) = default;
};

} // namespace kiln
