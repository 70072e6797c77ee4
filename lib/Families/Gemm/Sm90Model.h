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

/// The exponent of norms of times that run side by side.
inline constexpr double kSm90Exponent = 8;

/// Where L2 is behind, requests queue, and blocks lose this many times what its
/// rate alone costs them. (Fitted to the sweeps of bf16 and e4m3 on an H200.)
inline constexpr double kSm90Queue = 1.5;

/// The paces of a step of k of each block while some number of blocks is busy,
/// in ns. All of them run side by side, but nothing reaches its own pace while
/// another is close: the step is a norm of these.
struct Sm90Step {
  double math;   ///< wgmma
  double port;   ///< the bytes that the SM takes in
  double l2;     ///< the bytes that all SMs ask for
  double dram;   ///< the bytes that L2 does not have
  double shared; ///< shared memory where rows come from registers, else 0
  double ring;   ///< a stage's latency and pace, over the stages
  double apart;  ///< L2 alone, once blocks are out of step

  double total; ///< the norm of all but the last

  double pace() const { return std::max({math, port, l2, dram, shared}); }
  /// The time that L2's rate alone adds out of step.
  double beyond() const { return std::max(0.0, apart - total); }
};

/// Everything that the terms are computed from.
struct Sm90Model {
  const GemmProblem &problem;
  const GemmSignature &signature;
  const Sm90GemmConfig &config;
  const DeviceModel &device;

  int64_t groups, resident; ///< of the work, and at once
  int64_t tilesPerBlock, kSteps;
  double bytesA, bytesB; ///< of A's and of B's tile in a stage
  double linesA, linesB; ///< L2's time for their rows, in times of whole lines
  Traffic bytes;

  /// Steps of a full wave and of the last one; where there is no such wave, as
  /// the other.
  Sm90Step full, last;
  double apartShare; ///< share of a block's steps that are out of step
  // Once a tile.
  double epilogue, exposedEpilogue, reduction;
  // Once a block.
  double fill, drain, repack, gather;
  // Floors of the whole chip. The bytes of DRAM: A, B and what the epilogue
  // reads, and D. Power: clocks that the products keep each SM's tensor cores
  // busy, at the clock that the board holds.
  double readNs, writeNs, bytesFloor;
  double productClocks, powerFloor;

  Sm90Model(const GemmProblem &problem, const GemmSignature &signature,
            const Sm90GemmConfig &config, const DeviceModel &device);

  /// The clock of a block's own path.
  double clockGHz() const;
  /// The clock that the board's power leaves all products together.
  double powerGHz() const;
  int64_t fullWaves() const { return groups / resident; }
  int64_t lastGroups() const { return groups % resident; }
  /// Blocks of a wave.
  int64_t blocksOf(int64_t waveGroups) const {
    return waveGroups * config.groupBlocks();
  }
  /// The wave that names the bound.
  const Sm90Step &main() const { return fullWaves() > 0 ? full : last; }
  /// How many stages hide a stage's latency.
  Pipeline ringOf(const Sm90Step &step) const;
  /// The step, with the time that it loses once blocks are out of step.
  double paced(const Sm90Step &step) const;
  /// The steps of the largest share of the tiles that a block has.
  double loop() const;
  /// Whether L2 sets the pace of steps that are out of step.
  bool isHeldApart() const { return apartShare > 0 && main().beyond() > 0; }
  /// The time of a block's tiles beside the loop.
  double betweenTiles() const;
  double path() const { return loop() + betweenTiles(); }
  /// The path at the clock that power leaves: a norm of path and power floor.
  double heldPath() const;
  /// The time that the floors add.
  double beyondPath() const {
    return std::max(heldPath(), bytesFloor) - path();
  }
  double total() const;
  llvm::StringRef bound() const;

private:
  void computeTraffic();
  Sm90Step stepOf(int64_t blocks) const;
  double askedBytes(int64_t blocks) const;
  double bytesApart() const;
  void computeEpilogue();
  void computeEnds();
  void computeReduction();
  void computeFloors();
};

} // namespace kiln
