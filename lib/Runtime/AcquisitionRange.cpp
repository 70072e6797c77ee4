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

/// Whether trials said nothing about any kernel.
static bool isUntried(const PortfolioOutcome &made) {
  const ErrorCode code = made.error.code;
  return (code == ErrorCode::Success || code == ErrorCode::NoCandidate) &&
         made.result.rejected == 0 &&
         made.result.portfolio.measuredMembers() == 0;
}

/// So many values of a range that were measured on their own have plans of
/// their own there.
static constexpr size_t kMostExact = 64;

//===----------------------------------------------------------------------===//
// Making a portfolio
//===----------------------------------------------------------------------===//

PortfolioOptions
Acquisition::portfolioOptions(const ProblemRange &range) const {
  PortfolioOptions made;
  made.workspaceBytes = engine.config().workspaceLimit;
  made.retune = options.retune;
  made.acceptsPartial = !options.preferTrials;
  // A thread in the background measures again in pieces, and goes on from each.
  made.replacesByParts = options.isBackground;
  made.coverThreads = options.isBackground ? 1 : 0;
  made.cancel = options.cancel;
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
    made.first = {aboveZero(range.pointOf(request.problem.record))};
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
  const PortfolioContext shared{context.model,
                                *services.artifacts,
                                *services.records,
                                *services.portfolios,
                                runner,
                                context.deviceClass};
  PortfolioOptions made = portfolioOptions(range);
  made.retune = retunes;
  PortfolioSession session(shared, range, made);
  session.begin(compile_priority::kAhead);
  PortfolioOutcome outcome;
  outcome.error = summarize(session.finish(deadline));
  outcome.result = session.takeResult();
  return outcome;
}

/// The same within the budget, with the thread's turn where there are trials.
/// nullopt where others made meanwhile what serves a launch, or \p needsTrials
/// and there can be none.
std::optional<PortfolioOutcome>
Acquisition::makePortfolio(const ProblemRange &range,
                           std::chrono::milliseconds budget, bool needsTrials) {
  // A budget is one of trials that somebody waits for.
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
    takeSteps(/*onlyStored=*/true);
    if (isOver())
      return std::nullopt;
  }
  InProcessTrials *runner =
      turn.isGranted() ? turn.trials([&] { return makeTrials(); }) : nullptr;
  if (!runner && needsTrials)
    return std::nullopt;
  const Clock::time_point start = Clock::now();
  PortfolioOutcome outcome =
      runSession(range, runner, deadline, options.retune);
  // A preparation ends with its budget.
  if (!request.range)
    context.late.add(std::move(outcome.result.late), range.fixedText());
  if (runner) {
    runner->releaseScratch();
    keepKernels(outcome.result.code, runner->isBusy());
    engine.counts().tuneNs.fetch_add(nsSince(start), std::memory_order_relaxed);
  }
  return outcome;
}

