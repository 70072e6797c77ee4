//===- TuningRecorder.cpp - stores what a session found -------------------===//
#include "Tune/TuningRecorder.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

/// Whether trials could not run for a reason that says nothing about configs.
/// The end of the budget is not such a reason.
bool TuningRecorder::isTruncated() const {
  return series.failure().code != ErrorCode::Success ||
         llvm::any_of(series.tried(), [](const TuningCandidate *entry) {
           return entry->trial.status == TrialStatus::NotTried ||
                  entry->trial.status == TrialStatus::Late;
         });
}

/// Sets the generation of \p point. A point that is measured again gets a new
/// generation, because otherwise its old winner would stay. Of two truncated
/// sessions the first one's winner stays. The number is that of the beginning
/// of the session: if several sessions began with the same one the first to
/// store wins, and the others adopt its winner. A session that went on and left
/// the old winner counts as one more, because otherwise trials would go on
/// without end.
void TuningRecorder::setGeneration(RecordPoint &point) const {
  const bool hasTruncated = isTruncated();
  const RecordPoint *known = task.match.point();
  const bool isRenewed =
      (task.options.retune || task.match.kind == RecordMatchKind::Exact) &&
      !task.keepsWinner && !(hasTruncated && task.tunesOn);
  if (known)
    point.generation = std::min(known->generation + isRenewed, kMaxGeneration);
  if (task.tunesOn && !isRenewed)
    point.truncated = task.match.truncated + 1;
  else
    point.truncated = hasTruncated;
}

Measurement measurementOf(const TuningCandidate &entry, const MeasuredBy &by) {
  Measurement measured;
  measured.config = entry.config;
  measured.mode = by.mode;
  measured.how = by.how.str();
  measured.series = by.series;
  measured.kernel = entry.kernel;
  measured.measuredAtMs = by.atMs;
  measured.setEstimate(entry.candidate.estimate);
  const TrialResult &trial = entry.trial;
  measured.valid = entry.isMeasured();
  measured.validated = entry.isProven();
  if (measured.valid) {
    measured.medianNs = trial.medianNs;
    measured.ciLowNs = trial.ciLowNs;
    measured.ciHighNs = trial.ciHighNs;
    measured.samples = trial.samples;
  } else {
    measured.reason = reasonOf(trial);
  }
  return measured;
}

RecordPoint TuningRecorder::makePoint(const TuningCandidate *winner) const {
  const MeasuredBy by{task.options.mode, kMeasuredAtValue, newSeries(),
                      unixTimeMs()};
  RecordPoint point;
  point.extents = dynamicExtentsOf(task.family, task.problem);
  setGeneration(point);
  point.leftOutBytes = candidates.leftOutBytes();
  if (winner)
    point.winner = winner->config;
  // Lack of memory and of time say nothing about a config.
  for (const TuningCandidate *entry : series.tried())
    if (entry->isMeasured() || entry->isAtFault())
      point.measurements.push_back(measurementOf(*entry, by));
  return point;
}

void TuningRecorder::store(const TuningCandidate *winner,
                           TuningResult &result) {
  RecordStore::StoreResult stored = task.context.records.store(
      task.family, task.problem, task.context.deviceClass, makePoint(winner));
  result.recordStored = stored.publish.status == cache::PublishStatus::Stored;
  if (!stored.publish.reason.empty())
    result.notes.push_back(
        fmt::format("the record was not kept: {}", stored.publish.reason));
  const std::string &agreed = stored.point.winner;
  if (!winner || agreed.empty() || agreed == winner->config)
    return;
  const Measurement *measured = stored.point.find(agreed, task.options.mode);
  if (measured && measured->validated)
    adopt(*measured, result);
}

void TuningRecorder::adopt(const Measurement &stored, TuningResult &result) {
  using Stage = TuningCandidate::Stage;
  TuningCandidate *entry = candidates.findOrAdd(stored.config);
  if (!entry)
    return;
  candidates.request(*entry, compile_priority::kNow);
  entry->makePlan(task.problem, task.context.device);
  if (entry->isAtFault() || entry->kernel != stored.kernel ||
      !candidates.await(*entry) ||
      (entry->stage != Stage::Ready && entry->stage != Stage::Tried)) {
    result.notes.push_back(
        fmt::format("the recorded winner {} was not adopted", entry->config));
    return;
  }
  result.choice = entry->choice(ChoiceOrigin::Record);
  result.choice.take(stored);
}

} // namespace kiln
