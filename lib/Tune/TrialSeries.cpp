//===- TrialSeries.cpp - trials of one problem, batch after batch ---------===//
#include "Tune/TrialSeries.h"

#include "Support/Error.h"
#include "Trial/Statistics.h"
#include "Tune/TrialScale.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

//===----------------------------------------------------------------------===//
// Results so far
//===----------------------------------------------------------------------===//

CandidateRefs TrialSeries::measured() const {
  CandidateRefs measured;
  llvm::copy_if(all, std::back_inserter(measured),
                [](const auto *entry) { return entry->isMeasured(); });
  return measured;
}

static bool isFaster(const TuningCandidate *a, const TuningCandidate *b) {
  return a->trial.medianNs < b->trial.medianNs;
}

CandidateRefs TrialSeries::carried() const {
  CandidateRefs carried;
  if (scaling)
    carried.push_back(scaling);
  CandidateRefs known = measured();
  llvm::erase_if(known, [](const auto *entry) { return entry->isSetAside; });
  auto fastest = llvm::min_element(known, isFaster);
  if (fastest != known.end() && *fastest != scaling)
    carried.push_back(*fastest);
  return carried;
}

const TuningCandidate *TrialSeries::best() const {
  const TuningCandidate *best = nullptr;
  for (const TuningCandidate *entry : all)
    if (entry->isProven() && (!best || isFaster(entry, best)))
      best = entry;
  return best;
}

CandidateRefs TrialSeries::contenders(double band, size_t most,
                                      bool areProven) const {
  std::vector<double> times;
  for (const TuningCandidate *entry : all)
    times.push_back((areProven ? entry->isProven() : entry->isMeasured())
                        ? entry->trial.medianNs
                        : 0);
  CandidateRefs found;
  for (size_t i : findContenders(times, band, most))
    found.push_back(all[i]);
  return found;
}

bool TrialSeries::hasFoundWrong() const {
  return llvm::any_of(all, [](const auto *entry) { return entry->isWrong(); });
}

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

/// Runs \p batch; its other entries are compared with the first \p kept ones.
/// Returns a result for each, or none if the runner fails for a reason that
/// concerns no candidate.
llvm::Expected<std::vector<TrialResult>>
TrialSeries::run(const CandidateRefs &batch, const TrialOptions &trialOptions,
                 size_t kept) {
  TrialRequest request;
  request.family = &family;
  request.problem = problem;
  request.options = trialOptions;
  request.options.mode = options.mode;
  for (const TuningCandidate *entry : batch)
    request.candidates.push_back({entry->plan, entry->artifacts, entry->loaded,
                                  options.trustsProofs && entry->isProven(),
                                  request.candidates.size() < kept});
  auto results = runner->run(request, options.cancel);
  if (results && results->size() == batch.size()) {
    for (auto [entry, result] : llvm::zip_equal(batch, *results)) {
      entry->loaded = std::move(result.loaded);
      judge(*entry, result);
    }
    return results;
  }
  ErrorSummary error{ErrorCode::Internal, "a result is missing"};
  if (!results)
    error = summarize(results.takeError());
  if (error.code == ErrorCode::ContextDead || !runner->isAlive()) {
    error.code = ErrorCode::ContextDead;
    return addContext(
        errorOf(error),
        fmt::format("the device died {} {}", options.activity, problem.text()));
  }
  stop = std::move(error);
  return std::vector<TrialResult>{};
}

/// Passes on the verdict whether the kernel of \p entry is wrong, if \p result
/// has one.
void TrialSeries::judge(const TuningCandidate &entry,
                        const TrialResult &result) const {
  if (!options.verdicts)
    return;
  if (isWrongResult(result.status))
    options.verdicts->found(options.deviceClass,
                            {.kernel = entry.kernel,
                             .config = entry.candidate.config.compiledText(),
                             .problem = problem.text(),
                             .reason = reasonOf(result)});
  else if (result.validated && options.withdrawsVerdicts)
    options.verdicts->withdraw(options.deviceClass, entry.kernel,
                               problem.text());
}

llvm::Error
TrialSeries::checkDevice(llvm::ArrayRef<TrialResult> results) const {
  for (const TrialResult &result : results)
    if (result.status == TrialStatus::ContextDead)
      return makeError(ErrorCode::ContextDead, "the device died {} {}: {}: {}",
                       options.activity, problem.text(), result.config,
                       result.message);
  if (runner->isAlive())
    return llvm::Error::success();
  return makeError(ErrorCode::ContextDead, "the device hung {} {}",
                   options.activity, problem.text());
}

//===----------------------------------------------------------------------===//
// Batches
//===----------------------------------------------------------------------===//

/// Takes \p trial, which \p scale brings to the scale of the others.
void TrialSeries::take(TuningCandidate &entry, TrialResult trial,
                       double scale) {
  scaleTimes(trial, scale);
  entry.trial = std::move(trial);
  entry.trial.config = entry.config;
  entry.repeats.begin(entry.trial);
  if (entry.stage == TuningCandidate::Stage::Tried)
    return;
  entry.stage = TuningCandidate::Stage::Tried;
  all.push_back(&entry);
}

/// Replaces the trial of \p entry, which had a time, by \p trial, which has
/// none.
void TrialSeries::lose(TuningCandidate &entry, TrialResult trial) {
  entry.trial = std::move(trial);
  entry.trial.config = entry.config;
}

void TrialSeries::replaceReference() {
  const CandidateRefs known = measured();
  scaling = known.empty() ? nullptr : chooseFastest(known);
}

