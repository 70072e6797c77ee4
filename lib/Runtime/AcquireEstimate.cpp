//===- AcquireEstimate.cpp - a problem's plan by the estimator ------------===//
#include "Runtime/Acquisition.h"

#include "Tune/Warmup.h"

#include <algorithm>

namespace kiln {

/// The first candidate from \p begin to \p end that has its kernels there.
Engine::Acquisition::Attempt
Engine::Acquisition::firstExisting(const std::vector<Candidate> &ranked,
                                   size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    Choice choice;
    if (!chooser.makeChoice(request.common, ranked[i], i, choice))
      continue;
    auto plan = load(choice, /*mayCompile=*/false);
    if (!plan || *plan)
      return plan;
  }
  return ActivePlanPtr();
}

/// Compiles in the order of the ranking: a few, then only generic kernels.
Engine::Acquisition::Attempt
Engine::Acquisition::firstCompiled(const std::vector<Candidate> &ranked) {
  size_t attempts = 0;
  for (size_t i = 0; i < ranked.size(); ++i) {
    if (options.cancel && *options.cancel)
      return makeError(ErrorCode::Cancelled, "cancelled");
    Choice choice;
    if ((attempts >= kCompileAttempts && !ranked[i].tmpl->isGeneric()) ||
        !chooser.makeChoice(request.common, ranked[i], i, choice))
      continue;
    ++attempts;
    choice.isFallback |= mode == KILN_MODE_TUNE;
    auto plan = load(choice, /*mayCompile=*/true);
    if (!plan || *plan || firstError.code == ErrorCode::CompilerMissing)
      return plan;
  }
  return ActivePlanPtr();
}

Engine::Acquisition::Attempt Engine::Acquisition::fromEstimate() {
  auto ranked = chooser.rank(request.family, request.common);
  if (!ranked)
    return ranked.takeError();
  if (mode != KILN_MODE_STRICT && !ranked->empty()) {
    size_t there = chooser.firstCloseAndThere(request.common, *ranked);
    auto plan =
        firstExisting(*ranked, there, std::min(there + 1, ranked->size()));
    if (!plan || *plan)
      return plan;
    plan = firstCompiled(*ranked);
    if (!plan || *plan)
      return plan;
  }
  return firstExisting(*ranked, 0, ranked->size());
}

} // namespace kiln
