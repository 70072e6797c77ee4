//===- RangeTrials.cpp - members of a portfolio, measured at anchors ------===//
#include "Tune/RangeTrials.h"

#include "Kernel/Space.h"
#include "Observe/Span.h"
#include "Support/Error.h"
#include "Tune/TuningRecorder.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <thread>

namespace kiln {

using Stage = TuningCandidate::Stage;

/// The time for which an anchor that has kernels to compare waits for the
/// others.
static constexpr std::chrono::milliseconds kAnchorGrace{250};
static constexpr std::chrono::milliseconds kPoll{1};
/// The assumed operations a second of a reference, which computes in double
/// precision: fewer than on a data centre's GPU.
static constexpr double kReferenceFlops = 1e12;
/// The most that a comparison may cost.
static constexpr double kAffordableSeconds = 0.15;
/// A config of the same kernel is tried if it is estimated within the band, and
/// becomes a member if it is faster by the margin.
static constexpr size_t kVariants = 3;
static constexpr double kVariantBand = 0.05, kVariantMargin = 0.01;

void RangeTask::tellProgress() {
  progress.members = work.size();
  progress.measured = portfolio.measuredMembers();
  progress.trials = result.trials;
  progress.kernelsReady =
      static_cast<size_t>(llvm::count_if(work, [](const MemberWork &member) {
        return member.code->stage >= Stage::Ready;
      }));
  progress.kernels = work.size();
  if (options.progress)
    options.progress(progress);
}

void RangeTask::lose(uint32_t member, llvm::StringRef reason) {
  work[member].isLost = true;
  portfolio.hasFoundWrong |= isWrongResult(reason);
}

bool RangeTask::confine(uint32_t member, const ExtentPoint &point) {
  PortfolioMember &confined = portfolio.mutableMembers()[member];
  if (point.size() != 1 || !confined.holds(point))
    return false;
  const bool isHighEnd =
      point[0] - confined.low[0] > confined.high[0] - point[0];
  ExtentPoint &end = isHighEnd ? confined.high : confined.low;
  end = {point[0] + (isHighEnd ? -1 : 1)};
  if (isHighEnd)
    end = portfolio.range().alignDown(end);
  work[member].isConfined = true;
  return confined.low[0] <= confined.high[0];
}

bool RangeTask::runsAt(uint32_t member, const ExtentPoint &point) const {
  const PortfolioMember &of = portfolio.members()[member];
  return work[member].isConfined ? of.holds(point) : of.serves(point);
}

//===----------------------------------------------------------------------===//
// One point
//===----------------------------------------------------------------------===//

/// The configs that run side by side at one point.
struct RangeTrials::Round {
  Round(RangeTask &task, const ExtentPoint &point)
      : task(task), point(point), problem(*task.portfolio.range().find(point)),
        series(task.context.runner, *task.portfolio.range().family, problem,
               {.verdicts = &task.context.records.verdicts(),
                .deviceClass = task.context.deviceClass,
                .withdrawsVerdicts = task.options.retune,
                .activity = "preparing",
                .mode = task.options.mode,
                .cancel = task.options.cancel,
                .loadedBand = kKeepsAll}) {}

  /// Adds the plan as it is, made for more than this point.
  void add(uint32_t member, const TuningCandidate &code) {
    auto entry = std::make_unique<TuningCandidate>(
        code.candidate, static_cast<int>(entries.size()));
    entry->candidate.estimate = code.candidate.tmpl->estimate(
        problem, code.candidate.config, task.context.device);
    entry->plan = code.plan;
    entry->kernel = code.kernel;
    entry->artifacts = code.artifacts;
    entry->loaded = code.loaded;
    entry->stage = Stage::Ready;
    entries.push_back(std::move(entry));
    members.push_back(member);
  }
  /// Adds the \p wanted members that may run.
  void addReady(const std::vector<uint32_t> &wanted) {
    for (uint32_t member : wanted) {
      const MemberWork &work = task.work[member];
      if (!work.isLost && task.runsAt(member, point) &&
          work.code->stage == Stage::Ready)
        add(member, *work.code);
    }
  }

  static constexpr double kKeepsAll = 1e9;
  RangeTask &task;
  const ExtentPoint point;
  const Problem problem;
  TrialSeries series;
  std::vector<std::unique_ptr<TuningCandidate>> entries;
  std::vector<uint32_t> members; ///< by entry
};

static std::chrono::milliseconds timeUntil(RangeTrials::Clock::time_point end) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      end - RangeTrials::Clock::now());
  return std::clamp(left, std::chrono::milliseconds(1),
                    TrialOptions().timeLimit);
}

