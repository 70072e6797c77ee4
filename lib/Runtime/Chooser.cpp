//===- Chooser.cpp - the configs to try, best first -----------------------===//
#include "Runtime/Chooser.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

std::optional<Plan> Chooser::plan(const Problem &problem, const Template &tmpl,
                                  const Record &config) const {
  if (tmpl.pruneWithin(allowance, problem, config, device))
    return std::nullopt;
  return tmpl.plan(problem, config, device);
}

/// Whether trials found this kernel wrong.
bool Chooser::isRejected(const RecordMatch &match, const Problem &problem,
                         const Template &tmpl, const Record &config) const {
  const std::string text = config.text();
  return match.mayReject(text) &&
         match.rejects(text, pool.digestOf(tmpl, problem, config, device));
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
  result.foundNoneRight = match.foundNoneRight;
  result.isIncomplete = match.isIncomplete;
  // What was timed and never compared with the reference must not be launched.
  for (const RecordedConfig &recorded : match.validated()) {
    if (recorded.tmpl->prune(problem, recorded.config, device))
      continue;
    Choice choice;
    choice.tmpl = recorded.tmpl;
    choice.config = recorded.config;
    const Measurement &measured = *recorded.measurement;
    const std::string kernel =
        pool.digestOf(*choice.tmpl, problem, choice.config, device);
    if (match.rejects(measured.config, kernel))
      continue;
    choice.predictedNs =
        choice.tmpl->estimate(problem, choice.config, device).totalNs;
    bool isToday = measured.kernel == kernel;
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
  RecordMatch match = records.find(family, problem, deviceClass);
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
    if (!choice.tmpl->prune(problem, choice.config, device) &&
        decided.kernel ==
            pool.digestOf(*choice.tmpl, problem, choice.config, device) &&
        !match.rejects(decided.config, decided.kernel))
      choices.push_back(std::move(choice));
  }
  return choices;
}

llvm::Expected<std::vector<Candidate>>
Chooser::rank(const KernelFamily &family, const Problem &problem) const {
  auto space = exploreSpace(family, problem, device, {.allowance = allowance});
  if (!space)
    return space.takeError();
  RecordMatch match = records.find(family, problem, deviceClass);
  llvm::erase_if(space->ranked, [&](const Candidate &candidate) {
    return isRejected(match, problem, *candidate.tmpl, candidate.config);
  });
  return std::move(space->ranked);
}

std::vector<Choice>
Chooser::rankShortlist(const KernelFamily &family, const Problem &problem,
                       llvm::ArrayRef<ShortlistEntry> entries) const {
  RecordMatch match = records.find(family, problem, deviceClass);
  std::vector<std::pair<double, const ShortlistEntry *>> order;
  for (const ShortlistEntry &entry : entries)
    if (!entry.tmpl->prune(problem, entry.config, device) &&
        !isRejected(match, problem, *entry.tmpl, entry.config))
      order.push_back(
          {entry.tmpl->estimate(problem, entry.config, device).totalNs,
           &entry});
  llvm::stable_sort(order, llvm::less_first());
  std::vector<Choice> choices;
  for (auto [ns, entry] : order)
    choices.push_back(
        makeChoice(*entry->tmpl, entry->config, ns, choices.size()));
  return choices;
}

size_t Chooser::firstCloseAndThere(const Problem &problem,
                                   const std::vector<Candidate> &ranked) const {
  constexpr size_t kLooked = 8;
  for (size_t i = 0; i < std::min(kLooked, ranked.size()); ++i) {
    const Candidate &candidate = ranked[i];
    if (candidate.estimate.totalNs > kClose * ranked.front().estimate.totalNs)
      continue;
    std::optional<Plan> made = plan(problem, *candidate.tmpl, candidate.config);
    if (made && hasArtifacts(*made))
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
  if (ranked->empty() || firstCloseAndThere(problem, *ranked) < ranked->size())
    return {};
  const Candidate &first = ranked->front();
  std::optional<Plan> made = plan(problem, *first.tmpl, first.config);
  return made ? std::move(made->kernels)
              : llvm::SmallVector<TranslationUnit, 2>();
}

Choice Chooser::makeChoice(const Template &tmpl, const Record &config,
                           double predictedNs, size_t rank) {
  Choice choice;
  choice.tmpl = &tmpl;
  choice.config = config;
  choice.predictedNs = predictedNs;
  bool isGeneric = tmpl.isGeneric() && rank != 0;
  choice.source = isGeneric ? KILN_SOURCE_GENERIC : KILN_SOURCE_ESTIMATE;
  choice.isFallback = isGeneric;
  return choice;
}

} // namespace kiln
