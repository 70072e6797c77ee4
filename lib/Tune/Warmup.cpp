//===- Warmup.cpp - compile what a model needs, without a GPU -------------===//
#include "Tune/Warmup.h"

#include <map>

namespace kiln {

namespace {
/// A row on its way: its plan's kernels, by index into the distinct units.
struct PlannedRow {
  WarmupRow row;
  std::string kernel; ///< kernelDigest() of the plan
  std::vector<TranslationUnit> units;
};

/// One problem's rows, best first.
struct PlannedProblem {
  std::vector<PlannedRow> rows;
};
} // namespace

static PlannedRow planRow(size_t index, const Registry::NamedProblem &named,
                          const Candidate &candidate,
                          const DeviceModel &device) {
  PlannedRow planned;
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
  WarmupRow unplanned;
  unplanned.problem = index;
  if (named.family->isEmpty(named.problem)) {
    unplanned.cached = true;
    planned.rows.push_back({unplanned, {}, {}});
    return planned;
  }
  auto space =
      exploreSpace(*named.family, named.problem, device, options.model);
  if (!space) {
    unplanned.error = summarize(space.takeError());
    planned.rows.push_back({unplanned, {}, {}});
    return planned;
  }
  bool needsGeneric = options.withGeneric;
  for (size_t i = 0; i < space->ranked.size(); ++i) {
    const Candidate &candidate = space->ranked[i];
    bool isGeneric = candidate.tmpl->isGeneric();
    if (i >= options.top && !(needsGeneric && isGeneric))
      continue;
    needsGeneric &= !isGeneric;
    planned.rows.push_back(planRow(index, named, candidate, device));
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

/// Fills in what became of a row's kernels. A compilation is charged to the
/// first row that needs it; \p charged holds those that are.
static void settleRow(PlannedRow &planned,
                      const std::map<std::string, ArtifactOutcome> &outcomes,
                      std::set<std::string> &charged) {
  WarmupRow &row = planned.row;
  if (planned.units.empty())
    return;
  row.cached = true;
  for (const TranslationUnit &unit : planned.units) {
    std::string key = artifactKey(unit);
    const ArtifactOutcome &outcome = outcomes.at(key);
    if (!outcome && row.error.code == ErrorCode::Success)
      row.error = outcome.error;
    if (outcome.origin == ArtifactOrigin::Compiled &&
        charged.insert(key).second) {
      row.compileMs += outcome.compileMs;
      row.cached = false;
    }
  }
  row.cached &= row.error.code == ErrorCode::Success;
}

static void storeDecision(const Registry::NamedProblem &named,
                          const PlannedProblem &planned,
                          const DeviceModel &device, DecisionStore &decisions,
                          const WarmupOptions &options, WarmupResult &result) {
  Decision decision;
  bool isEmpty = false;
  for (const PlannedRow &choice : planned.rows) {
    const WarmupRow &row = choice.row;
    // What was not reached may be better than what was: no decision then.
    if (row.error.code == ErrorCode::Cancelled) {
      ++result.failedProblems;
      return;
    }
    if (row.error.code != ErrorCode::Success)
      continue;
    if (row.config.empty())
      isEmpty = true; // nothing to compute, nothing to decide
    else
      decision.configs.push_back(
          {row.config, row.predictedNs, row.bound, choice.kernel});
  }
  if (isEmpty)
    return;
  if (decision.configs.empty()) {
    ++result.failedProblems;
    return;
  }
  if (!options.store)
    return;
  DecisionStore::StoreResult stored =
      decisions.store(named.problem, device, options.model, decision);
  if (stored.publish.status != cache::PublishStatus::Stored) {
    ++result.unstoredDecisions;
    result.unstoredReasons.insert(stored.publish.reason);
  } else {
    ++(stored.wasThere ? result.decisionsFound : result.decisionsStored);
  }
}

WarmupResult warmup(llvm::ArrayRef<Registry::NamedProblem> problems,
                    const DeviceModel &device, ArtifactStore &artifacts,
                    DecisionStore &decisions, const WarmupOptions &options) {
  std::vector<PlannedProblem> planned;
  for (size_t i = 0; i < problems.size(); ++i)
    planned.push_back(planProblem(i, problems[i], device, options));

  std::vector<TranslationUnit> units = orderUnits(planned);
  std::vector<ArtifactOutcome> compiled =
      artifacts.compileAll(units, options.progress, options.cancel);
  std::map<std::string, ArtifactOutcome> outcomes;
  for (size_t i = 0; i < units.size(); ++i)
    outcomes.try_emplace(artifactKey(units[i]), compiled[i]);

  WarmupResult result;
  result.distinctKernels = outcomes.size();
  for (const auto &[key, outcome] : outcomes) {
    result.compiled += outcome && outcome.origin == ArtifactOrigin::Compiled;
    result.fromCache += outcome && outcome.origin != ArtifactOrigin::Compiled;
    result.failedKernels += !outcome;
    if (options.store && outcome &&
        outcome.storage.status != cache::PublishStatus::Stored) {
      ++result.unstoredKernels;
      result.unstoredReasons.insert(outcome.storage.reason);
    }
  }
  std::set<std::string> charged;
  for (size_t i = 0; i < problems.size(); ++i) {
    for (PlannedRow &choice : planned[i].rows)
      settleRow(choice, outcomes, charged);
    storeDecision(problems[i], planned[i], device, decisions, options, result);
    for (PlannedRow &choice : planned[i].rows)
      result.rows.push_back(std::move(choice.row));
  }
  return result;
}

} // namespace kiln
