//===- TuningTrials.h - runs the trials of a session ----------------------===//
//
// Private to the tuner.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/CandidateList.h"
#include "Tune/ProvenChoice.h"

#include <optional>

namespace kiln {

/// Tries the candidates of a session in small batches, until there is a reason
/// to stop. Errors are those of the series.
class TuningTrials {
public:
  using Clock = TuningOptions::Clock;

  /// All arguments must outlive it.
  TuningTrials(const TuningTask &task, CandidateList &candidates,
               TrialSeries &series, ProvenChoice &choice)
      : task(task), candidates(candidates), series(series), choice(choice) {}

  /// Requests the kernels of the next trials, the first with \p priority and
  /// each further one after it.
  void compileAhead(int64_t priority);

  /// Tries worthwhile candidates until there is a reason to stop, which it
  /// returns. If it begins in time, the budget does not end before the first
  /// choice had its trial: kernels that compile fast are rarely the fastest
  /// ones. \p known has the state of the other problems.
  llvm::Expected<StopReason> run(Clock::time_point deadline,
                                 TuningProgress known);

  /// If no config is proven: tries the generic kernels one by one, past the
  /// limit of trials, until one is measured. If only a proven config may be
  /// taken, until one is proven, even if the budget is spent. Returns the first
  /// proven one, or null.
  llvm::Expected<TuningCandidate *> tryReserves(Clock::time_point deadline);

private:
  std::optional<StopReason> stopReason(const CandidateRefs &open,
                                       Clock::time_point deadline) const;
  TuningCandidate *owedFirst(const CandidateRefs &open) const;
  CandidateRefs nextBatch(const CandidateRefs &open,
                          Clock::time_point deadline) const;
  llvm::Error runBatch(const CandidateRefs &batch, Clock::time_point deadline,
                       std::chrono::milliseconds leastTime);
  /// The number of trials that are left.
  size_t trialsLeft() const {
    const size_t most = task.options.maxTrials;
    return most - std::min(series.tried().size(), most);
  }

  const TuningTask &task;
  CandidateList &candidates;
  TrialSeries &series;
  ProvenChoice &choice;
  int64_t firstPriority = 0; ///< that compileAhead() was given
  TuningProgress progress;
};

} // namespace kiln
