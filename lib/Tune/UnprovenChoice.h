//===- UnprovenChoice.h - the choice where no trial proved one ------------===//
//
// Private to the tuner.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/CandidateList.h"

namespace kiln {

/// What is left where nothing could be compared with the family's reference, or
/// nothing that was is right.
class UnprovenChoice {
public:
  /// All that is given must outlive it.
  UnprovenChoice(const TuningTask &task, CandidateList &candidates,
                 const TrialSeries &series)
      : task(task), candidates(candidates), series(series) {}

  /// Whether the record says that nothing is right here, up to the generic
  /// kernels as they are today. Trials would find the same.
  bool isKnownHopeless();

  /// The fastest of what was measured, or else the estimator's first one. With
  /// \p needsProof, where trials found wrong results, now or before, there is
  /// none: nothing tells which of the rest are wrong. May wait for a
  /// compilation. Errors: those of explain().
  llvm::Expected<TuningChoice> choose(bool needsProof);

  /// Why there is no choice. Errors: Cancelled, NoCandidate, or why the first
  /// kernel that failed cannot be had.
  llvm::Error explain() const;

private:
  TuningCandidate *firstObtainable();

  const TuningTask &task;
  CandidateList &candidates;
  const TrialSeries &series;
};

} // namespace kiln