/// Measures the entries of \p round side by side.
llvm::Error RangeTrials::run(Round &round, Clock::time_point deadline) {
  CandidateRefs batch;
  for (const auto &entry : round.entries)
    batch.push_back(entry.get());
  TrialOptions options;
  options.validation = TrialValidation::None;
  options.timeLimit = timeUntil(deadline);
  if (llvm::Error error = round.series.runBatch(batch, options))
    return error;
  if (round.series.mayRun())
    return llvm::Error::success();
  // Other anchors may have room: memory was taken since this one was planned.
  const ErrorSummary &failure = round.series.failure();
  const bool isHere =
      failure.code == ErrorCode::DeviceOutOfMemory && round.point.size() > 1;
  hasFailed = !isHere;
  task.result.notes.push_back(fmt::format(
      "{}: {}", isHere ? "a point was left out" : "nothing more was measured",
      failure.message));
  return llvm::Error::success();
}

/// Compares entries that are not proven yet with the reference.
llvm::Error RangeTrials::prove(Round &round, Clock::time_point deadline) {
  for (auto [entry, member] : llvm::zip_equal(round.entries, round.members)) {
    const bool isOpen = !task.work[member].isLost &&
                        (entry->stage == Stage::Ready || entry->isMeasured());
    if (!isOpen || task.portfolio.members()[member].validated ||
        !round.series.mayRun() || task.isCancelled() ||
        Clock::now() >= deadline)
      continue;
    TrialOptions options;
    options.timeLimit = timeUntil(deadline);
    auto verdict = round.series.prove(*entry, options);
    if (!verdict)
      return verdict.takeError();
    if (isConfigFault(*verdict)) {
      entry->stage = Stage::Tried; // it has only the verdict, no time
      entry->trial.config = entry->config;
    } else if (entry->trial.validated) {
      task.portfolio.mutableMembers()[member].validated = true;
    }
  }
  return llvm::Error::success();
}

/// Whether the reference of \p problem is cheap to compute.
bool RangeTrials::isAffordable(const Problem &problem) const {
  return task.portfolio.range().family->flops(problem) <=
         kReferenceFlops * kAffordableSeconds;
}

/// Notes the results of \p round for the record.
void RangeTrials::noteFacts(const Round &round) {
  const KernelFamily &family = *task.portfolio.range().family;
  const MeasuredBy by{task.options.mode,
                      task.options.replacesByParts ? kMeasuredInPieces
                                                   : kMeasuredAtAnchor,
                      seriesAt(round.point), unixTimeMs()};
  AnchorFacts fact{round.problem, {}};
  fact.point.extents = dynamicExtentsOf(family, round.problem);
  for (const auto &entry : round.entries)
    if (entry->stage == Stage::Tried &&
        (entry->isMeasured() || entry->isAtFault()))
      fact.point.measurements.push_back(measurementOf(*entry, by));
  if (fact.point.measurements.empty())
    return;
  task.portfolio.anchors.insert(round.point);
  task.facts.push_back(std::move(fact));
}

uint64_t RangeTrials::seriesAt(const ExtentPoint &point) {
  uint64_t &number = series[point];
  if (number == 0)
    number = newSeries();
  return number;
}

/// Takes the results of \p round.
void RangeTrials::take(Round &round) {
  noteFacts(round);
  for (auto [entry, member] : llvm::zip_equal(round.entries, round.members)) {
    TuningCandidate &code = *task.work[member].code;
    if (entry->loaded)
      code.loaded = entry->loaded;
    if (entry->stage != Stage::Tried)
      continue;
    const Estimate &estimate = entry->candidate.estimate;
    task.result.trials.push_back(
        {entry->trial, estimate.totalNs, estimate.bound.str(), entry->rank});
    if (entry->isAtFault() && !entry->isWrong() &&
        task.confine(member, round.point))
      continue;
    if (entry->isAtFault()) {
      ++task.result.rejected;
      task.lose(member, reasonOf(entry->trial));
    } else if (entry->isMeasured() && estimate.totalNs > 0) {
      task.portfolio.addTime(member, {round.point, entry->trial.medianNs,
                                      estimate.totalNs, estimate.bound,
                                      seriesAt(round.point)});
    }
  }
  task.tellProgress();
}

//===----------------------------------------------------------------------===//
// Anchors
//===----------------------------------------------------------------------===//

