//===- Sm90Model.h - the time of the wgmma GEMM ---------------------------===//
//
// Over doubles this is the estimate, over figures its derivation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/Sm90Estimate.h"
#include "Model/Pipeline.h"
#include "Model/Traffic.h"

namespace kiln {

/// The exponent of norms of times that run side by side.
inline constexpr int kSm90Exponent = 8;

/// The paces of a step of k of each block while some number of blocks is busy,
/// in ns, beside those that any number has. All of them run side by side, but
/// nothing reaches its own pace while another is close: the step is a norm of
/// these.
template <Number N> struct Sm90Step {
  N l2 = 0;          ///< the bytes that all SMs ask for
  N dram = 0;        ///< the bytes that L2 does not have
  N pace = 0;        ///< the slowest
  StageRing<N> ring; ///< at that pace
  N turn = 0;        ///< a stage's latency and pace, over the stages
  N together = 0;    ///< the norm
  N apart = 0;       ///< L2 alone, once blocks are out of step
  N total = 0;       ///< with the time that it loses then
};

/// Everything that the time is computed from.
template <Number N> struct Sm90Model {
  const GemmProblem &problem;
  const GemmSignature &signature;
  const Sm90GemmConfig &config;
  const DeviceModel &device;

  int64_t groups, resident; ///< of the work, and at once
  int64_t tilesPerBlock, kSteps;
  double bytesA, bytesB; ///< of A's and of B's tile in a stage
  double linesA, linesB; ///< L2's time for their rows, in times of whole lines
  Traffic bytes;
  double apartShare; ///< share of a block's steps that are out of step

  N clock = 0,
    powerClock = 0; ///< of a block's own path; that power leaves; GHz
  N dramBytes = 0, missShare = 0;
  // Paces of a step that do not depend on the number of blocks.
  N math = 0;   ///< wgmma
  N port = 0;   ///< the bytes that the SM takes in
  N shared = 0; ///< shared memory where rows come from registers, else 0
  /// Steps of a full wave and of the last one; where there is no such wave, as
  /// the other.
  Sm90Step<N> full, last;
  // Once a tile.
  N epilogue = 0, exposedEpilogue = 0, reduction = 0;
  // Once a block.
  N fill = 0, drain = 0, repack = 0, gather = 0;
  N loop = 0; ///< steps of the largest share of the tiles that a block has
  N path = 0; ///< with what a block's tiles take beside the loop
  // Floors of the whole chip: the bytes of DRAM, and the products at the clock
  // that the board holds.
  N bytesFloor = 0, powerFloor = 0;
  N heldPath = 0; ///< the path at the clock that power leaves
  N beyond = 0;   ///< the time that the floors add
  N total = 0;

  Sm90Model(const GemmProblem &problem, const GemmSignature &signature,
            const Sm90GemmConfig &config, const DeviceModel &device);

  int64_t fullWaves() const { return groups / resident; }
  int64_t lastGroups() const { return groups % resident; }
  /// Blocks of a wave.
  int64_t blocksOf(int64_t waveGroups) const {
    return waveGroups * config.groupBlocks();
  }
  /// The wave that names the bound.
  const Sm90Step<N> &main() const { return fullWaves() > 0 ? full : last; }
  /// Whether L2 sets the pace of steps that are out of step.
  bool isHeldApart() const {
    return apartShare > 0 && main().apart > main().together;
  }
  llvm::StringRef bound() const;

private:
  void computeTraffic();
  void computeStep();
  Sm90Step<N> stepOf(int64_t blocks) const;
  N askedBytes(int64_t blocks) const;
  N bytesApart() const;
  N apartNs(int64_t blocks) const;
  N sharedNs(const N &products) const;
  void computeEpilogue();
  void computeEnds();
  N reductionNs() const;
  void computePath();
};

extern template struct Sm90Model<double>;
extern template struct Sm90Model<Figure>;

} // namespace kiln
