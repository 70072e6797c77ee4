//===- Sm90Model.h - what the estimate of the wgmma GEMM computes ---------===//
//
// Shared by the estimate and its explanation, so that both have one number for
// one thing.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/Sm90Estimate.h"
#include "Model/Pipeline.h"
#include "Model/Traffic.h"

#include <algorithm>

namespace kiln {

/// Everything that the terms are computed from.
struct Sm90Model {
  const GemmProblem &problem;
  const GemmSignature &signature;
  const Sm90GemmConfig &config;
  const DeviceModel &device;

  int64_t clusters, resident, active; ///< of the work, at once, and busy
  int64_t tilesPerBlock, kSteps;
  Traffic bytes;

  // One step of k of one block, in ns.
  double math, shared, l2, dram, exposed;
  Pipeline ring;
  // Once a tile.
  double epilogue, exposedEpilogue, reduction;
  // Once a block.
  double fill, drain, repack;
  // Floors of the whole chip. The bytes of DRAM: A, B and what the epilogue
  // reads, and D. Power: clocks that the products keep each SM's tensor cores
  // busy, at the clock that the board sustains.
  double readNs, writeNs, bytesFloor;
  double productClocks, powerFloor;

  Sm90Model(const GemmProblem &problem, const GemmSignature &signature,
            const Sm90GemmConfig &config, const DeviceModel &device);

  /// Of a block's own path: the full one.
  double clockGHz() const { return 1e-3 * device.smClockMHz; }
  /// Of all products together: the one that the board's power sustains.
  double sustainedGHz() const { return 1e-3 * device.sustainedTensorClockMHz; }
  double pace() const { return std::max({math, shared, l2}); }
  double step() const { return pace() + exposed; }
  /// The largest share of the tiles that a busy block has.
  double total() const;
  /// The steps of that share, and what its tiles cost besides.
  double loop() const;
  double betweenTiles() const;
  /// What the steps and the reduction of a tile take.
  double tileNs() const { return double(kSteps) * step() + reduction; }
  /// The higher floor's share of \p groups groups.
  double floorOf(int64_t groups) const {
    return double(groups) *
           (std::max(bytesFloor, powerFloor) / double(clusters));
  }
  int64_t fullWaves() const { return clusters / resident; }
  int64_t lastGroups() const { return clusters % resident; }
  /// What the floors take longer than both.
  double beyondFloor() const;
  llvm::StringRef bound() const;

private:
  void computeTraffic();
  void computeStep();
  void computeEpilogue();
  void computeEnds();
  void computeReduction();
  void computeFloors();
};

} // namespace kiln
