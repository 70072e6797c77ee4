//===- WarmupSet.cpp - problems and ranges that are warmed up together ----===//
#include "Tune/WarmupSet.h"

#include <llvm/ADT/STLExtras.h>

#include <set>
#include <utility>

namespace kiln {

struct WarmupSet::Request {
  std::unique_ptr<PortfolioSession> session; ///< null: a value
  size_t value = 0;
};

WarmupSet::WarmupSet(const PortfolioContext &context, WarmupSetOptions given)
    : context(context), options(std::move(given)) {
  this->context.kernels = &shared;
  portfolioOptions.measures = false;
  portfolioOptions.acceptsPartial = true;
  portfolioOptions.workspaceBytes = options.workspaceBytes;
  portfolioOptions.retune = options.retune;
  portfolioOptions.cancel = options.cancel;
  valueOptions.allowance.workspaceBytes = options.workspaceBytes;
  valueOptions.cancel = options.cancel;
}

WarmupSet::~WarmupSet() = default;

void WarmupSet::add(ProblemRange range) {
  Request &added = requests.emplace_back();
  added.session = std::make_unique<PortfolioSession>(context, std::move(range),
                                                     portfolioOptions);
  added.session->choose();
  if (!options.compilesAhead)
    return;
  added.session->begin(priority);
  priority += added.session->priorities();
}

void WarmupSet::add(const Registry::NamedProblem &problem) {
  requests.emplace_back().value = values.size();
  values.push_back(problem);
}

void WarmupSet::planValues() {
  if (!plannedValues)
    plannedValues = std::make_unique<PlannedWarmup>(
        values, context.device, context.artifacts, context.portfolios,
        valueOptions);
}

/// The kernels of all requests, each once.
std::vector<TranslationUnit> WarmupSet::units() {
  planValues();
  std::vector<TranslationUnit> distinct;
  std::set<Digest> known;
  auto take = [&](std::vector<TranslationUnit> units) {
    for (TranslationUnit &unit : units)
      if (known.insert(unit.digest()).second)
        distinct.push_back(std::move(unit));
  };
  for (const Request &request : requests)
    if (request.session)
      take(request.session->units());
  take(plannedValues->units());
  return distinct;
}

WarmupNeeds WarmupSet::needs() {
  // Measured: the 261 kernels of Llama-3-8B in bf16 for an H200, NVRTC 13.0.88:
  // 121 s of CPU time, and 15.6 MB in the cache.
  constexpr double kSecondsOfKernel = 0.46;
  constexpr uint64_t kBytesOfKernel = 58 << 10;
  WarmupNeeds needs;
  for (const TranslationUnit &unit : units()) {
    ++needs.kernels;
    needs.present += context.artifacts.isOnDisk(unit);
  }
  const size_t missing = needs.kernels - needs.present;
  needs.seconds = static_cast<double>(missing) * kSecondsOfKernel /
                  static_cast<double>(context.artifacts.width());
  needs.bytes = missing * kBytesOfKernel;
  return needs;
}

void WarmupSet::compile() {
  for (const ArtifactOutcome &outcome : context.artifacts.compileAll(
           units(), options.progress, options.cancel)) {
    compiledCount += outcome && outcome.origin == ArtifactOrigin::Compiled;
    failedCount += !outcome;
  }
}

void WarmupSet::finishRange(Request &request, WarmupSetOutcome &outcome) {
  PortfolioSession &session = *request.session;
  session.begin(compile_priority::kAhead);
  outcome.error =
      summarize(session.finish(PortfolioSession::Clock::time_point::max()));
  const PortfolioResult result = session.takeResult();
  request.session.reset();
  // A cancelled portfolio serves, but is not complete.
  const bool isCancelled = options.cancel && options.cancel->load();
  if (isCancelled && outcome.error.code == ErrorCode::Success &&
      !result.portfolio.isComplete)
    outcome.error = {ErrorCode::Cancelled, "cancelled", 0};
  outcome.kernels = result.kernels;
  outcome.worst = result.portfolio.regret;
  if (outcome.error.code == ErrorCode::Success && options.wantsOnDisk)
    outcome.missing =
        result.missingOnDisk(context.artifacts, context.portfolios);
}

void WarmupSet::finishValues(std::vector<WarmupSetOutcome> &outcomes) {
  std::vector<WarmupSetOutcome *> owners;
  for (auto [request, outcome] : llvm::zip_equal(requests, outcomes))
    if (!request.session)
      owners.push_back(&outcome);
  const WarmupResult result = plannedValues->run();
  for (const WarmupRow &row : result.rows) {
    WarmupSetOutcome &outcome = *owners[row.problem];
    outcome.kernels = std::max(outcome.kernels, row.kernels);
    if (row.isReplaced)
      continue;
    if (outcome.error.code == ErrorCode::Success)
      outcome.error = row.error;
    if (options.wantsOnDisk && !row.unstored.empty())
      outcome.missing = "not on disk: " + row.unstored;
  }
}

std::vector<WarmupSetOutcome> WarmupSet::run() {
  compile();
  std::vector<WarmupSetOutcome> outcomes(requests.size());
  finishValues(outcomes);
  for (auto [request, outcome] : llvm::zip_equal(requests, outcomes))
    if (request.session)
      finishRange(request, outcome);
  return outcomes;
}

} // namespace kiln
