//===- StopRule.h - configs that can still be the best --------------------===//
//
// The first few trials show how far off the predictions of this problem are.
// Until then no config is skipped. Then each config has an optimistic time: its
// prediction times the best ratio of measured to predicted that can be
// expected. A config whose optimistic time does not beat the best by more than
// the noise is beyond the bound.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/TuningCandidate.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/DenseMap.h>

namespace kiln {

/// Measured over predicted times.
class Ratios {
public:
  void add(double ratio);
  unsigned count() const { return added; }
  /// Optimistic measured/predicted: the least seen, or two standard deviations
  /// below the mean where that is less. At least one was added.
  double optimistic() const;

private:
  unsigned added = 0;
  double least = 0, sum = 0, squares = 0;
};

/// Applies the trials so far to the configs that are left.
class StopRule {
public:
  /// \p tried are all trials so far, \p best the fastest proven one (null: none
  /// is proven). If \p maxTrials is small, fewer trials are enough.
  StopRule(llvm::ArrayRef<TuningCandidate *> tried, const TuningCandidate *best,
           unsigned maxTrials);

  /// Whether \p entry cannot beat the best by more than the noise.
  bool isBeyondBound(const TuningCandidate &entry) const;

private:
  /// The ratios of all configs, and of each template, because estimates of
  /// different templates have different errors.
  Ratios ratios;
  llvm::SmallDenseMap<const Template *, Ratios> ratiosOf;
  double limitNs = 0; ///< the best less the noise; 0: nothing is known
};

} // namespace kiln
