//===- TuningChoice.cpp - which config is chosen, and what is recorded ----===//
#include "Tune/TuningSession.h"

#include "Trial/Statistics.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

using Stage = TuningCandidate::Stage;

/// How far behind the best a proven config may be that takes part in the
/// playoff: some times the error between batches, which is about 1 %.
static constexpr double kPlayoffBand = 0.06;
/// How far behind the best a config may be that is proven for neighbours. The
/// extent changes by up to a factor of two within a bucket, and the order of
/// the configs with it.
static constexpr double kNeighbourBand = 0.25;

TuningSession::EntryList TuningSession::measuredEntries() const {
  EntryList measured;
  for (TuningCandidate *entry : tried)
    if (entry->isMeasured())
      measured.push_back(entry);
  return measured;
}

/// The fastest that is proven, null if none is. What would win and was not
/// compared with the reference so far is compared now. While none is proven,
/// the first comparison that there is no time for ends that: the reference is
/// the same for all.
llvm::Expected<TuningCandidate *>
TuningSession::chooseProven(Clock::time_point deadline) {
  for (;;) {
    EntryList measured = measuredEntries();
    llvm::erase_if(measured, [](const TuningCandidate *entry) {
      return entry->isSetAside && !entry->isProven();
    });
    if (measured.empty())
      return nullptr;
    TuningCandidate *best = chooseFastest(measured);
    if (best->isProven())
      return best;
    auto verdict = validate(*best, deadline);
    if (!verdict)
      return verdict.takeError();
    if (*verdict == TrialStatus::Timeout && bestNs <= 0)
      return nullptr;
  }
}

/// The proven that are so near the best that times of different batches do not
/// tell them apart, \p winner among them; none where it is alone.
TuningSession::EntryList
TuningSession::chooseFinalists(TuningCandidate &winner) const {
  std::vector<double> times;
  for (const TuningCandidate *entry : tried)
    times.push_back(entry->isProven() ? entry->trial.medianNs : 0);
  EntryList finalists;
  for (size_t i : findContenders(times, kPlayoffBand, options.playoff))
    finalists.push_back(tried[i]);
  if (finalists.size() < 2)
    return {};
  // It may have won by its rank.
  if (!llvm::is_contained(finalists, &winner))
    finalists.back() = &winner;
  return finalists;
}

/// Takes what a playoff of \p finalists says: those that it decides among. None
/// where it does not, because some came too late.
TuningSession::EntryList
TuningSession::takePlayoff(const EntryList &finalists,
                           llvm::MutableArrayRef<TrialResult> trials) {
  EntryList timed;
  std::vector<TrialResult *> times;
  std::vector<double> ratios;
  bool isLate = false;
  for (auto [i, entry] : llvm::enumerate(finalists)) {
    trials[i].config = entry->config;
    if (isConfigFault(trials[i].status)) {
      entry->trial = std::move(trials[i]);
      continue;
    }
    if (!isTimed(trials[i]) || trials[i].samples < TrialOptions().minSamples) {
      isLate = true;
      continue;
    }
    timed.push_back(entry);
    times.push_back(&trials[i]);
    ratios.push_back(entry->trial.medianNs / trials[i].medianNs);
  }
  if (isLate)
    return {};
  // All together keep their place among the rest.
  const double scale = geomean(ratios);
  for (auto [entry, time] : llvm::zip_equal(timed, times)) {
    scaleTimes(*time, scale);
    time->validated = true;
    time->maxErrorRatio = entry->trial.maxErrorRatio;
    entry->trial = std::move(*time);
  }
  return timed;
}

/// Measures what is near \p winner once more, all side by side with twice the
/// samples, which decides. The earlier order stands where there is no time for
/// that.
llvm::Expected<TuningCandidate *>
TuningSession::playOff(TuningCandidate &winner, Clock::time_point deadline) {
  const EntryList finalists = chooseFinalists(winner);
  const Clock::time_point now = Clock::now();
  if (finalists.empty() || runnerFailed || isCancelled() || now >= deadline)
    return &winner;
  TrialOptions trialOptions;
  trialOptions.mode = options.mode;
  trialOptions.validation = TrialValidation::None;
  trialOptions.minSamples *= 2;
  trialOptions.maxSamples *= 2;
  trialOptions.timeLimit =
      std::min(trialOptions.timeLimit,
               std::chrono::ceil<std::chrono::milliseconds>(deadline - now));
  auto results = runRequest(finalists, trialOptions, finalists.size());
  if (!results)
    return results.takeError();
  if (results->empty())
    return &winner;
  if (llvm::Error error = checkDevice(*results))
    return error;
  const EntryList timed = takePlayoff(finalists, *results);
  weighTrials();
  return timed.empty() ? chooseProven(deadline) : chooseFastest(timed);
}

