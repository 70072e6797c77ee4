//===- Sweep.cpp - every config of a space, measured ----------------------===//
#include "Tune/Sweep.h"

#include "Support/Error.h"
#include "Tune/Statistics.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

/// What one batch may take.
static constexpr std::chrono::milliseconds kBatchLimit{60000};

const SweptConfig *SweepResult::best() const {
  const SweptConfig *best = nullptr;
  for (const SweptConfig &config : configs)
    if (config.isMeasured() && config.result.validated &&
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
  llvm::Error check(llvm::ArrayRef<TrialResult> results) const;
  void take(size_t index, TrialResult trial, double scale);
  void loseAnchor(TrialResult trial);
  void chooseAnchor();
  void leaveOut(size_t begin);
  bool isOver() const {
    return (options.cancel && options.cancel->load()) ||
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
  TrialRunner &runner;
  const SweepOptions &options;

  SweepResult result;
  std::vector<Plan> plans;                    ///< of result.configs
  std::vector<std::vector<ArtifactPtr>> code; ///< empty: it did not compile
  int anchor = -1;                            ///< index of the fastest so far
};

} // namespace

llvm::Error Sweep::explore() {
  auto space = exploreSpace(family, problem, device, options.model);
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

void Sweep::take(size_t index, TrialResult trial, double scale) {
  SweptConfig &config = result.configs[index];
  trial.config = config.result.config;
  trial.medianNs *= scale;
  trial.ciLowNs *= scale;
  trial.ciHighNs *= scale;
  config.result = std::move(trial);
  // Late, and not of the config's making.
  result.isComplete &= config.result.status != TrialStatus::Timeout;
}

/// Tries the next configs that compiled, beside the best so far; moves \p next
/// behind them, or, where that one fails now, leaves them to the next batch.
llvm::Error Sweep::runBatch(size_t &next) {
  TrialRequest request;
  request.family = family.name().str();
  request.problem = problem.text();
  request.options.mode = options.mode;
  request.options.validation = TrialValidation::MayWin;
  request.options.timeLimit = kBatchLimit;
  // No bestNs: the clock may have dropped since, and then what is faster than
  // the anchor beside it would not be validated.
  std::vector<size_t> batch;
  if (anchor >= 0)
    batch.push_back(static_cast<size_t>(anchor));
  for (; next < plans.size() && batch.size() < std::max(options.batch, 2u);
       ++next)
    if (!code[next].empty())
      batch.push_back(next);
  const size_t first = anchor >= 0;
  if (batch.size() == first)
    return llvm::Error::success(); // nothing is left that compiled
  for (size_t index : batch)
    request.candidates.push_back(
        {result.configs[index].result.config, code[index]});
  auto trials = runner.run(request);
  if (!trials)
    return trials.takeError();
  if (trials->size() != batch.size())
    return makeError(ErrorCode::Internal, "a result is missing");
  if (llvm::Error error = check(*trials))
    return error;

  double scale = 1;
  if (anchor >= 0) {
    TrialResult &again = trials->front();
    if (again.status != TrialStatus::Ok || again.medianNs <= 0) {
      // Nothing brings this batch's times to those of the first.
      next = batch[first];
      loseAnchor(std::move(again));
      return llvm::Error::success();
    }
    TrialResult &known = result.configs[anchor].result;
    scale = known.medianNs / again.medianNs;
    if (again.validated) {
      known.validated = true;
      known.maxErrorRatio = std::max(known.maxErrorRatio, again.maxErrorRatio);
    }
  }
  for (size_t i = first; i < batch.size(); ++i)
    take(batch[i], std::move((*trials)[i]), scale);
  chooseAnchor();
  return llvm::Error::success();
}

/// The anchor got no time beside others: what is known of it now counts, and
/// the next fastest takes its place.
void Sweep::loseAnchor(TrialResult trial) {
  // Where it is not to blame, the best may be lost with it.
  result.isComplete &= isConfigFault(trial.status);
  take(static_cast<size_t>(anchor), std::move(trial), 1);
  chooseAnchor();
}

/// Takes the fastest, validated or not: one that was slower than an anchor that
/// failed later has yet to be, which the next batch does.
void Sweep::chooseAnchor() {
  anchor = -1;
  double leastNs = 0;
  for (const SweptConfig &config : result.configs)
    if (config.isMeasured() &&
        (anchor < 0 || config.result.medianNs < leastNs)) {
      anchor = config.rank;
      leastNs = config.result.medianNs;
    }
}

/// Marks what is not tried any more.
void Sweep::leaveOut(size_t begin) {
  for (size_t i = begin; i < plans.size(); ++i) {
    if (code[i].empty())
      continue;
    result.isComplete = false;
    result.configs[i].result.status = TrialStatus::Timeout;
    result.configs[i].result.message = "not tried within the time limit";
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
  leaveOut(next);
  return std::move(result);
}

llvm::Expected<SweepResult>
sweepSpace(const KernelFamily &family, const Problem &problem,
           const DeviceModel &device, ArtifactStore &artifacts,
           TrialRunner &runner, const SweepOptions &options) {
  return Sweep(family, problem, device, artifacts, runner, options).run();
}

} // namespace kiln
