//===- AcquisitionTrials.cpp - the step that measures ---------------------===//
#include "Runtime/Acquisition.h"

#include "Runtime/Background.h"
#include "Tune/Tuner.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kiln {

/// Fails if trials found wrong results: another thread has to find a right
/// kernel before a launch.
void Acquisition::refuseUnproven() {
  if (chooser.foundNoneRight())
    fatal = {
        ErrorCode::NoCandidate,
        fmt::format("no kernel is known to compute {} correctly on {}: trials "
                    "found wrong results, and another thread works on it",
                    request.problem.text(), context.model.name),
        0};
}

/// The step ChoiceStep::Trials. A launch measures its layer, or resumes that.
void Acquisition::takeTrials() {
  if (!trialsAhead)
    return refuseUnproven();
  if (options.preferTrials || options.retune)
    return measureValue();
  // Another thread may have found all of it wrong since it was asked for.
  const auto begun = resumesLayer() ? chooser.portfolio() : nullptr;
  const bool isBegun = begun != nullptr;
  std::optional<ProblemRange> layer =
      isBegun ? begun->range() : chooser.layer();
  if (!layer)
    return measureValue();
  if (isBegun || mayMeasure(*layer))
    measureLayer(*layer);
  // Whatever the result, the earlier portfolio is there.
  if (std::exchange(resumes, false).value_or(false) && !isOver()) {
    trialsAhead = false;
    take(ChoiceStep::Stored);
  }
}

void Acquisition::measureValue() {
  const Clock::time_point start = Clock::now();
  const uint64_t before = options.trials ? options.trials->load() : 0;
  if (state)
    *state = KILN_STATE_TUNING;
  std::optional<TuningOutcome> outcome = measure(start + options.budget);
  if (state)
    *state = KILN_STATE_COMPILING;
  if (!outcome)
    return;
  trialsAhead = false;
  engine.counts().tuneNs.fetch_add(nsSince(start), std::memory_order_relaxed);
  report(outcome->result);
  if (options.trials)
    options.trials->store(before + outcome->result.trials.size());
  const ErrorSummary &error = outcome->error;
  complete = outcome->result.stop != StopReason::Cancelled;
  if (error.code == ErrorCode::NoCandidate) {
    // No kernel is right, and an untried one would be launched unproven.
    engine.hooks().log().warning("{}", error.message);
    engine.plans().drop(
        {&request.family, context.id, request.problem.values.array()});
    fatal = error;
    return;
  }
  const bool isTuned = error.code == ErrorCode::Success;
  // A record of other trials is better than a guess.
  if (isTuned && !outcome->result.choice.validated)
    takeRecordInstead();
  if (isOver())
    return;
  if (isTuned)
    takeTuned(outcome->result.choice);
  else
    fail(errorOf(error));
  if (isOver())
    return;
  chooser.recordNow();
  // The winner could not be loaded, so the next best is taken.
  if (isTuned)
    takeMeasured();
}

/// Takes a record that was passed over for trials that proved nothing.
void Acquisition::takeRecordInstead() {
  trialsAhead = false;
  chooser.recordNow();
  takeMeasured();
}

/// Waits for the thread's turn and tunes until \p deadline. nullopt if other
/// threads measured a plan that serves here, meanwhile or, if there can be no
/// trials, before.
std::optional<TuningOutcome> Acquisition::measure(Clock::time_point deadline) {
  TuningOptions tuning = tuningOptions();
  // Waiting for others' trials is part of the budget. Without a turn there are
  // no trials, and the estimator chooses.
  ContextState::TuningTurn turn(context, deadline, options.cancel);
  if (turn.hasWaited() && !options.retune) {
    chooser.recordNow();
    takeSteps(/*onlyStored=*/true);
    if (isOver())
      return std::nullopt;
  }
  InProcessTrials *runner =
      turn.isGranted() ? turn.trials([&] { return makeTrials(); }) : nullptr;
  if (!runner) {
    takeRecordInstead();
    if (isOver())
      return std::nullopt;
  }
  tuning.budget = std::chrono::ceil<std::chrono::milliseconds>(
      std::max(deadline - Clock::now(), Clock::duration::zero()));
  Tuner tuner(context.model, *services.artifacts, *services.records, runner);
  TuningOutcome outcome = tuner.attempt(request.family, request.problem, tuning,
                                        chooser.recordNow());
  if (runner) {
    runner->releaseScratch();
    const bool isBusy = runner->isBusy();
    keepWinner(outcome.result.choice, isBusy);
    if (isBusy)
      context.noteLateTrials();
  }
  return outcome;
}

