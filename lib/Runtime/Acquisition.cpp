//===- Acquisition.cpp - the work of finding one plan ---------------------===//
#include "Runtime/Acquisition.h"

#include "Tune/Tuner.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <utility>

namespace kiln {

Acquisition::Acquisition(Engine &engine, ContextState &context,
                         const PlanRequest &request,
                         const AcquireOptions &options,
                         std::atomic<kiln_state> *state)
    : engine(engine), services(engine.services()), context(context),
      request(request), options(options), state(state),
      chooser(engine.chooser(context, request)), mode(engine.config().mode),
      tunes(hasStep(mode, ChoiceStep::Trials)),
      most(hasStep(mode, ChoiceStep::Compile) ? Effort::Compiled
                                              : Effort::Existing),
      trialsAhead(tunes && (triesFirst(mode) || options.isBackground)),
      portfolioVersion(context.portfolioVersion) {}

//===----------------------------------------------------------------------===//
// The steps
//===----------------------------------------------------------------------===//

llvm::Expected<ChosenPlan> Acquisition::run() {
  const Clock::time_point start = Clock::now();
  if (trialsAhead)
    context.collectLateTrials();
  takeArrived();
  if (request.range) {
    takeRange();
    return finish(start);
  }
  if (isFrozen(mode))
    takeFromRanges();
  takeSteps();
  // The last resort: no config serves the whole cover.
  if (!isOver() && chooser.serveAlone()) {
    isLastRound = true;
    takeSteps();
  }
  // The next call of the signature may be one that this kernel does not serve.
  if (found && options.haste == Haste::Launch)
    llvm::consumeError(loadGeneric(genericAhead.empty() ? Effort::Existing
                                                        : Effort::Compiled));
  return finish(start);
}

llvm::Expected<ChosenPlan> Acquisition::runWithoutTrials() {
  trialsAhead = false;
  return run();
}

/// The one step that ranks the loaded plans, which calls no driver either.
static constexpr ChoiceStep kNoDriver = ChoiceStep::Loaded;

/// Whether the plan of \p choice is loaded.
bool Acquisition::isLoaded(const Choice &choice) const {
  return llvm::any_of(chooser.targetsOf(choice), [&](const Problem &target) {
    return context.plans.find(target, choice.config) != nullptr;
  });
}

llvm::Expected<ChosenPlan> Acquisition::findLoaded() {
  most = Effort::Loaded;
  trialsAhead = false;
  for (ChoiceStep step : choiceOrder(mode)) {
    if (step == ChoiceStep::Trials)
      break;
    if (needsRanking(step, mode) && step != kNoDriver)
      continue;
    bool isOffered = false;
    auto take = [&](const Choice &choice) {
      if (choice.isForLater || (choice.mayCompile && !isLoaded(choice)))
        return false;
      isOffered = true;
      load(choice, Effort::Loaded);
      return step == ChoiceStep::Stored || isFrozen(mode) || isOver();
    };
    llvm::Error error = offer(step, take);
    if (error)
      return error;
    // A later choice would be served instead of the one that run() takes for
    // good.
    if (isOffered)
      break;
  }
  return found;
}

ChosenPlan Acquisition::findStandIn() {
  most = Effort::Resident;
  trialsAhead = false;
  for (const Choice &choice : chooser.standIns()) {
    load(choice, Effort::Resident);
    if (isOver())
      break;
  }
  return found;
}

llvm::Error Acquisition::loadGeneric(Effort effort) {
  ChosenPlan kept = std::exchange(found, {});
  ErrorSummary before = std::exchange(firstError, {});
  llvm::Error error = chooser.offerGeneric([&](const Choice &choice) {
    load(choice, effort);
    return isOver();
  });
  genericAhead.clear();
  if (!error && !found)
    error = noPlan();
  found = std::move(kept);
  firstError = std::move(before);
  fatal = {};
  return error;
}

void Acquisition::takeSteps(bool onlyStored) {
  for (ChoiceStep step : choiceOrder(mode, options.haste)) {
    if (isOver())
      return;
    const bool isRepeated = step == ChoiceStep::Trials && isLastRound;
    if (!isRepeated && (step == ChoiceStep::Stored || !onlyStored))
      take(step);
  }
}

/// Gives \p take the choices that \p step offers, as far as no trials are due.
llvm::Error Acquisition::offer(ChoiceStep step, Chooser::Take take) {
  auto isLayerDue = [&] { return resumesLayer(); };
  return chooser.offer(
      step, take,
      {trialsAhead, options.retune, options.preferTrials, isLayerDue});
}

/// Whether \p choice, which is stored, stands in for trials of its layer that
/// are yet to be made. Then it is chosen again after them.
bool Acquisition::awaitsLayer(const Choice &choice) {
  if (!tunes || choice.isKnown)
    return false;
  if (!isLayerUnfinished) {
    auto known = chooser.portfolio();
    isLayerUnfinished = known && known->isUnfinished();
  }
  return *isLayerUnfinished;
}

/// Takes the best config that was measured at this very value.
void Acquisition::takeMeasured() {
  chooser.offerMeasured([&](const Choice &choice) {
    loadFrom(ChoiceStep::Stored, choice);
    return isOver();
  });
}

/// Takes the choice of the prepared range that the value is in. Fails if that
/// was found wrong since: the other processes may not know.
void Acquisition::takeFromRanges() {
  found = context.chooseFromRanges(request.family, request.problem);
  if (!found && context.hasLost(request.family, request.problem))
    refuseLost();
}

/// Fails because a frozen choice may be neither launched nor replaced.
void Acquisition::refuseLost() {
  fatal = {ErrorCode::NoCandidate,
           fmt::format("the frozen choice for {} got a verdict after it was "
                       "made, and other processes may not know: start all of "
                       "them again",
                       request.problem.text()),
           0};
}

/// Loads \p choice with the effort that \p step allows.
void Acquisition::loadFrom(ChoiceStep step, const Choice &choice) {
  const bool mayCompile =
      choice.mayCompile || (choice.isKnown && options.haste != Haste::Launch);
  load(choice, mayCompile ? Effort::Compiled : effortOf(step, mode));
}

void Acquisition::take(ChoiceStep step) {
  if (step == ChoiceStep::Trials)
    return takeTrials();
  // A launch that does not wait has no step for trials, which would refuse.
  if (options.haste == Haste::Launch && tunes && needsRanking(step, mode))
    refuseUnproven();
  if (isOver())
    return;
  if (step == ChoiceStep::Compile && options.haste == Haste::Launch)
    for (const TranslationUnit &unit : chooser.genericUnits())
      genericAhead.push_back(
          services.artifacts->request(unit, compile_priority::kNow));
  isLayerUnfinished.reset();
  auto wantsNoMore = [&](Choice choice) {
    choice.isFallback |= step == ChoiceStep::Stored && awaitsLayer(choice);
    if (choice.isForLater) {
      requestLater(choice);
      return false;
    }
    if (step == ChoiceStep::Compile && options.isCancelled())
      fail(makeError(ErrorCode::Cancelled, "cancelled"));
    else
      loadFrom(step, choice);
    // A guess that cannot be had leaves the launch to what was measured.
    if (choice.mayCompile && !found && !options.isCancelled() &&
        fatal.code != ErrorCode::ContextDead)
      fatal = {};
    // Without a compiler the next config fails as well.
    return isOver() || (step == ChoiceStep::Compile &&
                        firstError.code == ErrorCode::CompilerMissing);
  };
  if (llvm::Error error = offer(step, wantsNoMore))
    fatal = summarize(std::move(error));
}

//===----------------------------------------------------------------------===//
// One config
//===----------------------------------------------------------------------===//

/// Whether no other config would change the error.
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

/// Keeps the first reason why a config did not work, or the error that ends the
/// work.
void Acquisition::fail(llvm::Error error) {
  ErrorSummary summary = summarize(std::move(error));
  if (isFinal(summary.code)) {
    fatal = std::move(summary);
    return;
  }
  engine.hooks().log().debug("{}: {}", request.problem.text(), summary.message);
  if (firstError.code == ErrorCode::Success)
    firstError = std::move(summary);
}

/// Finds or makes the plan of \p choice, which is loaded already for most
/// values of a layer.
void Acquisition::load(const Choice &choice, Effort effort) {
  effort = std::min(effort, most);
  for (const Problem &target : chooser.targetsOf(choice)) {
    if (auto loaded = context.plans.find(target, choice.config))
      return choose(choice, loaded);
    if (effort == Effort::Loaded)
      continue;
    auto plan = chooser.plan(target, choice);
    if (!plan)
      continue;
    if (effort == Effort::Resident)
      loadResident(target, std::move(*plan), choice);
    else
      loadNew(target, std::move(*plan), choice, effort);
    return;
  }
}

/// Requests the kernels of \p choice, which is better than the plan that serves
/// the problem meanwhile.
void Acquisition::requestLater(const Choice &choice) {
  for (const Problem &target : chooser.targetsOf(choice)) {
    auto plan = chooser.plan(target, choice);
    if (!plan)
      continue;
    std::vector<PendingArtifact> kernels;
    for (const TranslationUnit &unit : plan->kernels)
      kernels.push_back(
          services.artifacts->request(unit, compile_priority::kAhead));
    context.late.add(std::move(kernels),
                     LateValue{&request.family, request.problem});
    return;
  }
}

/// Chooses again for values whose kernels, requested by earlier calls, are
/// compiled now.
void Acquisition::takeArrived() {
  for (const LateValue &value : context.late.takeArrived())
    chooseAgain(*value.family, value.problem);
}

/// Makes a plan of loaded kernels, if all of them are.
void Acquisition::loadResident(const Problem &target, Plan plan,
                               const Choice &choice) {
  auto loaded = LoadedPlan::ofLoadedKernels(
      engine.kernelLoader(), std::move(plan), context.id,
      static_cast<int32_t>(context.model.smCount));
  if (loaded)
    choose(choice, context.plans.add(target, *choice.tmpl, choice.config,
                                     std::move(loaded)));
}

void Acquisition::loadNew(const Problem &target, Plan plan,
                          const Choice &choice, Effort effort) {
  auto compiled = getArtifacts(std::move(plan), choice, effort);
  if (!compiled)
    return fail(compiled.takeError());
  if (*compiled)
    loadCompiled(target, choice, std::move(**compiled));
}

void Acquisition::loadCompiled(const Problem &target, const Choice &choice,
                               CompiledPlan compiled) {
  const Clock::time_point start = Clock::now();
  auto loaded =
      loadPlan(*services.artifacts, engine.kernelLoader(), std::move(compiled),
               static_cast<int32_t>(context.model.smCount));
  if (!loaded)
    return fail(loaded.takeError());
  engine.counts().loadNs.fetch_add(nsSince(start), std::memory_order_relaxed);
  if (engine.hooks().hasEvents()) {
    EventInfo info = event(KILN_EVENT_LOADED);
    info.config = choice.config.text();
    info.elapsedMs = msSince(start);
    engine.hooks().emit(info);
  }
  choose(choice, context.plans.add(target, *choice.tmpl, choice.config,
                                   std::move(*loaded)));
}

/// Returns \p plan with its kernels, compiled if \p effort allows that; none if
/// it does not and they are missing.
llvm::Expected<std::optional<CompiledPlan>>
Acquisition::getArtifacts(Plan plan, const Choice &choice, Effort effort) {
  using MaybePlan = std::optional<CompiledPlan>;
  // Trials have just used the kernels of their winner.
  if (choice.trialed &&
      kernelDigest(choice.trialed->plan) == kernelDigest(plan)) {
    const auto &artifacts = choice.trialed->artifacts;
    return MaybePlan({std::move(plan),
                      {artifacts.begin(), artifacts.end()},
                      /*isFresh=*/false});
  }
  if (effort == Effort::Existing && !chooser.hasArtifacts(plan))
    return MaybePlan();
  auto report = [&](const TranslationUnit &unit,
                    const ArtifactOutcome &outcome) {
    if (!engine.hooks().hasEvents() ||
        (outcome && outcome.origin != ArtifactOrigin::Compiled))
      return;
    EventInfo info = event(KILN_EVENT_COMPILED);
    info.status = outcome.error.code;
    info.message = outcome.error.message;
    info.config = choice.config.text();
    info.key = unit.digest().hex();
    info.elapsedMs = outcome.compileMs;
    engine.hooks().emit(info);
  };
  auto compiled = obtainArtifacts(
      *services.artifacts, std::move(plan),
      effort == Effort::Compiled ? options.cancel : nullptr, report);
  if (!compiled)
    return compiled.takeError();
  return MaybePlan(std::move(*compiled));
}

void Acquisition::choose(const Choice &choice,
                         const std::shared_ptr<const LoadedPlan> &loaded) {
  // It was found wrong since it was offered or, for a member of a range,
  // before.
  const Verdicts &verdicts = services.records->verdicts();
  if (!loaded->isWrong())
    if (const std::string kernel = kernelDigest(loaded->plan());
        verdicts.isWrong(context.deviceClass, kernel) ||
        verdicts.isKnownWrong(context.deviceClass, kernel))
      engine.markPlans(context, kernel);
  if (loaded->isWrong())
    return isFrozen(mode) ? refuseLost() : void();
  found = {context.activate(loaded, choice.source, choice.isFallback),
           choice.predictedNs, choice.measuredNs};
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

llvm::Expected<ChosenPlan> Acquisition::finish(Clock::time_point start) {
  if (!found)
    return noPlan();
  if (!engine.hooks().hasEvents())
    return found;
  EventInfo info = event(KILN_EVENT_CHOSEN);
  info.source = found.plan->source;
  info.config = found.plan->loaded->plan().configText();
  info.predictedNs = found.predictedNs;
  info.measuredNs = found.measuredNs;
  info.elapsedMs = msSince(start);
  engine.hooks().emit(info);
  return found;
}

llvm::Error Acquisition::noPlan() const {
  if (fatal.code != ErrorCode::Success)
    return errorOf(fatal);
  std::string text = request.problem.text();
  if (request.range)
    text = fmt::format("{} over {}", request.range->described.text(),
                       request.range->text());
  if (!hasStep(mode, ChoiceStep::Compile)) {
    const bool lacksPortfolio =
        request.range &&
        !findStored(engine.portfolioSources(context), *request.range);
    return makeError(
        ErrorCode::Missing,
        "strict mode has no kernel for {}{}: compile it ahead (kiln warmup, "
        "kiln_prepare); the missing key is: {}",
        text, lacksPortfolio ? ", of which no portfolio is in the cache" : "",
        recordKey(request.family, request.problem, context.deviceClass));
  }
  if (firstError.code != ErrorCode::Success)
    return addContext(errorOf(firstError), text);
  return makeError(ErrorCode::NoCandidate, "{}: no config runs on {}", text,
                   context.model.name);
}

EventInfo Acquisition::event(kiln_event_kind kind) const {
  EventInfo info;
  info.kind = kind;
  if (engine.hooks().hasEvents())
    info.problem = request.problem.text();
  return info;
}

/// Wall time since \p start.
double Acquisition::msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

uint64_t Acquisition::nsSince(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start)
          .count());
}

} // namespace kiln
