//===- Warmup.cpp - compiles the kernels of a model, without a GPU --------===//
#include "Tune/Warmup.h"

#include "Store/Records.h"
#include "Tune/CompileOrder.h"

#include <llvm/ADT/STLExtras.h>

#include <map>
#include <optional>

namespace kiln {

namespace {
/// A row without a result yet, with its plan's kernels.
struct PlannedRow {
  WarmupRow row;
  std::string kernel; ///< kernelDigest() of the plan
  std::vector<TranslationUnit> units;
  size_t rank = 0;
  bool isFallback = false; ///< the generic config beside the choices
  bool isSettled = false;
};

/// One problem's rows, best first.
struct PlannedProblem {
  std::vector<PlannedRow> rows;
  bool hasDecision = false;     ///< that should be on disk
  std::string unstoredDecision; ///< why it is not
};

/// The reason for an entry that was stored and is no longer there.
constexpr const char *kRemovedSince =
    "another process removed it from the cache; is the limit of the cache too "
    "small?";
} // namespace

struct PlannedWarmup::Impl {
  llvm::ArrayRef<Registry::NamedProblem> problems;
  const DeviceModel &device;
  ArtifactStore &artifacts;
  PortfolioStore &portfolios;
  const WarmupOptions &options;

  std::vector<PlannedProblem> planned;
  std::map<Digest, ArtifactOutcome> outcomes; ///< by unit
  std::set<Digest> charged; ///< units whose compilation a row has
  WarmupResult result;

