//===- CoverSearch.h - a greedy cover, on numbers alone -------------------===//
//
// Private to RangeCover.cpp. Kernels have times at samples of a range. Wanted
// is a small set of which, at every sample, one is within a tolerance of the
// best there is. Greedy: next comes the kernel that serves most of what is not
// served yet, by weight.
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
  struct Kernel {
    uint64_t idea = 0;     ///< variations of one idea share it
    std::vector<float> ns; ///< by sample
  };
  std::vector<Kernel> kernels;

  /// How far \p kernel is behind the best at \p sample.
  double regret(size_t kernel, size_t sample) const {
    return kernels[kernel].ns[sample] / bestNs[sample] - 1;
  }
};

struct CoverGoal {
  double tolerance = 0.02; ///< at the least
  size_t maxKernels = 24;  ///< beyond the fixed ones, if these are more
  /// Taken whatever they are worth, and first.
  llvm::ArrayRef<size_t> fixed = {};
};

struct Cover {
  std::vector<size_t> kernels; ///< the fixed ones, then the most valuable first
  double tolerance = 0;        ///< that was reached
};

/// The cover of \p table. Where the goal's tolerance needs more kernels than it
/// allows, the tolerance grows. Where it needs fewer, the rest are second
/// opinions: kernels of another idea that are nearly as good by the estimate,
/// which is wrong about ideas.
Cover chooseCover(const CoverTable &table, const CoverGoal &goal);

} // namespace kiln
