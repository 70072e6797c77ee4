//===- rows/SplitRowsConfig.h - knobs of reductions in ranges -------------===//
#pragma once

#include "rows/RowSignature.h"

namespace kiln {

/// Reductions of rows that are too few or too long for one block each: a row,
/// or all rows, is cut into ranges, and the last block to finish merges the
/// statistics of the others.
struct SplitRowsConfig {
  int blockThreads = 256;
  int vector = 4;    ///< elements of one access
  int items = 4;     ///< vectors that a thread has in flight at once
  int start = 0;     ///< RowStart of the rows that it serves
  int streaming = 0; ///< 1: rows bypass L1
  int ranges = 1;    ///< blocks that share a row, or all rows

  static constexpr const char *kName = "split";
  static constexpr int kMaxItems = 16; ///< the most that isValid() allows

  template <class F> static constexpr void forEachField(F &&f) {
    using C = SplitRowsConfig;
    f("t", "blockThreads", &C::blockThreads, 256);
    f("v", "vector", &C::vector, 4);
    f("i", "items", &C::items, 4);
    f("o", "start", &C::start, 0);
    f("h", "streaming", &C::streaming, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("k", "ranges", &SplitRowsConfig::ranges, 1);
  }

  constexpr RowStart rowStart() const { return static_cast<RowStart>(start); }
  constexpr int threads() const { return blockThreads; }
  constexpr int minBlocks() const { return 1; }
  constexpr int sharedBytes(const RowSignature &) const { return 0; }
  /// Blocks of the grid for \p outputs values.
  constexpr double blocks(long long outputs) const {
    return static_cast<double>(outputs) * ranges;
  }
  constexpr long long counterBytes(long long outputs) const {
    return ranges > 1 ? outputs * 4 : 0;
  }
  /// Every range leaves the one float of its statistics.
  constexpr long long partialBytes(long long outputs) const {
    return ranges > 1 ? outputs * ranges * 4 : 0;
  }

  constexpr bool isValid(const RowSignature &signature) const {
    return signature.isWellFormed() && isReduction(signature.op) &&
           isRowStart(start, vector, signature.op) && blockThreads % 32 == 0 &&
           blockThreads <= 1024 && (vector & (vector - 1)) == 0 &&
           vector * bytesOf(signature.in) <= 16 && items <= kMaxItems &&
           streaming <= 1;
  }

  friend constexpr bool operator==(const SplitRowsConfig &,
                                   const SplitRowsConfig &) = default;
};

} // namespace kiln
