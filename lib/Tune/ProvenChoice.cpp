//===- ProvenChoice.cpp - the winner among the measured configs -----------===//
#include "Tune/ProvenChoice.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

/// The band behind the best within which proven configs take part in the
/// playoff: some times the error between batches, which is about 1 %.
static constexpr double kPlayoffBand = 0.06;
/// The time after the deadline in which a reference may be computed as long as
/// no config is proven. An unproven config is not recorded, so each process
/// would tune again.
static constexpr std::chrono::milliseconds kMostProofTime{20000};

/// The time until \p end, within [\p least, \p most].
static std::chrono::milliseconds timeUntil(TuningOptions::Clock::time_point end,
                                           std::chrono::milliseconds least,
                                           std::chrono::milliseconds most) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      end - TuningOptions::Clock::now());
  return std::clamp(left, least, most);
}

static std::chrono::milliseconds
extraTimeUntil(TuningOptions::Clock::time_point deadline) {
  constexpr std::chrono::milliseconds kNone{0};
  return timeUntil(deadline + kMostProofTime, kNone, kMostProofTime);
}

TrialOptions ProvenChoice::optionsUntil(Clock::time_point deadline,
                                        std::chrono::milliseconds least) const {
  TrialOptions options;
  options.timeLimit = timeUntil(deadline, least, options.timeLimit);
  if (!series.best())
    options.extraTime = extraTimeUntil(deadline);
  return options;
}

/// Compares a measured entry with the reference. Afterwards it is proven, at
/// fault, or set aside. Returns the verdict; NotTried if there was no
/// comparison.
llvm::Expected<TrialStatus> ProvenChoice::validate(TuningCandidate &entry,
                                                   Clock::time_point deadline) {
  entry.isSetAside = true;
  const bool isLate = Clock::now() >= deadline;
  // The proof of a far slower config does not make this proof needless.
  constexpr double kFarSlower = 2;
  const TuningCandidate *best = series.best();
  const bool isSettled =
      best && best->trial.medianNs < kFarSlower * entry.trial.medianNs;
  if (!series.mayRun() || task.isCancelled() || (isLate && isSettled))
    return TrialStatus::NotTried;
  TrialOptions options = optionsUntil(deadline, kProofGrace);
  if (!isSettled)
    options.extraTime = extraTimeUntil(deadline);
  return series.prove(entry, options);
}

llvm::Expected<TuningCandidate *>
ProvenChoice::choose(Clock::time_point deadline) {
  for (;;) {
    CandidateRefs measured = series.measured();
    llvm::erase_if(measured, [](const TuningCandidate *entry) {
      return entry->isSetAside && !entry->isProven();
    });
    if (measured.empty())
      return nullptr;
    TuningCandidate *best = chooseFastest(measured);
    if (best->isProven())
      return best;
    auto verdict = validate(*best, deadline);
    if (!verdict)
      return verdict.takeError();
    if (*verdict == TrialStatus::Timeout && !series.best())
      return nullptr;
  }
}

/// Returns the proven configs so near the best that times of different batches
/// do not tell them apart, \p winner among them; empty if it is alone.
CandidateRefs ProvenChoice::chooseFinalists(TuningCandidate &winner) const {
  CandidateRefs finalists =
      series.contenders(kPlayoffBand, task.options.playoff, /*areProven=*/true);
  if (finalists.size() < 2)
    return {};
  // It may have won by its rank.
  if (!llvm::is_contained(finalists, &winner))
    finalists.back() = &winner;
  return finalists;
}

llvm::Expected<TuningCandidate *>
ProvenChoice::playOff(TuningCandidate &winner, Clock::time_point deadline) {
  const CandidateRefs finalists = chooseFinalists(winner);
  const Clock::time_point now = Clock::now();
  if (finalists.empty() || !series.mayRun() || task.isCancelled() ||
      now >= deadline)
    return &winner;
  TrialOptions options;
  options.validation = TrialValidation::None;
  options.timeLimit =
      std::min(options.timeLimit,
               std::chrono::ceil<std::chrono::milliseconds>(deadline - now));
  auto playoff = series.playOff(finalists, options, PlayoffScale::Together);
  if (!playoff)
    return playoff.takeError();
  if (!playoff->timed.empty())
    return chooseFastest(playoff->timed);
  return series.mayRun() ? choose(deadline) : &winner;
}

llvm::Error ProvenChoice::proveContenders(const TuningCandidate &winner,
                                          Clock::time_point deadline) {
  for (TuningCandidate *entry : CandidateRefs(series.tried())) {
    if (!series.mayRun() || task.isCancelled() || Clock::now() >= deadline)
      break;
    if (!entry->isMeasured() || entry->isProven() || entry->isSetAside ||
        entry->trial.medianNs > winner.trial.medianNs * (1 + kNeighbourBand))
      continue;
    if (auto verdict = validate(*entry, deadline); !verdict)
      return verdict.takeError();
  }
  return llvm::Error::success();
}

} // namespace kiln
