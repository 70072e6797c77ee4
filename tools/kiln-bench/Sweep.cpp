//===- Sweep.cpp - every config of a space, measured ----------------------===//
#include "kiln-bench/Sweep.h"

#include "Support/Error.h"
#include "Trial/Statistics.h"
#include "Tune/TrialSeries.h"
#include "kiln-bench/Figures.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

namespace kiln::cli {

/// The time that one batch may take.
static constexpr std::chrono::milliseconds kBatchLimit{60000};

/// How far behind the best a config may be that takes part in the playoff.
/// Times of different batches are off by some 1 %, times that made a config the
/// best so far by more.
static constexpr double kSweepPlayoffBand = 0.05;

const SweptConfig *SweepResult::best() const {
  // The least of many noisy times are too low; times of the playoff are not. So
  // where there was a playoff, only its members can be the best.
  const bool hasPlayoff = llvm::any_of(
      configs, [](const SweptConfig &config) { return config.inPlayoff; });
  const SweptConfig *best = nullptr;
  for (const SweptConfig &config : configs)
    if (config.isMeasured() && config.result.validated &&
        config.inPlayoff >= hasPlayoff &&
        (!best || config.result.medianNs < best->result.medianNs))
      best = &config;
  return best;
}

double SweepResult::share(size_t count) const {
  const SweptConfig *fastest = best();
  double ns = 0;
  for (const SweptConfig &config : configs)
    if (static_cast<size_t>(config.rank) < count && config.isMeasured() &&
        (ns == 0 || config.result.medianNs < ns))
      ns = config.result.medianNs;
  if (!fastest || ns == 0)
    return 0;
  // One that was not validated was slower than a valid one by the tie band at
  // least, or ran too late to be: no first choice is better than the best.
  return std::min(fastest->result.medianNs / ns, 1.0);
}

size_t SweepResult::measured() const {
  return static_cast<size_t>(
      llvm::count_if(configs, [](const auto &c) { return c.isMeasured(); }));
}

size_t SweepResult::faulty() const {
  return static_cast<size_t>(llvm::count_if(
      configs, [](const auto &c) { return isConfigFault(c.result.status); }));
}

double SweepResult::correlation() const {
  std::vector<double> predicted, measured;
  for (const SweptConfig &config : configs)
    if (config.isMeasured()) {
      predicted.push_back(config.predictedNs);
      measured.push_back(config.result.medianNs);
    }
  return rankCorrelation(predicted, measured);
}

/// The ranks that are measured of a space of \p size, in order.
static std::vector<size_t> chosenRanks(size_t size,
                                       const SweepOptions &options) {
  std::vector<size_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), size_t(0));
  if (options.top == 0 || options.top >= size)
    return ranks;
  // By hand: the draws of std::sample differ from library to library.
  std::mt19937_64 random(options.seed);
  const size_t end = std::min<size_t>(size, options.top + options.sample);
  for (size_t i = options.top; i < end; ++i)
    std::swap(ranks[i], ranks[i + random() % (size - i)]);
  ranks.resize(end);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

namespace {

/// The part of one space that is measured: configs with plans, in the order of
/// the ranking.
struct SweptSpace {
  std::vector<std::unique_ptr<TuningCandidate>> entries;
  size_t size = 0; ///< of the whole space

  std::vector<TranslationUnit> units() const;
};

} // namespace

static llvm::Expected<SweptSpace> exploreSwept(const KernelFamily &family,
                                               const Problem &problem,
                                               const DeviceModel &device,
                                               const SweepOptions &options) {
  auto space = exploreSpace(family, problem, device);
  if (!space)
    return space.takeError();
  SweptSpace swept;
  swept.size = space->ranked.size();
  for (size_t rank : chosenRanks(swept.size, options)) {
    swept.entries.push_back(std::make_unique<TuningCandidate>(
        std::move(space->ranked[rank]), static_cast<int>(rank)));
    swept.entries.back()->makePlan(problem, device);
  }
  return swept;
}

std::vector<TranslationUnit> SweptSpace::units() const {
  std::vector<TranslationUnit> units;
  for (const auto &entry : entries)
    units.insert(units.end(), entry->plan.kernels.begin(),
                 entry->plan.kernels.end());
  return units;
}

