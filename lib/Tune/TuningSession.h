//===- TuningSession.h - the tuning of one problem ------------------------===//
//
// begin() reads the record, or ranks the space and
// requests the first kernels. finish() comes later, so that the kernels of many
// problems compile while one is measured. Its parts: the candidates
// (CandidateList), their trials in batches on one scale (TrialSeries,
// TuningTrials, StopRule), the winner (ProvenChoice), the record
// (TuningRecorder).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/CandidateList.h"
#include "Tune/ProvenChoice.h"
#include "Tune/TuningRecorder.h"
#include "Tune/TuningTrials.h"
#include "Tune/UnprovenChoice.h"

#include <memory>
#include <optional>

namespace kiln {

class TuningSession {
public:
  using Clock = TuningOptions::Clock;

  /// All arguments must outlive the session. \p known is a fresh result of
  /// RecordStore::find() for the problem; with nullopt begin() calls it.
  TuningSession(const TuningContext &context, const KernelFamily &family,
                const Problem &problem, const TuningOptions &options,
                std::optional<RecordMatch> known = std::nullopt);
  TuningSession(const TuningSession &) = delete;
  TuningSession &operator=(const TuningSession &) = delete;

  /// Finds the work to do, and requests the artifacts of the record's winner,
  /// or of the first choice, with \p priority. Does not wait.
  void begin(int64_t priority);
  /// Whether finish() has something to measure.
  bool needsTrials() const;
  /// The prediction of the first choice; 0 if there is nothing to measure.
  double predictedNs() const;
  /// Waits for the requests of the first \p count entries, until \p until at
  /// most.
  void awaitFirst(size_t count, Clock::time_point until);
  /// Requests the kernels of the next trials, the first entry with \p priority
  /// and each further one after it; there are some priorities() of them.
  void compileAhead(int64_t priority);
  int64_t priorities() const {
    return static_cast<int64_t>(candidates.entries().size());
  }

  /// Measures until \p deadline, chooses, and stores the record. \p progress
  /// has the state of the other problems. Errors: those of Tuner::tune.
  llvm::Error finish(Clock::time_point deadline, TuningProgress progress);
  /// The result; after an error, the trials.
  TuningResult takeResult() { return std::move(result); }

private:
  void findWork(int64_t priority);
  bool isWinnerForOthers() const;
  bool takeRecord();
  bool hasMoreToTry() const;
  llvm::Error explore();
  llvm::Error conclude(Clock::time_point deadline, TuningProgress progress);
  llvm::Error measure(Clock::time_point deadline, TuningProgress progress);
  bool answerFromRecord();
  bool mayFallBack() const;
  llvm::Error chooseUnproven();
  void summarizeTrials();

  TuningTask task;
  std::optional<RecordMatch> known;
  CandidateList candidates;
  TrialSeries series;
  ProvenChoice choice;
  TuningTrials trials;
  TuningRecorder recorder;
  UnprovenChoice unproven;

  bool isEmpty = false;
  ErrorSummary beginError;
  std::unique_ptr<TuningCandidate> recorded; ///< the record's answer
  const Measurement *recordedTime = nullptr; ///< the measurement of it
  TuningResult result;
};

} // namespace kiln
