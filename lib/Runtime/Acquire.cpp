//===- Acquire.cpp - from a problem to a loaded plan ----------------------===//
//
// The order of choice:
//   1. measured records, if no trial is due;
//   2. a stored decision;
//   3. in the mode tune: trials;
//   4. what the bucket has loaded, if the estimator puts it close to the best;
//      then the best-ranked candidate whose kernels are there, if it is close;
//      otherwise the estimator's first choice is compiled, then the next ones,
//      then the generic kernels;
//   5. whatever candidate has its kernels there.
// Strict mode compiles nothing, so it takes the first of 1, 2 and 5 that is
// there. An existing kernel does not stand in for trials in the mode tune:
// kernels are shared between problems of one signature, so the second shape
// would never be measured.
//
//===----------------------------------------------------------------------===//
#include "Runtime/Acquisition.h"

#include <algorithm>

namespace kiln {

double Engine::Acquisition::msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

uint64_t Engine::Acquisition::nsSince(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start)
          .count());
}

/// True for what no other config would change.
static bool isFinal(ErrorCode code) {
  switch (code) {
  case ErrorCode::CompileFailed:
  case ErrorCode::CompilerMissing:
  case ErrorCode::NoCandidate:
  case ErrorCode::Unsupported:
  case ErrorCode::InvalidArgument:
  case ErrorCode::Missing:
    return false;
  default:
    return true;
  }
}

Engine::Acquisition::Acquisition(Engine &engine, ContextState &context,
                                 const PlanRequest &request,
                                 const AcquireOptions &options,
                                 std::atomic<kiln_state> *state)
    : engine(engine), services(engine.services()), context(context),
      request(request), options(options), state(state),
      chooser(engine.chooser(context)), mode(engine.options.mode),
      targets(request.targets()),
      most(mode == KILN_MODE_STRICT ? Effort::Existing : Effort::Compiled) {}

EventInfo Engine::Acquisition::event(kiln_event_kind kind) const {
  EventInfo info;
  info.kind = kind;
  if (engine.hooks().hasEvents())
    info.problem = request.common.text();
  return info;
}

/// Keeps the first reason why a config did not work; an error only if no other
/// could.
Engine::Acquisition::Attempt Engine::Acquisition::fail(llvm::Error error) {
  ErrorSummary summary = summarize(std::move(error));
  if (isFinal(summary.code))
    return errorOf(summary);
  engine.hooks().log().debug("{}: {}", request.common.text(), summary.message);
  if (firstError.code == ErrorCode::Success)
    firstError = std::move(summary);
  return ChosenPlan();
}

/// Gets the kernels of \p plan, compiling what is missing. Whether one cannot
/// be had, and why, is for obtainPlan() to say. False if the caller cancels.
bool Engine::Acquisition::getArtifacts(const Plan &plan) {
  llvm::SmallVector<PendingArtifact, 2> pending;
  for (const TranslationUnit &unit : plan.kernels)
    pending.push_back(
        services.artifacts->request(unit, compile_priority::kNow));
  for (size_t i = 0; i < pending.size(); ++i) {
    if (!pending[i].waitUnless(options.cancel))
      return false;
    const ArtifactOutcome &outcome = pending[i].wait();
    if (!engine.hooks().hasEvents() ||
        (outcome && outcome.origin != ArtifactOrigin::Compiled))
      continue;
    EventInfo info = event(KILN_EVENT_COMPILED);
    info.status = outcome.error.code;
    info.message = outcome.error.message;
    info.config = plan.configText();
    info.key = plan.kernels[i].digest().hex();
    info.elapsedMs = outcome.compileMs;
    engine.hooks().emit(info);
  }
  return true;
}

ChosenPlan Engine::Acquisition::chosenPlan(
    const Choice &choice, const std::shared_ptr<const LoadedPlan> &loaded) {
  return {context.plans.activate(loaded, choice.source, choice.isFallback),
          choice.predictedNs, choice.measuredNs};
}

/// The plan of \p choice, which is loaded already for most values of a bucket.
/// One for the value alone is for what was measured at it: with plans of their
/// own for any value, plans and arenas would be as many as values.
Engine::Acquisition::Attempt Engine::Acquisition::load(const Choice &choice,
                                                       Effort effort) {
  bool isAlone = mayBeAlone || choice.measuredNs > 0;
  for (const Problem &target :
       llvm::ArrayRef(targets).take_front(isAlone ? targets.size() : 1)) {
    if (auto loaded = context.plans.find(target, choice.config))
      return chosenPlan(choice, loaded);
    if (std::min(effort, most) == Effort::Loaded)
      continue;
    if (auto plan = chooser.plan(target, *choice.tmpl, choice.config))
      return loadNew(target, std::move(*plan), choice, std::min(effort, most));
  }
  return ChosenPlan();
}

