//===- UnprovenChoice.cpp - the choice where no trial proved one ----------===//
#include "Tune/UnprovenChoice.h"

#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

using Stage = TuningCandidate::Stage;

bool UnprovenChoice::isKnownHopeless() {
  if (task.options.retune || !task.foundNoneRight())
    return false;
  bool isKnown = false;
  for (auto &entry : candidates.entries()) {
    if (!entry->isLastResort)
      continue;
    entry->makePlan(task.problem, task.context.device);
    if (!task.isBarred(entry->config, entry->kernel))
      return false;
    entry->stage = Stage::Barred;
    isKnown = true;
  }
  return isKnown;
}

llvm::Expected<TuningChoice> UnprovenChoice::choose(bool needsProof) {
  if (needsProof)
    return explain();
  const CandidateRefs measured = series.measured();
  if (!measured.empty())
    return chooseFastest(measured)->choice(ChoiceOrigin::Measured);
  if (TuningCandidate *entry = firstObtainable())
    return entry->choice(ChoiceOrigin::Estimated);
  return explain();
}

/// The first entry whose artifacts are here or can be had, null if there is
/// none. If time has been spent already, entries with their artifacts come
/// first.
TuningCandidate *UnprovenChoice::firstObtainable() {
  auto isHere = [](TuningCandidate &entry) {
    entry.poll();
    return entry.stage == Stage::Ready ||
           (entry.stage == Stage::Tried && !entry.isAtFault() &&
            entry.trial.status != TrialStatus::Late); // it may never end
  };
  if (task.measures() || task.isCancelled())
    for (auto &entry : candidates.entries())
      if (isHere(*entry))
        return entry.get();
  for (auto &entry : candidates.entries()) {
    if (task.isCancelled())
      return nullptr;
    candidates.request(*entry, compile_priority::kNow);
    if (candidates.await(*entry) && isHere(*entry))
      return entry.get();
  }
  return nullptr;
}

/// The fault of the first of \p entries that trials reject; empty if there is
/// none.
static std::string firstWrong(const CandidateList::Entries &entries) {
  for (const auto &entry : entries) {
    if (entry->isAtFault())
      return fmt::format("{} is {}: {}", entry->config,
                         nameOf(entry->trial.status), entry->trial.message);
    if (entry->stage == Stage::Barred)
      return fmt::format(
          "{} was found wrong, or could not be launched, by earlier trials",
          entry->config);
  }
  return {};
}

llvm::Error UnprovenChoice::explain() const {
  const std::string problem = task.problem.text();
  if (task.isCancelled())
    return makeError(ErrorCode::Cancelled,
                     "tuning of {} was cancelled before there was a choice",
                     problem);
  const CandidateList::Entries &entries = candidates.entries();
  std::string wrong = firstWrong(entries);
  if (wrong.empty() && task.foundNoneRight())
    wrong = "earlier trials found only wrong results, and no config was proven "
            "since";
  auto failed = llvm::find_if(
      entries, [](const auto &entry) { return entry->stage == Stage::Failed; });
  if (wrong.empty() && failed != entries.end()) {
    const TuningCandidate &entry = **failed;
    return addContext(makeArtifactError(entry.failure,
                                        entry.plan.kernels[entry.failedKernel]),
                      problem);
  }
  if (wrong.empty())
    wrong = "no trial was completed";
  return makeError(ErrorCode::NoCandidate,
                   "no kernel is known to compute {} correctly on {}: {}",
                   problem, task.context.device.name, wrong);
}

} // namespace kiln