/// Waits for the kernels of \p members; once two are there, only briefly.
void RangeTrials::await(const std::vector<uint32_t> &members,
                        Clock::time_point deadline) const {
  const observe::Span span(observe::Phase::Compile, "kernels are compiled");
  constexpr size_t kEnough = 2;
  Clock::time_point end = deadline;
  for (;;) {
    size_t ready = 0, open = 0;
    for (uint32_t member : members) {
      if (task.work[member].isLost)
        continue;
      const bool isDone = task.work[member].code->poll();
      ready += isDone && task.work[member].code->stage == Stage::Ready;
      open += !isDone;
    }
    const Clock::time_point now = Clock::now();
    if (ready >= kEnough)
      end = std::min(end, now + kAnchorGrace);
    if (open == 0 || now >= end || task.isCancelled())
      return;
    std::this_thread::sleep_for(kPoll);
  }
}

llvm::Error RangeTrials::measureAt(const Anchor &anchor,
                                   Clock::time_point deadline) {
  await(anchor.members, deadline);
  Round round(task, anchor.point);
  round.addReady(anchor.members);
  if (round.entries.empty())
    return llvm::Error::success();
  llvm::Error error = run(round, deadline);
  if (!error && isAffordable(round.problem))
    error = prove(round, deadline);
  take(round);
  ++task.result.anchors;
  return error;
}

/// Returns points at which the reference is cheap, from the largest on, each
/// half of the one before it. A kernel's correctness depends less on extents
/// than its time does: every point that is not tiny has several tiles, a ragged
/// edge and wraps of the ring. Members share a point, so that its operands are
/// filled and its reference is computed once.
std::vector<ExtentPoint> RangeTrials::proofPoints() const {
  const ProblemRange &range = task.portfolio.range();
  std::vector<ExtentPoint> points;
  ExtentPoint point = range.high;
  for (;;) {
    auto problem = range.find(point);
    if (problem && isAffordable(*problem) &&
        task.context.runner->hasRoom(*range.family, *problem))
      points.push_back(point);
    const auto largest = llvm::max_element(point);
    if (largest == point.end() || *largest <= 1)
      return points;
    // The value is odd, if the range has odd ones, so that the last tile is
    // ragged.
    *largest = std::max<int64_t>(*largest / 2 - (*largest / 2 + 1) % 2, 1);
    ExtentPoint next = range.alignDown(point);
    if (next.empty() || !range.contains(next))
      return points;
    point = std::move(next);
  }
}

/// Returns the point at which a member is compared: the largest of \p points
/// that it may run at, else the measured one with the least work; null if there
/// is none.
const ExtentPoint *
RangeTrials::proofPointOf(uint32_t member,
                          const std::vector<ExtentPoint> &points) const {
  const PortfolioMember &from = task.portfolio.members()[member];
  auto found = llvm::find_if(points, [&](const ExtentPoint &point) {
    return task.runsAt(member, point);
  });
  if (found != points.end())
    return &*found;
  const ProblemRange &range = task.portfolio.range();
  const ExtentPoint *least = nullptr;
  double leastWork = 0;
  for (const MemberTime &time : from.times) {
    // It may have been measured for a wider range.
    std::optional<Problem> problem = range.find(time.point);
    if (!problem || !task.runsAt(member, time.point))
      continue;
    const double work = range.family->flops(*problem);
    if (!least || work < leastWork) {
      least = &time.point;
      leastWork = work;
    }
  }
  return least;
}

/// Returns the unproven members by the point at which they are compared: the
/// largest of \p points that each serves.
std::map<ExtentPoint, std::vector<uint32_t>>
RangeTrials::unproven(const std::vector<ExtentPoint> &points) const {
  std::map<ExtentPoint, std::vector<uint32_t>> open;
  for (auto [i, member] : llvm::enumerate(task.portfolio.members())) {
    const MemberWork &work = task.work[i];
    if (member.validated || work.isLost || !work.code->poll() ||
        work.code->stage != Stage::Ready)
      continue;
    const auto number = static_cast<uint32_t>(i);
    if (const ExtentPoint *point = proofPointOf(number, points))
      open[*point].push_back(number);
  }
  return open;
}

