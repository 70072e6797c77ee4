//===- Chooser.cpp - the configs that each step offers --------------------===//
#include "Choice/Chooser.h"

#include "Observe/Span.h"
#include "Tune/CompileOrder.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

/// A loaded kernel serves meanwhile if its expected time is at most this factor
/// of the best.
static constexpr double kNearEnough = 1.05;
/// Configs of a space that may be the best by measured times: those predicted
/// within `kContenderBand` of the best, `kMostContenders` at most.
static constexpr double kContenderBand = 1.25;
static constexpr size_t kMostContenders = 64;
/// The number of configs of a ranking that the step Close considers.
static constexpr size_t kEstimateTiest = 8;
/// The number of loaded configs of a signature that a launch without waiting
/// considers, the latest first.
static constexpr size_t kMostStandIns = 48;

Chooser::Chooser(const ChoiceSources &sources, const PlanRequest &request)
    : from(sources), request(request), mode(from.mode), device(from.device),
      verdicts(from.records.verdicts()), targets(request.targets()) {}

//===----------------------------------------------------------------------===//
// Configs and plans
//===----------------------------------------------------------------------===//

bool Chooser::serveAlone() {
  isAlone = true;
  return targets.all.size() > targets.shared;
}

llvm::ArrayRef<Problem> Chooser::targetsOf(const Choice &choice) const {
  if (choice.portfolio)
    return choice.portfolio->targetOf(choice.member);
  const llvm::ArrayRef<Problem> all = targets.all,
                                shared = all.take_front(targets.shared);
  if (isAlone || choice.measuredNs > 0)
    return all;
  if (shared.size() == all.size())
    return shared;
  auto mayRun = [&](const Problem &target) {
    return !choice.tmpl->pruneWithin({from.workspaceLimit}, target,
                                     choice.config, device);
  };
  if (llvm::any_of(shared, mayRun))
    return shared;
  auto [place, isNew] = furthest.try_emplace(choice.config.text());
  if (isNew)
    if (auto found =
            furthestOf(request.family, all.back(), shared.back(), mayRun))
      place->second.push_back(std::move(*found));
  return place->second;
}

std::optional<Plan> Chooser::plan(const Problem &target,
                                  const Choice &choice) const {
  if (choice.tmpl->pruneWithin({from.workspaceLimit}, target, choice.config,
                               device))
    return std::nullopt;
  return choice.tmpl->plan(target, choice.config, device);
}

Allowance Chooser::allowance() const { return {from.workspaceLimit}; }

bool Chooser::hasArtifacts(const Plan &plan) const {
  return llvm::all_of(plan.kernels, [&](const TranslationUnit &unit) {
    return from.artifacts.lookup(unit).has_value();
  });
}

/// Whether a plan of \p choice can be had with no more than \p effort.
bool Chooser::isWithin(const Choice &choice, Effort effort) const {
  return llvm::any_of(targetsOf(choice), [&](const Problem &target) {
    if (from.plans.find(target, choice.config))
      return true;
    if (effort < Effort::Existing)
      return false;
    std::optional<Plan> made = plan(target, choice);
    return made && (effort == Effort::Compiled || hasArtifacts(*made));
  });
}

std::string Chooser::digestOf(const Template &tmpl, const Values &config) {
  return from.plans.digestOf(tmpl, request.problem, config, device);
}

const RecordMatch &Chooser::record() {
  if (!match)
    match =
        from.records.find(request.family, request.problem, from.deviceClass);
  return *match;
}

const RecordMatch &Chooser::recordNow() {
  match = from.records.find(request.family, request.problem, from.deviceClass,
                            MeasurementMode::Cold, RecordAge::Now);
  return *match;
}

/// The request's point as a range of its layer.
ProblemRange Chooser::valueAsRange() const {
  const llvm::ArrayRef<int> dynamic = request.family.dynamicExtents();
  ProblemRange here;
  here.family = &request.family;
  here.described = request.problem.values;
  here.signature = request.problem.signature;
  here.fields.assign(dynamic.begin(), dynamic.end());
  here.low = here.high = aboveZero(here.pointOf(request.problem.values));
  return here;
}