  void compile(const std::vector<TranslationUnit> &units);
  void settleRows();
  std::vector<TranslationUnit> moveOn();
  PortfolioKey keyOf(size_t index) const;
  void storeDecision(size_t index);
  void checkStored();
  std::string whyUnstored(const TranslationUnit &unit) const;
};

static PlannedRow planRow(size_t index, const Registry::NamedProblem &named,
                          const Candidate &candidate, size_t rank,
                          const DeviceModel &device) {
  PlannedRow planned;
  planned.rank = rank;
  planned.row.problem = index;
  planned.row.config = candidate.config.text();
  planned.row.predictedNs = candidate.estimate.totalNs;
  planned.row.bound = candidate.estimate.bound.str();
  Plan plan = candidate.tmpl->plan(named.problem, candidate.config, device);
  planned.row.kernels = plan.kernels.size();
  planned.kernel = kernelDigest(plan);
  planned.units.assign(plan.kernels.begin(), plan.kernels.end());
  return planned;
}

static PlannedProblem planProblem(size_t index,
                                  const Registry::NamedProblem &named,
                                  const DeviceModel &device,
                                  const WarmupOptions &options) {
  PlannedProblem planned;
  PlannedRow noPlan;
  WarmupRow &unplanned = noPlan.row;
  unplanned.problem = index;
  if (named.family->isEmpty(named.problem)) {
    unplanned.cached = true;
    planned.rows.push_back(std::move(noPlan));
    return planned;
  }
  auto space = exploreSpace(*named.family, named.problem, device,
                            {.allowance = options.allowance});
  if (!space) {
    unplanned.error = summarize(space.takeError());
    planned.rows.push_back(std::move(noPlan));
    return planned;
  }
  bool needsGeneric = options.withGeneric;
  for (size_t i = 0; i < space->ranked.size(); ++i) {
    const Candidate &candidate = space->ranked[i];
    bool isGeneric = candidate.tmpl->isGeneric();
    if (i >= options.top && !(needsGeneric && isGeneric))
      continue;
    needsGeneric &= !isGeneric;
    planned.rows.push_back(planRow(index, named, candidate, i, device));
    planned.rows.back().isFallback = i >= options.top;
    if (i + 1 >= options.top && !needsGeneric)
      break;
  }
  return planned;
}

/// The units in the order in which they should compile: the first choices of
/// all problems, then the second ones.
static std::vector<TranslationUnit>
orderUnits(const std::vector<PlannedProblem> &problems) {
  std::vector<TranslationUnit> units;
  for (size_t rank = 0, found = 1; found; ++rank) {
    found = 0;
    for (const PlannedProblem &problem : problems)
      if (rank < problem.rows.size()) {
        const auto &rowUnits = problem.rows[rank].units;
        units.insert(units.end(), rowUnits.begin(), rowUnits.end());
        ++found;
      }
  }
  return units;
}

/// Compiles \p units; progress counts on from earlier units.
void PlannedWarmup::Impl::compile(const std::vector<TranslationUnit> &units) {
  const size_t before = outcomes.size();
  ArtifactStore::ProgressCallback progress;
  if (options.progress)
    progress = [&](ArtifactStore::Progress now) {
      now.done += before;
      now.total += before;
      options.progress(now);
    };
  std::vector<ArtifactOutcome> compiled =
      artifacts.compileAll(units, progress, options.cancel);
  for (size_t i = 0; i < units.size(); ++i)
    outcomes.try_emplace(units[i].digest(), compiled[i]);
}

/// Fills in the results of a row's kernels. A compilation is charged to the
/// first row that needs it; \p charged holds the charged ones.
static void settleRow(PlannedRow &planned,
                      const std::map<Digest, ArtifactOutcome> &outcomes,
                      std::set<Digest> &charged) {
  WarmupRow &row = planned.row;
  if (planned.isSettled || planned.units.empty())
    return;
  planned.isSettled = true;
  row.cached = true;
  for (const TranslationUnit &unit : planned.units) {
    const ArtifactOutcome &outcome = outcomes.at(unit.digest());
    if (!outcome && row.error.code == ErrorCode::Success)
      row.error = outcome.error;
    if (outcome.origin == ArtifactOrigin::Compiled &&
        charged.insert(unit.digest()).second) {
      row.compileMs += outcome.compileMs;
      row.cached = false;
    }
  }
  row.cached &= row.error.code == ErrorCode::Success;
}

void PlannedWarmup::Impl::settleRows() {
  for (PlannedProblem &problem : planned)
    for (PlannedRow &row : problem.rows)
      settleRow(row, outcomes, charged);
}

/// Whether no choice of a problem can be used because the compiler refused or
/// spoiled each of them.
static bool needsNext(const PlannedProblem &problem) {
  bool needs = false;
  for (const PlannedRow &planned : problem.rows) {
    if (planned.isFallback)
      continue;
    if (planned.row.error.code != ErrorCode::CompileFailed)
      return false;
    needs = true;
  }
  return needs;
}

/// The first rank behind those of \p problem that should be tried.
static std::optional<size_t> nextRank(const PlannedProblem &problem,
                                      const Space &space) {
  llvm::SmallVector<size_t, kMostCompileAttempts> tried;
  for (const PlannedRow &row : problem.rows)
    if (row.rank < space.ranked.size())
      tried.push_back(row.rank);
  return nextToCompile(space.ranked, tried, [](size_t) { return true; });
}

/// Plans the next choice of each problem that needs one; returns its kernels.
std::vector<TranslationUnit> PlannedWarmup::Impl::moveOn() {
  std::vector<TranslationUnit> units;
  for (auto [index, problem] : llvm::enumerate(planned)) {
    if (!needsNext(problem))
      continue;
    const Registry::NamedProblem &named = problems[index];
    // The space is ranked again, because rankings of all problems are too large
    // to keep.
    auto space = exploreSpace(*named.family, named.problem, device,
                              {.allowance = options.allowance});
    if (!space) {
      llvm::consumeError(space.takeError()); // it was ranked before
      continue;
    }
    std::optional<size_t> rank = nextRank(problem, *space);
    if (!rank)
      continue;
    for (PlannedRow &planned : problem.rows)
      planned.row.isReplaced |= !planned.isFallback;
    PlannedRow next =
        planRow(index, named, space->ranked[*rank], *rank, device);
    units.insert(units.end(), next.units.begin(), next.units.end());
    auto place = llvm::find_if(
        problem.rows, [&](const PlannedRow &row) { return row.rank > *rank; });
    problem.rows.insert(place, std::move(next));
  }
  return units;
}

PortfolioKey PlannedWarmup::Impl::keyOf(size_t index) const {
  return PortfolioKey::ofValue(problems[index].problem, device);
}

void PlannedWarmup::Impl::storeDecision(size_t index) {
  const Registry::NamedProblem &named = problems[index];
  StoredPortfolio decision;
  for (int64_t extent : dynamicExtentsOf(*named.family, named.problem))
    decision.low.push_back(std::max<int64_t>(extent, 1));
  decision.high = decision.low;
  decision.isComplete = true;
  bool isEmpty = false;
  // The choices in the order in which they are offered, a fallback last.
  std::vector<const PlannedRow *> choices;
  for (const PlannedRow &choice : planned[index].rows)
    choices.push_back(&choice);
  llvm::stable_sort(choices, [](const PlannedRow *a, const PlannedRow *b) {
    return a->isFallback < b->isFallback;
  });
  for (const PlannedRow *choice : choices) {
    const WarmupRow &row = choice->row;
    // A choice that was not reached may be better, so there is no decision.
    if (row.error.code == ErrorCode::Cancelled) {
      ++result.failedProblems;
      return;
    }
    if (row.error.code != ErrorCode::Success)
      continue;
    if (row.config.empty())
      isEmpty = true; // without work there is nothing to decide
    else
      decision.members.push_back(
          {row.config, choice->kernel, decision.low, decision.high});
  }
  if (isEmpty)
    return;
  if (decision.members.empty()) {
    ++result.failedProblems;
    return;
  }
  if (!options.store)
    return;
  PortfolioStore::StoreResult stored =
      portfolios.store(keyOf(index), decision, /*replaces=*/true);
  planned[index].hasDecision = true;
  if (stored.publish.status != cache::PublishStatus::Stored)
    planned[index].unstoredDecision = stored.publish.reason;
  else
    ++(stored.wasThere ? result.decisionsFound : result.decisionsStored);
}

/// The reason why the cache on disk does not have the kernel; empty if it does.
std::string
PlannedWarmup::Impl::whyUnstored(const TranslationUnit &unit) const {
  const ArtifactOutcome &outcome = outcomes.at(unit.digest());
  if (!outcome)
    return "";
  if (outcome.storage.status != cache::PublishStatus::Stored)
    return outcome.storage.reason;
  return artifacts.isOnDisk(unit) ? "" : kRemovedSince;
}

/// Looks for all entries that should be on disk once the last one is stored:
/// other processes may have removed some meanwhile.
void PlannedWarmup::Impl::checkStored() {
  std::set<Digest> seen;
  for (auto [index, problem] : llvm::enumerate(planned)) {
    std::string &decision = problem.unstoredDecision;
    if (problem.hasDecision && decision.empty() &&
        !portfolios.isOnDisk(keyOf(index)))
      decision = kRemovedSince;
    if (!decision.empty()) {
      ++result.unstoredDecisions;
      result.unstoredReasons.insert(decision);
    }
    for (PlannedRow &planned : problem.rows) {
      planned.row.unstored = decision;
      for (const TranslationUnit &unit : planned.units) {
        std::string why = whyUnstored(unit);
        if (why.empty())
          continue;
        if (seen.insert(unit.digest()).second)
          ++result.unstoredKernels;
        planned.row.unstored = why;
        result.unstoredReasons.insert(std::move(why));
      }
    }
  }
}

PlannedWarmup::PlannedWarmup(llvm::ArrayRef<Registry::NamedProblem> problems,
                             const DeviceModel &device,
                             ArtifactStore &artifacts,
                             PortfolioStore &portfolios,
                             const WarmupOptions &options)
    : impl(new Impl{
          problems, device, artifacts, portfolios, options, {}, {}, {}, {}}) {
  for (size_t i = 0; i < problems.size(); ++i)
    impl->planned.push_back(planProblem(i, problems[i], device, options));
}

PlannedWarmup::~PlannedWarmup() = default;

std::vector<TranslationUnit> PlannedWarmup::units() const {
  return orderUnits(impl->planned);
}

WarmupResult PlannedWarmup::run() {
  Impl &self = *impl;
  for (std::vector<TranslationUnit> next = units();;) {
    self.compile(next);
    self.settleRows();
    next = self.moveOn();
    if (next.empty())
      break;
  }

  WarmupResult &result = self.result;
  result.distinctKernels = self.outcomes.size();
  for (const auto &[key, outcome] : self.outcomes) {
    result.compiled += outcome && outcome.origin == ArtifactOrigin::Compiled;
    result.fromCache += outcome && outcome.origin != ArtifactOrigin::Compiled;
    result.failedKernels += !outcome;
  }
  for (size_t i = 0; i < self.problems.size(); ++i)
    self.storeDecision(i);
  if (self.options.store)
    self.checkStored();
  for (PlannedProblem &problem : self.planned)
    for (PlannedRow &choice : problem.rows)
      result.rows.push_back(std::move(choice.row));
  return std::move(result);
}

WarmupResult warmup(llvm::ArrayRef<Registry::NamedProblem> problems,
                    const DeviceModel &device, ArtifactStore &artifacts,
                    PortfolioStore &portfolios, const WarmupOptions &options) {
  return PlannedWarmup(problems, device, artifacts, portfolios, options).run();
}

} // namespace kiln
