//===- Sweep.cpp - every config of a space, measured ----------------------===//
#include "Tune/Sweep.h"

#include "Support/Error.h"
#include "Trial/Statistics.h"
#include "Tune/TrialScale.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

/// What one batch may take.
static constexpr std::chrono::milliseconds kBatchLimit{60000};

/// How far behind the best a config may be that takes part in the playoff.
/// Times of different batches are off by some 1 %, those that made a config the
/// best so far by more.
static constexpr double kPlayoffBand = 0.05;

const SweptConfig *SweepResult::best() const {
  // The least of many times are too low, and those of the playoff no more: who
  // was not fast enough for it is not the best for that.
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

namespace {

/// The sweep of one problem under way.
class Sweep {
public:
  Sweep(const KernelFamily &family, const Problem &problem,
        const DeviceModel &device, ArtifactStore &artifacts,
        TrialRunner &runner, const SweepOptions &options)
      : family(family), problem(problem), device(device), artifacts(artifacts),
        runner(runner), options(options) {}

  llvm::Expected<SweepResult> run();

private:
  llvm::Error explore();
  llvm::Error compile();
  llvm::Error runBatch(size_t &next);
  llvm::Expected<std::vector<TrialResult>>
  runConfigs(llvm::ArrayRef<size_t> batch, TrialOptions trialOptions,
             size_t kept);
  llvm::Error check(llvm::ArrayRef<TrialResult> results) const;
  std::vector<size_t> carried() const;
  double repeatCarried(llvm::ArrayRef<size_t> again,
                       llvm::MutableArrayRef<TrialResult> trials);
  void take(size_t index, TrialResult trial);
  void lose(size_t index, TrialResult trial);
  int fastest() const;
  llvm::Error playOff();
  std::vector<size_t> chooseFinalists() const;
  bool takeFinal(llvm::ArrayRef<size_t> finalists,
                 llvm::MutableArrayRef<TrialResult> trials);
  void leaveOut(size_t begin);
  bool isOver() const {
    return hasLateWork() || (options.cancel && options.cancel->load()) ||
           SweepOptions::Clock::now() >= options.deadline;
  }
  bool hasLateWork() const { return lateError.code != ErrorCode::Success; }
  void tell(bool isCompiling, size_t done, size_t total) const {
    if (options.progress)
      options.progress({isCompiling, done, total});
  }

  const KernelFamily &family;
  const Problem &problem;
  const DeviceModel &device;
  ArtifactStore &artifacts;
  TrialRunner &runner;
  const SweepOptions &options;

  SweepResult result;
  std::vector<Plan> plans;                    ///< of result.configs
  std::vector<std::vector<ArtifactPtr>> code; ///< empty: it did not compile
  std::vector<RepeatedTrial> repeats;         ///< of result.configs
  int reference = -1; ///< index of what gives the scale; -1: none yet
  /// The runner's, while a launch of an earlier batch still runs.
  ErrorSummary lateError;
};

} // namespace

llvm::Error Sweep::explore() {
  auto space = exploreSpace(family, problem, device, {.model = options.model});
  if (!space)
    return space.takeError();
  for (auto [i, candidate] : llvm::enumerate(space->ranked)) {
    SweptConfig &config = result.configs.emplace_back();
    config.rank = static_cast<int>(i);
    config.predictedNs = candidate.estimate.totalNs;
    config.bound = candidate.estimate.bound.str();
    config.result.config = candidate.config.text();
    plans.push_back(candidate.tmpl->plan(problem, candidate.config, device));
  }
  repeats.resize(plans.size());
  return llvm::Error::success();
}

/// Compiles all kernels of all configs in parallel.
llvm::Error Sweep::compile() {
  std::vector<TranslationUnit> units;
  for (const Plan &plan : plans)
    units.insert(units.end(), plan.kernels.begin(), plan.kernels.end());
  std::vector<ArtifactOutcome> outcomes = artifacts.compileAll(
      units,
      [&](const ArtifactStore::Progress &progress) {
        tell(true, progress.done, progress.total);
      },
      options.cancel);
  size_t next = 0;
  for (auto [i, plan] : llvm::enumerate(plans)) {
    std::vector<ArtifactPtr> kernels;
    TrialResult &trial = result.configs[i].result;
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      const ArtifactOutcome &outcome = outcomes[next++];
      kernels.push_back(outcome.artifact);
      if (outcome && result.toolchain.empty())
        result.toolchain = outcome.artifact->toolchain;
      if (outcome.error.code == ErrorCode::CompilerMissing)
        return makeError(outcome.error.code, "{}", outcome.error.message);
      if (outcome || trial.status != TrialStatus::Ok)
        continue;
      trial.status = outcome.error.code == ErrorCode::Cancelled
                         ? TrialStatus::Timeout
                         : TrialStatus::LaunchFailed;
      trial.message = outcome.error.message;
    }
    if (trial.status == TrialStatus::LaunchFailed)
      ++result.failedCompiles;
    result.isComplete &= trial.status != TrialStatus::Timeout;
    if (trial.status != TrialStatus::Ok)
      kernels.clear();
    code.push_back(std::move(kernels));
  }
  return llvm::Error::success();
}