llvm::Error RangeTrials::proveRest(Clock::time_point deadline) {
  if (!mayRun())
    return llvm::Error::success();
  // If the reference turns out to be slower than assumed, a smaller point may
  // do.
  std::vector<ExtentPoint> points = proofPoints();
  do {
    for (const auto &[point, members] : unproven(points)) {
      if (!mayRun() || task.isCancelled() || Clock::now() >= deadline)
        return llvm::Error::success();
      Round round(task, point);
      round.addReady(members);
      llvm::Error error = prove(round, deadline);
      take(round);
      if (error)
        return error;
    }
    if (!points.empty())
      points.erase(points.begin());
  } while (!points.empty());
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

/// Returns configs of the kernel of \p member that differ in run-time knobs,
/// best first.
std::vector<Values> RangeTrials::variantsOf(const PortfolioMember &member,
                                            const Problem &problem) const {
  std::vector<Values> variants;
  auto space = exploreSpace(*task.portfolio.range().family, problem,
                            task.context.device);
  if (!space) {
    llvm::consumeError(space.takeError()); // a member runs there
    return variants;
  }
  const double limitNs =
      member.tmpl->estimate(problem, member.config, task.context.device)
          .totalNs *
      (1 + kVariantBand);
  for (const Candidate &candidate : space->ranked) {
    const bool isVariant =
        candidate.tmpl == member.tmpl &&
        candidate.estimate.totalNs <= limitNs &&
        candidate.config.compiledKnobs() == member.config.compiledKnobs() &&
        llvm::none_of(task.portfolio.members(),
                      [&](const PortfolioMember &known) {
                        return known.tmpl == candidate.tmpl &&
                               known.config == candidate.config;
                      });
    if (isVariant && variants.size() < kVariants)
      variants.push_back(candidate.config);
  }
  return variants;
}

/// Adds a config of the kernel of \p sibling as a member between the points
/// around \p point at which that was measured.
uint32_t RangeTrials::addVariant(uint32_t sibling, const Values &config,
                                 const ExtentPoint &point) {
  PortfolioMember member = task.portfolio.members()[sibling];
  for (const MemberTime &time : member.times) {
    if (time.point[0] < point[0])
      member.low[0] = std::max(member.low[0], time.point[0] + 1);
    if (time.point[0] > point[0])
      member.high[0] = std::min(member.high[0], time.point[0] - 1);
  }
  const ProblemRange &range = task.portfolio.range();
  member.high = range.alignDown(member.high);
  member.config = config;
  member.validated = false;
  member.times.clear();
  const Problem highest = *range.covering(member.high);
  const TuningCandidate &known = *task.work[sibling].code;
  Candidate candidate = known.candidate;
  candidate.config = config;
  auto code = std::make_unique<TuningCandidate>(std::move(candidate), 0);
  code->makePlan(highest, task.context.device);
  code->artifacts = known.artifacts;
  code->stage = Stage::Ready;
  member.kernel = code->kernel;
  task.portfolio.mutableMembers().push_back(std::move(member));
  task.work.push_back({std::move(code), false});
  return static_cast<uint32_t>(task.work.size() - 1);
}

llvm::Error RangeTrials::tryVariants(const Anchor &anchor,
                                     Clock::time_point deadline) {
  std::optional<uint32_t> best;
  double bestNs = 0;
  for (uint32_t member : anchor.members)
    for (const MemberTime &time : task.portfolio.members()[member].times)
      if (time.point == anchor.point && !task.work[member].isLost &&
          task.portfolio.members()[member].validated &&
          (!best || time.measuredNs < bestNs)) {
        best = member;
        bestNs = time.measuredNs;
      }
  // Intervals between points exist only for one field.
  if (!best || anchor.point.size() != 1)
    return llvm::Error::success();
  Round round(task, anchor.point);
  if (!isAffordable(round.problem))
    return llvm::Error::success(); // nothing new could be compared
  const size_t before = task.work.size();
  round.add(*best, *task.work[*best].code);
  for (const Values &config :
       variantsOf(task.portfolio.members()[*best], round.problem)) {
    const uint32_t added = addVariant(*best, config, anchor.point);
    if (task.work[added].code->kernel == task.work[*best].code->kernel)
      round.add(added, *task.work[added].code);
    else
      task.work[added].isLost = true; // it would have to be compiled
  }
  if (round.entries.size() == 1)
    return llvm::Error::success();
  llvm::Error error = run(round, deadline);
  // Variants that are not clearly faster are dropped.
  const TuningCandidate &first = *round.entries.front();
  for (auto [entry, member] : llvm::zip_equal(round.entries, round.members))
    if (member != *best &&
        (!first.isMeasured() || !entry->isMeasured() ||
         entry->trial.medianNs > first.trial.medianNs * (1 - kVariantMargin)))
      task.work[member].isLost = true;
  if (!error)
    error = prove(round, deadline);
  take(round);
  for (size_t member = before; member < task.work.size(); ++member)
    task.work[member].isLost |= !task.portfolio.members()[member].validated;
  return error;
}

} // namespace kiln