/// Whether trials found that this kernel is wrong, or cannot be launched here.
bool Chooser::isRejected(const Template &tmpl, const Values &config) {
  if (verdicts.mayBeWrong(from.deviceClass, config.compiledText()) &&
      verdicts.isWrong(from.deviceClass, digestOf(tmpl, config)))
    return true;
  const std::string text = config.text();
  return record().mayRefuse(text) &&
         record().refuses(text, digestOf(tmpl, config));
}

bool Chooser::foundNoneRight() {
  return kiln::foundNoneRight(record(), verdicts, from.deviceClass);
}

/// Whether trials may find a better config than the record's answer: its trials
/// were truncated, or left out configs that this request may take.
bool Chooser::isIncomplete() {
  const RecordMatch &known = record();
  return known.isIncomplete || (known.kind == RecordMatchKind::Exact &&
                                known.leavesOut(request.family, request.problem,
                                                device, allowance()));
}

bool Chooser::mayOfferMeasured(const TrialIntent &trials) {
  return !trials.areAhead || (!trials.areRepeated && !isIncomplete());
}

bool Chooser::mayOfferDecided(const TrialIntent &trials) {
  const bool isUntried = hasStep(mode, ChoiceStep::Trials) && foundNoneRight();
  return !isUntried && mayOfferMeasured(trials);
}

//===----------------------------------------------------------------------===//
// Stored choices
//===----------------------------------------------------------------------===//

/// The configs measured at this very extent, the winner first. In modes with
/// trials only configs with today's kernels count, which are as good as new
/// trials.
std::vector<Choice> Chooser::recorded() {
  const Problem &problem = request.problem;
  std::vector<Choice> choices;
  if (record().kind != RecordMatchKind::Exact)
    return choices;
  // A config that was timed and never compared with the reference must not be
  // launched.
  for (const RecordedConfig &known : record().validated()) {
    if (known.tmpl->prune(problem, known.config, device))
      continue;
    const Measurement &measured = *known.measurement;
    const std::string kernel = digestOf(*known.tmpl, known.config);
    const bool isToday = measured.kernel == kernel;
    if (isRejected(*known.tmpl, known.config) ||
        (!isToday && hasStep(mode, ChoiceStep::Trials)))
      continue;
    Choice &choice = choices.emplace_back();
    choice.tmpl = known.tmpl;
    choice.config = known.config;
    choice.isKnown = true;
    choice.source = isToday ? KILN_SOURCE_RECORD : KILN_SOURCE_ESTIMATE;
    choice.isFallback = !isToday;
    choice.predictedNs =
        known.tmpl->estimate(problem, known.config, device).totalNs;
    choice.measuredNs = isToday ? measured.medianNs : 0;
  }
  // Kernels that are the same as when they were measured come first.
  llvm::stable_sort(choices, [](const Choice &a, const Choice &b) {
    return !a.isFallback && b.isFallback;
  });
  return choices;
}

std::shared_ptr<const KnownPortfolio> Chooser::portfolio() const {
  if (request.family.dynamicExtents().empty())
    return nullptr;
  // Which portfolios were found before depends on the values that came first.
  if (isFrozen(mode))
    return findStored(from.ofPortfolios(), valueAsRange());
  auto known = from.portfolios.find(request.family, request.problem);
  if (known)
    return known;
  known = findStored(from.ofPortfolios(), valueAsRange());
  if (known)
    from.portfolios.add(known);
  return known;
}

std::optional<ProblemRange> Chooser::layer() const {
  return layerOf(request.family, request.problem, from.portfolios);
}

Choice Chooser::memberOf(const std::shared_ptr<const KnownPortfolio> &known,
                         const PortfolioChoice &pick) const {
  const PortfolioMember &member = known->members()[pick.member];
  Choice choice;
  choice.tmpl = member.tmpl;
  choice.config = member.config;
  choice.source = known->sourceOf(pick.member);
  choice.predictedNs = pick.expectedNs;
  // It stands in for trials.
  choice.isFallback = hasStep(mode, ChoiceStep::Trials) &&
                      choice.source == KILN_SOURCE_ESTIMATE;
  choice.portfolio = known;
  choice.member = pick.member;
  return choice;
}

