//===- TuningTrials.cpp - which configs are tried, and until when ---------===//
//
// Trials follow the estimator's order in small batches, which begins with one
// config of each idea; beside the next of these a batch tries a relative of the
// best so far. (Replayed on the swept GEMMs of an H200, 12 trials reach 99.9 %
// of the exhaustive best so, and 99.4 % without.) A batch waits for its
// kernels a little and no longer: one that compiles for long goes into a later
// batch. Nothing is skipped before a few trials have shown how far off the
// predictions of this problem are.
//
//===----------------------------------------------------------------------===//
#include "Tune/TuningSession.h"

#include <llvm/ADT/STLExtras.h>

#include <thread>

namespace kiln {

/// How long a batch that has kernels waits for the rest: about a compilation.
static constexpr std::chrono::milliseconds kBatchGrace{250};
/// What a batch gets that begins just before the deadline.
static constexpr std::chrono::milliseconds kLeastTime{1};
/// What a comparison, or the trial of a generic kernel that has to be tried,
/// gets when the budget is spent.
static constexpr std::chrono::milliseconds kProofGrace{500};
/// How long after the deadline a reference may yet be computed as long as
/// nothing is proven: what is not proven is not recorded, so that each process
/// would tune again.
static constexpr std::chrono::milliseconds kMostProofTime{20000};

/// After how many trials the predictions' errors are known: the first few
/// differ in class, and so in what the model may have wrong about them.
static constexpr unsigned kEnoughRatios = 4;

/// The time until \p deadline, within [\p least, \p most].
static std::chrono::milliseconds timeUntil(TuningOptions::Clock::time_point end,
                                           std::chrono::milliseconds least,
                                           std::chrono::milliseconds most) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      end - TuningOptions::Clock::now());
  return std::clamp(left, least, most);
}

void TuningSession::Ratios::add(double ratio) {
  least = count == 0 ? ratio : std::min(least, ratio);
  sum += ratio;
  squares += ratio * ratio;
  ++count;
}

/// The luckiest ratio of measured to predicted that is to be reckoned with: the
/// least seen, or two standard deviations below the mean where that is less.
/// The first few are alike and so are their ratios, so no deviation counts that
/// is below the models' own: 4 % within the spaces of memory-bound problems and
/// 6 % within those of matrix products on an H200, where the least of the first
/// few left 3 % on the table.
double TuningSession::Ratios::optimistic() const {
  double mean = sum / count;
  double variance = squares / count - mean * mean;
  constexpr double kDeviations = 2, kModelDeviation = 0.06;
  double deviation =
      std::max(std::sqrt(std::max(variance, 0.0)), kModelDeviation * mean);
  return std::min(least, mean - kDeviations * deviation);
}

/// Whether even that would not make \p entry faster than the best by more than
/// the noise. Of a template that has not run twice the others' luck is no
/// measure: its estimates may be too high by a fifth.
bool TuningSession::isBeyondBound(const TuningCandidate &entry) const {
  constexpr unsigned kEnoughOfTemplate = 2;
  constexpr double kUnknown = 0.8;
  if (bestNs <= 0 || ratios.count < std::min(kEnoughRatios, options.maxTrials))
    return false;
  auto own = ratiosOf.find(entry.candidate.tmpl);
  bool isKnown =
      own != ratiosOf.end() && own->second.count >= kEnoughOfTemplate;
  double ratio = std::min(ratios.optimistic(),
                          isKnown ? own->second.optimistic() : kUnknown);
  return entry.candidate.estimate.totalNs * ratio >= bestNs * (1 - noise);
}

/// What is worth a trial, in the order in which it gets one: every batch has a
/// relative of the best, which shares what the model had wrong about that, as
/// long as there are; of batches of one every other is.
TuningSession::EntryList TuningSession::openEntries() const {
  EntryList relatives, ideas;
  for (auto &entry : entries) {
    if (!entry->isOpen() || entry->isReserve || isBeyondBound(*entry))
      continue;
    bool isRelative = best && entry->candidate.sharesClass(best->candidate);
    (isRelative ? relatives : ideas).push_back(entry.get());
  }
  const size_t stride = std::max(options.batch, 2u);
  EntryList open;
  auto relative = relatives.begin(), idea = ideas.begin();
  while (relative != relatives.end() || idea != ideas.end()) {
    const bool isTurn = (tried.size() + open.size()) % stride == 0;
    const bool takesRelative =
        relative != relatives.end() && (isTurn || idea == ideas.end());
    open.push_back(takesRelative ? *relative++ : *idea++);
  }
  return open;
}

