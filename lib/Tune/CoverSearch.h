//===- CoverSearch.h - a greedy cover, on numbers alone -------------------===//
//
// Private to RangeCover.cpp and PoolCover.cpp. Kernels have predicted times at
// samples of a range, or of a signature. The search looks for a few kernels of
// which one is nearly the best at every sample.
//
// Predictions are wrong by some percent, mostly alike for all variations of one
// idea, and the chosen kernels will be measured. So a set is judged by its
// regret in several worlds: one in which the predictions hold, and others in
// which the predictions of each idea, and a little those of each kernel, are
// off. In these a second idea that is predicted to be nearly as good is worth
// more than the last percent of the first one. The search is greedy: the next
// kernel is the one that lowers the mean regret of all worlds most for its
// cost, until the next one is not worth its cost.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace kiln {

/// The input of the search.
struct CoverTable {
  /// The time of a kernel that may not run at a sample, or was not estimated.
  static constexpr float kNever = std::numeric_limits<float>::infinity();

  std::vector<double> weights; ///< by sample
  std::vector<double> bestNs;  ///< by sample: the best of the whole space
  /// By sample: the kernel of the estimator's first choice. It is preferred to
  /// kernels that tie with it, because the estimator knows more than times.
  /// Empty: none.
  std::vector<size_t> first;
  struct Kernel {
    uint64_t idea = 0; ///< variations of one idea share it
    /// It is compiled already, for any layer, and so costs less than others.
    bool isAtHand = false;
    std::vector<float> ns; ///< by sample
  };
  std::vector<Kernel> kernels;

  /// The regret of \p kernel at \p sample: how far it is behind the best.
  double regret(size_t kernel, size_t sample) const {
    return kernels[kernel].ns[sample] / bestNs[sample] - 1;
  }
};

struct CoverGoal {
  /// Where predictions hold, the part of a regret above `tolerance` counts
  /// `overTolerance` times in addition.
  double tolerance = 0.02;
  double overTolerance = 40;
  /// The limit of kernels; fixed ones count, but are kept even if they are
  /// more.
  size_t maxKernels = std::numeric_limits<size_t>::max();
  /// A kernel pays if it lowers the mean regret by that much, or the largest
  /// from above the tolerance.
  double leastGain = 3e-4;
  /// Worlds beside the one in which predictions hold.
  size_t worlds = 12;
  /// Kernels that are taken first, whatever their worth.
  llvm::ArrayRef<size_t> fixed = {};
};

struct Cover {
  std::vector<size_t> kernels; ///< the fixed ones, then the most valuable first
  /// The largest regret at any sample if predictions hold.
  double regret = 0;
};

/// Chooses the cover of \p table, with as many kernels as pay.
Cover chooseCover(const CoverTable &table, const CoverGoal &goal);

} // namespace kiln
