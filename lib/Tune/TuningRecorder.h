//===- TuningRecorder.h - what a session leaves in the record -------------===//
//
// Private to the tuner.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/CandidateList.h"

#include <optional>

namespace kiln {

/// Which trials measured something, and when.
struct MeasuredBy {
  MeasurementMode mode = MeasurementMode::Cold;
  llvm::StringRef how; ///< Measurement::how
  uint64_t series = 0; ///< Measurement::series
  int64_t atMs = 0;    ///< Unix time
};
/// The result of the trial of \p entry, as records keep it.
Measurement measurementOf(const TuningCandidate &entry, const MeasuredBy &by);

/// Stores what a session found.
class TuningRecorder {
public:
  /// All that is given must outlive it.
  TuningRecorder(const TuningTask &task, CandidateList &candidates,
                 const TrialSeries &series)
      : task(task), candidates(candidates), series(series) {}

  /// Stores the trials and \p winner, which is null where nothing is right.
  /// What became of it is added to \p result. Where somebody else stored a
  /// winner first, that becomes its choice, so that all who share the cache
  /// launch the same kernel; the own one stays if that cannot be had.
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