std::vector<Choice> Chooser::membersOfPortfolio() {
  std::vector<Choice> choices;
  std::shared_ptr<const KnownPortfolio> known = portfolio();
  if (!known)
    return choices;
  Portfolio::Ranking members = known->rank(request.problem, device);
  llvm::erase_if(members, [&](const PortfolioChoice &pick) {
    const PortfolioMember &member = known->members()[pick.member];
    return isRejected(*member.tmpl, member.config);
  });
  // Once trials found wrong results, only compared configs are launched.
  if (asksSpace(mode) && !members.empty() && !known->foundWrong() &&
      !(known->isWhole() && behindBest(members) <= kNextToBest))
    return spaceByExpectation(known, members);
  for (const PortfolioChoice &pick : members)
    choices.push_back(memberOf(known, pick));
  return choices;
}

/// Whether \p config, predicted with \p predictedNs, is the same answer as the
/// first of the ranking, for a model that does not resolve differences below 2
/// % and orders classes of a coarse template by more than times.
bool Chooser::isFirstAnswer(const Template &tmpl, const Values &config,
                            double predictedNs) const {
  if (ranked.empty() || predictedNs > kEstimateTie * ranked[0].estimate.totalNs)
    return false;
  const CandidateClass own = tmpl.classOf(request.problem, config);
  return own.ranksByTime ||
         (&tmpl == ranked[0].tmpl && own.rank <= ranked[0].candidateClass.rank);
}

