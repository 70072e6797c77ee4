//===- AcquireTrials.cpp - a problem's plan from trials -------------------===//
#include "Runtime/Acquisition.h"

#include "Tune/Tuner.h"

#include <algorithm>

namespace kiln {

std::unique_ptr<InProcessTrials> Engine::Acquisition::makeTrials() {
  InProcessTrialsOptions trialOptions;
  trialOptions.scratchBytes = engine.options.scratchLimit;
  trialOptions.hangLimit = engine.options.trialTimeout;
  auto made =
      InProcessTrials::create(*engine.loadedDriver, engine.registry,
                              context.model, *services.artifacts, trialOptions);
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

Engine::Acquisition::Attempt Engine::Acquisition::fromTrials() {
  flight.state = KILN_STATE_TUNING;
  Clock::time_point start = Clock::now();
  TuningOptions tuning;
  tuning.budget = options.budget;
  tuning.retune = options.retune;
  tuning.cancel = options.cancel;
  uint64_t before = options.trials ? options.trials->load() : 0;
  if (options.trials)
    tuning.progress = [&](const TuningProgress &progress) {
      uint64_t now = before + progress.trials;
      if (options.trials->exchange(now) != now && options.trialsChanged)
        options.trialsChanged();
    };
  auto result = [&]() -> llvm::Expected<TuningResult> {
    ContextState::TuningTurn turn(context);
    InProcessTrials *runner =
        turn.isGranted() ? turn.trials([&] { return makeTrials(); }) : nullptr;
    Tuner tuner(context.model, *services.artifacts, *services.records, runner);
    auto tuned = tuner.tune(request.family, request.common, tuning);
    if (runner)
      runner->releaseScratch();
    return tuned;
  }();
  engine.tuneNs.fetch_add(nsSince(start), std::memory_order_relaxed);
  flight.state = KILN_STATE_COMPILING;
  if (!result)
    return fail(result.takeError());
  report(*result);
  if (options.trials)
    options.trials->store(before + result->trials.size());
  TuningChoice &tuned = result->choice;
  Choice choice;
  choice.tmpl = tuned.candidate.tmpl;
  choice.config = tuned.candidate.config;
  choice.plan = std::move(tuned.plan);
  bool measured = tuned.origin != ChoiceOrigin::Estimated;
  choice.source = measured ? KILN_SOURCE_RECORD : KILN_SOURCE_ESTIMATE;
  choice.isFallback = !measured;
  choice.predictedNs = tuned.candidate.estimate.totalNs;
  choice.measuredNs = tuned.measuredNs;
  if (choice.plan.workspace.bytes() <= engine.options.workspaceLimit) {
    auto plan = load(choice, /*mayCompile=*/true);
    if (!plan || *plan)
      return plan;
  }
  // The winner needs more workspace than the engine may give: the next best.
  for (Choice &next :
       chooser.fromRecord(request.family, request.common).choices) {
    auto plan = load(next, /*mayCompile=*/true);
    if (!plan || *plan)
      return plan;
  }
  return ActivePlanPtr();
}

} // namespace kiln
