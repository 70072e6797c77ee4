//===- ProvenChoice.h - which of the measured configs wins ----------------===//
//
// Private to the tuner.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/TrialSeries.h"
#include "Tune/TuningTask.h"

#include <chrono>

namespace kiln {

/// How far behind the best a config may be that is proven as well: at other
/// extents the order of the configs is another one.
inline constexpr double kNeighbourBand = 0.25;
/// What a comparison, or the trial of a generic kernel that has to be tried,
/// gets when the budget is spent.
inline constexpr std::chrono::milliseconds kProofGrace{500};

/// Chooses among what a series measured. Only what is proven, compared with the
/// family's reference and right, is chosen. Errors are those of the series.
class ProvenChoice {
public:
  using Clock = TuningOptions::Clock;

  ProvenChoice(const TuningTask &task, TrialSeries &series)
      : task(task), series(series) {}

  /// The fastest that is proven, null if none is. What would win and was not
  /// compared with the reference so far is compared now. While none is proven,
  /// the first comparison that there is no time for ends that: the reference is
  /// the same for all.
  llvm::Expected<TuningCandidate *> choose(Clock::time_point deadline);
  /// Measures what is near \p winner once more, all side by side, which
  /// decides. The earlier order stands where there is no time for that.
  llvm::Expected<TuningCandidate *> playOff(TuningCandidate &winner,
                                            Clock::time_point deadline);
  /// Compares what is not far behind \p winner with the reference as well,
  /// while there is time: where the winner cannot be had one of these takes its
  /// place, and only what is proven is launched.
  llvm::Error proveContenders(const TuningCandidate &winner,
                              Clock::time_point deadline);

  /// Whether nothing unproven may be taken: trials, now or before, found wrong
  /// results.
  bool needsProof() const {
    return task.foundNoneRight() || series.hasFoundWrong();
  }
  /// What a request until \p deadline gets, \p least at least; a comparison
  /// waits for its reference for longer as long as nothing is proven.
  TrialOptions optionsUntil(Clock::time_point deadline,
                            std::chrono::milliseconds least) const;

private:
  llvm::Expected<TrialStatus> validate(TuningCandidate &entry,
                                       Clock::time_point deadline);
  CandidateRefs chooseFinalists(TuningCandidate &winner) const;

  const TuningTask &task;
  TrialSeries &series;
};

} // namespace kiln