namespace {

/// One problem's sweep in progress.
class Sweep {
public:
  Sweep(const KernelFamily &family, const Problem &problem,
        const DeviceModel &device, ArtifactStore &artifacts,
        TrialRunner &runner, const SweepOptions &options)
      : family(family), problem(problem), device(device), artifacts(artifacts),
        options(options), series(&runner, family, problem,
                                 {.activity = "sweeping",
                                  .mode = options.mode,
                                  .cancel = options.cancel,
                                  .trustsProofs = false,
                                  .dropsLate = true,
                                  .loadedBand = kSweepPlayoffBand}) {}

  llvm::Expected<SweepResult> run();

private:
  llvm::Error explore();
  llvm::Error compile();
  llvm::Error takeCompiled(TuningCandidate &entry,
                           llvm::ArrayRef<ArtifactOutcome> outcomes);
  llvm::Error runTrials();
  CandidateRefs nextBatch() const;
  llvm::Error playOff();
  CandidateRefs chooseFinalists() const;
  void leaveOut();
  SweepResult report();
  bool isOver() const {
    return !series.mayRun() || (options.cancel && options.cancel->load()) ||
           SweepOptions::Clock::now() >= options.deadline;
  }
  void tell(bool isCompiling, size_t done, size_t total) const {
    if (options.progress)
      options.progress({isCompiling, done, total});
  }

  const KernelFamily &family;
  const Problem &problem;
  const DeviceModel &device;
  ArtifactStore &artifacts;
  const SweepOptions &options;

  SweptSpace space;
  TrialSeries series;
  CandidateRefs finalists; ///< of the playoff that decided
  SweepResult result;
};

} // namespace

llvm::Error Sweep::explore() {
  auto explored = exploreSwept(family, problem, device, options);
  if (!explored)
    return explored.takeError();
  space = std::move(*explored);
  result.spaceSize = space.size;
  return llvm::Error::success();
}

/// Compiles all kernels of all configs in parallel.
llvm::Error Sweep::compile() {
  const std::vector<ArtifactOutcome> outcomes = artifacts.compileAll(
      space.units(),
      [&](const ArtifactStore::Progress &progress) {
        tell(true, progress.done, progress.total);
      },
      options.cancel);
  llvm::ArrayRef<ArtifactOutcome> rest = outcomes;
  for (const auto &entry : space.entries) {
    const size_t count = entry->plan.kernels.size();
    if (llvm::Error error = takeCompiled(*entry, rest.take_front(count)))
      return error;
    rest = rest.drop_front(count);
  }
  return llvm::Error::success();
}

/// Takes what became of the kernels of \p entry. Errors: CompilerMissing.
llvm::Error Sweep::takeCompiled(TuningCandidate &entry,
                                llvm::ArrayRef<ArtifactOutcome> outcomes) {
  entry.stage = TuningCandidate::Stage::Ready;
  for (const ArtifactOutcome &outcome : outcomes) {
    entry.artifacts.push_back(outcome.artifact);
    if (outcome && result.toolchain.empty())
      result.toolchain = outcome.artifact->toolchain;
    if (outcome.error.code == ErrorCode::CompilerMissing)
      return errorOf(outcome.error);
    if (outcome || entry.stage == TuningCandidate::Stage::Failed)
      continue;
    entry.stage = TuningCandidate::Stage::Failed;
    entry.trial.status = outcome.error.code == ErrorCode::Cancelled
                             ? TrialStatus::Timeout
                             : TrialStatus::LaunchFailed;
    entry.trial.message = outcome.error.message;
    result.failedCompiles += entry.trial.status == TrialStatus::LaunchFailed;
  }
  return llvm::Error::success();
}

/// The next configs that compiled and were not tried, as many as there is room
/// for beside what is carried.
CandidateRefs Sweep::nextBatch() const {
  const size_t carried = series.carried().size();
  const size_t size = std::max<size_t>(options.batch, carried + 1) - carried;
  CandidateRefs batch;
  for (const auto &entry : space.entries)
    if (entry->stage == TuningCandidate::Stage::Ready && batch.size() < size)
      batch.push_back(entry.get());
  return batch;
}

llvm::Error Sweep::runTrials() {
  for (;;) {
    const auto waiting = llvm::count_if(space.entries, [](const auto &entry) {
      return entry->stage == TuningCandidate::Stage::Ready;
    });
    tell(false, space.entries.size() - static_cast<size_t>(waiting),
         space.entries.size());
    if (waiting == 0 || isOver())
      return llvm::Error::success();
    TrialOptions trialOptions;
    trialOptions.timeLimit = kBatchLimit;
    if (llvm::Error error = series.runBatch(nextBatch(), trialOptions))
      return error;
    // Behind a late launch what was measured before counts.
    const ErrorSummary &failure = series.failure();
    if (failure.code != ErrorCode::Success &&
        (failure.code != ErrorCode::InProgress || series.measured().empty()))
      return errorOf(failure);
  }
}

