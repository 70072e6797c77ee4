//===- attention/FlatMergeConfig.h - knobs of the merge of attentions -----===//
#pragma once

#include "attention/MergeParams.h"
#include "attention/MergeSignature.h"

namespace kiln {

/// A few lanes of a warp share a row of a head, one vector each.
struct FlatMergeConfig {
  int blockThreads = 256;
  int vector = 8; ///< elements of an access
  int items = 2;  ///< rows of a thread, whose loads are in flight together

  static constexpr const char *kName = "flat";

  template <class F> static constexpr void forEachField(F &&f) {
    f("t", "blockThreads", &FlatMergeConfig::blockThreads, 256);
    f("v", "vector", &FlatMergeConfig::vector, 8);
    f("i", "items", &FlatMergeConfig::items, 2);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  constexpr int threads() const { return blockThreads; }
  constexpr int minBlocks() const { return 1; }
  constexpr int sharedBytes(const MergeSignature &) const { return 0; }
  /// Elements of the widest access to the wider type.
  static constexpr int widestVector(const MergeSignature &signature) {
    int in = bytesOf(signature.in), out = bytesOf(signature.out);
    int elements = signature.align / (in > out ? in : out);
    return elements > 1 ? elements : 1;
  }
  constexpr bool isValid(const MergeSignature &signature) const {
    return blockThreads >= 32 && blockThreads <= 1024 &&
           blockThreads % 32 == 0 && vector >= 1 &&
           (vector & (vector - 1)) == 0 && vector <= widestVector(signature) &&
           items >= 1 && items <= kMaxItems;
  }

  /// Threads of a row, a power of two.
  constexpr int lanes(const MergeSignature &signature) const {
    int count = 1;
    while (count < 32 && count * vector < signature.valueDim)
      count *= 2;
    return count;
  }
  /// Vectors of a row that a lane has.
  constexpr int vectors(const MergeSignature &signature) const {
    int piece = lanes(signature) * vector;
    return (signature.valueDim + piece - 1) / piece;
  }
  /// About the registers that ptxas 13.0 gives a thread, in steps of 8: the
  /// loaded vectors, the places and addresses of its rows, and one vector in
  /// fp32.
  constexpr int registers(const MergeSignature &signature) const {
    int words =
        2 * vectors(signature) * ((vector * bytesOf(signature.in) + 3) / 4);
    int item = 10 + words + 3 * (vectors(signature) - 1);
    int wanted = (30 + items * item + 7) / 8 * 8;
    int most = 65536 / blockThreads < 248 ? 65536 / blockThreads : 248;
    return wanted < most ? wanted : most;
  }

  /// Blocks of the one-dimensional grid. Fewer work too: the kernel strides
  /// over the rows by its grid.
  constexpr long long blocks(const MergeSignature &signature,
                             double rows) const {
    double wanted = rows * lanes(signature) / (double(blockThreads) * items);
    return wanted < kMaxBlocks ? static_cast<long long>(wanted) + 1
                               : kMaxBlocks;
  }

  friend constexpr bool operator==(const FlatMergeConfig &,
                                   const FlatMergeConfig &) = default;

  static constexpr long long kMaxBlocks = 1ll << 30;
  static constexpr int kMaxItems = 4;
};

/// One thread for each element. The tuner does not choose it, so it has no
/// fields.
struct ReferenceMergeConfig {
  static constexpr long long kMaxBlocks = 1ll << 20;

  constexpr int threads() const { return 256; }
  constexpr int sharedBytes(const MergeSignature &) const { return 0; }
  constexpr bool isValid(const MergeSignature &) const { return true; }
  constexpr long long blocks(long long rows) const {
    return rows < kMaxBlocks ? rows : kMaxBlocks;
  }

  friend constexpr bool operator==(const ReferenceMergeConfig &,
                                   const ReferenceMergeConfig &) = default;
};

} // namespace kiln