/// A device that is gone ends the sweep.
llvm::Error Sweep::check(llvm::ArrayRef<TrialResult> results) const {
  for (const TrialResult &trial : results)
    if (trial.status == TrialStatus::ContextDead)
      return makeError(ErrorCode::ContextDead,
                       "the device died sweeping {}: {}: {}", problem.text(),
                       trial.config, trial.message);
  if (!runner.isAlive())
    return makeError(ErrorCode::ContextDead, "the device hung sweeping {}",
                     problem.text());
  return llvm::Error::success();
}

/// Takes \p trial, whose times are on the common scale.
void Sweep::take(size_t index, TrialResult trial) {
  SweptConfig &config = result.configs[index];
  trial.config = config.result.config;
  config.result = std::move(trial);
  repeats[index].begin(config.result);
  result.isComplete &= config.result.status == TrialStatus::Ok ||
                       isConfigFault(config.result.status);
}

/// A config that had a time got none beside others: what is known of it now
/// counts.
void Sweep::lose(size_t index, TrialResult trial) {
  // Where it is not to blame, the best may be lost with it.
  result.isComplete &= isConfigFault(trial.status);
  take(index, std::move(trial));
}

/// The fastest, validated or not: one that was slower than another that failed
/// later has yet to be, which the next batch does. -1: none is measured.
int Sweep::fastest() const {
  int best = -1;
  for (const SweptConfig &config : result.configs)
    if (config.isMeasured() &&
        (best < 0 ||
         config.result.medianNs < result.configs[best].result.medianNs))
      best = config.rank;
  return best;
}

/// What runs in the next batch again: the reference, then the best so far.
std::vector<size_t> Sweep::carried() const {
  std::vector<size_t> again;
  if (reference >= 0)
    again.push_back(static_cast<size_t>(reference));
  if (int best = fastest(); best >= 0 && best != reference)
    again.push_back(static_cast<size_t>(best));
  return again;
}

/// Runs \p batch, whose first \p kept configs others are held against: a result
/// for each, or none where a launch of an earlier batch still runs.
llvm::Expected<std::vector<TrialResult>>
Sweep::runConfigs(llvm::ArrayRef<size_t> batch, TrialOptions trialOptions,
                  size_t kept) {
  TrialRequest request;
  request.family = &family;
  request.problem = problem;
  request.options = trialOptions;
  request.options.mode = options.mode;
  request.options.validation = TrialValidation::MayWin;
  request.options.timeLimit = kBatchLimit;
  for (auto [i, index] : llvm::enumerate(batch)) {
    TrialCandidate &candidate = request.candidates.emplace_back();
    candidate.plan = plans[index];
    candidate.artifacts = code[index];
    candidate.isKept = i < kept;
  }
  auto trials = runner.run(request, options.cancel);
  if (!trials) {
    ErrorSummary error = summarize(trials.takeError());
    if (error.code != ErrorCode::InProgress)
      return errorOf(error);
    lateError = std::move(error);
    return std::vector<TrialResult>();
  }
  if (trials->size() != batch.size())
    return makeError(ErrorCode::Internal, "a result is missing");
  if (llvm::Error error = check(*trials))
    return error;
  for (TrialResult &trial : *trials)
    trial.loaded.reset(); // the device has no room for a whole space's
  return trials;
}

/// Merges what the carried configs took now, the reference first. Where it
/// failed, the other, which is known beside it, takes its place. The scale of
/// the batch; 0: nothing gives one.
double Sweep::repeatCarried(llvm::ArrayRef<size_t> again,
                            llvm::MutableArrayRef<TrialResult> trials) {
  double scale = 0;
  for (auto [i, index] : llvm::enumerate(again)) {
    TrialResult &known = result.configs[index].result;
    if (!isTimed(trials[i])) {
      // No room beside the reference: what is known of it still holds.
      if (scale > 0 && trials[i].status == TrialStatus::OutOfMemory)
        continue;
      lose(index, std::move(trials[i]));
      continue;
    }
    if (scale == 0) {
      scale = known.medianNs / trials[i].medianNs;
      reference = static_cast<int>(index);
    }
    repeats[index].repeat(known, trials[i], scale);
  }
  return scale;
}

