//===- StreamedModel.h - the terms of a kernel for one small extent -------===//
//
// The facts from which StreamedTile.cpp estimates a time and
// StreamedDerivation.cpp explains it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/StreamedTile.h"
#include "Model/Bandwidth.h"
#include "Model/Occupancy.h"
#include "Model/Waves.h"

#include <algorithm>

namespace kiln {

/// A wave of blocks: the ns of each resource, and of all of them together.
struct StreamedWave {
  double blocks = 0, perSm = 0;
  double dramNs = 0, l2Ns = 0, portNs = 0, pathNs = 0, issueNs = 0;
  double totalNs = 0;
};

/// Everything that the terms are computed from, for one kernel and problem.
struct StreamModel {
  const GemmProblem &problem;
  const StreamedTile &kernel;
  const DeviceModel &device;

  int64_t blocks = 0, steps = 0;             ///< steps of a block along k
  double streamedBytes = 0, vectorBytes = 0; ///< that a block reads
  double spilledBytes = 0; ///< a block's share of vectors that L2 does not hold
  double otherBytes = 0;   ///< of C, the residual and D, of a block
  double bytesInFlight = 0;
  Occupancy resident;
  Waves grid;

  StreamModel(const GemmProblem &problem, const StreamedTile &kernel,
              const DeviceModel &device);

  double clockGHz() const { return device.sustainedMemoryClockMHz * 1e-3; }
  /// A step of a warp that waits for nothing, and for its loads.
  double workNs() const {
    return (kernel.stepClocks + kernel.waitClocks) / clockGHz();
  }
  double latencyNs() const {
    return kernel.latencyShare * device.dramLatencyNs;
  }
  double partialNs() const {
    bool isPartial = problem.k % kernel.stepK != 0;
    return isPartial ? kernel.partialClocks / clockGHz() : 0;
  }
  double stepNs() const {
    return std::max(workNs(), (latencyNs() + workNs()) / kernel.stepsInFlight);
  }
  double pathNs() const {
    return kernel.startNs + double(steps) * stepNs() + partialNs();
  }

  /// Less where blocks end before their ring is full.
  double restartNs() const {
    double filled = double(steps) / kernel.stepsInFlight;
    return grid.waves > 1 ? std::min(1.0, filled) * kernel.restartNs : 0;
  }

  StreamedWave wave(int64_t count) const;
  LittlesLaw little(int64_t count) const;
};

/// Every term of the time, in ns.
struct StreamTerms {
  int64_t fullWaves = 0;
  StreamedWave full, last; ///< of no blocks where there is no such wave
  double gather = 0;       ///< ahead of the product
  double stream = 0, restarts = 0, reduction = 0, total = 0;

  /// A full wave, or the only one.
  const StreamedWave &main() const { return fullWaves > 0 ? full : last; }
};

/// Exponent of the norm that joins the times of a wave: none is reached to the
/// last byte while another is close.
inline constexpr double kStreamedNorm = 4;

StreamTerms termsOf(const StreamModel &model);

/// The largest part of \p wave, as estimates name it.
llvm::StringRef boundOf(const StreamedWave &wave, bool tensor);

} // namespace kiln