/// The reference, the best few, and the estimator's first choice; none where
/// there is nothing to settle.
CandidateRefs Sweep::chooseFinalists() const {
  CandidateRefs chosen = series.contenders(kSweepPlayoffBand, options.playoff,
                                           /*areProven=*/false);
  TuningCandidate *first = space.entries.front().get();
  if (!chosen.empty() && first->isMeasured() &&
      !llvm::is_contained(chosen, first))
    chosen.push_back(first);
  if (chosen.size() < 2)
    return {};
  // In front: where memory is short, the last ones go without.
  llvm::erase(chosen, series.reference());
  chosen.insert(chosen.begin(), series.reference());
  return chosen;
}

/// Measures those that may be the best once more, side by side. Repeats that
/// without a config that turns out to be faulty, since with it goes what was
/// known of the rest.
llvm::Error Sweep::playOff() {
  TrialOptions trialOptions;
  trialOptions.timeLimit = kBatchLimit;
  for (;;) {
    CandidateRefs chosen = chooseFinalists();
    if (chosen.empty())
      return llvm::Error::success();
    if (isOver()) {
      result.isComplete = false;
      return llvm::Error::success();
    }
    auto playoff =
        series.playOff(chosen, trialOptions, PlayoffScale::Reference);
    if (!playoff)
      return playoff.takeError();
    if (playoff->hasLost || !series.mayRun())
      continue;
    // No room beside the others is as much as there is; late, the earlier order
    // stands.
    result.isComplete &= !playoff->isLate && !playoff->timed.empty();
    if (!playoff->timed.empty())
      finalists = std::move(chosen);
    return llvm::Error::success();
  }
}

/// Marks what is not tried any more.
void Sweep::leaveOut() {
  const ErrorSummary &failure = series.failure();
  const bool isBehindLate = failure.code != ErrorCode::Success;
  for (const auto &entry : space.entries) {
    if (entry->stage != TuningCandidate::Stage::Ready)
      continue;
    entry->trial.status =
        isBehindLate ? TrialStatus::NotTried : TrialStatus::Timeout;
    entry->trial.message =
        isBehindLate ? failure.message : "not tried within the time limit";
  }
}

SweepResult Sweep::report() {
  for (const auto &entry : space.entries) {
    SweptConfig &config = result.configs.emplace_back();
    config.rank = entry->rank;
    config.predictedNs = entry->candidate.estimate.totalNs;
    config.bound = entry->candidate.estimate.bound.str();
    config.result = std::move(entry->trial);
    config.result.config = entry->config;
    config.inPlayoff = llvm::is_contained(finalists, entry.get());
    result.isComplete &= config.result.status == TrialStatus::Ok ||
                         isConfigFault(config.result.status);
  }
  return std::move(result);
}

llvm::Expected<SweepResult> Sweep::run() {
  if (llvm::Error error = explore())
    return error;
  if (llvm::Error error = compile())
    return error;
  if (llvm::Error error = runTrials())
    return error;
  leaveOut();
  if (llvm::Error error = playOff())
    return error;
  const ErrorSummary &failure = series.failure();
  if (failure.code != ErrorCode::Success &&
      failure.code != ErrorCode::InProgress)
    return errorOf(failure);
  return report();
}

llvm::Expected<SweepResult>
sweepSpace(const KernelFamily &family, const Problem &problem,
           const DeviceModel &device, ArtifactStore &artifacts,
           TrialRunner &runner, const SweepOptions &options) {
  return Sweep(family, problem, device, artifacts, runner, options).run();
}

llvm::Expected<std::vector<PendingArtifact>>
requestSwept(const KernelFamily &family, const Problem &problem,
             const DeviceModel &device, ArtifactStore &artifacts,
             const SweepOptions &options, size_t turn) {
  // More than a space has kernels.
  constexpr int64_t kTurn = 1'000'000;
  auto space = exploreSwept(family, problem, device, options);
  if (!space)
    return space.takeError();
  int64_t priority =
      compile_priority::kAhead + kTurn * (static_cast<int64_t>(turn) + 1);
  std::vector<PendingArtifact> requests;
  for (const TranslationUnit &unit : space->units())
    requests.push_back(artifacts.request(unit, priority++));
  return requests;
}

} // namespace kiln::cli