/// Keeps the code of the winner and drops the other code that trials loaded for
/// it. That waits for all kernels of the context, so it comes before the turn
/// ends and other threads make trials. With \p isBusy nothing is dropped, since
/// that would wait for a late launch.
void Acquisition::keepWinner(TuningChoice &choice, bool isBusy) {
  keepCode(choice.loaded, isBusy);
}

void Acquisition::keepCode(std::shared_ptr<const LoadedPlan> &loaded,
                           bool isBusy) {
  if (!loaded)
    return;
  engine.kernelLoader().adopt(*loaded);
  if (isBusy)
    keepForever(std::move(loaded));
  loaded.reset();
}

std::unique_ptr<InProcessTrials> Acquisition::makeTrials() {
  InProcessTrialsOptions trialOptions;
  trialOptions.scratchBytes = engine.config().scratchLimit;
  trialOptions.hangLimit = engine.config().trialTimeout;
  trialOptions.scratch = engine.memory().scratch;
  trialOptions.modules = engine.memory().modules;
  if (Background *background = engine.background()) {
    trialOptions.pace = &background->pace();
    trialOptions.loader = &engine.kernelLoader();
  }
  auto made =
      InProcessTrials::create(*llvm::cantFail(engine.driver()), context.model,
                              *services.artifacts, trialOptions);
  if (made)
    return std::move(*made);
  engine.hooks().log().warning("no trials: {}",
                               summarize(made.takeError()).message);
  return nullptr;
}

TuningOptions Acquisition::tuningOptions() {
  TuningOptions tuning;
  tuning.allowance = chooser.allowance();
  tuning.retune = options.retune;
  tuning.cancel = options.cancel;
  tuning.progress = [this, before = options.trials
                                        ? options.trials->load()
                                        : 0](const TuningProgress &progress) {
    countTrials(progress.trials);
    if (!options.trials)
      return;
    uint64_t now = before + progress.trials;
    if (options.trials->exchange(now) != now && options.progressed)
      options.progressed();
  };
  return tuning;
}

void Acquisition::report(const TuningResult &result) {
  countTrials(result.trials.size());
  for (const TuningTrial &trial : result.trials) {
    countFailure(trial);
    report(trial);
  }
  for (const std::string &note : result.notes)
    engine.hooks().log().info("{}: {}", request.problem.text(), note);
}

/// Notes that \p tried configs of a single value were tried so far.
void Acquisition::countTrials(size_t tried) {
  if (tried <= trialsCounted)
    return;
  engine.counts().trials.fetch_add(tried - trialsCounted,
                                   std::memory_order_relaxed);
  trialsCounted = tried;
}

void Acquisition::countTrial(const TuningTrial &trial) const {
  engine.counts().trials.fetch_add(1, std::memory_order_relaxed);
  countFailure(trial);
}

void Acquisition::countFailure(const TuningTrial &trial) const {
  const bool ok = trial.result.status == TrialStatus::Ok;
  engine.counts().trialFailures.fetch_add(!ok, std::memory_order_relaxed);
}

void Acquisition::report(const TuningTrial &trial) {
  if (!engine.hooks().hasEvents())
    return;
  const bool ok = trial.result.status == TrialStatus::Ok;
  EventInfo info = event(KILN_EVENT_TRIAL);
  info.config = trial.result.config;
  info.message = trial.result.message;
  info.status = ok ? ErrorCode::Success : ErrorCode::NoCandidate;
  info.predictedNs = trial.predictedNs;
  info.measuredNs = trial.result.medianNs;
  engine.hooks().emit(info);
}

/// Takes the winner, with the code that trials loaded.
void Acquisition::takeTuned(const TuningChoice &tuned) {
  Choice choice;
  choice.tmpl = tuned.candidate.tmpl;
  choice.config = tuned.candidate.config;
  // A time without a comparison with the reference is no better than a guess.
  choice.source = tuned.validated ? KILN_SOURCE_RECORD : KILN_SOURCE_ESTIMATE;
  choice.isFallback = !tuned.validated;
  choice.predictedNs = tuned.candidate.estimate.totalNs;
  choice.measuredNs = tuned.measuredNs;
  choice.trialed = &tuned;
  load(choice, Effort::Compiled);
}

} // namespace kiln
