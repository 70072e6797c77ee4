//===- Acquire.cpp - from a problem to a loaded plan ----------------------===//
//
// The order of choice:
//   1. measured records, if no trial is due;
//   2. a stored decision;
//   3. in the mode tune: trials;
//   4. the best-ranked candidate whose kernels are there, if it is close to the
//      best; otherwise the estimator's first choice is compiled, then the next
//      ones, then the generic kernels;
//   5. whatever candidate has its kernels there.
// Strict mode compiles nothing, so it takes the first of 1, 2 and 5 that is
// there. An existing kernel does not stand in for trials in the mode tune:
// kernels are shared between problems of one signature, so the second shape
// would never be measured.
//
//===----------------------------------------------------------------------===//
#include "Runtime/Acquisition.h"

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
  return ActivePlanPtr();
}

/// Gets the kernels of \p plan, compiling what is missing. False if one cannot
/// be had: obtainPlan() then says why. So it is when the caller cancels.
bool Engine::Acquisition::getArtifacts(const Plan &plan) {
  llvm::SmallVector<PendingArtifact, 2> pending;
  for (const TranslationUnit &unit : plan.kernels)
    pending.push_back(
        services.artifacts->request(unit, compile_priority::kNow));
  bool complete = true;
  for (size_t i = 0; i < pending.size(); ++i) {
    if (!pending[i].waitUnless(options.cancel))
      return false;
    const ArtifactOutcome &outcome = pending[i].wait();
    complete &= static_cast<bool>(outcome);
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
  return complete;
}

Engine::Acquisition::Attempt Engine::Acquisition::load(Choice &choice,
                                                       bool mayCompile) {
  if (&request.common != &request.largest) {
    if (choice.tmpl->prune(request.largest, choice.config, context.model))
      return ActivePlanPtr();
    choice.plan =
        choice.tmpl->plan(request.largest, choice.config, context.model);
    if (choice.plan.workspace.bytes() > engine.options.workspaceLimit)
      return ActivePlanPtr();
  }
  if (!mayCompile && !chooser.hasArtifacts(choice.plan))
    return ActivePlanPtr();
  if (mayCompile && !getArtifacts(choice.plan) && options.cancel &&
      *options.cancel)
    return makeError(ErrorCode::Cancelled, "cancelled");
  Clock::time_point start = Clock::now();
  std::string config = choice.plan.configText();
  auto loaded =
      obtainPlan(*services.artifacts, *engine.loader, std::move(choice.plan),
                 static_cast<int32_t>(context.model.smCount));
  if (!loaded)
    return fail(loaded.takeError());
  engine.loadNs.fetch_add(nsSince(start), std::memory_order_relaxed);
  if (engine.hooks().hasEvents()) {
    EventInfo info = event(KILN_EVENT_LOADED);
    info.config = config;
    info.elapsedMs = msSince(start);
    engine.hooks().emit(info);
  }
  auto active = std::make_shared<ActivePlan>();
  active->loaded = std::move(*loaded);
  active->source = choice.source;
  active->predictedNs = choice.predictedNs;
  active->measuredNs = choice.measuredNs;
  active->isFallback = choice.isFallback;
  return ActivePlanPtr(std::move(active));
}

Engine::Acquisition::Attempt Engine::Acquisition::fromStores() {
  bool mayCompile = mode != KILN_MODE_STRICT;
  bool tunes = mode == KILN_MODE_TUNE;
  if (tunes && options.retune)
    return ActivePlanPtr();
  RecordedChoices recorded = chooser.fromRecord(request.family, request.common);
  if (recorded.isFinal || !tunes)
    for (Choice &choice : recorded.choices) {
      if (tunes && choice.isFallback)
        break;
      auto plan = load(choice, mayCompile);
      if (!plan || *plan)
        return plan;
    }
  if (tunes && options.preferTrials)
    return ActivePlanPtr();
  for (Choice &choice : chooser.fromDecision(request.family, request.common)) {
    auto plan = load(choice, mayCompile);
    if (!plan || *plan)
      return plan;
  }
  return ActivePlanPtr();
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

llvm::Expected<ActivePlanPtr> Engine::Acquisition::run() {
  Clock::time_point start = Clock::now();
  auto plan = fromStores();
  if (plan && !*plan && mode == KILN_MODE_TUNE)
    plan = fromTrials();
  if (plan && !*plan)
    plan = fromEstimate();
  if (plan && !*plan)
    plan = finalError();
  if (!plan)
    return plan.takeError();
  if (engine.hooks().hasEvents()) {
    EventInfo info = event(KILN_EVENT_CHOSEN);
    info.source = (*plan)->source;
    info.config = (*plan)->loaded->plan().configText();
    info.predictedNs = (*plan)->predictedNs;
    info.measuredNs = (*plan)->measuredNs;
    info.elapsedMs = msSince(start);
    engine.hooks().emit(info);
  }
  return plan;
}

} // namespace kiln
