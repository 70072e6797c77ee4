//===- TuningSession.cpp - the tuning of one problem ----------------------===//
#include "Tune/TuningSession.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSet.h>

#include <thread>

namespace kiln {

namespace {
/// A config that a record knows, with what the model says of it here.
struct Seed {
  Candidate candidate;
  int rank = 0;
  /// The estimate, scaled by how far it was off where the config was measured.
  double forecastNs = 0;
};
} // namespace

/// The configs of \p match that may run, the one that should be fastest here
/// first.
static std::vector<Seed> seedsOf(const RecordMatch &match,
                                 const Problem &problem,
                                 const DeviceModel &device,
                                 llvm::ArrayRef<Candidate> ranked) {
  std::vector<Seed> seeds;
  for (const RecordedConfig &known : match.configs) {
    if (known.tmpl->prune(problem, known.config, device))
      continue;
    const Candidate *found = llvm::find_if(ranked, [&](const Candidate &c) {
      return c.tmpl == known.tmpl && c.config == known.config;
    });
    Seed seed;
    seed.rank = static_cast<int>(found - ranked.begin());
    if (found != ranked.end()) {
      seed.candidate = *found;
    } else {
      // Of another extent's space: behind all others where ranks decide.
      seed.candidate.tmpl = known.tmpl;
      seed.candidate.config = known.config;
      seed.candidate.estimate =
          known.tmpl->estimate(problem, known.config, device);
      seed.candidate.candidateClass =
          known.tmpl->classOf(problem, known.config);
    }
    const Measurement &measured = *known.measurement;
    double ratio =
        measured.predictedNs > 0 ? measured.medianNs / measured.predictedNs : 1;
    seed.forecastNs = seed.candidate.estimate.totalNs * ratio;
    seeds.push_back(std::move(seed));
  }
  llvm::stable_sort(seeds, [](const Seed &a, const Seed &b) {
    return a.forecastNs < b.forecastNs;
  });
  return seeds;
}

static double millisecondsSince(TuningOptions::Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(TuningOptions::Clock::now() -
                                                   start)
      .count();
}

void TuningSession::begin(int64_t priority) {
  const Clock::time_point start = Clock::now();
  firstPriority = priority;
  findWork(priority);
  result.elapsedMs = millisecondsSince(start);
}

void TuningSession::findWork(int64_t priority) {
  isEmpty = family.isEmpty(problem);
  if (isEmpty)
    return;
  // What another process stored a moment ago spares the trials.
  context.records.load(family, problem, context.deviceClass);
  match =
      context.records.find(family, problem, context.deviceClass, options.mode);
  if (!options.retune && takeRecord()) {
    recorded->request(context.artifacts, priority);
    tunesOn = match.isIncomplete && measures();
    if (!tunesOn)
      return;
  }
  beginError = summarize(explore());
  for (auto &entry : entries) {
    requestEntry(*entry, priority);
    if (entry->stage != TuningCandidate::Stage::Barred)
      break;
  }
}

/// Whether the record answers: measured at this very extent, with the kernel
/// that its config has today.
bool TuningSession::takeRecord() {
  if (match.kind != RecordMatchKind::Exact)
    return false;
  const RecordedConfig &winner = match.configs.front();
  if (winner.tmpl->prune(problem, winner.config, context.device))
    return false;
  Candidate candidate;
  candidate.tmpl = winner.tmpl;
  candidate.config = winner.config;
  candidate.estimate =
      winner.tmpl->estimate(problem, winner.config, context.device);
  candidate.candidateClass = winner.tmpl->classOf(problem, winner.config);
  auto answer = std::make_unique<TuningCandidate>(std::move(candidate), 0);
  answer->makePlan(problem, context.device);
  if (answer->kernel != winner.measurement->kernel)
    return false;
  recorded = std::move(answer);
  return true;
}

/// Ranks the space and fills the entries.
llvm::Error TuningSession::explore() {
  auto space =
      exploreSpace(family, problem, context.device, {.model = options.model});
  if (!space)
    return space.takeError();
  const std::vector<Candidate> &ranked = space->ranked;
  result.candidates = ranked.size();

  std::vector<Seed> seeds = seedsOf(match, problem, context.device, ranked);
  seeds.resize(std::min<size_t>(seeds.size(), std::max(options.batch, 1u)));
  for (Seed &seed : seeds)
    addEntry(std::move(seed.candidate), seed.rank);
  for (size_t i = 0; i < ranked.size() && i < std::max(options.top, 1u); ++i)
    addEntry(ranked[i], static_cast<int>(i));
  llvm::StringSet<> generic;
  for (size_t i = 0; i < ranked.size(); ++i)
    if (ranked[i].tmpl->isGeneric() &&
        generic.insert(ranked[i].tmpl->name()).second)
      addEntry(ranked[i], static_cast<int>(i), /*isReserve=*/true);

  // A point that is measured again gets a new generation, or its old winner
  // would stay. The number is taken now: who began with the same one and stores
  // first wins, and the others adopt.
  auto record = context.records.load(family, problem, context.deviceClass);
  if (const RecordPoint *point =
          record->find(dynamicExtentOf(family, problem))) {
    const bool isRenewed =
        options.retune || match.kind == RecordMatchKind::Exact;
    generation =
        std::min(point->generation + (isRenewed ? 1 : 0), kMaxGeneration);
  }
  return llvm::Error::success();
}

void TuningSession::addEntry(Candidate candidate, int rank, bool isReserve) {
  for (const auto &entry : entries)
    if (entry->candidate.tmpl == candidate.tmpl &&
        entry->candidate.config == candidate.config) {
      entry->isReserve &= isReserve;
      entry->isLastResort |= isReserve;
      return;
    }
  entries.push_back(
      std::make_unique<TuningCandidate>(std::move(candidate), rank));
  entries.back()->isReserve = isReserve;
  entries.back()->isLastResort = isReserve;
}

/// Adds what varies the idea of the best, wherever it ranks. The space is
/// explored again, which takes a fraction of a millisecond: kept, those of many
/// problems would fill the memory.
void TuningSession::addRelatives() {
  if (!best || (kin && kin->candidate.sharesClass(best->candidate)))
    return;
  kin = best;
  auto space =
      exploreSpace(family, problem, context.device, {.model = options.model});
  if (!space)
    return llvm::consumeError(space.takeError()); // it could be explored before
  for (auto [i, candidate] : llvm::enumerate(space->ranked))
    if (candidate.sharesClass(best->candidate))
      addEntry(std::move(candidate), static_cast<int>(i));
}

void TuningSession::requestEntry(TuningCandidate &entry, int64_t priority) {
  if (!entry.isOpen())
    return;
  entry.makePlan(problem, context.device);
  if (!options.retune && match.rejects(entry.config, entry.kernel))
    entry.stage = TuningCandidate::Stage::Barred;
  else
    entry.request(context.artifacts, priority);
}

bool TuningSession::needsTrials() const {
  return !isEmpty && (!recorded || tunesOn) && !entries.empty() && measures();
}

double TuningSession::predictedNs() const {
  return needsTrials() ? entries.front()->candidate.estimate.totalNs : 0;
}

void TuningSession::awaitFirst(size_t count, Clock::time_point until) {
  if (!needsTrials())
    return;
  for (size_t i = 0; i < std::min(count, entries.size()); ++i)
    if (entries[i]->stage == TuningCandidate::Stage::Compiling &&
        !awaitEntry(*entries[i], until))
      return;
}

void TuningSession::compileAhead(int64_t priority) {
  firstPriority = priority;
  if (!needsTrials())
    return;
  size_t wanted =
      options.maxTrials - std::min<size_t>(tried.size(), options.maxTrials);
  // Relatives of a best that is not known yet take a place in all batches but
  // the first.
  if (!best && options.batch > 1 && wanted > 0)
    wanted -= (wanted - 1) / options.batch;
  for (auto [i, entry] : llvm::enumerate(openEntries())) {
    if (wanted == 0)
      break;
    if (entry->stage == TuningCandidate::Stage::Idle)
      requestEntry(*entry, priority + static_cast<int64_t>(i));
    wanted -= entry->isOpen();
  }
}

/// Waits until \p entry is no longer under way; false when it still is at
/// \p until or when tuning was cancelled.
bool TuningSession::awaitEntry(TuningCandidate &entry,
                               Clock::time_point until) {
  while (!entry.poll()) {
    if (isCancelled() || Clock::now() >= until)
      return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

/// As above for as long as the compilation takes. What takes longer than any
/// honest one is left to the compile pool, which gives up on it.
bool TuningSession::awaitEntry(TuningCandidate &entry) {
  constexpr std::chrono::seconds kPatience{30};
  if (awaitEntry(entry, Clock::now() + kPatience))
    return true;
  return !isCancelled() && entry.wait(options.cancel);
}

bool TuningSession::answerFromRecord() {
  if (!awaitEntry(*recorded))
    return false;
  if (recorded->stage != TuningCandidate::Stage::Ready) {
    result.notes.push_back(fmt::format("the recorded {} cannot be had: {}",
                                       recorded->config,
                                       recorded->failure.error.message));
    return false;
  }
  const Measurement &measured = *match.configs.front().measurement;
  result.choice = recorded->choice(ChoiceOrigin::Record);
  result.choice.validated = true;
  result.choice.measuredNs = measured.medianNs;
  result.choice.ciLowNs = measured.ciLowNs;
  result.choice.ciHighNs = measured.ciHighNs;
  return true;
}

/// Whether the record answers after trials that proved nothing.
bool TuningSession::mayFallBack() const {
  return recorded && llvm::none_of(tried, [&](const TuningCandidate *entry) {
           return entry->isAtFault() && entry->config == recorded->config;
         });
}

llvm::Error TuningSession::finish(Clock::time_point deadline,
                                  TuningProgress known) {
  const Clock::time_point start = Clock::now();
  progress = std::move(known);
  llvm::Error error = conclude(deadline);
  summarizeTrials();
  result.elapsedMs += millisecondsSince(start);
  return error;
}

llvm::Error TuningSession::conclude(Clock::time_point deadline) {
  if (isEmpty) {
    result.choice.origin = ChoiceOrigin::Empty;
    return llvm::Error::success();
  }
  if (recorded && !tunesOn) {
    if (answerFromRecord()) {
      result.stop = StopReason::Recorded;
      return llvm::Error::success();
    }
    recorded.reset();
    beginError = summarize(explore());
  }
  if (beginError.code != ErrorCode::Success)
    return makeError(beginError.code, "{}", beginError.message);
  if (isKnownHopeless())
    return noChoice();
  if (!measures()) {
    result.stop = StopReason::Trials;
    return chooseUnproven();
  }
  if (llvm::Error error = runTrials(deadline))
    return error;
  auto winner = chooseProven(deadline);
  if (winner && !*winner)
    winner = tryReserves(deadline);
  if (winner && *winner)
    winner = playOff(**winner, deadline);
  if (!winner)
    return winner.takeError();
  if (!*winner && mayFallBack() && answerFromRecord())
    return llvm::Error::success();
  if (!*winner)
    return chooseUnproven();
  result.choice = (*winner)->choice(ChoiceOrigin::Measured);
  llvm::Error error = proveContenders(**winner, deadline);
  if (!error)
    storeRecord(*winner);
  return error;
}

void TuningSession::summarizeTrials() {
  for (const TuningCandidate *entry : tried) {
    const Estimate &estimate = entry->candidate.estimate;
    result.trials.push_back(
        {entry->trial, estimate.totalNs, estimate.bound.str(), entry->rank});
    result.rejected += entry->isAtFault();
  }
  for (const auto &entry : entries) {
    result.skippedByBound +=
        entry->isOpen() && !entry->isReserve && isBeyondBound(*entry);
    if (entry->stage != TuningCandidate::Stage::Failed)
      continue;
    ++result.failedCompiles;
    result.notes.push_back(
        fmt::format("{}: {}", entry->config, entry->failure.error.message));
  }
}

} // namespace kiln
