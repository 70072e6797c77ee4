//===- CoverSearch.h - a greedy cover, on numbers alone -------------------===//
//
// Private to RangeCover.cpp and PoolCover.cpp. Kernels have predicted times at
// samples of a range, or of a signature. Wanted are a few kernels, of which at
// every sample one is nearly the best.
//
// Predictions are wrong by some percent, mostly alike for all variations of one
// idea, and what is chosen will be measured. So a set is judged by what it
// reaches in several worlds: one in which the predictions hold, and others in
// which those of each idea, and a little those of each kernel, are off. In
// these a second idea that is predicted to be nearly as good is worth more than
// the last percent of the first one. Greedy: next comes the kernel that lowers
// the mean regret of all worlds most for what it costs, until the next one is
// not worth its cost.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace kiln {

/// What the search is about.
struct CoverTable {
  /// Of what may not run at a sample, or was not looked at.
  static constexpr float kNever = std::numeric_limits<float>::infinity();

  std::vector<double> weights; ///< by sample
  std::vector<double> bestNs;  ///< by sample: of the whole space
  /// By sample: the kernel of the estimator's first choice, which knows more
  /// than times do: of those that tie with it, it is the best. Empty: none.
  std::vector<size_t> first;
  struct Kernel {
    uint64_t idea = 0; ///< variations of one idea share it
    /// Compiled already, for whatever layer: it costs less than another.
    bool isAtHand = false;
    std::vector<float> ns; ///< by sample
  };
  std::vector<Kernel> kernels;

  /// How far \p kernel is behind the best at \p sample.
  double regret(size_t kernel, size_t sample) const {
    return kernels[kernel].ns[sample] / bestNs[sample] - 1;
  }
};

struct CoverGoal {
  /// The part of a regret above it, where predictions hold, counts so many
  /// times.
  double tolerance = 0.02;
  double overTolerance = 40;
  /// The fixed ones included, if these are not more.
  size_t maxKernels = std::numeric_limits<size_t>::max();
  /// A kernel pays if it lowers the mean regret by that much, or the largest
  /// from above the tolerance.
  double leastGain = 3e-4;
  /// Worlds beside the one in which predictions hold.
  size_t worlds = 12;
  /// Taken whatever they are worth, and first.
  llvm::ArrayRef<size_t> fixed = {};
};

struct Cover {
  std::vector<size_t> kernels; ///< the fixed ones, then the most valuable first
  /// The largest regret at any sample, where predictions hold.
  double regret = 0;
};

/// The cover of \p table: as many kernels as pay.
Cover chooseCover(const CoverTable &table, const CoverGoal &goal);

} // namespace kiln
