//===- UnprovenChoice.h - the choice where no trial proved one ------------===//
//
// Private to the tuner.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/CandidateList.h"

namespace kiln {

/// Chooses if no config could be compared with the family's reference, or none
/// of the compared ones is right.
class UnprovenChoice {
public:
  /// All arguments must outlive it.
  UnprovenChoice(const TuningTask &task, CandidateList &candidates,
                 const TrialSeries &series)
      : task(task), candidates(candidates), series(series) {}

  /// Whether, by the record, no config is right here, including today's generic
  /// kernels. Trials would find the same.
  bool isKnownHopeless();

  /// Returns the fastest measured config, or else the estimator's first one.
  /// With \p needsProof there is none: trials, now or before, found wrong
  /// results, and any other config may be wrong as well. May wait for a
  /// compilation. Errors: those of explain().
  llvm::Expected<TuningChoice> choose(bool needsProof);

  /// Returns the reason why there is no choice: Cancelled, NoCandidate, or the
  /// failure of the first kernel that cannot be had.
  llvm::Error explain() const;

private:
  TuningCandidate *firstObtainable();

  const TuningTask &task;
  CandidateList &candidates;
  const TrialSeries &series;
};

} // namespace kiln
