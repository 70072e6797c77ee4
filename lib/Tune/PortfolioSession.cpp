//===- PortfolioSession.cpp - the preparation of a range ------------------===//
//
// The work of a session follows from the stored portfolio. A complete one
// answers as it is. One that was measured in part, or whose configs are
// outdated, is completed: its members stay, and the cover adds the others.
//
// Then anchors are measured, most valuable first, while kernels of later ones
// compile. Members that are lost meanwhile (wrong, or without a kernel) are
// replaced by another cover that keeps the others; without trials, members that
// the compiler refuses are replaced before the end. Where measuring speaks
// against the members, another cover adds the estimator's choices that these
// replaced. The remaining time goes to run-time variants of the best kernels.
//
//===----------------------------------------------------------------------===//
#include "Tune/PortfolioSessionImpl.h"

#include "Kernel/Space.h"
#include "Observe/Span.h"
#include "Support/Error.h"
#include "Tune/KnownCover.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSet.h>

#include <set>
#include <utility>

namespace kiln {

using Stage = TuningCandidate::Stage;
using Clock = PortfolioOptions::Clock;

static double millisecondsOf(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

//===----------------------------------------------------------------------===//
// The work to do
//===----------------------------------------------------------------------===//

/// Finds a usable portfolio in the cache. One that another process stored a
/// moment ago spares the trials.
std::optional<Portfolio> PortfolioSession::Impl::findStored() {
  auto found = findPortfolio(sources(), range, RecordAge::Now,
                             /*onlyMeasured=*/task.measures());
  if (!found)
    return std::nullopt;
  barred.addFacts(found->facts, verdicts(), task.context.deviceClass);
  if (found->portfolio.empty()) {
    isHopeless = true;
    task.portfolio.hasFoundWrong = found->portfolio.hasFoundWrong;
    task.portfolio.anchors = found->portfolio.anchors;
    return std::nullopt;
  }
  hasDropped = found->hasDropped | dropWrong(found->portfolio);
  lacksFacts = found->lacksFacts;
  task.result.keptAs = found->key;
  return std::move(found->portfolio);
}

/// Takes out of \p portfolio the members that trials of any problem found
/// wrong; false if there are none.
bool PortfolioSession::Impl::dropWrong(Portfolio &portfolio) const {
  const size_t gone =
      std::erase_if(portfolio.mutableMembers(),
                    [&](const auto &member) { return isWrong(member.kernel); });
  if (gone == 0)
    return false;
  portfolio.closeGaps(task.context.device, task.options.workspaceBytes);
  portfolio.index(task.context.device);
  return true;
}

/// Finds the members that were measured in parts of the range, if no portfolio
/// serves all of it.
void PortfolioSession::Impl::findParts() {
  const PortfolioContext &context = task.context;
  auto all = context.portfolios.load(
      PortfolioKey::measured(range.fixedText(), context.deviceClass),
      RecordAge::Now);
  for (const StoredPortfolio &stored : all->ranges) {
    const bool isPart = stored.low.size() == range.low.size() &&
                        range.contains(stored.low) &&
                        range.contains(stored.high);
    if (!isPart)
      continue;
    const RangeFacts facts =
        RangeFacts::find(context.records, range, stored.anchors,
                         context.deviceClass, task.options.mode);
    Portfolio part = Portfolio::restore(range, stored, facts, context.device,
                                        task.options.workspaceBytes);
    dropWrong(part);
    llvm::append_range(ofParts, part.members());
    barred.addFacts(facts, verdicts(), context.deviceClass);
  }
}

void PortfolioSession::Impl::findBarred() {
  if (task.options.retune)
    return;
  isHopeless &= !barred.empty();
  barred.addWrong(verdicts(), task.context.deviceClass);
}

/// Returns the cover of an earlier session if it serves. It is not used a
/// second time, because then one of its members was lost.
std::optional<Portfolio> PortfolioSession::Impl::renewKnown(
    const std::vector<PortfolioMember> &kept) const {
  const PortfolioOptions &options = task.options;
  if (covers > 0 || !options.cover || !*options.cover)
    return std::nullopt;
  return renewCover(**options.cover, range, kept, ofParts, barred);
}

/// Goes on with \p cover, and with the results of trials of the range so far.
void PortfolioSession::Impl::replacePortfolio(Portfolio cover) {
  cover.hasFoundWrong = task.portfolio.hasFoundWrong;
  cover.hasGrown = task.portfolio.hasGrown;
  cover.anchors.insert(task.portfolio.anchors.begin(),
                       task.portfolio.anchors.end());
  task.portfolio = std::move(cover);
}

/// Makes the cover, with \p kept as members.
llvm::Error
PortfolioSession::Impl::coverWith(const std::vector<PortfolioMember> &kept) {
  const Clock::time_point start = Clock::now();
  const PortfolioOptions &options = task.options;
  if (std::optional<Portfolio> known = renewKnown(kept)) {
    replacePortfolio(std::move(*known));
    ++covers;
    return llvm::Error::success();
  }
  CoverOptions coverOptions;
  coverOptions.tolerance = options.tolerance;
  coverOptions.workspaceBytes = options.workspaceBytes;
  coverOptions.kept = kept;
  coverOptions.known = ofParts;
  auto isBarred = [&](const Template &tmpl, const Values &config) {
    return barred.contains(tmpl, config);
  };
  coverOptions.isBarred = isBarred;
  std::vector<KnownConfig> atHand = options.atHand;
  if (const SharedKernels *shared = task.context.kernels)
    llvm::append_range(atHand, shared->of(range));
  coverOptions.atHand = atHand;
  coverOptions.threads = options.coverThreads;
  std::vector<ExtentPoint> points = options.first;
  llvm::append_range(points, doubted);
  coverOptions.points = points;
  coverOptions.cancel = options.cover ? options.cancelCover : options.cancel;
  auto cover = coverRange(range, task.context.device, coverOptions);
  task.result.coverMs += millisecondsOf(Clock::now() - start);
  ++covers;
  if (!cover)
    return cover.takeError();
  replacePortfolio(std::move(*cover));
  if (options.cover)
    *options.cover = std::make_shared<const Portfolio>(task.portfolio);
  return llvm::Error::success();
}

/// Makes the state of \p member, without a request.
MemberWork
PortfolioSession::Impl::makeWork(const PortfolioMember &member) const {
  const Problem highest = *range.covering(member.high);
  const DeviceModel &device = task.context.device;
  Candidate candidate;
  candidate.tmpl = member.tmpl;
  candidate.config = member.config;
  candidate.estimate = member.tmpl->estimate(highest, member.config, device);
  auto code = std::make_unique<TuningCandidate>(std::move(candidate), 0);
  code->makePlan(highest, device);
  return {std::move(code), false};
}

void PortfolioSession::Impl::makeAllWork() {
  const std::vector<PortfolioMember> &members = task.portfolio.members();
  while (task.work.size() < members.size())
    task.work.push_back(makeWork(members[task.work.size()]));
  if (SharedKernels *shared = task.context.kernels)
    shared->add(task.portfolio);
}

/// Requests the kernels of members that have none yet, in the order in which
/// anchors need them.
void PortfolioSession::Impl::requestAll() {
  makeAllWork();
  anchors.clear();
  size_t asked = 0, refused = 0;
  auto hasRoom = [&](const Problem &problem) {
    const bool hasRoom = task.context.runner->hasRoom(*range.family, problem);
    ++asked;
    refused += !hasRoom;
    return hasRoom;
  };
  if (task.measures())
    anchors = planAnchors(task.portfolio, task.context.device,
                          {.first = task.options.first, .hasRoom = hasRoom});
  lacksRoom = asked > 0 && refused == asked;
  int64_t priority = firstPriority;
  auto request = [&](uint32_t member) {
    if (task.work[member].code->stage == Stage::Idle)
      task.work[member].code->request(task.context.artifacts, priority++);
  };
  for (const Anchor &anchor : anchors)
    llvm::for_each(anchor.members, request);
  for (uint32_t member = 0; member < task.work.size(); ++member)
    request(member);
  task.progress.anchors = anchors.size();
}

PortfolioSession::PortfolioSession(const PortfolioContext &context,
                                   ProblemRange range,
                                   const PortfolioOptions &options)
    : impl(new Impl(context, std::move(range), options)) {}

PortfolioSession::~PortfolioSession() = default;

void PortfolioSession::choose() {
  if (std::exchange(impl->isChosen, true))
    return;
  const Clock::time_point start = Clock::now();
  const observe::Span span(
      observe::Phase::Plan, [&] { return impl->range.text(); },
      "the kernels of a range are chosen");
  const PortfolioOptions &options = impl->task.options;
  std::vector<PortfolioMember> kept;
  if (!options.retune) {
    if (auto stored = impl->findStored()) {
      const bool acceptsPartial =
          options.acceptsPartial || !impl->task.measures();
      impl->isAnswered = !impl->hasDropped &&
                         (stored->isComplete ||
                          (acceptsPartial && stored->measuredMembers() > 0));
      kept = stored->members();
      // A stored portfolio of a wider range serves this one, and is completed
      // as it is.
      impl->range = stored->range();
      impl->task.portfolio = std::move(*stored);
    } else if (impl->range.fields.size() > 1) {
      // A range of one field is quickly measured again, all of it side by side.
      impl->findParts();
    }
  }
  if (!impl->isAnswered) {
    impl->findBarred();
    impl->beginError = summarize(impl->isHopeless ? impl->nothingRight()
                                                  : impl->coverWith(kept));
  }
  if (impl->beginError.code == ErrorCode::Success)
    impl->makeAllWork();
  impl->spent += Clock::now() - start;
}

std::vector<TranslationUnit> PortfolioSession::units() const {
  std::vector<TranslationUnit> units;
  for (const MemberWork &member : impl->task.work)
    llvm::append_range(units, member.code->plan.kernels);
  return units;
}

void PortfolioSession::begin(int64_t priority) {
  choose();
  const Clock::time_point start = Clock::now();
  impl->firstPriority = priority;
  if (impl->beginError.code == ErrorCode::Success)
    impl->requestAll();
  impl->spent += Clock::now() - start;
}

bool PortfolioSession::needsTrials() const {
  return !impl->isAnswered && !impl->anchors.empty();
}

int64_t PortfolioSession::priorities() const {
  return static_cast<int64_t>(impl->task.work.size());
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

/// Measures at \p anchors from \p next on, until \p deadline. A part of the
/// time is reserved for comparisons, because only proven members can be chosen.
llvm::Error PortfolioSession::Impl::measureAnchors(size_t &next,
                                                   Clock::time_point deadline) {
  constexpr int kProofShare = 5;
  const Clock::time_point now = Clock::now();
  const Clock::time_point proofsFrom =
      deadline > now ? deadline - (deadline - now) / kProofShare : deadline;
  bool hasTimeForProofs = false;
  for (; next < anchors.size() && !isOver(deadline); ++next) {
    if (!hasTimeForProofs && Clock::now() >= proofsFrom) {
      hasTimeForProofs = true;
      if (llvm::Error error = trials.proveRest(deadline))
        return error;
    }
    if (llvm::Error error = trials.measureAt(anchors[next], deadline))
      return error;
    ++task.progress.anchorsDone;
  }
  return trials.proveRest(deadline);
}

/// Finds samples where measuring spoke so much against the best members that
/// the estimator's choice, which they replaced, may be better than the others.
/// The worst sample comes first.
std::vector<ExtentPoint> PortfolioSession::Impl::findDoubted() {
  // A sample takes up to a millisecond, because comparing members costs the
  // square of the number of times.
  constexpr size_t kMostSamples = 160;
  std::vector<std::pair<double, ExtentPoint>> found;
  task.portfolio.calibrate();
  const RangeGrid grid(range);
  const size_t step = grid.size() / kMostSamples + 1;
  for (size_t place = 0; place < grid.size(); place += step) {
    ExtentPoint point = range.alignDown(grid.at(place));
    const auto problem = point.empty() ? std::nullopt : range.find(point);
    if (!problem)
      continue;
    const double behind =
        behindBest(task.portfolio.rank(*problem, point, task.context.device));
    if (behind > kNextToBest)
      found.emplace_back(behind, std::move(point));
  }
  llvm::stable_sort(
      found, [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<ExtentPoint> points;
  for (auto &[behind, point] : found)
    points.push_back(std::move(point));
  return points;
}

/// Returns the \p points at which the estimator's choice is a kernel that is
/// not a member, one for each kernel.
std::vector<ExtentPoint> PortfolioSession::Impl::withNewKernels(
    llvm::ArrayRef<ExtentPoint> points) const {
  constexpr size_t kMostLookedAt = 64, kMostPoints = 12;
  std::set<std::pair<const Template *, std::vector<int64_t>>> known;
  for (const PortfolioMember &member : task.portfolio.members())
    known.insert({member.tmpl, member.config.compiledKnobs()});
  Allowance allowance;
  allowance.workspaceBytes = task.options.workspaceBytes;
  std::vector<ExtentPoint> chosen;
  const size_t step = points.size() / kMostLookedAt + 1;
  for (size_t i = 0; i < points.size() && chosen.size() < kMostPoints;
       i += step) {
    auto space = exploreSpace(*range.family, *range.find(points[i]),
                              task.context.device, {.allowance = allowance});
    if (!space) {
      llvm::consumeError(space.takeError()); // members run there
      continue;
    }
    auto first = llvm::find_if(space->ranked, [&](const Candidate &candidate) {
      return !barred.contains(*candidate.tmpl, candidate.config);
    });
    if (first != space->ranked.end() &&
        known.insert({first->tmpl, first->config.compiledKnobs()}).second)
      chosen.push_back(points[i]);
  }
  return chosen;
}

/// Whether the time suffices for another search of a cover and for trials.
bool PortfolioSession::Impl::mayGrow(Clock::time_point deadline) const {
  constexpr double kShare = 0.5;
  return task.result.coverMs < kShare * millisecondsOf(deadline - Clock::now());
}

llvm::Error PortfolioSession::Impl::measure(Clock::time_point deadline) {
  size_t next = 0;
  for (;;) {
    if (llvm::Error error = measureAnchors(next, deadline))
      return error;
    isComplete = next == anchors.size();
    const bool hasLost = findLost();
    if (isOver(deadline) || covers >= kMostCovers)
      break;
    if (!hasLost && (task.portfolio.hasGrown || !mayGrow(deadline)))
      break;
    if (!hasLost) {
      doubted = withNewKernels(findDoubted());
      task.portfolio.hasGrown = true; // once for all sessions of the range
    }
    if (!hasLost && doubted.empty())
      break;
    next = 0;
    if (!completeLost())
      break;
  }
  for (size_t i = 0; i < next && !isOver(deadline); ++i)
    if (llvm::Error error = trials.tryVariants(anchors[i], deadline))
      return error;
  return llvm::Error::success();
}

/// Leaves only members that may be launched.
llvm::Error PortfolioSession::Impl::settle() {
  findLost();
  // It was measured again, or another session found it wrong meanwhile.
  for (MemberWork &member : task.work)
    member.isLost |= isWrong(member.code->kernel);
  bool hasLost = false;
  for (MemberWork &member : task.work) {
    const bool isMissing = member.code->stage != Stage::Ready;
    // Other members serve in place of one that is refused, once no cover
    // replaces it: later sessions would not find more.
    isComplete &= !isMissing || (isRefused(member) && covers >= kMostCovers);
    hasLost |= member.isLost || isMissing;
    llvm::move(member.code->takePending(),
               std::back_inserter(task.result.late));
    member.isLost |= isMissing;
  }
  const bool foundWrong = task.result.rejected > 0;
  task.portfolio.isWhole = !hasLost;
  dropLost();
  const bool hasProven =
      llvm::any_of(task.portfolio.members(),
                   [](const PortfolioMember &m) { return m.validated; });
  if (task.portfolio.empty() || (foundWrong && !hasProven)) {
    task.portfolio.mutableMembers().clear();
    task.work.clear();
    task.result.stop = task.isCancelled() ? StopReason::Cancelled
                       : isComplete       ? StopReason::Exhausted
                                          : StopReason::Budget;
    // An empty result is stored so that no session tries again if nothing is
    // left to try.
    if (foundWrong && task.result.stop == StopReason::Exhausted &&
        task.options.stores)
      store();
    return nothingRight();
  }
  if (hasLost || hasProven)
    task.portfolio.closeGaps(task.context.device, task.options.workspaceBytes);
  PortfolioResult &result = task.result;
  for (auto [member, work] :
       llvm::zip_equal(task.portfolio.members(), task.work)) {
    MemberCode &code = result.code.emplace_back();
    TuningCandidate &known = *work.code;
    ExtentPoint high = range.pointOf(known.plan.problem);
    // The interval may have been moved to close a gap.
    code.plan = high == member.high
                    ? std::move(known.plan)
                    : member.tmpl->plan(*range.covering(member.high),
                                        member.config, task.context.device);
    code.artifacts = std::move(known.artifacts);
    code.loaded = std::move(known.loaded);
  }
  result.kernels = task.portfolio.kernels();
  return llvm::Error::success();
}

llvm::Error PortfolioSession::Impl::nothingRight() const {
  return makeError(ErrorCode::NoCandidate,
                   "trials of {} over {} found no correct kernel",
                   range.described.text(), range.text());
}

/// Stores the results of trials at anchors in the records of their layers. That
/// costs one update if the range varies dynamic extents alone.
void PortfolioSession::Impl::storeFacts() {
  const KernelFamily &family = *range.family;
  llvm::StringSet<> proven;
  for (const PortfolioMember &member : task.portfolio.members())
    if (member.validated)
      proven.insert(member.kernel);
  std::map<std::string, std::vector<const AnchorFacts *>> layers;
  for (AnchorFacts &facts : task.facts) {
    // A kernel is compared where that is cheap, mostly at another point.
    for (Measurement &found : facts.point.measurements)
      found.validated |= found.valid && proven.contains(found.kernel);
    layers[family.fixedText(facts.problem)].push_back(&facts);
  }
  for (const auto &[layer, facts] : layers) {
    std::vector<RecordPoint> points;
    for (const AnchorFacts *one : facts)
      points.push_back(one->point);
    cache::PublishResult kept = task.context.records.storeAll(
        family, facts.front()->problem, task.context.deviceClass, points);
    if (!kept.reason.empty())
      task.result.notes.push_back(
          fmt::format("the record was not kept: {}", kept.reason));
  }
  task.facts.clear();
}

void PortfolioSession::Impl::store() {
  task.portfolio.measuredAtMs = unixTimeMs();
  const PortfolioContext &context = task.context;
  const std::string layer = range.fixedText();
  const bool isMeasured =
      task.portfolio.measuredMembers() > 0 || task.portfolio.empty();
  const PortfolioKey key =
      isMeasured ? PortfolioKey::measured(layer, context.deviceClass)
                 : PortfolioKey::estimated(layer, context.device);
  // A stored portfolio whose facts are lost knows less than it claims.
  const bool replaces =
      lacksFacts ||
      (task.options.retune &&
       (task.portfolio.isComplete || task.portfolio.empty() || // none is right
        task.options.replacesByParts));
  auto stored =
      context.portfolios.store(key, task.portfolio.toStored(), replaces);
  task.result.keptAs = key;
  if (stored.isOutdone)
    task.result.notes.push_back("the stored portfolio of this range has more "
                                "measured members, and stays");
  task.result.publish = stored.publish;
  task.result.isStored = stored.publish.status == cache::PublishStatus::Stored;
  if (!stored.publish.reason.empty())
    task.result.notes.push_back(
        fmt::format("the portfolio was not kept: {}", stored.publish.reason));
}

/// Takes the same facts as the next process will, so that both choose alike.
void PortfolioSession::Impl::takeFacts() {
  const StoredPortfolio stored = task.portfolio.toStored();
  task.portfolio.addFacts(
      RangeFacts::find(task.context.records, range, stored.anchors,
                       task.context.deviceClass, task.options.mode),
      task.context.device);
}

llvm::Error PortfolioSession::finish(Clock::time_point deadline) {
  Impl &self = *impl;
  RangeTask &task = self.task;
  PortfolioResult &result = task.result;
  const Clock::time_point start = Clock::now();
  if (self.beginError.code != ErrorCode::Success)
    return errorOf(self.beginError);
  if (llvm::Error error = self.awaitMembers(deadline))
    return error;
  const bool measures = !self.isAnswered && task.measures();
  if (measures) {
    llvm::Error error = self.measure(deadline);
    // Facts are stored whatever becomes of the portfolio, so that no later
    // session repeats the trials.
    if (task.options.stores)
      self.storeFacts();
    if (error) {
      result.stop = StopReason::Device;
      return error;
    }
    if (task.options.awaitsKernels)
      self.awaitRest();
  }
  if (llvm::Error error = self.settle())
    return error;
  Portfolio &portfolio = task.portfolio;
  const bool isMeasured = portfolio.measuredMembers() > 0;
  result.origin = !isMeasured       ? PortfolioOrigin::Estimated
                  : self.isAnswered ? PortfolioOrigin::Stored
                                    : PortfolioOrigin::Measured;
  result.stop = task.isCancelled() ? StopReason::Cancelled
                : self.isAnswered  ? StopReason::Recorded
                : !measures        ? StopReason::Trials
                : self.isComplete  ? StopReason::Exhausted
                                   : StopReason::Budget;
  if (!self.isAnswered) {
    portfolio.isComplete =
        self.isComplete && (!measures || (isMeasured && !self.lacksRoom));
    portfolio.isWhole |= portfolio.isComplete;
    // A portfolio whose trials were due but not made is not stored as an
    // estimate, and neither are the estimator's choices if the time cut them
    // short.
    if (task.options.stores && (isMeasured || portfolio.isComplete)) {
      self.store();
      self.takeFacts();
    }
  }
  portfolio.index(task.context.device);
  self.spent += Clock::now() - start;
  result.elapsedMs = millisecondsOf(self.spent);
  return llvm::Error::success();
}

PortfolioResult PortfolioSession::takeResult() {
  PortfolioResult result = std::move(impl->task.result);
  result.portfolio = std::move(impl->task.portfolio);
  return result;
}

} // namespace kiln