/// As keepWinner(), of all members.
void Acquisition::keepKernels(std::vector<MemberCode> &code, bool isBusy) {
  for (MemberCode &member : code)
    keepCode(member.loaded, isBusy);
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

/// What a launch may spend on the trials of its layer. The first layers of a
/// signature say most about its kernels, so each further one gets half of what
/// the one before it had, a quarter of the budget at least.
std::chrono::milliseconds
Acquisition::budgetForLayer(const ProblemRange &layer) const {
  constexpr size_t kMostHalvings = 2;
  const size_t known = context.portfolios.count([&](const auto &portfolio) {
    return portfolio.range().signature == layer.signature;
  });
  return options.budget / (1 << std::min(known, kMostHalvings));
}

void Acquisition::measureLayer(const ProblemRange &layer) {
  if (state)
    *state = KILN_STATE_TUNING;
  std::optional<PortfolioOutcome> made =
      makePortfolio(layer, budgetForLayer(layer), /*needsTrials=*/true);
  if (state)
    *state = KILN_STATE_COMPILING;
  if (!made)
    return;
  trialsAhead = false;
  report(made->result);
  if (made->error.code == ErrorCode::NoCandidate) {
    // None is right: an untried one would be launched unproven.
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
  // The time went into the first kernels: those of a later call are there.
  if (isUntried(*made))
    return;
  context.portfolios.add(std::make_shared<const KnownPortfolio>(
      std::move(made->result.portfolio), /*isStored=*/false));
  ++context.portfolioVersion;
  chooseAgain(layer);
  take(ChoiceStep::Stored);
}

/// Trials found nothing right in \p range: what serves there without any must
/// not.
void Acquisition::dropServed(const ProblemRange &range) {
  context.dropRange(range);
  context.portfolios.drop(range);
  forEachServed(engine.plans(), range, context.id, [&](const Problem &problem) {
    engine.plans().drop({range.family, context.id, problem.record.values()});
  });
  engine.plans().dropAsides(
      *range.family, context.id, [&](llvm::ArrayRef<int64_t> values) {
        return serves(range, Record(range.family->problemSchema(), values));
      });
}

/// Values of \p layer that were launched while its portfolio was made have the
/// estimator's choice, which stood in for it. The next call chooses again; what
/// is kept does so now.
void Acquisition::chooseAgain(const ProblemRange &layer) {
  forEachServed(engine.plans(), layer, context.id, [&](const Problem &problem) {
    const DispatchKey key{layer.family, context.id, problem.record.values()};
    const ChosenPlan old = engine.plans().lookup(key);
    if (old && old.plan->isFallback)
      chooseAgain(*layer.family, problem);
  });
}

/// Lets the table have for \p problem what is chosen now, without trials.
void Acquisition::chooseAgain(const KernelFamily &family,
                              const Problem &problem) {
  const DispatchKey key{&family, context.id, problem.record.values()};
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
// For who prepares a range
//===----------------------------------------------------------------------===//

void Acquisition::takeRange() {
  const ProblemRange &range = *request.range;
  std::shared_ptr<const KnownPortfolio> known;
  std::vector<MemberCode> code;
  if (most == Effort::Compiled) {
    if (state && tunes)
      *state = KILN_STATE_TUNING;
    const bool mayBeCut = triesFirst(mode) || trialsAhead;
    auto made = makePortfolio(range, options.budget, /*needsTrials=*/false);
    report(made->result);
    // The time did not suffice for trials, nor perhaps for all kernels. Those
    // of the estimator's choices are had all the same, unless what was measured
    // before is there.
    if (tunes && mayBeCut && !options.isCancelled() && isUntried(*made))
      made = runSession(range, nullptr,
                        Clock::now() + EngineConfig::timeOf(INT64_MAX),
                        /*retunes=*/false);
    if (options.retune && !options.isBackground)
      keepMeasured(range, *made);
    if (made->error.code == ErrorCode::NoCandidate)
      dropServed(range);
    if (made->error.code != ErrorCode::Success)
      return fail(errorOf(made->error));
    complete = made->result.portfolio.isComplete;
    stored =
        made->result.isStored && made->result.portfolio.measuredMembers() > 0;
    code = std::move(made->result.code);
    known = std::make_shared<const KnownPortfolio>(
        std::move(made->result.portfolio),
        made->result.origin == PortfolioOrigin::Stored);
    // Others of the layer, with further values, go on from it.
    if (options.isBackground && known->isMeasured())
      context.portfolios.add(known);
  } else {
    known = findStored(engine.portfolioSources(context), range);
    if (!known)
      return;
    code.resize(known->members().size());
  }
  std::vector<ActivePlanPtr> plans;
  for (uint32_t i = 0; i < known->members().size() && !isOver(); ++i)
    plans.push_back(loadMember(*known, i, std::move(code[i])));
  if (isOver() || llvm::none_of(plans, [](auto &plan) { return !!plan; }))
    return;
  const bool isProvisional = asksSpace(mode) && !known->isWhole();
  auto prepared = std::make_shared<const PreparedRange>(
      context.model, std::move(known), std::move(plans), exactPlans(range),
      isProvisional);
  found = prepared->choose(request.problem);
  if (!found)
    return;
  using Standing = ContextState::Standing;
  const Standing standing = options.isBackground ? Standing::Background
                            : state              ? Standing::Latest
                                                 : Standing::Beside;
  serving = context.addRange(prepared, standing);
  found = serving->choose(request.problem);
  if (found)
    return;
  // The range that is kept in its place was found wrong here.
  serving = context.addRange(std::move(prepared), Standing::Latest);
  found = serving->choose(request.problem);
}

/// Lets \p made, which was to be measured again and was cut short, be the
/// portfolio that was measured before.
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
  // Its kernels are there; those in the place of lost ones may not be.
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

/// The plan of one member, null where it cannot be had.
ActivePlanPtr Acquisition::loadMember(const KnownPortfolio &known,
                                      uint32_t member, MemberCode code) {
  const PortfolioMember &from = known.members()[member];
  Choice choice;
  choice.tmpl = from.tmpl;
  choice.config = from.config;
  choice.source = known.sourceOf(member);
  choice.isFallback = tunes && !known.isMeasured();
  const Problem &target = known.targetOf(member);
  found = {};
  if (auto loaded = context.plans.find(target, from.config)) {
    choose(choice, loaded);
  } else if (!code.artifacts.empty() &&
             code.artifacts.size() == code.plan.kernels.size()) {
    loadCompiled(target, choice,
                 {std::move(code.plan),
                  {code.artifacts.begin(), code.artifacts.end()},
                  /*isFresh=*/false});
  } else if (auto plan = chooser.plan(target, choice)) {
    loadNew(target, std::move(*plan), choice, Effort::Existing);
  }
  return std::exchange(found, {}).plan;
}

/// What was measured at single values of \p range, loaded.
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
    if (ChosenPlan chosen =
            Acquisition(engine, context, alone, options, nullptr).findExact())
      plans.emplace(extents, std::move(chosen));
  }
  return plans;
}

ChosenPlan Acquisition::findExact() {
  trialsAhead = false;
  takeMeasured();
  return found.measuredNs > 0 ? found : ChosenPlan();
}

} // namespace kiln