std::optional<StopReason>
TuningSession::stopReason(const EntryList &open,
                          Clock::time_point deadline) const {
  if (open.empty()) {
    bool isSkipping = llvm::any_of(entries, [&](const auto &entry) {
      return entry->isOpen() && !entry->isReserve;
    });
    return isSkipping ? StopReason::Bound : StopReason::Exhausted;
  }
  if (tried.size() >= options.maxTrials)
    return StopReason::Trials;
  if (isCancelled())
    return StopReason::Cancelled;
  if (Clock::now() >= deadline)
    return StopReason::Budget;
  return std::nullopt;
}

/// Tries what is worth it until there is a reason to stop.
llvm::Error TuningSession::runTrials(Clock::time_point deadline) {
  while (!runnerFailed) {
    if (tried.size() < options.maxTrials)
      addRelatives();
    EntryList open = openEntries();
    if (auto reason = stopReason(open, deadline)) {
      result.stop = *reason;
      break;
    }
    compileAhead(firstPriority);
    EntryList batch = nextBatch(open, deadline);
    if (batch.empty())
      continue; // none compiled, or the next look finds why to stop
    if (llvm::Error error = runBatch(batch, deadline))
      return error;
  }
  return llvm::Error::success();
}

/// The entries of \p open that run next: the first ones, or, if these take long
/// to compile, those that are ready. Once a best is known only the last batch
/// waits with enough of these: what compiles gets its turn in a later one.
/// Empty when tuning should stop, or when nothing that was requested can be
/// had.
TuningSession::EntryList TuningSession::nextBatch(const EntryList &open,
                                                  Clock::time_point deadline) {
  const size_t wanted = std::min<size_t>(std::max(options.batch, 1u),
                                         options.maxTrials - tried.size());
  const bool isLast = tried.size() + wanted >= options.maxTrials;
  Clock::time_point graceEnd = Clock::time_point::max();
  for (;;) {
    EntryList ready;
    size_t alive = 0;
    bool isComplete = true;
    for (TuningCandidate *entry : open) {
      if (entry->stage == TuningCandidate::Stage::Idle)
        break; // nor is anything behind it requested
      const bool isDone = entry->poll();
      if (!entry->isOpen())
        continue;
      isComplete &= isDone || alive >= wanted;
      ++alive;
      if (isDone && ready.size() < wanted)
        ready.push_back(entry);
    }
    const Clock::time_point now = Clock::now();
    if (!ready.empty()) {
      const bool isEnough = best && !isLast && ready.size() >= wanted;
      if (isComplete || isEnough || now >= graceEnd)
        return ready;
      graceEnd = std::min(graceEnd, now + kBatchGrace);
    }
    if (alive == 0 || isCancelled() || now >= deadline)
      return {};
    std::this_thread::sleep_for(kPollInterval);
  }
}

/// Where nothing is proven: tries the generic kernels one by one, past the
/// limit of trials, until one is measured. Where only what is proven may be
/// taken, until one is proven, and although the budget may be spent. The first
/// that is proven, or null.
llvm::Expected<TuningCandidate *>
TuningSession::tryReserves(Clock::time_point deadline) {
  for (auto &entry : entries) {
    if (!entry->isLastResort || !entry->isOpen())
      continue;
    const bool isForced = needsProof();
    if (runnerFailed || isCancelled() ||
        (!isForced && (!measuredEntries().empty() || Clock::now() >= deadline)))
      break;
    requestEntry(*entry, compile_priority::kNow);
    if (!(isForced ? awaitEntry(*entry) : awaitEntry(*entry, deadline)))
      break;
    const Clock::time_point end =
        isForced ? std::max(deadline, Clock::now() + kProofGrace) : deadline;
    // Once more where what gave the scale of its times turned out to be faulty.
    while (entry->isOpen() && !runnerFailed)
      if (llvm::Error error = runBatch({entry.get()}, end))
        return error;
    auto proven = chooseProven(deadline);
    if (!proven || *proven)
      return proven;
  }
  return nullptr;
}

