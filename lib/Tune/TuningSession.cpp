//===- TuningSession.cpp - the tuning of one problem ----------------------===//
#include "Tune/TuningSession.h"

#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

using Stage = TuningCandidate::Stage;

TuningSession::TuningSession(const TuningContext &context,
                             const KernelFamily &family, const Problem &problem,
                             const TuningOptions &options,
                             std::optional<RecordMatch> known)
    : task{context, family, problem, options, {}}, known(std::move(known)),
      candidates(task), series(context.runner, family, problem,
                               {.verdicts = &context.records.verdicts(),
                                .deviceClass = context.deviceClass,
                                .withdrawsVerdicts = options.retune,
                                .mode = options.mode,
                                .cancel = options.cancel,
                                .loadedBand = kNeighbourBand}),
      choice(task, series), trials(task, candidates, series, choice),
      recorder(task, candidates, series), unproven(task, candidates, series) {}

static double millisecondsSince(TuningOptions::Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(TuningOptions::Clock::now() -
                                                   start)
      .count();
}

//===----------------------------------------------------------------------===//
// The work to do
//===----------------------------------------------------------------------===//

void TuningSession::begin(int64_t priority) {
  const Clock::time_point start = Clock::now();
  findWork(priority);
  result.elapsedMs = millisecondsSince(start);
}

void TuningSession::findWork(int64_t priority) {
  isEmpty = task.family.isEmpty(task.problem);
  if (isEmpty)
    return;
  // A record that another process stored a moment ago spares the trials.
  task.match = known ? std::move(*known)
                     : task.context.records.find(
                           task.family, task.problem, task.context.deviceClass,
                           task.options.mode, RecordAge::Now);
  task.keepsWinner = isWinnerForOthers();
  if (!task.options.retune && takeRecord()) {
    recorded->request(task.context.artifacts, priority);
    task.tunesOn = task.measures() && hasMoreToTry();
    if (!task.tunesOn)
      return;
  }
  beginError = summarize(explore());
  for (auto &entry : candidates.entries()) {
    candidates.request(*entry, priority);
    if (entry->stage != Stage::Barred)
      break;
  }
}

/// Whether the record's winner has today's kernel and needs more than the
/// caller allows.
bool TuningSession::isWinnerForOthers() const {
  if (task.match.kind != RecordMatchKind::Exact)
    return false;
  const DeviceModel &device = task.context.device;
  const RecordedConfig &winner = task.match.validated().front();
  return !winner.tmpl->prune(task.problem, winner.config, device) &&
         winner.tmpl->exceeds(task.options.allowance, task.problem,
                              winner.config, device) &&
         kernelDigest(winner.tmpl->plan(task.problem, winner.config, device)) ==
             winner.measurement->kernel;
}

/// Whether a config that the caller allows may yet beat the record's answer. A
/// winner for others stays in any case, so no search is made for that.
bool TuningSession::hasMoreToTry() const {
  return task.match.isIncomplete ||
         (!task.keepsWinner &&
          task.match.leavesOut(task.family, task.problem, task.context.device,
                               task.options.allowance));
}

/// Takes the record's answer: a config measured at this very extent, with the
/// kernel that it has today. If the winner needs more than the caller allows,
/// the next best proven one answers.
bool TuningSession::takeRecord() {
  if (task.match.kind != RecordMatchKind::Exact)
    return false;
  const DeviceModel &device = task.context.device;
  for (const RecordedConfig &known : task.match.validated()) {
    if (known.tmpl->prune(task.problem, known.config, device))
      return false;
    if (known.tmpl->exceeds(task.options.allowance, task.problem, known.config,
                            device))
      continue;
    auto answer = std::make_unique<TuningCandidate>(
        makeCandidate(task, *known.tmpl, known.config), 0);
    answer->makePlan(task.problem, device);
    if (answer->kernel != known.measurement->kernel)
      return false;
    if (task.isWrong(answer->kernel))
      continue;
    recorded = std::move(answer);
    recordedTime = known.measurement;
    return true;
  }
  return false;
}

llvm::Error TuningSession::explore() {
  llvm::Error error = candidates.explore();
  result.candidates = candidates.spaceSize();
  return error;
}

bool TuningSession::needsTrials() const {
  return !isEmpty && (!recorded || task.tunesOn) &&
         !candidates.entries().empty() && task.measures();
}

double TuningSession::predictedNs() const {
  return needsTrials()
             ? candidates.entries().front()->candidate.estimate.totalNs
             : 0;
}

