//===- attention/CollectRowsConfig.h - geometry of collectRows ------------===//
#pragma once

#include "attention/AttentionParams.h"
#include "attention/AttentionSignature.h"

namespace kiln {

/// The tuner does not choose it, so it has no fields.
struct CollectRowsConfig {
  constexpr int threads() const { return 256; }
  constexpr int sharedBytes(const AttentionSignature &) const { return 0; }
  constexpr bool isValid(const AttentionSignature &signature) const {
    return bytesOf(signature.q) >= bytesOf(signature.kv) &&
           bytesOf(signature.q) >= bytesOf(signature.out) &&
           signature.align >= bytesOf(signature.kv) && signature.align <= 16;
  }

  /// Bytes of an access to stored rows; a row consists of whole accesses. A
  /// signature's alignment counts addresses of Q, which are aligned to its
  /// elements at least, so K and V of one byte may be aligned to less than it
  /// says.
  static constexpr int queryBytes(const AttentionSignature &signature) {
    int width = bytesOf(signature.out);
    return signature.align > width ? signature.align : width;
  }
  static constexpr int keyBytes(const AttentionSignature &signature) {
    bool mayBeLess = bytesOf(signature.kv) < bytesOf(signature.out);
    return mayBeLess && signature.align <= bytesOf(signature.out)
               ? bytesOf(signature.kv)
               : signature.align;
  }
  /// Vectors that a thread has in flight, and those of all threads of a block.
  static constexpr int kItems = 4, kRounds = 2;
  constexpr int blockVectors() const { return threads() * kItems * kRounds; }

  /// Keys on both sides of the visible ones that are collected as well: blocks
  /// of keys have at most this many keys, and kernels read values of masked
  /// keys.
  static constexpr int kMargin = 256;

  friend constexpr bool operator==(const CollectRowsConfig &,
                                   const CollectRowsConfig &) = default;
};

/// The collected rows of one operand: their address, the strides of the target
/// in elements, and the most rows of a sequence.
struct CollectedRows {
  void *target = nullptr;
  HeadStrides strides;
  int elements = 0; ///< of a row
  int width = 0;    ///< that a row gets: zeros follow its elements
  int tokens = 0;
  int heads = 0;
  int blockTokens = 1; ///< tokens of a block of the grid
};

/// K, V and Q of `attention`, whose sequences and heads are those of one round
/// of a launch. The third dimension of the grid says how many of the three are
/// collected, starting at `first`.
struct CollectRowsParams {
  AttentionParams attention;
  CollectedRows rows[3];
  int first = 0;
};

} // namespace kiln
