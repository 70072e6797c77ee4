//===- TileModel.h - what the estimate of a tiled GEMM computes -----------===//
//
// Shared by the estimate and its explanation, so that both have one number for
// one thing.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/TileEstimate.h"
#include "Model/Occupancy.h"
#include "Model/Pipeline.h"
#include "Model/Traffic.h"
#include "Model/Waves.h"

#include <algorithm>

namespace kiln {

/// The barrier of a step of k, and the first fragments behind it.
inline constexpr double kStepBarrierClocks = 60;

/// The time of one k iteration when some blocks share an SM, in ns.
struct StepTimes {
  double math, shared, issue, l2, dram;
  double barrier; ///< the part that other blocks of the SM do not cover
  Pipeline ring;  ///< at the pace of the slowest

  double pace() const { return std::max({math, shared, issue, l2, dram}); }
  double exposed() const { return barrier + ring.exposedNs; }
  double total() const { return pace() + exposed(); }
};

/// One wave of blocks.
struct WaveTimes {
  double perSm = 0, active = 0; ///< blocks of a busy SM, and in all
  int64_t steps = 0;            ///< of k, of a block
  StepTimes step = {};
  double fill = 0, loop = 0, epilogue = 0;
};

/// The time that splits add: they write partial tiles to L2, count arrivals and
/// read them back.
struct TileReduction {
  double handOver = 0, reads = 0;

  double total() const { return handOver + reads; }
};

/// Everything that the terms are computed from, for one kernel and problem.
struct TileModel {
  const GemmProblem &problem;
  const TileKernel &kernel;
  const DeviceModel &device;

  int64_t tilesM, tilesN;
  int64_t wholeTiles; ///< of one block each, ahead of tiles that are split
  int64_t splits;     ///< blocks that share each of the others
  int64_t blocks;     ///< of the others
  Occupancy resident;
  Waves grid;
  Traffic bytes;

  TileModel(const GemmProblem &problem, const TileKernel &kernel,
            const DeviceModel &device);

  double clockGHz() const {
    return 1e-3 *
           (kernel.tensor ? device.sustainedTensorClockMHz : device.smClockMHz);
  }
  int64_t blocksPerSm() const {
    return std::max<int64_t>(resident.blocksPerSm, 1);
  }
  int64_t slots() const { return std::max<int64_t>(grid.slots, 1); }
  /// Bytes of a stage, and those of them that a block loads: rows and columns
  /// outside of the problem are filled with zeros.
  double stageBytes() const {
    return double(kernel.blockM + kernel.blockN) * kernel.blockK *
           bytesOf(problem.dtype);
  }
  double loadedBytes() const {
    double rows = double(bytes.input.m) / double(tilesM);
    double columns = double(bytes.input.n) / double(tilesN);
    return (rows + columns) * kernel.blockK * bytesOf(problem.dtype);
  }
  double stepFlops() const {
    return 2.0 * kernel.blockM * kernel.blockN * kernel.blockK;
  }

  /// A wave of blocks of which \p splits share a tile.
  WaveTimes wave(double perSm, double active, int64_t splits,
                 bool isLast) const;
  TileReduction reduction() const;
  /// Blocks that come and go leave so much of the rate of long reads (first
  /// choices that DRAM bounds took 1.03 to 1.08 of the time without it, H200).
  double dramBytesPerNs() const {
    constexpr double kShare = 0.97;
    return kShare * device.dramBytesPerNs();
  }
  /// Bytes of D.
  double writeBytes() const {
    return wholeTiles > 0 ? bytes.storeBytes - bytes.reduceReadBytes
                          : bytes.storeBytes / static_cast<double>(splits);
  }
  double readNs() const { return bytes.dramReadBytes / dramBytesPerNs(); }
  double writeNs() const { return writeBytes() / device.dramWriteBytesPerNs(); }

private:
  StepTimes step(double perSm, double active) const;
};

/// The whole time, in ns.
struct TileTimes {
  explicit TileTimes(const TileModel &model);

  int64_t wholeWaves;            ///< of whole tiles, ahead of those of splits
  int64_t fullWaves, lastBlocks; ///< waves before the last, which may be full
  WaveTimes whole, full, last;   ///< of no blocks where there is none
  double fill = 0, loop = 0, epilogue = 0;
  TileReduction reduction;
  double gather; ///< ahead of the product
  double floor;  ///< time of the compulsory bytes beyond the waves
  double totalNs;
  llvm::StringRef bound;

  /// The wave that names the bound.
  const WaveTimes &main() const {
    return wholeWaves > 0 ? whole : fullWaves > 0 ? full : last;
  }

private:
  void add(int64_t count, const WaveTimes &wave) {
    loop += double(count) * wave.loop;
    fill += double(count) * wave.fill;
    epilogue += double(count) * wave.epilogue;
  }
};

} // namespace kiln
