//===- rows/ResidentRowsConfig.h - knobs of rows kept on the chip ---------===//
#pragma once

#include "rows/RowSignature.h"

namespace kiln {

/// Each row is loaded at once, and stays on the chip until its statistics are
/// complete: packed in registers, and in shared memory where these do not
/// suffice. A group of threads works on a row: a part of a warp, some warps, a
/// block, a cluster of blocks, or for few rows blocks all over the GPU.
struct ResidentRowsConfig {
  int blockThreads = 256;
  int rowThreads = 256;  ///< threads of a block that share a row
  int vector = 8;        ///< elements of one access
  int vectors = 4;       ///< of a row that a thread keeps in registers
  int sharedVectors = 0; ///< more vectors, kept in shared memory
  int rows = 1;          ///< rows of a thread, in flight at once
  int cluster = 1;       ///< blocks that share a row
  int blocksPerSm = 1;   ///< blocks for which the registers must suffice
  int start = 0;         ///< RowStart of the rows that it serves
  int streaming = 0;     ///< 1: rows bypass L1, stores are evicted first
  int exact = 0;  ///< 1: rows have exactly capacity() elements; 2: fillsMost()
  int spread = 0; ///< 1: blocks outside of clusters share a row
  int unpacked = 0;  ///< 1: intermediate values in fp32 replace the row
  int rowBlocks = 1; ///< with spread: the blocks that share a row

  static constexpr const char *kName = "resident";
  // The maxima that isValid() allows; clusters of 8 are the largest portable
  // ones.
  static constexpr int kMaxVectors = 32, kMaxSharedVectors = 32, kMaxRows = 8;
  static constexpr int kMaxCluster = 8, kMaxBlocksPerSm = 32;

  template <class F> static constexpr void forEachField(F &&f) {
    using C = ResidentRowsConfig;
    f("t", "blockThreads", &C::blockThreads, 256);
    f("rt", "rowThreads", &C::rowThreads, 256);
    f("v", "vector", &C::vector, 8);
    f("n", "vectors", &C::vectors, 4);
    f("s", "sharedVectors", &C::sharedVectors, 0);
    f("r", "rows", &C::rows, 1);
    f("c", "cluster", &C::cluster, 1);
    f("mb", "blocksPerSm", &C::blocksPerSm, 1);
    f("o", "start", &C::start, 0);
    f("h", "streaming", &C::streaming, 0);
    f("e", "exact", &C::exact, 0);
    f("g", "spread", &C::spread, 0);
    f("u", "unpacked", &C::unpacked, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("k", "rowBlocks", &ResidentRowsConfig::rowBlocks, 1);
  }

  constexpr RowStart rowStart() const { return static_cast<RowStart>(start); }
  constexpr int threads() const { return blockThreads; }
  constexpr int minBlocks() const { return blocksPerSm; }
  constexpr bool isSpread() const { return spread != 0; }
  constexpr int groups() const { return blockThreads / rowThreads; }
  /// Rows that a block has in flight.
  constexpr int blockRows() const { return groups() * rows; }
  /// Distance of a thread's rows: past the rows of the other groups or, for
  /// rows that begin anywhere, to the next row with the same alignment. So the
  /// vectors of a thread's rows have the same columns.
  constexpr int rowStep() const {
    return start == 0 || rows == 1 ? groups() : vector;
  }
  /// Vectors of a row that a block holds, and elements that all its blocks
  /// hold.
  constexpr long long blockVectors() const {
    return static_cast<long long>(rowThreads) * (vectors + sharedVectors);
  }
  constexpr long long capacity() const {
    return blockVectors() * cluster * rowBlocks * vector;
  }
  /// Whether rows of \p rowVectors vectors give every thread of all their
  /// blocks all its vectors, except possibly its last one. Blocks share a row
  /// by \p step vectors.
  constexpr bool fillsMost(long long rowVectors, int step) const {
    long long blocks = static_cast<long long>(cluster) * rowBlocks * step;
    long long perBlock = (rowVectors + blocks - 1) / blocks * step;
    blocks /= step;
    return rowVectors - perBlock * (blocks - 1) >= blockVectors() - rowThreads;
  }
  constexpr int sharedBytes(const RowSignature &signature) const {
    return rows * sharedVectors * blockThreads * vector * bytesOf(signature.in);
  }
  /// Blocks of the grid for \p rowCount rows.
  constexpr double blocks(long long rowCount) const {
    // Groups are counted as if the last ones had all their rows.
    long long rowsOfStep = static_cast<long long>(rowStep()) * rows;
    long long groupCount = (rowCount + rowsOfStep - 1) / rowsOfStep * rowStep();
    return static_cast<double>((groupCount + groups() - 1) / groups()) *
           cluster * rowBlocks;
  }
  /// Bytes through which blocks of \p rowCount rows exchange statistics.
  constexpr long long exchangeBytes(const RowSignature &signature,
                                    long long rowCount) const {
    return isSpread() ? signature.exchangeBytes(rowCount, rowBlocks) : 0;
  }

  constexpr bool isValid(const RowSignature &signature) const {
    int bytes = vector * bytesOf(signature.in);
    bool clusterOk = (cluster == 1 || rowThreads == blockThreads) &&
                     cluster <= kMaxCluster && (cluster & (cluster - 1)) == 0;
    // Copies to shared memory store vectors as they are in memory.
    bool sharedOk = sharedVectors == 0 ||
                    (bytes >= 4 && !signature.residual &&
                     signature.matrices() == 0 && signature.hasStatistics());
    // A thread's rows share operands, and the ends of each row have lanes of
    // their own.
    bool startOk =
        isRowStart(start, vector, signature.op) &&
        (start == 0 || (rows <= rowThreads && exact != 1)) &&
        (rowStart() != RowStart::Any || (sharedVectors == 0 && rows == 1));
    bool spreadOk = spread == 0 ? rowBlocks == 1
                                : spread == 1 && !isReduction(signature.op) &&
                                      cluster == 1 && rows == 1 && exact != 1 &&
                                      rowThreads == blockThreads &&
                                      rowBlocks <= blockThreads;
    // Blocks with scales of their own begin with a vector, and a thread has all
    // its vectors of a block, or none. Rows without statistics wait for nothing
    // in a cluster.
    int ofScale = signature.scaleShare(vector, rowThreads).items;
    bool blocksOk = !signature.hasBlocks() ||
                    (start == 0 && (vectors + sharedVectors) % ofScale == 0 &&
                     (exact != 2 || ofScale == 1) &&
                     (cluster == 1 || signature.hasStatistics()));
    bool unpackedOk =
        unpacked == 0 ||
        (unpacked == 1 && sharedVectors == 0 &&
         (signature.op == RowOp::Softmax || signature.scalesAtOnce() ||
          (signature.chain.size() > 0 && !signature.hasBlocks())));
    return signature.isWellFormed() && startOk && unpackedOk && blocksOk &&
           blockThreads % 32 == 0 && blockThreads <= 1024 &&
           isRowGroup(rowThreads, blockThreads) && clusterOk && spreadOk &&
           sharedOk && (vector & (vector - 1)) == 0 && bytes <= 16 &&
           vectors <= kMaxVectors && sharedVectors <= kMaxSharedVectors &&
           rows <= kMaxRows && blocksPerSm <= kMaxBlocksPerSm &&
           streaming <= 1 && exact <= 2;
  }

  friend constexpr bool operator==(const ResidentRowsConfig &,
                                   const ResidentRowsConfig &) = default;
};

} // namespace kiln
