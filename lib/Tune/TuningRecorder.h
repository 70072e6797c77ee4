//===- TuningRecorder.h - stores what a session found ---------------------===//
//
// Private to the tuner.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/CandidateList.h"

namespace kiln {

/// The trials that measured something, and their time.
struct MeasuredBy {
  MeasurementMode mode = MeasurementMode::Cold;
  llvm::StringRef how; ///< Measurement::how
  uint64_t series = 0; ///< Measurement::series
  int64_t atMs = 0;    ///< Unix time
};
/// The result of the trial of \p entry in the form of records.
Measurement measurementOf(const TuningCandidate &entry, const MeasuredBy &by);

/// Stores the facts that a session found.
class TuningRecorder {
public:
  /// All arguments must outlive it.
  TuningRecorder(const TuningTask &task, CandidateList &candidates,
                 const TrialSeries &series)
      : task(task), candidates(candidates), series(series) {}

  /// Stores the trials and \p winner, which is null if no config is right. Adds
  /// the outcome to \p result. If another process stored a winner first, that
  /// becomes the choice of \p result, so that all processes that share the
  /// cache launch the same kernel; its own choice stays if that cannot be had.
  void store(const TuningCandidate *winner, TuningResult &result);

private:
  bool isTruncated() const;
  void setGeneration(RecordPoint &point) const;
  RecordPoint makePoint(const TuningCandidate *winner) const;
  void adopt(const Measurement &stored, TuningResult &result);

  const TuningTask &task;
  CandidateList &candidates;
  const TrialSeries &series;
};

} // namespace kiln
