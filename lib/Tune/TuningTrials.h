//===- TuningTrials.h - which configs are tried, and until when -----------===//
//
// Private to the tuner.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/CandidateList.h"
#include "Tune/ProvenChoice.h"

#include <optional>

namespace kiln {

/// The trials of a session: its candidates in small batches, until there is a
/// reason to stop. Errors are those of the series.
class TuningTrials {
public:
  using Clock = TuningOptions::Clock;

  /// All that is given must outlive it.
  TuningTrials(const TuningTask &task, CandidateList &candidates,
               TrialSeries &series, ProvenChoice &choice)
      : task(task), candidates(candidates), series(series), choice(choice) {}

  /// Requests what the next trials need, the first with \p priority and each
  /// further one after it.
  void compileAhead(int64_t priority);

  /// Tries what is worth it until there is a reason to stop, which it returns.
  /// Where it begins in time, the budget ends no sooner than the first choice
  /// had its trial: what compiles fast is seldom what runs fast. \p known is
  /// what is known of the other problems.
  llvm::Expected<StopReason> run(Clock::time_point deadline,
                                 TuningProgress known);

  /// Where nothing is proven: tries the generic kernels one by one, past the
  /// limit of trials, until one is measured. Where only what is proven may be
  /// taken, until one is proven, and although the budget may be spent. The
  /// first that is proven, or null.
  llvm::Expected<TuningCandidate *> tryReserves(Clock::time_point deadline);

private:
  std::optional<StopReason> stopReason(const CandidateRefs &open,
                                       Clock::time_point deadline) const;
  TuningCandidate *owedFirst(const CandidateRefs &open) const;
  CandidateRefs nextBatch(const CandidateRefs &open,
                          Clock::time_point deadline) const;
  llvm::Error runBatch(const CandidateRefs &batch, Clock::time_point deadline,
                       std::chrono::milliseconds leastTime);
  /// How many trials are left.
  size_t trialsLeft() const {
    const size_t most = task.options.maxTrials;
    return most - std::min(series.tried().size(), most);
  }

  const TuningTask &task;
  CandidateList &candidates;
  TrialSeries &series;
  ProvenChoice &choice;
  int64_t firstPriority = 0; ///< of compileAhead()
  TuningProgress progress;
};

} // namespace kiln
