//===- gemm/Sm90Tiles.cuh - parts that all roles of the wgmma GEMM share --===//
//
// The places of a block's tiles in the problem and in the order of the launch,
// and of its ring, staging and barriers in shared memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/PtxSm90.cuh"
#include "common/Raster.cuh"
#include "gemm/Groups.cuh"
#include "gemm/Sm90GemmConfig.h"
#include "gemm/Sm90GemmParams.h"

namespace kiln {

/// Shared memory of a block, as offsets in its window.
template <GemmSignature kSignature, Sm90GemmConfig kConfig> struct Sm90Shared {
  unsigned base;

  static constexpr int kStages = kConfig.stages;
  static constexpr int kStaging =
      kConfig.stagesInRing() ? 0 : kConfig.ringBytes(kSignature);
  static constexpr int kBarriers = kConfig.tileBytes(kSignature);

  unsigned rowTile(int stage) const {
    return base + stage * kConfig.stageBytes(kSignature);
  }
  unsigned columnTile(int stage) const {
    return rowTile(stage) + kConfig.rowTileBytes(kSignature);
  }
  /// A staging buffer of one consumer.
  unsigned staging(int consumer, int buffer) const {
    return base + kStaging + (consumer * kBuffers + buffer) * kPieceBytes;
  }
  /// Place of fetched operand \p operand of \p buffer: the first one is loaded
  /// to where its piece is staged.
  unsigned fetched(int consumer, int buffer, int operand) const {
    return staging(consumer, buffer) +
           operand * kConfig.consumers * kBuffers * kPieceBytes;
  }
  unsigned full(int stage) const { return base + kBarriers + stage * 8; }
  unsigned empty(int stage) const { return full(kStages + stage); }
  /// The barrier that opens \p consumer's turn to multiply.
  unsigned turn(int consumer) const { return full(2 * kStages + consumer); }
  /// The barriers of a consumer's buffer of fetched pieces.
  unsigned fetchFull(int consumer, int buffer) const {
    return full(2 * kStages + 2 + 2 * (consumer * kBuffers + buffer));
  }
  unsigned fetchEmpty(int consumer, int buffer) const {
    return fetchFull(consumer, buffer) + 8;
  }
  static constexpr int kGroupTable =
      kBarriers + kConfig.barrierBytes(kSignature);

private:
  static constexpr int kBuffers = kConfig.stagingBuffers(kSignature);
  static constexpr int kPieceBytes = kConfig.pieceBytes(kSignature);
};

/// One tile of D as a block sees it. Offsets fit ints: so do TMA coordinates.
struct Sm90Tile {
  int rowBegin, columnBegin; ///< on the tile's sides
  int batch;
  long long index; ///< flat number among all tiles of the launch
  int groupEnd;    ///< the row behind the last row of D of the tile's group
};

/// The tiles of a block, in order. Blocks of a cluster and the splits of a tile
/// walk in step.
///
/// Where results may be stored twice, the last tile of a side begins early
/// enough to end with the side. Rows of a box that lie outside of the tensor
/// cost TMA 2.5 to 3 ns each, more than those inside (H200: with tiles of 128 x
/// 48, 64 x 6144 x 5120 took 37 us and 128 x 6144 x 5120 22.5 us).
template <GemmSignature kSignature, Sm90GemmConfig kConfig> class Sm90Walk {
public:
  /// \p groupTable: the block's table of groups, in a grouped GEMM.
  Sm90Walk(const Sm90GemmParams &params, int *groupTable)
      : params(params), groupTable(groupTable) {
    constexpr unsigned kGroup = kConfig.groupBlocks();
    step = gridDim.x / kGroup;
    bool tilesFirst = kConfig.splitK() > 1 && params.tilesFirst;
    rank = tilesFirst ? blockIdx.x / step : blockIdx.x % kGroup;
    index = tilesFirst ? blockIdx.x % step : blockIdx.x / kGroup;
    clustersM = count(params.gemm.m, kConfig.blockM * kConfig.clusterM);
    clustersN = count(params.gemm.n, kConfig.blockN * kConfig.clusterN);
    if constexpr (kSignature.hasGroups())
      total = table().tiles() * clustersN;
    else
      total = static_cast<unsigned>(clustersM) * clustersN *
              static_cast<unsigned>(params.gemm.batch);
    // Splits alternate along k, so that neighbouring steps are read at the same
    // time (up to 3 % on an H200).
    int all = count(params.gemm.k, kConfig.blockK);
    kCount = count(all - splitRank(), kConfig.splitK());
  }

  bool isDone() const { return index >= total; }
  void next() { index += step; }

  Sm90Tile tile() const {
    if constexpr (kSignature.hasGroups())
      return tileOfGroup();
    bool alongN = params.rasterAlongN;
    TileWork work =
        tileWork(index, alongN ? clustersN : clustersM,
                 alongN ? clustersM : clustersN, 1, params.gemm.rasterGroup);
    int clusterM = alongN ? work.tileN : work.tileM;
    int clusterN = alongN ? work.tileM : work.tileN;
    int tileM = clusterM * kConfig.clusterM + rank % kConfig.clusterM;
    int beginM = begin<kConfig.blockM, kStepM>(tileM, params.gemm.m);
    return tileAt(beginM, clusterN, work);
  }

  /// The table of groups, in tiles of a whole cluster.
  GroupTable<kSignature.groups> table() const {
    return {params.gemm, groupTable};
  }
  static constexpr int kTableRows = kConfig.blockM * kConfig.clusterM;

  /// Number of this block among the blocks that share tiles or split k.
  int multicastRank() const { return kConfig.splitK() > 1 ? 0 : rank; }
  int splitRank() const { return kConfig.splitK() > 1 ? rank : 0; }

  /// True when this split finishes piece \p piece of a tile, counted over all
  /// its consumers.
  bool owns(int piece) const { return piece % kConfig.splitK() == splitRank(); }

  /// Start in k of step \p step of every tile of this block, and the number of
  /// its steps.
  int kBegin(int step) const {
    return (splitRank() + step * kConfig.splitK()) * kConfig.blockK;
  }
  int kCount;

private:
  /// The tile of \p work that begins at row \p beginM, in column \p clusterN of
  /// clusters.
  Sm90Tile tileAt(int beginM, int clusterN, const TileWork &work) const {
    int tileN = clusterN * kConfig.clusterN + rank % kConfig.clusterN;
    int beginN = begin<kConfig.blockN, kStepN>(tileN, params.gemm.n);
    Sm90Tile tile;
    tile.rowBegin = kConfig.swapAB ? beginN : beginM;
    tile.columnBegin = kConfig.swapAB ? beginM : beginN;
    tile.batch = static_cast<int>(work.batch);
    tile.index = work.tile;
    return tile;
  }

  /// The last tile of a group may begin behind its rows: then other blocks of
  /// the cluster have some.
  Sm90Tile tileOfGroup() const {
    GroupTile found = table().tile(index, clustersN, params.gemm.rasterGroup,
                                   params.rasterAlongN);
    int tileM = found.work.tileM * kConfig.clusterM + rank % kConfig.clusterM;
    Sm90Tile tile = tileAt(found.rows.begin + tileM * kConfig.blockM,
                           found.work.tileN, found.work);
    tile.groupEnd = found.rows.end;
    return tile;
  }

  static constexpr bool kPairsAlongM =
      kConfig.swapAB && kConfig.finishesPairs(kSignature);
  /// Tiles begin at multiples of these: 16 bytes for TMA, where rows of a
  /// matrix lie along the extent, else whole pairs. The multiples also keep the
  /// rows of a thread, or the columns of parts that share a scale, in one block
  /// of scales, and packed weights in whole blocks.
  static constexpr int kStepM = !kConfig.readsKMajorA(kSignature) ? 8
                                : kPairsAlongM                    ? 2
                                                                  : 1;
  static constexpr int kStepN =
      kSignature.isPacked()                     ? PackedWeights::kRows
      : kConfig.columnsHaveOneScale(kSignature) ? kConfig.columnsOfOneScale()
      : kSignature.hasBlockScales()             ? 16
                                    : 8 * kSignature.columnsPerOutput();

  /// Start of tile \p tile of a side of \p extent.
  template <int kBlock, int kStep>
  static int begin(int tile, long long extent) {
    int first = tile * kBlock;
    if constexpr (kConfig.mayRepeat(kSignature)) {
      int last = static_cast<int>(extent) - kBlock;
      return min(first, max(0, (last + kStep - 1) / kStep * kStep));
    }
    return first;
  }

  /// tileCount in 32 bits: extents fit TMA's coordinates.
  static int count(long long extent, unsigned block) {
    return (static_cast<unsigned>(extent) + block - 1) / block;
  }

  const Sm90GemmParams &params;
  int *groupTable;
  int rank, clustersM, clustersN;
  unsigned index, step, total;
};

} // namespace kiln