/// What runs in the next batch again: the reference, then the best so far. The
/// best may yet have to be proven.
TuningSession::EntryList TuningSession::carriedEntries() const {
  EntryList measured = measuredEntries();
  EntryList carried;
  if (reference)
    carried.push_back(reference);
  llvm::erase_if(
      measured, [](const TuningCandidate *entry) { return entry->isSetAside; });
  auto fastest = llvm::min_element(measured, [](const auto *a, const auto *b) {
    return a->trial.medianNs < b->trial.medianNs;
  });
  if (fastest != measured.end() && *fastest != reference)
    carried.push_back(*fastest);
  return carried;
}

/// Merges what the carried entries took now, the reference first; where it has
/// no time, the other, which is known beside it, takes its place. The scale of
/// the batch; 0: what was to give it is at fault now, so that the batch has to
/// run beside another.
double TuningSession::repeatCarried(const EntryList &carried,
                                    llvm::ArrayRef<TrialResult> trials) {
  double scale = 0;
  bool hasLost = false;
  for (auto [i, entry] : llvm::enumerate(carried)) {
    const TrialResult &again = trials[i];
    if (isTimed(again)) {
      if (scale == 0) {
        scale = entry->trial.medianNs / again.medianNs;
        reference = entry;
      }
      entry->repeats.repeat(entry->trial, again, scale);
    } else if (isConfigFault(again.status)) {
      entry->trial = again;
      entry->trial.config = entry->config;
      hasLost = true;
    }
    // Else it came too late: what is known of it still holds.
  }
  if (scale > 0)
    return scale;
  // Where nobody is to blame the batch was late, and its times are few if any.
  if (!hasLost)
    return 1;
  EntryList measured = measuredEntries();
  reference = measured.empty() ? nullptr : chooseFastest(measured);
  return 0;
}

void TuningSession::takeTrial(TuningCandidate &entry, TrialResult trial,
                              double scale) {
  scaleTimes(trial, scale);
  entry.trial = std::move(trial);
  entry.trial.config = entry.config;
  entry.repeats.begin(entry.trial);
  entry.stage = TuningCandidate::Stage::Tried;
  tried.push_back(&entry);
}

/// Tries \p batch, beside what is carried. Entries that could not be brought to
/// the scale of the others stay as they were.
llvm::Error TuningSession::runBatch(const EntryList &batch,
                                    Clock::time_point deadline) {
  TrialOptions trialOptions;
  trialOptions.mode = options.mode;
  trialOptions.timeLimit =
      timeUntil(deadline, kLeastTime, trialOptions.timeLimit);
  trialOptions.extraTime = proofTime(deadline);
  const EntryList carried = carriedEntries();
  EntryList all = carried;
  all.insert(all.end(), batch.begin(), batch.end());
  auto results = runRequest(all, trialOptions, carried.size());
  if (!results)
    return results.takeError();
  if (results->empty())
    return llvm::Error::success();
  llvm::Error deviceError = checkDevice(*results);
  double scale = 1;
  if (!carried.empty())
    scale = repeatCarried(carried, *results);
  else if (int first = chooseReference(*results); first >= 0)
    reference = batch[first];
  for (size_t i = 0; i < batch.size() && scale > 0; ++i)
    takeTrial(*batch[i], std::move((*results)[carried.size() + i]), scale);
  weighTrials();
  progress.trials = tried.size();
  if (options.progress)
    options.progress(progress);
  return deviceError;
}

/// Finds again what all trials say: those that ran again changed, too.
void TuningSession::weighTrials() {
  ratios = Ratios();
  ratiosOf.clear();
  best = nullptr;
  bestNs = 0;
  for (const TuningCandidate *entry : tried) {
    noteRatio(*entry);
    noteBest(*entry);
  }
}

/// What a time says of the predictions.
void TuningSession::noteRatio(const TuningCandidate &entry) {
  const double predictedNs = entry.candidate.estimate.totalNs;
  if (!entry.isMeasured() || predictedNs <= 0)
    return;
  const double ratio = entry.trial.medianNs / predictedNs;
  ratios.add(ratio);
  ratiosOf[entry.candidate.tmpl].add(ratio);
}

