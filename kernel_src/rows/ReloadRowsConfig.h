//===- rows/ReloadRowsConfig.h - knobs of rows that are read again --------===//
#pragma once

#include "rows/RowSignature.h"

namespace kiln {

/// A group of threads walks over its row once for the statistics and once more
/// for the results. The second time it reads from the L2 where the rows in
/// flight fit there; a cluster of blocks for each row leaves fewer rows in
/// flight. Any row length; the family's generic kernel.
struct ReloadRowsConfig {
  int blockThreads = 256;
  int rowThreads = 256; ///< threads of a block that share a row
  int vector = 8;       ///< elements of one access
  int items = 4;        ///< vectors that a thread has in flight at once
  int cluster = 1;      ///< blocks that share a row
  int start = 0;        ///< RowStart of the rows that it serves
  int streaming = 0;    ///< 1: rows bypass L1, stores are evicted first
  int gridPerSm = 0;    ///< 0: one block for each row; else a resident grid

  static constexpr const char *kName = "reload";
  // The maxima that isValid() allows.
  static constexpr int kMaxItems = 16, kMaxCluster = 8, kMaxGridPerSm = 32;
  /// For the interface of SpreadRowsConfig: nothing stays in shared memory.
  static constexpr int kept = 0;

  template <class F> static constexpr void forEachField(F &&f) {
    using C = ReloadRowsConfig;
    f("t", "blockThreads", &C::blockThreads, 256);
    f("rt", "rowThreads", &C::rowThreads, 256);
    f("v", "vector", &C::vector, 8);
    f("i", "items", &C::items, 4);
    f("c", "cluster", &C::cluster, 1);
    f("o", "start", &C::start, 0);
    f("h", "streaming", &C::streaming, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("ps", "gridPerSm", &ReloadRowsConfig::gridPerSm, 0);
  }

  constexpr RowStart rowStart() const { return static_cast<RowStart>(start); }
  constexpr int threads() const { return blockThreads; }
  constexpr int minBlocks() const { return 1; }
  constexpr int groups() const { return blockThreads / rowThreads; }
  constexpr int blockRows() const { return groups(); }
  /// Vectors of a row that one of its blocks has in flight at once.
  constexpr long long chunkVectors() const {
    return static_cast<long long>(rowThreads) * items;
  }
  constexpr int sharedBytes(const RowSignature &) const { return 0; }
  constexpr double blocks(long long rowCount) const {
    return static_cast<double>((rowCount + groups() - 1) / groups()) * cluster;
  }

  constexpr bool isValid(const RowSignature &signature) const {
    int bytes = vector * bytesOf(signature.in);
    bool clusterOk = cluster == 1 ||
                     (rowThreads == blockThreads && gridPerSm == 0 &&
                      cluster <= kMaxCluster && (cluster & (cluster - 1)) == 0);
    // Blocks with scales of their own begin with a vector, and a thread has all
    // its vectors of a block, or none. Rows without statistics wait for nothing
    // in a cluster.
    bool blocksOk =
        !signature.hasBlocks() ||
        (start == 0 &&
         items % signature.scaleShare(vector, rowThreads).items == 0 &&
         (cluster == 1 || signature.hasStatistics()));
    return clusterOk && signature.isWellFormed() && blocksOk &&
           isRowStart(start, vector, signature.op) && blockThreads % 32 == 0 &&
           blockThreads <= 1024 && isRowGroup(rowThreads, blockThreads) &&
           (vector & (vector - 1)) == 0 && bytes <= 16 && items <= kMaxItems &&
           streaming <= 1 && gridPerSm <= kMaxGridPerSm;
  }

  friend constexpr bool operator==(const ReloadRowsConfig &,
                                   const ReloadRowsConfig &) = default;
};

} // namespace kiln
