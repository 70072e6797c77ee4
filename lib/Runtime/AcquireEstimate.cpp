//===- AcquireEstimate.cpp - a problem's plan by the estimator ------------===//
#include "Runtime/Acquisition.h"

#include "Tune/Warmup.h"

#include <algorithm>

namespace kiln {

/// So many configs of a ranking stand for it at other values of the bucket. It
/// begins with the best of each class of candidates.
static constexpr size_t kShortlisted = 16;

/// What the bucket has loaded, or in strict mode has kernels of, if it is close
/// to the best of the shortlist here.
Engine::Acquisition::Attempt Engine::Acquisition::fromShortlist() {
  std::vector<Choice> choices = chooser.rankShortlist(
      request.family, request.common, context.plans.shortlist(targets.front()));
  for (const Choice &choice : choices) {
    bool isStrict = mode == KILN_MODE_STRICT;
    if (!isStrict &&
        choice.predictedNs > Chooser::kClose * choices.front().predictedNs)
      break;
    auto plan = load(choice, isStrict ? Effort::Existing : Effort::Loaded);
    if (!plan || *plan)
      return plan;
  }
  return ChosenPlan();
}

/// Keeps the best of \p ranked for other values of the bucket, \p chosen among
/// them; in strict mode only what has kernels.
void Engine::Acquisition::keepShortlist(const std::vector<Candidate> &ranked,
                                        const ChosenPlan &chosen) {
  std::vector<ShortlistEntry> entries;
  const Record &config = chosen.plan->loaded->plan().config;
  for (const Candidate &candidate : ranked) {
    bool isChosen = candidate.config == config;
    if (!isChosen && entries.size() + 1 >= kShortlisted)
      continue;
    if (!isChosen && mode == KILN_MODE_STRICT) {
      auto plan =
          chooser.plan(request.common, *candidate.tmpl, candidate.config);
      if (!plan || !chooser.hasArtifacts(*plan))
        continue;
    }
    entries.push_back({candidate.tmpl, candidate.config});
  }
  context.plans.setShortlist(targets.front(), std::move(entries));
}

/// The choice of what ranks at \p rank.
Choice Engine::Acquisition::choiceOf(const Candidate &candidate,
                                     size_t rank) const {
  Choice choice = Chooser::makeChoice(*candidate.tmpl, candidate.config,
                                      candidate.estimate.totalNs, rank);
  choice.isFallback |= mode == KILN_MODE_TUNE;
  return choice;
}

/// The first candidate from \p begin to \p end that has its kernels there.
Engine::Acquisition::Attempt
Engine::Acquisition::firstExisting(const std::vector<Candidate> &ranked,
                                   size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    auto plan = load(choiceOf(ranked[i], i), Effort::Existing);
    if (!plan || *plan)
      return plan;
  }
  return ChosenPlan();
}

/// Compiles in the order of the ranking: a few, then only generic kernels.
Engine::Acquisition::Attempt
Engine::Acquisition::firstCompiled(const std::vector<Candidate> &ranked) {
  size_t attempts = 0;
  for (size_t i = 0; i < ranked.size(); ++i) {
    if (options.cancel && *options.cancel)
      return makeError(ErrorCode::Cancelled, "cancelled");
    if ((attempts >= kCompileAttempts && !ranked[i].tmpl->isGeneric()) ||
        !chooser.plan(mayBeAlone ? request.common : targets.front(),
                      *ranked[i].tmpl, ranked[i].config))
      continue;
    ++attempts;
    auto plan = load(choiceOf(ranked[i], i), Effort::Compiled);
    if (!plan || *plan || firstError.code == ErrorCode::CompilerMissing)
      return plan;
  }
  return ChosenPlan();
}

Engine::Acquisition::Attempt Engine::Acquisition::fromEstimate() {
  // In the mode tune it stands in for trials once: the next value has its own.
  bool sharesRanking = mode != KILN_MODE_TUNE;
  if (sharesRanking)
    if (auto plan = fromShortlist(); !plan || *plan)
      return plan;
  auto ranked = chooser.rank(request.family, request.common);
  if (!ranked)
    return ranked.takeError();
  auto plan = fromRanking(*ranked);
  if (plan && *plan && sharesRanking)
    keepShortlist(*ranked, *plan);
  return plan;
}

Engine::Acquisition::Attempt
Engine::Acquisition::fromRanking(const std::vector<Candidate> &ranked) {
  if (mode != KILN_MODE_STRICT && !ranked.empty()) {
    size_t there = chooser.firstCloseAndThere(request.common, ranked);
    auto plan =
        firstExisting(ranked, there, std::min(there + 1, ranked.size()));
    if (!plan || *plan)
      return plan;
    plan = firstCompiled(ranked);
    if (!plan || *plan)
      return plan;
  }
  return firstExisting(ranked, 0, ranked.size());
}

} // namespace kiln
