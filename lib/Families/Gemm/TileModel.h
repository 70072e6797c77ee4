//===- TileModel.h - the time of a tiled GEMM -----------------------------===//
//
// Over doubles this is the estimate, over figures its derivation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/TileEstimate.h"
#include "Model/Occupancy.h"
#include "Model/Pipeline.h"
#include "Model/Traffic.h"

namespace kiln {

/// The time of one k iteration when some blocks share an SM, in ns.
template <Number N> struct TileStep {
  N math = 0, shared = 0, issue = 0, l2 = 0, dram = 0;
  N pace = 0;        ///< the largest of these
  StageRing<N> ring; ///< at that pace
  N exposed = 0;     ///< latency that the ring leaves
  N barrier = 0;     ///< the part that other blocks of the SM do not cover
  N total = 0;

  bool isLatencyBound() const {
    return valueOf(barrier) + valueOf(exposed) > valueOf(pace);
  }
};

/// One wave of blocks.
template <Number N> struct TileWave {
  int64_t perSm = 0, active = 0; ///< blocks of a busy SM, and in all
  int64_t steps = 0;             ///< of k, of a block
  TileStep<N> step;
  N fill = {}, epilogue = {}, total = {};
};

template <Number N> struct TileModel {
  const GemmProblem &problem;
  const TileKernel &kernel;
  const DeviceModel &device;

  int64_t tilesM, tilesN;
  int64_t wholeTiles; ///< of one block each, ahead of tiles that are split
  int64_t splits;     ///< blocks that share each of the others
  int64_t blocks;     ///< of the others
  Occupancy resident;
  Traffic bytes;

  N clock = 0; ///< GHz
  N stepFlops = 0, loadedBytes = 0, missShare = 0, ringLatency = 0,
    dramRate = 0;
  int64_t wholeWaves;            ///< of whole tiles, ahead of those of splits
  int64_t fullWaves, lastBlocks; ///< waves before the last, which may be full
  TileWave<N> whole, full, last; ///< without blocks if no such wave runs
  N waves = 0;                   ///< all of them
  N reduction = 0;               ///< splits hand their sums over
  N gather = 0;                  ///< ahead of the product
  N floor = 0;                   ///< of the bytes of DRAM
  N beyond = 0;                  ///< the time that the floor adds
  N total = 0;

  TileModel(const GemmProblem &problem, const TileKernel &kernel,
            const DeviceModel &device);

  int64_t blocksPerSm() const {
    return std::max<int64_t>(resident.blocksPerSm, 1);
  }
  /// Blocks in flight at once.
  int64_t slots() const { return device.smCount * blocksPerSm(); }
  /// The rate of the arithmetic on one SM, in flop/ns.
  N mathRate() const;
  /// The wave that names the bound.
  const TileWave<N> &main() const {
    return wholeWaves > 0 ? whole : fullWaves > 0 ? full : last;
  }
  llvm::StringRef bound() const;

  /// A wave of blocks of which \p splits share a tile.
  TileWave<N> wave(int64_t perSm, int64_t active, int64_t splits,
                   bool isLast) const;

private:
  void computeGrid();
  TileStep<N> step(int64_t perSm, int64_t active) const;
  N reductionNs() const;
  N writeBytes() const;
};

extern template struct TileModel<double>;
extern template struct TileModel<Figure>;

} // namespace kiln
