//===- StopRule.h - what can still be the best ----------------------------===//
//
// The first few trials show how far off the predictions of this problem are.
// Until then nothing is skipped. Then each config has an optimistic time: its
// prediction times the best ratio of measured to predicted that is to be
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

/// What the trials so far say of the configs that are left.
class StopRule {
public:
  /// \p tried are all trials so far, \p best the fastest that is proven, null:
  /// none is. With few trials allowed, \p maxTrials, fewer are enough.
  StopRule(llvm::ArrayRef<TuningCandidate *> tried, const TuningCandidate *best,
           unsigned maxTrials);

  /// Whether \p entry cannot beat the best by more than the noise.
  bool isBeyondBound(const TuningCandidate &entry) const;

private:
  /// Of all, and of each template, whose estimates are wrong in ways of their
  /// own.
  Ratios ratios;
  llvm::SmallDenseMap<const Template *, Ratios> ratiosOf;
  double limitNs = 0; ///< the best less the noise; 0: nothing is known
};

} // namespace kiln
