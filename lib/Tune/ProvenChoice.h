//===- ProvenChoice.h - the winner among the measured configs -------------===//
//
// Private to the tuner.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/TrialSeries.h"
#include "Tune/TuningTask.h"

#include <chrono>

namespace kiln {

/// Configs that are no further behind the best than this are proven as well: at
/// other extents the order of the configs differs.
inline constexpr double kNeighbourBand = 0.25;
/// The time for a comparison, or for the trial of a generic kernel that has to
/// be tried, when the budget is spent.
inline constexpr std::chrono::milliseconds kProofGrace{500};

/// Chooses among the configs that a series measured. Only a proven config,
/// which was compared with the family's reference and is right, is chosen.
/// Errors are those of the series.
class ProvenChoice {
public:
  using Clock = TuningOptions::Clock;

  ProvenChoice(const TuningTask &task, TrialSeries &series)
      : task(task), series(series) {}

  /// Returns the fastest proven config, null if there is none. A config that
  /// would win but was not compared with the reference so far is compared now.
  /// While no config is proven, the first comparison that runs out of time ends
  /// the search, because the reference is the same for all.
  llvm::Expected<TuningCandidate *> choose(Clock::time_point deadline);
  /// Measures the configs near \p winner once more, all side by side, which
  /// decides. The earlier order stands if there is no time for that.
  llvm::Expected<TuningCandidate *> playOff(TuningCandidate &winner,
                                            Clock::time_point deadline);
  /// Compares the configs that are not far behind \p winner with the reference
  /// as well, while there is time. If the winner cannot be had one of these
  /// takes its place, and only proven configs are launched.
  llvm::Error proveContenders(const TuningCandidate &winner,
                              Clock::time_point deadline);

  /// Whether only proven configs may be taken, because trials, now or before,
  /// found wrong results.
  bool needsProof() const {
    return task.foundNoneRight() || series.hasFoundWrong();
  }
  /// The options of a request until \p deadline, with a time of \p least or
  /// more. A comparison may wait longer for its reference as long as no config
  /// is proven.
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
