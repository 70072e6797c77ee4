//===- AcquisitionRange.cpp - the portfolio of a layer --------------------===//
//
// Makes a portfolio for the step ChoiceStep::Trials of a launch, and for a
// range that is prepared, which has all members loaded.
//
//===----------------------------------------------------------------------===//
#include "Runtime/Acquisition.h"

#include "Runtime/ServedValues.h"
#include "Tune/PortfolioSession.h"

#include <llvm/ADT/STLExtras.h>

#include <optional>
#include <utility>

namespace kiln {

/// A session's result or why it has none.
struct PortfolioOutcome {
  PortfolioResult result;
  ErrorSummary error; ///< Success: the portfolio serves
};

/// Whether no trial said anything about a kernel.
static bool isUntried(const PortfolioOutcome &made) {
  const ErrorCode code = made.error.code;
  return (code == ErrorCode::Success || code == ErrorCode::NoCandidate) &&
         made.result.rejected == 0 &&
         made.result.portfolio.measuredMembers() == 0;
}

/// Whether trials of a session say more than \p known, which may be null. (A
/// cover alone may find more configs of kernels that are proven.)
static bool saysMore(const PortfolioResult &made, const KnownPortfolio *known) {
  if (made.rejected > 0)
    return true;
  return !made.trials.empty() &&
         findingsOf(made.portfolio) > (known ? known->findings() : 0);
}

/// Whether kernels that a session asked for came too late for its trials.
static bool isAwaited(const PortfolioOutcome &made,
                      std::chrono::steady_clock::time_point deadline) {
  return !made.result.late.empty() &&
         std::chrono::steady_clock::now() >= deadline;
}

/// The number of values of a range, measured on their own, that may have plans
/// of their own there.
static constexpr size_t kMostExact = 64;

//===----------------------------------------------------------------------===//
// Making a portfolio
//===----------------------------------------------------------------------===//

PortfolioOptions
Acquisition::portfolioOptions(const ProblemRange &range) const {
  PortfolioOptions made;
  made.workspaceBytes = engine.config().workspaceLimit;
  made.retune = options.retune;
  // A launch that meets trials at all resumes the ones that were begun.
  made.acceptsPartial = !options.preferTrials && !trialsAhead;
  // A prepared range serves all of its values. Launches do not wait for that.
  made.awaitsKernels = request.range && !options.isBackground;
  // The background's thread measures again in pieces, and goes on from each.
  made.replacesByParts = options.isBackground;
  made.coverThreads = options.isBackground ? 1 : 0;
  made.cancel = options.cancel;
  // A frozen choice leaves no trace in the cache that later ones would follow.
  made.stores = !isFrozen(mode);
  if (!isFrozen(mode))
    for (const PlanPool::LoadedConfig &loaded : context.plans.loadedOf(
             range.signature, std::numeric_limits<size_t>::max()))
      made.atHand.push_back({loaded.tmpl, loaded.config});
  if (auto pool =
          services.pools->find(*range.family, range.signature, context.model))
    for (const KnownPool::Kernel &kernel : pool->kernels)
      made.atHand.push_back({kernel.tmpl, kernel.configs.front()});
  made.cover = options.cover;
  made.cancelCover = options.cancelCover;
  if (request.isExpected)
    made.first = {aboveZero(range.pointOf(request.problem.values))};
  made.progress = [this, before = options.trials ? options.trials->load() : 0,
                   counted =
                       size_t(0)](const PortfolioProgress &progress) mutable {
    for (const TuningTrial &trial : progress.trials.drop_front(counted))
      countTrial(trial);
    counted = progress.trials.size();
    if (options.trials)
      *options.trials = before + counted;
    if (options.compiled)
      options.compiled(progress.kernelsReady, progress.kernels);
    if (options.progressed)
      options.progressed();
  };
  return made;
}

/// Makes the portfolio of \p range until \p deadline, on \p runner, which may
/// be null: then the estimator alone chooses.
PortfolioOutcome Acquisition::runSession(const ProblemRange &range,
                                         InProcessTrials *runner,
                                         Clock::time_point deadline,
                                         bool retunes) {
  PortfolioOptions made = portfolioOptions(range);
  made.retune = retunes;
  return runSession(range, runner, deadline, made);
}

PortfolioOutcome Acquisition::runSession(const ProblemRange &range,
                                         InProcessTrials *runner,
                                         Clock::time_point deadline,
                                         const PortfolioOptions &made) {
  const PortfolioContext shared{context.model,
                                *services.artifacts,
                                *services.records,
                                *services.portfolios,
                                runner,
                                context.deviceClass};
  PortfolioSession session(shared, range, made);
  session.begin(compile_priority::kAhead);
  PortfolioOutcome outcome;
  outcome.error = summarize(session.finish(deadline));
  outcome.result = session.takeResult();
  return outcome;
}

/// Like runSession(), within the budget, and with the thread's turn if there
/// are trials. nullopt if other threads made a portfolio meanwhile that serves
/// a launch, or if \p needsTrials and there can be none.
std::optional<PortfolioOutcome>
Acquisition::makePortfolio(const ProblemRange &range,
                           std::chrono::milliseconds budget, bool needsTrials,
                           std::shared_ptr<const Portfolio> *cover) {
  // A budget limits only trials that a caller waits for.
  const Clock::time_point deadline =
      Clock::now() +
      (triesFirst(mode) ? budget : EngineConfig::timeOf(INT64_MAX));
  if (!trialsAhead)
    return runSession(range, nullptr, deadline, options.retune);
  ContextState::TuningTurn turn(context, deadline, options.cancel);
  // The turn before ours may have been about this layer.
  const bool mayBeThere =
      turn.hasWaited() ||
      context.portfolios.find(*range.family, request.problem);
  if (mayBeThere && !options.retune && !request.range) {
    chooser.recordNow();
    resumes.reset();
    takeSteps(/*onlyStored=*/true);
    if (isOver() || (turn.hasWaited() && !mayMeasure(range)))
      return std::nullopt;
  }
  InProcessTrials *runner =
      turn.isGranted() ? turn.trials([&] { return makeTrials(); }) : nullptr;
  if (!runner && needsTrials) {
    if (turn.isGranted()) // the log has the reason
      context.layerTrials.putOff(range.fixedText(), {});
    return std::nullopt;
  }
  const Clock::time_point start = Clock::now();
  PortfolioOptions given = portfolioOptions(range);
  if (cover)
    given.cover = cover;
  PortfolioOutcome outcome = runSession(range, runner, deadline, given);
  // This comes before the turn ends, so that the next thread knows. (A
  // preparation ends with its budget.)
  if (!request.range && runner) {
    noteSession(range, outcome, *runner, deadline);
    context.late.add(std::move(outcome.result.late), range.fixedText());
  }
  if (runner) {
    runner->releaseScratch();
    keepKernels(outcome.result.code, runner->isBusy());
    engine.counts().tuneNs.fetch_add(nsSince(start), std::memory_order_relaxed);
  }
  return outcome;
}

/// Like keepWinner(), for all members.
void Acquisition::keepKernels(std::vector<MemberCode> &code, bool isBusy) {
  for (MemberCode &member : code) {
    const bool isKept = !request.range || isBusy || mayLoadAhead(member.plan);
    if (isKept)
      keepCode(member.loaded, isBusy);
    member.loaded.reset();
  }
  if (isBusy)
    context.noteLateTrials();
}

/// Its trials were counted while they were made.
void Acquisition::report(const PortfolioResult &result) {
  for (const TuningTrial &trial : result.trials)
    report(trial);
  for (const std::string &note : result.notes)
    engine.hooks().log().info("{}: {}", request.problem.text(), note);
}

//===----------------------------------------------------------------------===//
// For a launch
//===----------------------------------------------------------------------===//

/// Whether a launch may begin trials of \p layer.
bool Acquisition::mayMeasure(const ProblemRange &layer) {
  const std::string name = layer.fixedText();
  // The kernels of an earlier call are in flight. No call spends its budget on
  // waiting for them.
  if (context.late.isAwaited(name))
    return false;
  if (context.layerTrials.mayBegin(name))
    return true;
  if (!context.layerTrials.lacksRoom(name))
    return false;
  // Memory may have been freed since.
  ContextState::TuningTurn turn(context, Clock::now(), options.cancel);
  InProcessTrials *runner =
      turn.isGranted()
          ? turn.trials([] { return std::unique_ptr<InProcessTrials>(); })
          : nullptr;
  if (!runner || !hasRoom(*runner, layer))
    return false;
  context.layerTrials.advance(name);
  return true;
}

/// Whether there is memory for trials of the least values of \p layer.
bool Acquisition::hasRoom(InProcessTrials &runner, const ProblemRange &layer) {
  const std::optional<Problem> least = layer.find(layer.low);
  return !least || runner.hasRoom(*layer.family, *least);
}

/// Whether this launch resumes the trials of its layer, of which some that were
/// due are missing, before it takes a plan that exists.
bool Acquisition::resumesLayer() {
  if (!trialsAhead || options.isBackground || options.preferTrials ||
      options.retune || request.range)
    return false;
  if (!resumes) {
    auto known = chooser.portfolio();
    resumes = known && known->isUnfinished() && mayMeasure(known->range());
  }
  return *resumes;
}

/// Decides when launches may measure \p layer again, now that a session has
/// ended with \p made.
void Acquisition::noteSession(const ProblemRange &layer,
                              const PortfolioOutcome &made,
                              InProcessTrials &runner,
                              Clock::time_point deadline) {
  const std::string name = layer.fixedText();
  auto known = context.portfolios.find(layer);
  if (made.result.portfolio.isComplete || saysMore(made.result, known.get()))
    return context.layerTrials.advance(name);
  if (isAwaited(made, deadline) || made.error.code != ErrorCode::Success)
    return;
  LayerTrials::Reason why;
  why.isRoom = !runner.isBusy() && !hasRoom(runner, layer);
  why.text = why.isRoom ? "there is no device memory for trials"
             : made.result.notes.empty()
                 ? "the time ended before trials said anything new"
                 : made.result.notes.back();
  const LayerTrials::Delay delay = context.layerTrials.putOff(name, why);
  const std::string text = fmt::format(
      "{}: its layer is served without trials until they can be made: {}; the "
      "next attempt is at a new value after {} s",
      request.problem.text(), why.text, delay.time.count() / 1000);
  if (delay.isFirst)
    engine.hooks().log().warning("{}", text);
  else
    engine.hooks().log().info("{}", text);
}

/// The time that a launch may spend on the trials of its layer. The first
/// layers of a signature say most about its kernels, so each further one gets
/// half the time of the one before it, at least a quarter of the budget.
std::chrono::milliseconds
Acquisition::budgetForLayer(const ProblemRange &layer) const {
  constexpr size_t kMostHalvings = 2;
  const size_t known = context.portfolios.count([&](const auto &portfolio) {
    return portfolio.isMeasured() &&
           portfolio.range().signature == layer.signature &&
           portfolio.range().fixedText() != layer.fixedText();
  });
  return options.budget / (1 << std::min(known, kMostHalvings));
}

void Acquisition::measureLayer(const ProblemRange &layer) {
  if (state)
    *state = KILN_STATE_TUNING;
  const std::chrono::milliseconds budget = budgetForLayer(layer);
  const Clock::time_point deadline = Clock::now() + budget;
  std::shared_ptr<const Portfolio> cover;
  std::optional<PortfolioOutcome> made =
      makePortfolio(layer, budget, /*needsTrials=*/true, &cover);
  if (state)
    *state = KILN_STATE_COMPILING;
  if (!made)
    return;
  trialsAhead = false;
  report(made->result);
  if (made->error.code == ErrorCode::NoCandidate) {
    // No kernel is right, and an untried one would be launched unproven.
    engine.hooks().log().warning("{}", made->error.message);
    dropServed(layer);
    fatal = {ErrorCode::NoCandidate,
             fmt::format("no kernel is known to compute {} correctly on {}: {}",
                         request.problem.text(), context.model.name,
                         made->error.message),
             0};
    return;
  }
  if (made->error.code != ErrorCode::Success)
    return fail(errorOf(made->error));
  if (isUntried(*made)) {
    // The time went into the first kernels; a later call has them at once.
    if (Clock::now() < deadline)
      keepUntried(layer, deadline, cover);
    return;
  }
  auto known = context.portfolios.find(layer);
  const bool isNews =
      made->result.portfolio.isComplete || saysMore(made->result, known.get());
  auto now = std::make_shared<const KnownPortfolio>(
      std::move(made->result.portfolio), /*isStored=*/false);
  if (!known || !known->isMeasured() || isNews) {
    const bool hadChoices = known && known->isMeasured();
    context.portfolios.add(now);
    portfolioVersion = ++context.portfolioVersion;
    // Each choice costs some ms, so not every part of the trials makes it.
    if (!hadChoices || !now->isUnfinished())
      chooseAgain(layer);
  }
  resumes = false;
  take(ChoiceStep::Stored);
}

/// Lets the estimator's portfolio serve \p layer, about which trials said
/// nothing: values choose as in a mode without trials. Its kernels compile
/// until \p deadline. It is not stored, so that no other engine takes it for a
/// choice.
void Acquisition::keepUntried(const ProblemRange &layer,
                              Clock::time_point deadline,
                              std::shared_ptr<const Portfolio> cover) {
  if (auto known = context.portfolios.find(layer); known)
    return;
  PortfolioOptions given = portfolioOptions(layer);
  given.cover = &cover;
  given.stores = false;
  PortfolioOutcome made = runSession(layer, nullptr, deadline, given);
  report(made.result);
  context.late.add(std::move(made.result.late), layer.fixedText());
  if (made.error.code != ErrorCode::Success)
    return;
  context.portfolios.add(std::make_shared<const KnownPortfolio>(
      std::move(made.result.portfolio), /*isStored=*/false));
  resumes = false;
  take(ChoiceStep::Stored);
}

/// Trials found no correct kernel in \p range, so plans that serve there
/// untried are dropped.
void Acquisition::dropServed(const ProblemRange &range) {
  context.dropRange(range);
  context.portfolios.drop(range);
  forEachServed(engine.plans(), range, context.id, [&](const Problem &problem) {
    engine.plans().drop({range.family, context.id, problem.values.array()});
  });
  engine.plans().dropAsides(
      *range.family, context.id, [&](llvm::ArrayRef<int64_t> values) {
        return serves(range, Values(range.family->problemSchema(), values));
      });
}

/// Values of \p layer that were launched while its portfolio was made have the
/// estimator's choice as a stand-in. They choose again at their next call, kept
/// values now.
void Acquisition::chooseAgain(const ProblemRange &layer) {
  forEachServed(engine.plans(), layer, context.id, [&](const Problem &problem) {
    const DispatchKey key{layer.family, context.id, problem.values.array()};
    const ChosenPlan old = engine.plans().lookup(key);
    if (old && old.plan->isFallback)
      chooseAgain(*layer.family, problem);
  });
}

/// Puts the plan into the table that is chosen for \p problem now, without
/// trials.
void Acquisition::chooseAgain(const KernelFamily &family,
                              const Problem &problem) {
  const DispatchKey key{&family, context.id, problem.values.array()};
  if (!engine.plans().setAside(key))
    return;
  const PlanRequest alone{family, problem};
  auto now = Acquisition(engine, context, alone, AcquireOptions(), nullptr)
                 .runWithoutTrials();
  if (now)
    engine.plans().publish(key, *now);
  else
    llvm::consumeError(now.takeError()); // it keeps what it has
}

//===----------------------------------------------------------------------===//
// For a range that is prepared
//===----------------------------------------------------------------------===//

/// Makes the portfolio of the range; null: the work failed.
std::shared_ptr<const KnownPortfolio>
Acquisition::makeForRange(std::vector<MemberCode> &code) {
  const ProblemRange &range = *request.range;
  if (state && tunes)
    *state = KILN_STATE_TUNING;
  const bool mayBeCut = triesFirst(mode) || trialsAhead;
  auto made = makePortfolio(range, options.budget, /*needsTrials=*/false);
  report(made->result);
  // The time did not suffice for trials, nor perhaps for all kernels. The
  // estimator's choices are compiled all the same, unless there is an earlier
  // measured portfolio.
  if (tunes && mayBeCut && !options.isCancelled() && isUntried(*made))
    made = runSession(range, nullptr,
                      Clock::now() + EngineConfig::timeOf(INT64_MAX),
                      /*retunes=*/false);
  if (options.retune && !options.isBackground)
    keepMeasured(range, *made);
  if (made->error.code == ErrorCode::NoCandidate)
    dropServed(range);
  if (made->error.code != ErrorCode::Success) {
    fail(errorOf(made->error));
    return nullptr;
  }
  PortfolioResult &result = made->result;
  // It serves here, but a strict engine over the same cache would not have it.
  const bool isKept = result.isStored || result.keptAs;
  if (!tunes && !isKept && engine.config().writesToDisk() && !isFrozen(mode))
    engine.hooks().log().warning(
        "{}: prepared, but its portfolio is not in the cache: {}",
        request.problem.text(),
        result.notes.empty() ? "some of its kernels are missing"
                             : result.notes.back());
  complete = result.portfolio.isComplete;
  stored = result.isStored && result.portfolio.measuredMembers() > 0;
  code = std::move(result.code);
  auto known = std::make_shared<const KnownPortfolio>(
      std::move(result.portfolio), result.origin == PortfolioOrigin::Stored);
  // Other ranges of the layer, with further values, go on from it.
  if (options.isBackground && known->isMeasured())
    context.portfolios.add(known);
  return known;
}

void Acquisition::takeRange() {
  const ProblemRange &range = *request.range;
  std::vector<MemberCode> code;
  std::shared_ptr<const KnownPortfolio> known =
      most == Effort::Compiled
          ? makeForRange(code)
          : findStored(engine.portfolioSources(context), range);
  if (!known)
    return;
  code.resize(known->members().size());
  std::vector<uint32_t> leftOut;
  std::vector<ActivePlanPtr> plans =
      loadMembers(*known, std::move(code), leftOut);
  if (isOver() || llvm::none_of(plans, [](auto &plan) { return !!plan; }))
    return;
  const bool isProvisional = asksSpace(mode) && !known->isWhole();
  auto prepared = std::make_shared<const PreparedRange>(
      context.model, std::move(known), std::move(plans), exactPlans(range),
      std::move(leftOut), isProvisional, isFrozen(mode));
  found = prepared->choose(request.problem);
  if (!found || fatal.code != ErrorCode::Success)
    return;
  using Standing = ContextState::Standing;
  serving = context.addRange(prepared, isFrozen(mode) ? Standing::ByExtent
                                                      : Standing::ByMerit);
  found = serving->choose(request.problem);
  if (found)
    return;
  // The range that is kept in its place was found wrong here.
  serving = context.addRange(std::move(prepared), Standing::Latest);
  found = serving->choose(request.problem);
}

/// Replaces \p made, whose retuning was cut short, by the portfolio that was
/// measured before.
void Acquisition::keepMeasured(const ProblemRange &range,
                               PortfolioOutcome &made) {
  const bool isOfNone = made.error.code == ErrorCode::NoCandidate;
  const bool isWhole = isOfNone ? made.result.stop == StopReason::Exhausted
                                : made.result.portfolio.isComplete;
  if (isWhole || (made.error.code != ErrorCode::Success && !isOfNone))
    return;
  if (options.isCancelled()) {
    made.error = {ErrorCode::Cancelled, "cancelled", 0};
    return;
  }
  // Its kernels are there; replacements of lost ones may be missing.
  constexpr std::chrono::seconds kPatience{1};
  PortfolioOutcome before =
      runSession(range, nullptr, Clock::now() + kPatience, /*retunes=*/false);
  auto measured = [](const PortfolioOutcome &outcome) {
    return outcome.error.code == ErrorCode::Success
               ? outcome.result.portfolio.measuredMembers()
               : 0;
  };
  if (measured(before) > 0 && measured(before) >= measured(made))
    made = std::move(before);
}

/// Whether the kernels of \p plan may be loaded although no launch asks for
/// them. Loaded kernels cost nothing.
bool Acquisition::mayLoadAhead(const Plan &plan) {
  std::vector<std::string> kernels;
  for (const TranslationUnit &unit : plan.kernels) {
    std::string digest = unit.digest().hex();
    if (!engine.kernelLoader().findLoaded(context.id, digest, 0))
      kernels.push_back(std::move(digest));
  }
  // Members that are left out would change choices.
  const uint64_t limit = isFrozen(mode) ? std::numeric_limits<uint64_t>::max()
                                        : engine.config().poolLimit;
  return context.ahead.take(kernels, limit);
}

/// Loads the plans of the members, the most valuable first as long as there is
/// room; the others are \p leftOut. The plan of the range's typical problem is
/// loaded in any case.
std::vector<ActivePlanPtr>
Acquisition::loadMembers(const KnownPortfolio &known,
                         std::vector<MemberCode> code,
                         std::vector<uint32_t> &leftOut) {
  std::vector<ActivePlanPtr> plans(known.members().size());
  const Portfolio::Ranking ranking = known.rank(request.problem, context.model);
  const size_t first = ranking.empty() ? 0 : ranking.front().member;
  for (uint32_t i = 0; i < plans.size() && !isOver(); ++i) {
    bool hasRoom = true;
    plans[i] = loadMember(known, i, std::move(code[i]),
                          i == first ? nullptr : &hasRoom);
    if (!hasRoom)
      leftOut.push_back(i);
  }
  if (!leftOut.empty())
    engine.hooks().log().warning(
        "{}: {} of {} kernels are loaded when a launch asks for them: "
        "pool_limit_bytes, {}, is reached",
        request.problem.text(), leftOut.size(), plans.size(),
        engine.config().poolLimit);
  return plans;
}

/// Loads the plan of one member; null if it cannot be had. If \p hasRoom is
/// given, it becomes false when there is no room.
ActivePlanPtr Acquisition::loadMember(const KnownPortfolio &known,
                                      uint32_t member, MemberCode code,
                                      bool *hasRoom) {
  auto mayLoad = [&](const Plan &plan) {
    if (hasRoom)
      *hasRoom = mayLoadAhead(plan);
    return !hasRoom || *hasRoom;
  };
  const PortfolioMember &from = known.members()[member];
  Choice choice;
  choice.tmpl = from.tmpl;
  choice.config = from.config;
  choice.source = known.sourceOf(member);
  choice.isFallback = tunes && !(known.isMeasured() && known.isComplete());
  const Problem &target = known.targetOf(member);
  found = {};
  if (auto loaded = context.plans.find(target, from.config)) {
    choose(choice, loaded);
  } else if (!code.artifacts.empty() &&
             code.artifacts.size() == code.plan.kernels.size()) {
    if (mayLoad(code.plan))
      loadCompiled(target, choice,
                   {std::move(code.plan),
                    {code.artifacts.begin(), code.artifacts.end()},
                    /*isFresh=*/false});
  } else if (auto plan = chooser.plan(target, choice); plan && mayLoad(*plan)) {
    loadNew(target, std::move(*plan), choice, Effort::Existing);
  }
  return std::exchange(found, {}).plan;
}

/// Loads the plans that were measured at single values of \p range.
PreparedRange::ExactPlans Acquisition::exactPlans(const ProblemRange &range) {
  PreparedRange::ExactPlans plans;
  const KernelFamily &family = *range.family;
  if (!family.dynamicExtents().equals(range.fields))
    return plans;
  auto record =
      services.records->load(family, request.problem, context.deviceClass);
  for (size_t i = 0; i < record->size() && plans.size() < kMostExact; ++i) {
    const ExtentPoint &extents = record->extentsAt(i);
    if (!range.contains(extents) || record->at(i).winner.empty())
      continue;
    std::optional<Problem> problem = range.find(extents);
    if (!problem)
      continue;
    const PlanRequest alone{family, *problem};
    Acquisition work(engine, context, alone, options, nullptr);
    if (ChosenPlan chosen = work.findExact())
      plans.emplace(extents, std::move(chosen));
    else if (isFrozen(mode) && work.isOver())
      fatal = work.fatal;
  }
  return plans;
}

ChosenPlan Acquisition::findExact() {
  trialsAhead = false;
  takeMeasured();
  return found.measuredNs > 0 ? found : ChosenPlan();
}

} // namespace kiln