/// The configs that may be launched for the request besides the members of \p
/// known: the space, in its order, and the pool.
std::vector<Choice>
Chooser::contendersBeside(const KnownPortfolio &known) const {
  std::vector<Choice> choices;
  for (size_t i = 0; i < ranked.size() && choices.size() < kMostContenders;
       ++i) {
    if (ranked[i].estimate.totalNs >
        kContenderBand * ranked[0].estimate.totalNs)
      continue;
    Choice choice = choiceAt(i);
    if (known.hasProven(*choice.tmpl, choice.config)) {
      choice.source = KILN_SOURCE_RECORD;
      choice.isFallback = false;
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

/// The whole space, the pool and \p members by expected time, because other
/// kernels than a portfolio's may be better.
std::vector<Choice>
Chooser::spaceByExpectation(const std::shared_ptr<const KnownPortfolio> &known,
                            llvm::ArrayRef<PortfolioChoice> members) {
  if (llvm::Error error = rank())
    llvm::consumeError(std::move(error)); // members run there
  std::vector<Choice> offered = contendersBeside(*known);
  auto add = [&](Choice choice, double predictedNs) {
    choice.predictedNs = predictedNs;
    auto same = llvm::find_if(offered, [&](const Choice &other) {
      return other.tmpl == choice.tmpl && other.config == choice.config;
    });
    if (same == offered.end())
      offered.push_back(std::move(choice));
    else if (choice.portfolio) // a member has a plan
      *same = std::move(choice);
  };
  for (Choice &choice : pooled())
    add(choice, choice.predictedNs);
  for (const PortfolioChoice &pick : members)
    add(memberOf(known, pick), pick.predictedNs);
  const ExtentPoint point = known->range().pointOf(request.problem.values);
  std::vector<Contender> contenders;
  for (auto [place, choice] : llvm::enumerate(offered)) {
    choice.isFirstAnswer =
        isFirstAnswer(*choice.tmpl, choice.config, choice.predictedNs);
    const llvm::StringRef bound =
        choice.tmpl->estimate(request.problem, choice.config, device).bound;
    contenders.push_back({{*choice.tmpl, choice.config, point, bound},
                          choice.predictedNs,
                          choice.predictedNs,
                          place});
  }
  judge(contenders, known->evidence());
  std::vector<Choice> choices;
  size_t leads = 0;
  for (const Contender &contender : contenders) {
    choices.push_back(std::move(offered[contender.place]));
    choices.back().predictedNs = contender.expectedNs;
    leads += contender.mayLead;
  }
  preferExisting(choices, leads);
  return choices;
}

/// Puts one of \p choices first that need not be compiled, if it is as good:
/// one of the first \p leads that is expected within kEstimateTie of the best,
/// or one that also is the estimator's first answer.
void Chooser::preferExisting(std::vector<Choice> &choices, size_t leads) const {
  auto moveToFront = [&](double factor, Effort effort, auto mayTake) {
    const double limitNs = factor * choices.front().predictedNs;
    for (size_t i = 0; i < choices.size(); ++i)
      if (choices[i].predictedNs <= limitNs && mayTake(i) &&
          isWithin(choices[i], effort)) {
        std::rotate(choices.begin(), choices.begin() + static_cast<long>(i),
                    choices.begin() + static_cast<long>(i) + 1);
        return true;
      }
    return false;
  };
  auto leading = [&](size_t i) { return i < leads; };
  auto asGood = [&](size_t i) { return i < leads || choices[i].isFirstAnswer; };
  if (moveToFront(1, Effort::Existing, leading) ||
      moveToFront(kEstimateTie, Effort::Loaded, asGood) ||
      moveToFront(kEstimateTie, Effort::Existing, asGood))
    return;
  // A call whose layer was measured waits for no more compilations than it has
  // to; the kernel serves later calls.
  const Choice best = choices.front();
  auto any = [](size_t) { return true; };
  if (triesFirst(mode) && moveToFront(kNearEnough, Effort::Loaded, any)) {
    choices.insert(choices.begin(), best);
    choices.front().isForLater = true;
    return;
  }
  constexpr size_t kMostTries = 2; // some kernel may not compile
  for (size_t i = 0; i < std::min(leads, kMostTries); ++i)
    choices[i].mayCompile = true;
}

/// The estimator's stored choices, if their kernels are today's and were not
/// found wrong.
std::vector<Choice> Chooser::decided() {
  std::vector<Choice> choices;
  const auto stored = from.portfolioStore.load(
      PortfolioKey::ofValue(request.problem, device), RecordAge::Now);
  if (stored->ranges.empty())
    return choices;
  for (const StoredMember &decided : stored->ranges.front().members) {
    auto named = request.family.parseConfig(decided.config);
    if (!named) {
      llvm::consumeError(named.takeError());
      continue;
    }
    if (named->tmpl->prune(request.problem, named->config, device) ||
        decided.kernel != digestOf(*named->tmpl, named->config) ||
        isRejected(*named->tmpl, named->config))
      continue;
    Choice &choice = choices.emplace_back();
    choice.tmpl = named->tmpl;
    choice.config = std::move(named->config);
    choice.isKnown = true;
    choice.source = KILN_SOURCE_DECISION;
    choice.predictedNs =
        choice.tmpl->estimate(request.problem, choice.config, device).totalNs;
  }
  return choices;
}

/// The kernels of the signature's pool that run here, except wrong ones. Once
/// the space is ranked, only those within kEstimateTie of its best.
std::vector<Choice> Chooser::pooled() {
  std::vector<Choice> choices;
  auto pool = from.pools ? from.pools->find(request.family,
                                            request.problem.signature, device)
                         : nullptr;
  if (!pool)
    return choices;
  const bool isBeside = hasStep(mode, ChoiceStep::Compile);
  const double limitNs =
      ranked.empty() ? 0 : kEstimateTie * ranked.front().estimate.totalNs;
  for (const KnownPool::Pick &pick : pool->rank(request.problem, device)) {
    if (isBeside && pick.predictedNs > limitNs)
      break;
    if (isRejected(*pick.tmpl, pick.config))
      continue;
    Choice &choice = choices.emplace_back();
    choice.tmpl = pick.tmpl;
    choice.config = pick.config;
    choice.source = KILN_SOURCE_ESTIMATE;
    choice.isFallback = hasStep(mode, ChoiceStep::Trials);
    choice.predictedNs = pick.predictedNs;
  }
  return choices;
}

//===----------------------------------------------------------------------===//
// The estimator's ranking
//===----------------------------------------------------------------------===//

/// The choice of a config that the estimator ranks. A generic one that is not
/// \p isFirst of all is a fallback.
static Choice estimated(const Template &tmpl, const Values &config,
                        double predictedNs, bool isFirst) {
  const bool isGeneric = tmpl.isGeneric() && !isFirst;
  Choice choice;
  choice.tmpl = &tmpl;
  choice.config = config;
  choice.predictedNs = predictedNs;
  choice.source = isGeneric ? KILN_SOURCE_GENERIC : KILN_SOURCE_ESTIMATE;
  choice.isFallback = isGeneric;
  return choice;
}

/// Whether any config would serve without a limit.
static bool mayServe(const PlanRequest &request, const DeviceModel &device) {
  auto space = exploreSpace(request.family, request.problem, device);
  if (space)
    return true;
  llvm::consumeError(space.takeError());
  return false;
}

/// Fills the ranking, without configs that trials found wrong.
llvm::Error Chooser::rank() {
  if (isRanked)
    return llvm::Error::success();
  const observe::Span span(
      observe::Phase::Plan, [&] { return request.problem.text(); },
      "configs are estimated and ranked");
  auto space = exploreSpace(request.family, request.problem, device,
                            {.allowance = allowance()});
  if (!space) {
    // In a mode that does not compile, a config that a limit forbids counts as
    // missing, like others.
    if (hasStep(mode, ChoiceStep::Compile) || !mayServe(request, device))
      return space.takeError();
    llvm::consumeError(space.takeError());
    isRanked = true;
    return llvm::Error::success();
  }
  ranked = std::move(space->ranked);
  llvm::erase_if(ranked, [&](const Candidate &candidate) {
    return isRejected(*candidate.tmpl, candidate.config);
  });
  isSecondBest = !ranked.empty() &&
                 space->leftOut.leastNs < ranked.front().estimate.totalNs;
  isRanked = true;
  return llvm::Error::success();
}

Choice Chooser::choiceAt(size_t rank) const {
  const Candidate &candidate = ranked[rank];
  Choice choice =
      estimated(*candidate.tmpl, candidate.config, candidate.estimate.totalNs,
                rank == 0 && !isSecondBest);
  // It stands in for trials.
  choice.isFallback |= hasStep(mode, ChoiceStep::Trials);
  return choice;
}

//===----------------------------------------------------------------------===//
// Offering
//===----------------------------------------------------------------------===//

/// Offers \p choices; returns whether \p take wants no more.
static bool offerAll(llvm::ArrayRef<Choice> choices, Chooser::Take take) {
  return llvm::any_of(choices, take);
}

void Chooser::offerMeasured(Take take) { offerAll(recorded(), take); }

void Chooser::offerStored(const TrialIntent &trials, Take take) {
  if (mayOfferMeasured(trials) && offerAll(recorded(), take))
    return;
  // Portfolio and decision say nothing about a value that will be measured by
  // itself.
  if (trials.areAhead && (trials.areRepeated || trials.arePreferred ||
                          (trials.isLayerDue && trials.isLayerDue())))
    return;
  if (!offerAll(membersOfPortfolio(), take) && mayOfferDecided(trials))
    offerAll(decided(), take);
}

/// Offers the loaded configs within kEstimateTie of the best, by time. (A
/// ranking may begin with the best of each class, so its order differs.)
void Chooser::offerLoaded(Take take) const {
  std::vector<size_t> order;
  for (size_t i = 0; i < ranked.size(); ++i)
    if (isFirstAnswer(*ranked[i].tmpl, ranked[i].config,
                      ranked[i].estimate.totalNs))
      order.push_back(i);
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return ranked[a].orderingNs() < ranked[b].orderingNs();
  });
  for (size_t i : order) {
    const Choice choice = choiceAt(i);
    if (isWithin(choice, Effort::Loaded) && take(choice))
      return;
  }
}

/// Offers the first configs of the ranking that are within kEstimateTie of the
/// best. All of them are checked, because times do not grow along a ranking
/// that begins with the best of each class.
void Chooser::offerClosest(Take take) const {
  for (size_t i = 0; i < std::min(kEstimateTiest, ranked.size()); ++i)
    if (isFirstAnswer(*ranked[i].tmpl, ranked[i].config,
                      ranked[i].estimate.totalNs) &&
        take(choiceAt(i)))
      return;
}

void Chooser::offerToCompile(Take take) const {
  llvm::SmallVector<size_t, kMostCompileAttempts + 1> tried;
  auto mayTry = [&](size_t rank) {
    return isWithin(choiceAt(rank), Effort::Compiled);
  };
  while (auto rank = nextToCompile(ranked, tried, mayTry)) {
    tried.push_back(*rank);
    if (take(choiceAt(*rank)))
      return;
  }
}

llvm::Error Chooser::offer(ChoiceStep step, Take take,
                           const TrialIntent &trials) {
  if (needsRanking(step, mode))
    if (auto error = rank())
      return error;
  switch (step) {
  case ChoiceStep::Stored:
    offerStored(trials, take);
    break;
  case ChoiceStep::Trials:
    break;
  case ChoiceStep::Loaded:
    offerLoaded(take);
    break;
  case ChoiceStep::Close:
    offerClosest(take);
    break;
  case ChoiceStep::Compile:
    offerToCompile(take);
    break;
  case ChoiceStep::Pool:
    offerAll(pooled(), take);
    break;
  case ChoiceStep::Existing:
    for (size_t i = 0; i < ranked.size(); ++i)
      if (take(choiceAt(i)))
        break;
    break;
  }
  return llvm::Error::success();
}

std::vector<Choice> Chooser::standIns() {
  const Problem &problem = request.problem;
  std::vector<Choice> choices;
  if (foundNoneRight())
    return choices; // an untried one would be launched unproven
  for (const PlanPool::LoadedConfig &loaded :
       from.plans.loadedOf(problem.signature, kMostStandIns)) {
    if (loaded.tmpl->prune(problem, loaded.config, device) ||
        isRejected(*loaded.tmpl, loaded.config))
      continue;
    Choice &choice = choices.emplace_back();
    choice.tmpl = loaded.tmpl;
    choice.config = loaded.config;
    choice.source = KILN_SOURCE_STAND_IN;
    choice.isFallback = true;
    choice.predictedNs =
        loaded.tmpl->estimate(problem, loaded.config, device).totalNs;
  }
  llvm::stable_sort(choices, [](const Choice &a, const Choice &b) {
    return a.predictedNs < b.predictedNs;
  });
  return choices;
}

llvm::Error Chooser::offerGeneric(Take take) {
  if (auto error = rank())
    return error;
  for (size_t i = 0; i < ranked.size(); ++i)
    if (ranked[i].tmpl->isGeneric() && take(choiceAt(i)))
      break;
  return llvm::Error::success();
}

llvm::SmallVector<TranslationUnit, 2> Chooser::genericUnits() {
  llvm::SmallVector<TranslationUnit, 2> units;
  llvm::Error error = offerGeneric([&](const Choice &choice) {
    if (!isWithin(choice, Effort::Compiled))
      return false;
    auto made = plan(targetsOf(choice).front(), choice);
    if (made && !hasArtifacts(*made))
      units = std::move(made->kernels);
    return true;
  });
  llvm::consumeError(std::move(error)); // the work itself will tell
  return units;
}

llvm::SmallVector<TranslationUnit, 2> Chooser::unitsToCompile() {
  std::optional<Choice> first;
  // With trials, their many candidates keep all threads busy.
  if (!hasStep(mode, ChoiceStep::Compile) || triesFirst(mode))
    return {};
  for (ChoiceStep step : choiceOrder(mode)) {
    llvm::Error error = offer(step, [&](const Choice &choice) {
      if (isWithin(choice,
                   choice.isKnown ? Effort::Compiled : effortOf(step, mode)))
        first = choice;
      return first.has_value();
    });
    if (error) {
      llvm::consumeError(std::move(error)); // the work itself will tell
      return {};
    }
    if (!first)
      continue;
    std::optional<Plan> made;
    if (step == ChoiceStep::Compile)
      made = plan(targetsOf(*first).front(), *first);
    return made ? std::move(made->kernels)
                : llvm::SmallVector<TranslationUnit, 2>();
  }
  return {};
}

} // namespace kiln