/// Merges the new times of the carried entries, the reference first; if it has
/// no time, the other entry, which was measured beside it, takes its place.
/// Returns the scale of the batch, or 0 if the entry that should give it has
/// lost its time, so that the batch has to run beside another.
double TrialSeries::repeatCarried(const CandidateRefs &carried,
                                  llvm::MutableArrayRef<TrialResult> trials) {
  double scale = 0;
  bool hasLost = false;
  for (auto [i, entry] : llvm::enumerate(carried)) {
    TrialResult &again = trials[i];
    if (isTimed(again)) {
      if (scale == 0) {
        scale = entry->trial.medianNs / again.medianNs;
        scaling = entry;
      }
      entry->repeats.repeat(entry->trial, again, scale);
      continue;
    }
    // A lack of room beside the reference says nothing about the config either.
    const bool hasNoRoom =
        scale > 0 && again.status == TrialStatus::OutOfMemory;
    if (isConfigFault(again.status) || (options.dropsLate && !hasNoRoom)) {
      lose(*entry, std::move(again));
      hasLost = true;
    }
  }
  if (scale > 0)
    return scale;
  // If no config is at fault the batch was late, and has few times if any.
  if (!hasLost)
    return 1;
  replaceReference();
  return 0;
}

/// Drops the code of configs that will hardly run again.
void TrialSeries::unloadSlow() {
  const CandidateRefs known = measured();
  const double limitNs =
      known.empty() ? 0
                    : (*llvm::min_element(known, isFaster))->trial.medianNs *
                          (1 + options.loadedBand);
  for (TuningCandidate *entry : all)
    if (entry != scaling &&
        !(entry->isMeasured() && entry->trial.medianNs <= limitNs))
      entry->loaded.reset();
}

llvm::Error TrialSeries::runBatch(const CandidateRefs &batch,
                                  TrialOptions trialOptions) {
  const CandidateRefs again = carried();
  CandidateRefs both = again;
  both.insert(both.end(), batch.begin(), batch.end());
  auto results = run(both, trialOptions, again.size());
  if (!results)
    return results.takeError();
  if (results->empty())
    return llvm::Error::success();
  llvm::MutableArrayRef<TrialResult> trials(*results);
  llvm::Error deviceError = checkDevice(trials);
  double scale = 1;
  if (!again.empty())
    scale = repeatCarried(again, trials);
  else if (int first = chooseReference(trials); first >= 0)
    scaling = batch[first];
  if (scale > 0)
    for (auto [entry, trial] :
         llvm::zip_equal(batch, trials.drop_front(again.size())))
      take(*entry, std::move(trial), scale);
  unloadSlow();
  return deviceError;
}

llvm::Expected<TrialStatus> TrialSeries::prove(TuningCandidate &entry,
                                               TrialOptions trialOptions) {
  trialOptions.measure = false;
  trialOptions.validation = TrialValidation::All;
  auto results = run({&entry}, trialOptions, 0);
  if (!results)
    return results.takeError();
  if (results->empty())
    return TrialStatus::NotTried;
  TrialResult &verdict = results->front();
  entry.trial.validated = verdict.validated;
  entry.trial.maxErrorRatio = verdict.maxErrorRatio;
  entry.trial.message = verdict.message;
  if (isConfigFault(verdict.status))
    entry.trial.status = verdict.status;
  entry.isSetAside = !verdict.validated;
  if (llvm::Error error = checkDevice(*results))
    return error;
  return verdict.status;
}

//===----------------------------------------------------------------------===//
// The playoff
//===----------------------------------------------------------------------===//

Playoff TrialSeries::takePlayoff(const CandidateRefs &finalists,
                                 llvm::MutableArrayRef<TrialResult> trials,
                                 PlayoffScale by) {
  Playoff playoff;
  std::vector<TrialResult *> times;
  std::vector<double> ratios;
  bool isComplete = true;
  for (auto [i, entry] : llvm::enumerate(finalists)) {
    TrialResult &trial = trials[i];
    if (isConfigFault(trial.status)) {
      lose(*entry, std::move(trial));
      playoff.hasLost = true;
    } else if (isTimed(trial) && (by == PlayoffScale::Reference ||
                                  trial.samples >= TrialOptions().minSamples)) {
      playoff.timed.push_back(entry);
      times.push_back(&trial);
      ratios.push_back(entry->trial.medianNs / trial.medianNs);
    } else {
      isComplete = false;
      playoff.isLate |= trial.status != TrialStatus::OutOfMemory;
    }
  }
  const bool hasReference =
      !playoff.timed.empty() && playoff.timed.front() == finalists.front();
  const bool isDecided = by == PlayoffScale::Reference
                             ? hasReference && !playoff.hasLost
                             : isComplete;
  if (!isDecided || playoff.timed.empty()) {
    playoff.timed.clear();
    return playoff;
  }
  const double scale =
      by == PlayoffScale::Reference ? ratios.front() : geomean(ratios);
  for (auto [entry, trial] : llvm::zip_equal(playoff.timed, times)) {
    trial->validated |= entry->trial.validated;
    trial->maxErrorRatio =
        std::max(trial->maxErrorRatio, entry->trial.maxErrorRatio);
    take(*entry, std::move(*trial), scale);
  }
  return playoff;
}

llvm::Expected<Playoff> TrialSeries::playOff(const CandidateRefs &finalists,
                                             TrialOptions trialOptions,
                                             PlayoffScale scale) {
  trialOptions.minSamples *= 2;
  trialOptions.maxSamples *= 2;
  auto results = run(finalists, trialOptions, finalists.size());
  if (!results)
    return results.takeError();
  if (results->empty())
    return Playoff();
  if (llvm::Error error = checkDevice(*results))
    return error;
  Playoff playoff = takePlayoff(finalists, *results, scale);
  if (scaling && !scaling->isMeasured())
    replaceReference();
  return playoff;
}

} // namespace kiln
