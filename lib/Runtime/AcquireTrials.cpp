//===- AcquireTrials.cpp - a problem's plan from trials -------------------===//
#include "Runtime/Acquisition.h"

#include "Tune/Tuner.h"

#include <algorithm>
#include <optional>

namespace kiln {

std::unique_ptr<InProcessTrials> Engine::Acquisition::makeTrials() {
  InProcessTrialsOptions trialOptions;
  trialOptions.scratchBytes = engine.options.scratchLimit;
  trialOptions.hangLimit = engine.options.trialTimeout;
  auto made = InProcessTrials::create(*engine.loadedDriver, context.model,
                                      *services.artifacts, trialOptions);
  if (made)
    return std::move(*made);
  engine.hooks().log().warning("no trials: {}",
                               summarize(made.takeError()).message);
  return nullptr;
}

void Engine::Acquisition::report(const TuningResult &result) {
  for (const TuningTrial &trial : result.trials) {
    bool ok = trial.result.status == TrialStatus::Ok;
    engine.trials.fetch_add(1, std::memory_order_relaxed);
    engine.trialFailures.fetch_add(!ok, std::memory_order_relaxed);
    if (!engine.hooks().hasEvents())
      continue;
    EventInfo info = event(KILN_EVENT_TRIAL);
    info.config = trial.result.config;
    info.message = trial.result.message;
    info.status = ok ? ErrorCode::Success : ErrorCode::NoCandidate;
    info.predictedNs = trial.predictedNs;
    info.measuredNs = trial.result.medianNs;
    engine.hooks().emit(info);
  }
  for (const std::string &note : result.notes)
    engine.hooks().log().info("{}: {}", request.common.text(), note);
}

TuningOptions Engine::Acquisition::tuningOptions() const {
  TuningOptions tuning;
  tuning.retune = options.retune;
  tuning.cancel = options.cancel;
  if (!options.trials)
    return tuning;
  tuning.progress =
      [this, before = options.trials->load()](const TuningProgress &progress) {
        uint64_t now = before + progress.trials;
        if (options.trials->exchange(now) != now && options.trialsChanged)
          options.trialsChanged();
      };
  return tuning;
}

Engine::Acquisition::Attempt Engine::Acquisition::fromTrials() {
  if (state)
    *state = KILN_STATE_TUNING;
  // Waiting for others' trials is part of the budget. Without a turn there are
  // no trials, and the estimator chooses.
  const Clock::time_point start = Clock::now();
  const Clock::time_point deadline = start + options.budget;
  const uint64_t before = options.trials ? options.trials->load() : 0;
  TuningOptions tuning = tuningOptions();
  std::optional<ContextState::TuningTurn> turn;
  turn.emplace(context, deadline, options.cancel);
  if (turn->hasWaited() && !options.retune) {
    // What others measured meanwhile may be of this bucket.
    auto found = fromStores();
    if (!found || *found)
      return found;
  }
  InProcessTrials *runner =
      turn->isGranted() ? turn->trials([&] { return makeTrials(); }) : nullptr;
  tuning.budget = std::chrono::ceil<std::chrono::milliseconds>(
      std::max(deadline - Clock::now(), Clock::duration::zero()));
  Tuner tuner(context.model, *services.artifacts, *services.records, runner);
  TuningOutcome outcome = tuner.attempt(request.family, request.common, tuning);
  if (runner) {
    runner->releaseScratch();
    if (runner->isBusy())
      context.noteLateTrials();
  }
  turn.reset();
  engine.tuneNs.fetch_add(nsSince(start), std::memory_order_relaxed);
  if (state)
    *state = KILN_STATE_COMPILING;
  report(outcome.result);
  if (options.trials)
    options.trials->store(before + outcome.result.trials.size());
  if (outcome.error.code != ErrorCode::Success)
    return failedTrials(outcome.error);
  return loadTuned(outcome.result.choice);
}

/// That no candidate is right is final: an untried one would be launched
/// unproven.
Engine::Acquisition::Attempt
Engine::Acquisition::failedTrials(const ErrorSummary &error) {
  if (error.code != ErrorCode::NoCandidate)
    return fail(errorOf(error));
  engine.hooks().log().warning("{}", error.message);
  return errorOf(error);
}

Engine::Acquisition::Attempt
Engine::Acquisition::loadTuned(const TuningChoice &tuned) {
  Choice choice;
  choice.tmpl = tuned.candidate.tmpl;
  choice.config = tuned.candidate.config;
  // A time that nobody compared with the reference is no better than a guess.
  choice.source = tuned.validated ? KILN_SOURCE_RECORD : KILN_SOURCE_ESTIMATE;
  choice.isFallback = !tuned.validated;
  choice.predictedNs = tuned.candidate.estimate.totalNs;
  choice.measuredNs = tuned.measuredNs;
  auto plan = load(choice, Effort::Compiled);
  if (!plan || *plan)
    return plan;
  // The winner needs more workspace than the engine may give: the next best.
  for (const Choice &next :
       chooser.fromRecord(request.family, request.common).choices) {
    plan = load(next, Effort::Compiled);
    if (!plan || *plan)
      return plan;
  }
  return ChosenPlan();
}

} // namespace kiln