/// Tries the next configs that compiled, beside what is carried; moves \p next
/// behind them, or, where nothing gives the scale, leaves them to the next
/// batch.
llvm::Error Sweep::runBatch(size_t &next) {
  const std::vector<size_t> again = carried();
  std::vector<size_t> batch = again;
  const size_t size = std::max<size_t>(options.batch, again.size() + 1);
  for (; next < plans.size() && batch.size() < size; ++next)
    if (!code[next].empty())
      batch.push_back(next);
  if (batch.size() == again.size())
    return llvm::Error::success(); // nothing is left that compiled
  auto trials = runConfigs(batch, TrialOptions(), again.size());
  if (!trials)
    return trials.takeError();
  if (hasLateWork()) {
    next = batch[again.size()];
    return llvm::Error::success();
  }

  double scale = 1;
  if (!again.empty()) {
    scale = repeatCarried(again, *trials);
    if (scale == 0) {
      next = batch[again.size()];
      reference = fastest();
      return llvm::Error::success();
    }
  } else if (int first = chooseReference(*trials); first >= 0) {
    reference = static_cast<int>(batch[first]);
  }
  for (size_t i = again.size(); i < batch.size(); ++i) {
    scaleTimes((*trials)[i], scale);
    take(batch[i], std::move((*trials)[i]));
  }
  return llvm::Error::success();
}

/// The reference, the best few, and the estimator's first choice; none where
/// there is nothing to settle.
std::vector<size_t> Sweep::chooseFinalists() const {
  std::vector<double> times;
  for (const SweptConfig &config : result.configs)
    times.push_back(config.isMeasured() ? config.result.medianNs : 0);
  std::vector<size_t> finalists =
      findContenders(times, kPlayoffBand, options.playoff);
  if (!finalists.empty() && times.front() > 0 &&
      !llvm::is_contained(finalists, 0))
    finalists.push_back(0);
  if (finalists.size() < 2)
    return {};
  // In front: where memory is short, the last ones go without.
  const auto scaling = static_cast<size_t>(reference);
  llvm::erase(finalists, scaling);
  finalists.insert(finalists.begin(), scaling);
  return finalists;
}

/// Takes the times of a playoff; false where a config is out, and with it what
/// was known of the rest: then another playoff has to tell.
bool Sweep::takeFinal(llvm::ArrayRef<size_t> finalists,
                      llvm::MutableArrayRef<TrialResult> trials) {
  bool isDecided = true;
  for (auto [i, index] : llvm::enumerate(finalists))
    if (isConfigFault(trials[i].status)) {
      lose(index, std::move(trials[i]));
      isDecided = false;
    }
  if (!isDecided) {
    if (!result.configs[reference].isMeasured())
      reference = fastest();
    return false;
  }
  if (!isTimed(trials.front())) { // late: the earlier order stands
    result.isComplete = false;
    return true;
  }
  const double scale =
      result.configs[reference].result.medianNs / trials.front().medianNs;
  for (auto [i, index] : llvm::enumerate(finalists)) {
    SweptConfig &config = result.configs[index];
    config.inPlayoff = true;
    if (!isTimed(trials[i])) {
      // No room beside the others is as much as there is.
      result.isComplete &= trials[i].status == TrialStatus::OutOfMemory;
      continue;
    }
    scaleTimes(trials[i], scale);
    trials[i].validated |= config.result.validated;
    take(index, std::move(trials[i]));
  }
  return true;
}

/// Measures those that may be the best once more, side by side. Repeats that
/// without a config that turns out to be faulty.
llvm::Error Sweep::playOff() {
  TrialOptions trialOptions;
  trialOptions.minSamples *= 2;
  trialOptions.maxSamples *= 2;
  for (bool isDecided = false; !isDecided;) {
    const std::vector<size_t> finalists = chooseFinalists();
    if (finalists.empty())
      return llvm::Error::success();
    if (isOver()) {
      result.isComplete = false;
      return llvm::Error::success();
    }
    auto trials = runConfigs(finalists, trialOptions, finalists.size());
    if (!trials)
      return trials.takeError();
    if (!hasLateWork()) // else the next look finds it over
      isDecided = takeFinal(finalists, *trials);
  }
  return llvm::Error::success();
}

/// Marks what is not tried any more.
void Sweep::leaveOut(size_t begin) {
  for (size_t i = begin; i < plans.size(); ++i) {
    if (code[i].empty())
      continue;
    result.isComplete = false;
    TrialResult &trial = result.configs[i].result;
    trial.status = hasLateWork() ? TrialStatus::NotTried : TrialStatus::Timeout;
    trial.message =
        hasLateWork() ? lateError.message : "not tried within the time limit";
  }
}

llvm::Expected<SweepResult> Sweep::run() {
  if (llvm::Error error = explore())
    return error;
  if (llvm::Error error = compile())
    return error;
  size_t next = 0;
  for (tell(false, 0, plans.size()); next < plans.size() && !isOver();
       tell(false, next, plans.size()))
    if (llvm::Error error = runBatch(next))
      return error;
  if (hasLateWork() && result.measured() == 0)
    return errorOf(lateError);
  leaveOut(next);
  if (llvm::Error error = playOff())
    return error;
  return std::move(result);
}

llvm::Expected<SweepResult>
sweepSpace(const KernelFamily &family, const Problem &problem,
           const DeviceModel &device, ArtifactStore &artifacts,
           TrialRunner &runner, const SweepOptions &options) {
  return Sweep(family, problem, device, artifacts, runner, options).run();
}

} // namespace kiln