void TuningSession::noteBest(const TuningCandidate &entry) {
  const TrialResult &trial = entry.trial;
  if (!entry.isProven() || (bestNs > 0 && bestNs <= trial.medianNs))
    return;
  best = &entry;
  bestNs = trial.medianNs;
  noise = std::max(kTieBand, (trial.ciHighNs - trial.ciLowNs) / 2 / bestNs);
  progress.bestNs = bestNs;
  progress.bestConfig = entry.config;
}

/// How much longer than to \p deadline a comparison may wait for its reference.
std::chrono::milliseconds
TuningSession::proofTime(Clock::time_point deadline) const {
  constexpr std::chrono::milliseconds kNone{0};
  return bestNs > 0
             ? kNone
             : timeUntil(deadline + kMostProofTime, kNone, kMostProofTime);
}

/// Compares a measured entry with the reference. Afterwards it is proven, at
/// fault, or set aside. The verdict; NotTried if there was no comparison.
llvm::Expected<TrialStatus>
TuningSession::validate(TuningCandidate &entry, Clock::time_point deadline) {
  entry.isSetAside = true;
  const bool isLate = Clock::now() >= deadline;
  if (runnerFailed || isCancelled() || (isLate && bestNs > 0))
    return TrialStatus::NotTried;
  TrialOptions trialOptions;
  trialOptions.mode = options.mode;
  trialOptions.measure = false;
  trialOptions.validation = TrialValidation::All;
  trialOptions.timeLimit =
      timeUntil(deadline, kProofGrace, trialOptions.timeLimit);
  trialOptions.extraTime = proofTime(deadline);
  auto results = runRequest({&entry}, trialOptions);
  if (!results)
    return results.takeError();
  if (results->empty())
    return TrialStatus::NotTried;
  const TrialResult &verdict = results->front();
  entry.trial.validated = verdict.validated;
  entry.trial.maxErrorRatio = verdict.maxErrorRatio;
  entry.trial.message = verdict.message;
  if (isConfigFault(verdict.status))
    entry.trial.status = verdict.status;
  entry.isSetAside = !verdict.validated;
  weighTrials();
  if (llvm::Error error = checkDevice(*results))
    return error;
  return verdict.status;
}

/// Runs \p batch, whose first \p kept entries others are held against: a result
/// for each, or none where the runner cannot do it for a reason that is no
/// candidate's. Errors: ContextDead.
llvm::Expected<std::vector<TrialResult>>
TuningSession::runRequest(const EntryList &batch,
                          const TrialOptions &trialOptions, size_t kept) {
  TrialRequest request;
  request.family = &family;
  request.problem = problem;
  request.options = trialOptions;
  for (const TuningCandidate *entry : batch)
    request.candidates.push_back({entry->plan, entry->artifacts, entry->loaded,
                                  entry->isProven(),
                                  request.candidates.size() < kept});
  auto results = context.runner->run(request, options.cancel);
  if (results && results->size() == batch.size()) {
    for (auto [entry, result] : llvm::zip_equal(batch, *results))
      entry->loaded = std::move(result.loaded);
    return results;
  }
  ErrorSummary error{ErrorCode::Internal, "a result is missing"};
  if (!results)
    error = summarize(results.takeError());
  if (error.code == ErrorCode::ContextDead || !context.runner->isAlive()) {
    result.stop = StopReason::Device;
    return makeError(ErrorCode::ContextDead, "the device died tuning {}: {}",
                     problem.text(), error.message);
  }
  runnerFailed = true;
  result.notes.push_back(
      fmt::format("nothing more was measured: {}", error.message));
  return std::vector<TrialResult>{};
}

llvm::Error TuningSession::checkDevice(llvm::ArrayRef<TrialResult> results) {
  const TrialResult *dead = llvm::find_if(results, [](const TrialResult &r) {
    return r.status == TrialStatus::ContextDead;
  });
  if (dead == results.end() && context.runner->isAlive())
    return llvm::Error::success();
  result.stop = StopReason::Device;
  if (dead != results.end())
    return makeError(ErrorCode::ContextDead,
                     "the device died tuning {}: {}: {}", problem.text(),
                     dead->config, dead->message);
  return makeError(ErrorCode::ContextDead, "the device hung tuning {}",
                   problem.text());
}

} // namespace kiln
