//===- StreamedModel.h - the time of a kernel for one small extent --------===//
//
// Over doubles this is the estimate, over figures its derivation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/StreamedTile.h"
#include "Model/Bandwidth.h"
#include "Model/Occupancy.h"

namespace kiln {

/// Exponent of the norm that joins the times of a wave: none is reached to the
/// last byte while another is close.
inline constexpr int kStreamedNorm = 4;

/// A wave of blocks: the ns of each resource, and of all of them together with
/// a block's own path.
template <Number N> struct StreamedWave {
  int64_t blocks = 0, perSm = 0;
  N dram = 0, l2 = 0, port = 0, issue = 0, total = 0;
};

template <Number N> struct StreamModel {
  const GemmProblem &problem;
  const StreamedTile &kernel;
  const DeviceModel &device;

  int64_t blocks = 0;
  int64_t turns = 1;  ///< tiles of the busiest block
  int64_t kSteps = 0; ///< steps of a block along k, of all of its tiles
  double streamedBytes = 0, vectorBytes = 0; ///< that a block reads
  double spilledBytes = 0; ///< a block's share of vectors that L2 does not hold
  double otherBytes = 0;   ///< of C, the residual and D, of a block
  double bytesInFlight = 0; ///< of a block
  Occupancy resident;

  N clock = 0;      ///< GHz
  N dramRate = 0;   ///< B/ns
  N stepClocks = 0; ///< instructions of a step of a warp
  N work = 0;       ///< a step of a warp that does not wait for loads
  N latency = 0;    ///< of its loads
  N turn = 0;       ///< a step of a warp
  N partial = 0;    ///< the end of k within a step
  N path = 0;       ///< a block's own
  int64_t fullWaves = 0;
  StreamedWave<N> full, last; ///< of no blocks where there is no such wave
  N waves = 0;
  N total = 0;

  StreamModel(const GemmProblem &problem, const StreamedTile &kernel,
              const DeviceModel &device);

  int64_t blocksPerSm() const {
    return kernel.turnsPerSm > 0 ? kernel.turnsPerSm
                                 : std::max<int64_t>(resident.blocksPerSm, 1);
  }
  /// Blocks in flight at once.
  int64_t slots() const { return device.smCount * blocksPerSm(); }
  StreamedWave<N> wave(int64_t count) const;
  /// A full wave, or the only one.
  const StreamedWave<N> &main() const { return fullWaves > 0 ? full : last; }
  llvm::StringRef bound() const;

private:
  void computeBlocks();
  void computePath();
  N reductionNs() const;
};

extern template struct StreamModel<double>;
extern template struct StreamModel<Figure>;

} // namespace kiln
