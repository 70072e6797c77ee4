//===- Chooser.cpp - the order of choice, without its last resort ---------===//
#include "Runtime/Chooser.h"

#include <algorithm>

namespace kiln {

/// Makes the plan of a config that may run here within the limits.
bool Chooser::completes(const Problem &problem, Choice &choice) const {
  if (choice.tmpl->prune(problem, choice.config, device))
    return false;
  choice.plan = choice.tmpl->plan(problem, choice.config, device);
  return choice.plan.workspace.bytes() <= workspaceLimit;
}

bool Chooser::hasArtifacts(const Plan &plan) const {
  return std::all_of(plan.kernels.begin(), plan.kernels.end(),
                     [&](const TranslationUnit &unit) {
                       return artifacts.lookup(unit).has_value();
                     });
}

RecordedChoices Chooser::fromRecord(const KernelFamily &family,
                                    const Problem &problem) const {
  RecordedChoices result;
  RecordMatch match = records.find(family, problem, deviceClass);
  bool isExact = match.kind == RecordMatchKind::Exact;
  for (const RecordedConfig &recorded : match.configs) {
    Choice choice;
    choice.tmpl = recorded.tmpl;
    choice.config = recorded.config;
    if (!completes(problem, choice))
      continue;
    const Measurement &measured = recorded.measurement;
    choice.predictedNs =
        choice.tmpl->estimate(problem, choice.config, device).totalNs;
    bool isToday = measured.kernel == kernelDigest(choice.plan);
    choice.source = isToday ? KILN_SOURCE_RECORD : KILN_SOURCE_ESTIMATE;
    choice.isFallback = !isToday;
    if (isExact && isToday)
      choice.measuredNs = measured.medianNs;
    if (!isExact && measured.predictedNs > 0)
      choice.predictedNs *= measured.medianNs / measured.predictedNs;
    result.isFinal |= isToday && (isExact || match.sameBucket);
    result.choices.push_back(std::move(choice));
  }
  // Kernels that were measured as they are come first. An exact record is
  // sorted already, its winner first.
  std::stable_sort(result.choices.begin(), result.choices.end(),
                   [&](const Choice &a, const Choice &b) {
                     if (a.isFallback != b.isFallback)
                       return b.isFallback;
                     return !isExact && a.predictedNs < b.predictedNs;
                   });
  return result;
}

std::vector<Choice> Chooser::fromDecision(const KernelFamily &family,
                                          const Problem &problem) const {
  std::vector<Choice> choices;
  std::optional<Decision> decision = decisions.find(problem, device);
  if (!decision)
    return choices;
  for (const DecidedConfig &decided : decision->configs) {
    auto named = family.parseConfig(decided.config);
    if (!named) {
      llvm::consumeError(named.takeError());
      continue;
    }
    Choice choice;
    choice.tmpl = named->tmpl;
    choice.config = std::move(named->config);
    choice.source = KILN_SOURCE_DECISION;
    choice.predictedNs = decided.predictedNs;
    if (completes(problem, choice) &&
        decided.kernel == kernelDigest(choice.plan))
      choices.push_back(std::move(choice));
  }
  return choices;
}

llvm::Expected<std::vector<Candidate>>
Chooser::rank(const KernelFamily &family, const Problem &problem) const {
  auto space = exploreSpace(family, problem, device);
  if (!space)
    return space.takeError();
  return std::move(space->ranked);
}

size_t Chooser::firstCloseAndThere(const Problem &problem,
                                   const std::vector<Candidate> &ranked) const {
  constexpr size_t kLooked = 8;
  constexpr double kClose = 1.1;
  for (size_t i = 0; i < std::min(kLooked, ranked.size()); ++i) {
    Choice choice;
    if (ranked[i].estimate.totalNs <=
            kClose * ranked.front().estimate.totalNs &&
        makeChoice(problem, ranked[i], i, choice) && hasArtifacts(choice.plan))
      return i;
  }
  return ranked.size();
}

llvm::SmallVector<TranslationUnit, 2>
Chooser::unitsToCompile(const KernelFamily &family,
                        const Problem &problem) const {
  if (!fromRecord(family, problem).choices.empty() ||
      !fromDecision(family, problem).empty())
    return {};
  auto ranked = rank(family, problem);
  if (!ranked) {
    llvm::consumeError(ranked.takeError());
    return {};
  }
  Choice choice;
  if (firstCloseAndThere(problem, *ranked) < ranked->size() ||
      ranked->empty() || !makeChoice(problem, ranked->front(), 0, choice))
    return {};
  return std::move(choice.plan.kernels);
}

bool Chooser::makeChoice(const Problem &problem, const Candidate &candidate,
                         size_t rank, Choice &choice) const {
  choice.tmpl = candidate.tmpl;
  choice.config = candidate.config;
  choice.predictedNs = candidate.estimate.totalNs;
  bool isGeneric = candidate.tmpl->isGeneric() && rank != 0;
  choice.source = isGeneric ? KILN_SOURCE_GENERIC : KILN_SOURCE_ESTIMATE;
  choice.isFallback = isGeneric;
  choice.plan = candidate.tmpl->plan(problem, candidate.config, device);
  return choice.plan.workspace.bytes() <= workspaceLimit;
}

} // namespace kiln