void TuningSession::awaitFirst(size_t count, Clock::time_point until) {
  if (!needsTrials())
    return;
  const CandidateList::Entries &entries = candidates.entries();
  for (size_t i = 0; i < std::min(count, entries.size()); ++i)
    if (entries[i]->stage == Stage::Compiling &&
        !candidates.await(*entries[i], until))
      return;
}

void TuningSession::compileAhead(int64_t priority) {
  if (needsTrials())
    trials.compileAhead(priority);
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

llvm::Error TuningSession::finish(Clock::time_point deadline,
                                  TuningProgress progress) {
  const Clock::time_point start = Clock::now();
  ErrorSummary error = summarize(conclude(deadline, std::move(progress)));
  if (error.code == ErrorCode::ContextDead)
    result.stop = StopReason::Device;
  summarizeTrials();
  result.elapsedMs += millisecondsSince(start);
  return error.code == ErrorCode::Success ? llvm::Error::success()
                                          : errorOf(error);
}

llvm::Error TuningSession::conclude(Clock::time_point deadline,
                                    TuningProgress progress) {
  if (isEmpty) {
    result.choice.origin = ChoiceOrigin::Empty;
    return llvm::Error::success();
  }
  if (recorded && !task.tunesOn) {
    if (answerFromRecord()) {
      result.stop = StopReason::Recorded;
      return llvm::Error::success();
    }
    recorded.reset();
    beginError = summarize(explore());
  }
  if (beginError.code != ErrorCode::Success)
    return errorOf(beginError);
  if (unproven.isKnownHopeless())
    return unproven.explain();
  if (task.measures())
    return measure(deadline, std::move(progress));
  result.stop = StopReason::Trials;
  return chooseUnproven();
}

llvm::Error TuningSession::measure(Clock::time_point deadline,
                                   TuningProgress progress) {
  auto stop = trials.run(deadline, std::move(progress));
  if (!stop)
    return stop.takeError();
  result.stop = *stop;
  auto winner = choice.choose(deadline);
  if (winner && !*winner)
    winner = trials.tryReserves(deadline);
  if (winner && *winner)
    winner = choice.playOff(**winner, deadline);
  if (!winner)
    return winner.takeError();
  if (!*winner && mayFallBack() && answerFromRecord())
    return llvm::Error::success();
  if (!*winner)
    return chooseUnproven();
  result.choice = (*winner)->choice(ChoiceOrigin::Measured);
  llvm::Error error = choice.proveContenders(**winner, deadline);
  if (!error)
    recorder.store(*winner, result);
  return error;
}

bool TuningSession::answerFromRecord() {
  if (!candidates.await(*recorded))
    return false;
  if (recorded->stage != Stage::Ready) {
    result.notes.push_back(fmt::format("the recorded {} cannot be had: {}",
                                       recorded->config,
                                       recorded->failure.error.message));
    return false;
  }
  result.choice = recorded->choice(ChoiceOrigin::Record);
  result.choice.take(*recordedTime);
  return true;
}

/// Whether the record answers after trials that proved nothing.
bool TuningSession::mayFallBack() const {
  return recorded &&
         llvm::none_of(series.tried(), [&](const TuningCandidate *entry) {
           return entry->isAtFault() && entry->config == recorded->config;
         });
}

/// Makes a choice without a proof, if there may be one. Wrong configs are
/// recorded.
llvm::Error TuningSession::chooseUnproven() {
  if (series.hasFoundWrong())
    recorder.store(nullptr, result);
  auto chosen = unproven.choose(choice.needsProof());
  if (!chosen)
    return chosen.takeError();
  result.choice = std::move(*chosen);
  return llvm::Error::success();
}

void TuningSession::summarizeTrials() {
  if (series.failure().code != ErrorCode::Success)
    result.notes.push_back(
        fmt::format("nothing more was measured: {}", series.failure().message));
  for (const TuningCandidate *entry : series.tried()) {
    const Estimate &estimate = entry->candidate.estimate;
    result.trials.push_back(
        {entry->trial, estimate.totalNs, estimate.bound.str(), entry->rank});
    result.rejected += entry->isAtFault();
  }
  result.skippedByBound = candidates.skippedByBound(series);
  for (const auto &entry : candidates.entries()) {
    if (entry->stage != Stage::Failed)
      continue;
    ++result.failedCompiles;
    result.notes.push_back(
        fmt::format("{}: {}", entry->config, entry->failure.error.message));
  }
}

} // namespace kiln