/// Compares what is not far behind \p winner with the reference as well, while
/// there is time: at other extents of the bucket one of these may be the
/// fastest, and only what is proven is launched there.
llvm::Error TuningSession::proveContenders(const TuningCandidate &winner,
                                           Clock::time_point deadline) {
  for (TuningCandidate *entry : EntryList(tried)) {
    if (runnerFailed || isCancelled() || Clock::now() >= deadline)
      break;
    if (!entry->isMeasured() || entry->isProven() || entry->isSetAside ||
        entry->trial.medianNs > winner.trial.medianNs * (1 + kNeighbourBand))
      continue;
    if (auto verdict = validate(*entry, deadline); !verdict)
      return verdict.takeError();
  }
  return llvm::Error::success();
}

/// Whether trials were kept from running by what says nothing about configs.
/// That time was over is no such thing: a session has its budget.
bool TuningSession::isTruncated() const {
  return runnerFailed || llvm::any_of(tried, [](const TuningCandidate *entry) {
           return entry->trial.status == TrialStatus::NotTried ||
                  entry->trial.status == TrialStatus::Late;
         });
}

RecordPoint TuningSession::makePoint(const TuningCandidate *winner) const {
  const int64_t now = unixTimeMs();
  RecordPoint point;
  point.extent = dynamicExtentOf(family, problem);
  point.generation = generation;
  if (isTruncated()) {
    // Of two truncated sessions the first one's winner stays.
    point.generation -= tunesOn;
    point.truncated = tunesOn ? match.truncated + 1 : 1;
  }
  if (winner)
    point.winner = winner->config;
  for (const TuningCandidate *entry : tried) {
    // Lack of memory and of time say nothing about a config.
    if (!entry->isMeasured() && !entry->isAtFault())
      continue;
    Measurement measured;
    measured.config = entry->config;
    measured.mode = options.mode;
    measured.kernel = entry->kernel;
    measured.measuredAtMs = now;
    measured.setEstimate(entry->candidate.estimate);
    const TrialResult &trial = entry->trial;
    measured.valid = entry->isMeasured();
    measured.validated = entry->isProven();
    if (measured.valid) {
      measured.medianNs = trial.medianNs;
      measured.ciLowNs = trial.ciLowNs;
      measured.ciHighNs = trial.ciHighNs;
      measured.samples = trial.samples;
    } else {
      measured.reason =
          trial.message.empty()
              ? nameOf(trial.status).str()
              : fmt::format("{}: {}", nameOf(trial.status), trial.message);
    }
    point.measurements.push_back(std::move(measured));
  }
  return point;
}

/// Stores what was found; \p winner is null where nothing is right.
void TuningSession::storeRecord(const TuningCandidate *winner) {
  RecordStore::StoreResult stored = context.records.store(
      family, problem, context.deviceClass, makePoint(winner));
  result.recordStored = stored.publish.status == cache::PublishStatus::Stored;
  if (!stored.publish.reason.empty())
    result.notes.push_back(
        fmt::format("the record was not kept: {}", stored.publish.reason));
  const std::string &agreed = stored.point.winner;
  if (!winner || agreed.empty() || agreed == winner->config)
    return;
  const Measurement *measured = stored.point.find(agreed, options.mode);
  if (measured && measured->validated)
    adopt(*measured);
}

