//===- rows/SpreadRowsConfig.h - knobs of rows longer than the chip -------===//
#pragma once

#include "rows/RowSignature.h"

namespace kiln {

/// Blocks all over the GPU share a row that is longer than the chip holds, or
/// some rows in turn. They walk over it once for the statistics and once more
/// for the results; a part of it stays in shared memory.
struct SpreadRowsConfig {
  int blockThreads = 1024;
  int vector = 8;     ///< elements of one access
  int items = 4;      ///< vectors that a thread has in flight at once
  int kept = 0;       ///< chunks of its part that a block keeps
  int start = 0;      ///< RowStart of the rows that it serves
  int streaming = 0;  ///< 1: rows bypass L1, stores are evicted first
  int rowBlocks = 1;  ///< blocks that share a row
  int rowsAtOnce = 1; ///< rows in flight, each shared by rowBlocks blocks

  static constexpr const char *kName = "spread";
  // The maxima that isValid() allows.
  static constexpr int kMaxItems = 16, kMaxKept = 64;
  /// For the interface of ReloadRowsConfig: its blocks form no clusters.
  static constexpr int cluster = 1;

  template <class F> static constexpr void forEachField(F &&f) {
    using C = SpreadRowsConfig;
    f("t", "blockThreads", &C::blockThreads, 1024);
    f("v", "vector", &C::vector, 8);
    f("i", "items", &C::items, 4);
    f("s", "kept", &C::kept, 0);
    f("o", "start", &C::start, 0);
    f("h", "streaming", &C::streaming, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("k", "rowBlocks", &SpreadRowsConfig::rowBlocks, 1);
    f("r", "rowsAtOnce", &SpreadRowsConfig::rowsAtOnce, 1);
  }

  constexpr RowStart rowStart() const { return static_cast<RowStart>(start); }
  constexpr int threads() const { return blockThreads; }
  constexpr int minBlocks() const { return 1; }
  constexpr bool isSpread() const { return true; }
  constexpr int groups() const { return 1; }
  /// Vectors of a row that one of its blocks has in flight at once.
  constexpr long long chunkVectors() const {
    return static_cast<long long>(blockThreads) * items;
  }
  constexpr int sharedBytes(const RowSignature &signature) const {
    return kept * items * blockThreads * vector * bytesOf(signature.in);
  }
  constexpr double blocks(long long rowCount) const {
    return static_cast<double>(rowCount < rowsAtOnce ? rowCount : rowsAtOnce) *
           rowBlocks;
  }
  /// Bytes through which blocks of \p rowCount rows exchange statistics.
  constexpr long long exchangeBytes(const RowSignature &signature,
                                    long long rowCount) const {
    return signature.exchangeBytes(rowCount, rowBlocks);
  }

  constexpr bool isValid(const RowSignature &signature) const {
    int bytes = vector * bytesOf(signature.in);
    // Shared memory is written in words.
    bool keptOk = kept == 0 || (kept <= kMaxKept && bytes >= 4);
    // Blocks with scales of their own begin with a vector, and a thread has all
    // its vectors of a block, or none.
    bool blocksOk =
        !signature.hasBlocks() ||
        (start == 0 &&
         items % signature.scaleShare(vector, blockThreads).items == 0 &&
         (kept == 0 || signature.hasStatistics()));
    return signature.isWellFormed() && !isReduction(signature.op) && keptOk &&
           blocksOk && isRowStart(start, vector, signature.op) &&
           blockThreads % 32 == 0 && blockThreads <= 1024 &&
           rowBlocks <= blockThreads && (vector & (vector - 1)) == 0 &&
           bytes <= 16 && items <= kMaxItems && streaming <= 1;
  }

  friend constexpr bool operator==(const SpreadRowsConfig &,
                                   const SpreadRowsConfig &) = default;
};

} // namespace kiln