Engine::Acquisition::Attempt Engine::Acquisition::loadNew(const Problem &target,
                                                          Plan plan,
                                                          const Choice &choice,
                                                          Effort effort) {
  if (effort == Effort::Existing && !chooser.hasArtifacts(plan))
    return ChosenPlan();
  if (effort == Effort::Compiled && !getArtifacts(plan))
    return makeError(ErrorCode::Cancelled, "cancelled");
  Clock::time_point start = Clock::now();
  auto loaded = obtainPlan(*services.artifacts, *engine.loader, std::move(plan),
                           static_cast<int32_t>(context.model.smCount));
  if (!loaded)
    return fail(loaded.takeError());
  engine.loadNs.fetch_add(nsSince(start), std::memory_order_relaxed);
  if (engine.hooks().hasEvents()) {
    EventInfo info = event(KILN_EVENT_LOADED);
    info.config = choice.config.text();
    info.elapsedMs = msSince(start);
    engine.hooks().emit(info);
  }
  return chosenPlan(
      choice, context.plans.add(target, choice.config, std::move(*loaded)));
}

/// From records and decisions. While trials are ahead, nothing is taken from
/// where they are asked for or were truncated.
Engine::Acquisition::Attempt Engine::Acquisition::fromStores() {
  bool tunes = mode == KILN_MODE_TUNE;
  const bool triesOn = tunes && trialsAhead;
  if (triesOn && options.retune)
    return ChosenPlan();
  RecordedChoices recorded = chooser.fromRecord(request.family, request.common);
  foundNoneRight = recorded.foundNoneRight;
  if (triesOn && recorded.isIncomplete)
    return ChosenPlan();
  if (recorded.isFinal || !tunes)
    for (const Choice &choice : recorded.choices) {
      if (tunes && choice.isFallback)
        break;
      storesChoose = true;
      auto plan = load(choice, Effort::Compiled);
      if (!plan || *plan || most == Effort::Loaded)
        return plan;
    }
  if ((triesOn && options.preferTrials) || (tunes && foundNoneRight))
    return ChosenPlan();
  for (const Choice &choice :
       chooser.fromDecision(request.family, request.common)) {
    storesChoose = true;
    auto plan = load(choice, Effort::Compiled);
    if (!plan || *plan || most == Effort::Loaded)
      return plan;
  }
  return ChosenPlan();
}

llvm::Error Engine::Acquisition::finalError() const {
  std::string text = request.common.text();
  if (mode == KILN_MODE_STRICT)
    return makeError(
        ErrorCode::Missing,
        "strict mode has no kernel for {}; the missing key is: {}", text,
        engine.keyOf(request.family, request.common, context.deviceClass));
  if (firstError.code != ErrorCode::Success)
    return addContext(errorOf(firstError), text);
  return makeError(ErrorCode::NoCandidate, "{}: no config runs on {}", text,
                   context.model.name);
}

Engine::Acquisition::Attempt
Engine::Acquisition::finish(Attempt found, Clock::time_point start) {
  if (found && !*found)
    found = finalError();
  if (!found || !engine.hooks().hasEvents())
    return found;
  EventInfo info = event(KILN_EVENT_CHOSEN);
  info.source = found->plan->source;
  info.config = found->plan->loaded->plan().configText();
  info.predictedNs = found->predictedNs;
  info.measuredNs = found->measuredNs;
  info.elapsedMs = msSince(start);
  engine.hooks().emit(info);
  return found;
}

llvm::Expected<ChosenPlan> Engine::Acquisition::run() {
  Clock::time_point start = Clock::now();
  if (trialsAhead)
    context.collectLateTrials();
  auto found = fromStores();
  if (found && !*found && mode == KILN_MODE_TUNE)
    found = trialsAhead ? fromTrials() : withoutTrials();
  trialsAhead = false;
  if (found && !*found)
    found = fromEstimate();
  if (found && !*found)
    found = fromAlone();
  return finish(std::move(found), start);
}

/// The last resort: nothing serves the whole bucket.
Engine::Acquisition::Attempt Engine::Acquisition::fromAlone() {
  if (targets.size() == 1)
    return ChosenPlan();
  mayBeAlone = true;
  auto found = fromStores();
  if (found && !*found)
    found = fromEstimate();
  return found;
}

llvm::Expected<ChosenPlan> Engine::Acquisition::runWithoutTrials() {
  trialsAhead = false;
  return run();
}

/// In the place of trials that another thread makes: nothing, except where they
/// have to come before a launch.
Engine::Acquisition::Attempt Engine::Acquisition::withoutTrials() {
  if (!foundNoneRight)
    return ChosenPlan();
  return makeError(ErrorCode::NoCandidate,
                   "no kernel is known to compute {} correctly on {}: trials "
                   "found wrong results, and another thread works on it",
                   request.common.text(), context.model.name);
}

llvm::Expected<ChosenPlan> Engine::Acquisition::runLoaded() {
  most = Effort::Loaded;
  trialsAhead = false;
  auto found = fromStores();
  // What the stores choose is not loaded: anything else would be served instead
  // of it for good.
  if (found && !*found && !storesChoose && mode != KILN_MODE_TUNE)
    found = fromShortlist();
  return found;
}

} // namespace kiln