/// Takes the winner that somebody else stored first, so that all who share the
/// cache launch the same kernel. Keeps the own one if that cannot be.
void TuningSession::adopt(const Measurement &stored) {
  auto found = llvm::find_if(entries, [&](const auto &entry) {
    return entry->config == stored.config;
  });
  if (found == entries.end()) {
    auto named = family.parseConfig(stored.config);
    if (!named) {
      llvm::consumeError(named.takeError()); // of another version
      return;
    }
    if (named->tmpl->prune(problem, named->config, context.device))
      return;
    Candidate candidate;
    candidate.tmpl = named->tmpl;
    candidate.config = named->config;
    candidate.estimate =
        named->tmpl->estimate(problem, named->config, context.device);
    candidate.candidateClass = named->tmpl->classOf(problem, named->config);
    addEntry(std::move(candidate), static_cast<int>(result.candidates));
    found = std::prev(entries.end());
  }
  TuningCandidate &entry = **found;
  requestEntry(entry, compile_priority::kNow);
  entry.makePlan(problem, context.device);
  if (entry.isAtFault() || entry.kernel != stored.kernel ||
      !awaitEntry(entry) ||
      (entry.stage != Stage::Ready && entry.stage != Stage::Tried)) {
    result.notes.push_back(
        fmt::format("the recorded winner {} was not adopted", entry.config));
    return;
  }
  result.choice = entry.choice(ChoiceOrigin::Record);
  result.choice.validated = true;
  result.choice.measuredNs = stored.medianNs;
  result.choice.ciLowNs = stored.ciLowNs;
  result.choice.ciHighNs = stored.ciHighNs;
}

bool TuningSession::hasFoundWrong() const {
  return llvm::any_of(
      tried, [](const TuningCandidate *entry) { return entry->isWrong(); });
}

/// Whether the record says that nothing is right here, up to the generic
/// kernels as they are today. Trials would find the same.
bool TuningSession::isKnownHopeless() {
  if (!match.foundNoneRight || options.retune)
    return false;
  bool isKnown = false;
  for (auto &entry : entries) {
    if (!entry->isLastResort)
      continue;
    entry->makePlan(problem, context.device);
    if (!match.rejects(entry->config, entry->kernel))
      return false;
    entry->stage = Stage::Barred;
    isKnown = true;
  }
  return isKnown;
}

/// A choice without a proof: the fastest of what was measured, or else the
/// estimator's first one. Where trials, now or before, found wrong results and
/// none that are right there is no choice, since nothing tells which of the
/// rest are.
llvm::Error TuningSession::chooseUnproven() {
  if (hasFoundWrong())
    storeRecord(nullptr);
  if (needsProof())
    return noChoice();
  EntryList measured = measuredEntries();
  if (!measured.empty()) {
    result.choice = chooseFastest(measured)->choice(ChoiceOrigin::Measured);
    return llvm::Error::success();
  }
  TuningCandidate *entry = firstObtainable();
  if (!entry)
    return noChoice();
  result.choice = entry->choice(ChoiceOrigin::Estimated);
  return llvm::Error::success();
}

/// The first entry whose artifacts are here or can be had, null if there is
/// none. Where time has been spent already, what is here comes first.
TuningCandidate *TuningSession::firstObtainable() {
  auto isHere = [](TuningCandidate &entry) {
    entry.poll();
    return entry.stage == Stage::Ready ||
           (entry.stage == Stage::Tried && !entry.isAtFault() &&
            entry.trial.status != TrialStatus::Late); // it may never end
  };
  if (measures() || isCancelled())
    for (auto &entry : entries)
      if (isHere(*entry))
        return entry.get();
  for (auto &entry : entries) {
    if (isCancelled())
      return nullptr;
    requestEntry(*entry, compile_priority::kNow);
    if (awaitEntry(*entry) && isHere(*entry))
      return entry.get();
  }
  return nullptr;
}

llvm::Error TuningSession::noChoice() const {
  if (isCancelled())
    return makeError(ErrorCode::Cancelled,
                     "tuning of {} was cancelled before there was a choice",
                     problem.text());
  const TuningCandidate *failed = nullptr;
  std::string wrong;
  for (const auto &entry : entries) {
    if (entry->isAtFault() && wrong.empty())
      wrong = fmt::format("{} is {}: {}", entry->config,
                          nameOf(entry->trial.status), entry->trial.message);
    if (entry->stage == Stage::Barred && wrong.empty())
      wrong = fmt::format(
          "{} was found wrong, or could not be launched, by earlier trials",
          entry->config);
    if (entry->stage == Stage::Failed && !failed)
      failed = entry.get();
  }
  if (wrong.empty() && match.foundNoneRight)
    wrong = "earlier trials found wrong results and none that are right, and "
            "nothing was proven since";
  if (wrong.empty() && failed)
    return addContext(
        makeArtifactError(failed->failure,
                          failed->plan.kernels[failed->failedKernel]),
        problem.text());
  if (wrong.empty())
    wrong = "none could be tried to the end";
  return makeError(ErrorCode::NoCandidate,
                   "no kernel is known to compute {} correctly on {}: {}",
                   problem.text(), context.device.name, wrong);
}

} // namespace kiln
