//===- TuningTrials.cpp - runs the trials of a session --------------------===//
//
// Batches are small and follow the order of the list. A batch waits only a
// little for its kernels: one that compiles for long goes into a later batch.
//
//===----------------------------------------------------------------------===//
#include "Tune/TuningTrials.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <algorithm>
#include <limits>
#include <thread>

namespace kiln {

/// The time for which a batch that has kernels waits for the others: about a
/// compilation.
static constexpr std::chrono::milliseconds kBatchGrace{250};
/// The time of a batch that begins just before the deadline, and that of one
/// with the first choice, whose trial is guaranteed.
static constexpr std::chrono::milliseconds kLeastTime{1}, kOwedTime{100};

/// A config that is predicted to be this many times slower than one that still
/// compiles is not tried before it.
static constexpr double kHopeless = 8;

using Stage = TuningCandidate::Stage;

void TuningTrials::compileAhead(int64_t priority) {
  firstPriority = priority;
  size_t wanted = trialsLeft();
  // Relatives of the best, which is not known yet, take a place in all batches
  // except the first.
  if (!series.best() && task.options.batch > 1 && wanted > 0)
    wanted -= (wanted - 1) / task.options.batch;
  for (auto [i, entry] : llvm::enumerate(candidates.worthTrying(series))) {
    if (wanted == 0)
      break;
    if (entry->stage == Stage::Idle)
      candidates.request(*entry, priority + static_cast<int64_t>(i));
    wanted -= entry->isOpen();
  }
}

std::optional<StopReason>
TuningTrials::stopReason(const CandidateRefs &open,
                         Clock::time_point deadline) const {
  if (open.empty()) {
    bool isSkipping = llvm::any_of(candidates.entries(), [](const auto &entry) {
      return entry->isOpen() && !entry->isReserve;
    });
    return isSkipping ? StopReason::Bound : StopReason::Exhausted;
  }
  if (trialsLeft() == 0)
    return StopReason::Trials;
  if (task.isCancelled())
    return StopReason::Cancelled;
  if (Clock::now() >= deadline)
    return StopReason::Budget;
  return std::nullopt;
}

/// The first choice among the configs that can be had, if it is in \p open and
/// has had no trial; else null.
TuningCandidate *TuningTrials::owedFirst(const CandidateRefs &open) const {
  auto canBeHad = [](const auto &entry) {
    return entry->stage != Stage::Failed && entry->stage != Stage::Barred;
  };
  auto first = llvm::find_if(candidates.entries(), canBeHad);
  if (first == candidates.entries().end() ||
      !llvm::is_contained(open, first->get()))
    return nullptr;
  return first->get();
}

llvm::Expected<StopReason> TuningTrials::run(Clock::time_point deadline,
                                             TuningProgress known) {
  progress = std::move(known);
  const bool beganInTime = Clock::now() < deadline;
  while (series.mayRun()) {
    if (const TuningCandidate *best = series.best(); best && trialsLeft() > 0)
      candidates.addRelatives(*best);
    const CandidateRefs open = candidates.worthTrying(series);
    TuningCandidate *owed = beganInTime ? owedFirst(open) : nullptr;
    if (auto reason = stopReason(open, deadline)) {
      if (*reason != StopReason::Budget || !owed)
        return *reason;
      candidates.request(*owed, compile_priority::kNow);
      if (!candidates.await(*owed))
        return *reason;
      if (!owed->isOpen())
        continue; // the next one is the first choice now
      if (llvm::Error error = runBatch({owed}, deadline, kProofGrace))
        return error;
      return *reason;
    }
    compileAhead(firstPriority);
    const CandidateRefs batch = nextBatch(open, deadline);
    if (batch.empty())
      continue; // none compiled, or the next round finds a reason to stop
    const bool hasOwed = llvm::is_contained(batch, owed);
    if (llvm::Error error =
            runBatch(batch, deadline, hasOwed ? kOwedTime : kLeastTime))
      return error;
  }
  return StopReason::Exhausted;
}

/// Returns the entries of \p open that run next: the first ones or, if these
/// take long to compile, the ready ones. Once a best is known and enough
/// entries are ready, only the last batch waits: an entry that compiles gets
/// its turn in a later one. Empty if tuning should stop, or if no requested
/// kernel can be had.
CandidateRefs TuningTrials::nextBatch(const CandidateRefs &open,
                                      Clock::time_point deadline) const {
  const size_t wanted =
      std::min<size_t>(std::max(task.options.batch, 1u), trialsLeft());
  const bool isLast = wanted == trialsLeft();
  Clock::time_point graceEnd = Clock::time_point::max();
  for (;;) {
    CandidateRefs ready;
    llvm::SmallVector<std::pair<TuningCandidate *, bool>, 16> alive;
    double leastNs = std::numeric_limits<double>::infinity();
    bool areDone = true, isComplete = true;
    for (TuningCandidate *entry : open) {
      if (entry->stage == Stage::Idle)
        break; // entries behind it are not requested either
      const bool isDone = entry->poll();
      if (!entry->isOpen())
        continue;
      alive.emplace_back(entry, isDone);
      areDone &= isDone;
      leastNs = std::min(leastNs, entry->candidate.estimate.totalNs);
    }
    size_t waitedFor = 0;
    for (auto [entry, isDone] : alive) {
      // A generic kernel compiles first, and one run of it may take all of the
      // time. (Once there is a best, the stop rule handles this.)
      if (!areDone && !series.best() &&
          entry->candidate.estimate.totalNs > kHopeless * leastNs)
        continue;
      isComplete &= isDone || waitedFor >= wanted;
      ++waitedFor;
      if (isDone && ready.size() < wanted)
        ready.push_back(entry);
    }
    const Clock::time_point now = Clock::now();
    if (!ready.empty()) {
      const bool isEnough = series.best() && !isLast && ready.size() >= wanted;
      if (isComplete || isEnough || now >= graceEnd)
        return ready;
      graceEnd = std::min(graceEnd, now + kBatchGrace);
    }
    if (alive.empty() || task.isCancelled() || now >= deadline)
      return {};
    std::this_thread::sleep_for(kPollInterval);
  }
}

/// Tries \p batch until \p deadline, for \p leastTime at least, and reports
/// progress.
llvm::Error TuningTrials::runBatch(const CandidateRefs &batch,
                                   Clock::time_point deadline,
                                   std::chrono::milliseconds leastTime) {
  llvm::Error error =
      series.runBatch(batch, choice.optionsUntil(deadline, leastTime));
  if (!series.mayRun())
    return error;
  progress.trials = series.tried().size();
  if (const TuningCandidate *best = series.best()) {
    progress.bestNs = best->trial.medianNs;
    progress.bestConfig = best->config;
  }
  if (task.options.progress)
    task.options.progress(progress);
  return error;
}

llvm::Expected<TuningCandidate *>
TuningTrials::tryReserves(Clock::time_point deadline) {
  for (auto &entry : candidates.entries()) {
    if (!entry->isLastResort || !entry->isOpen())
      continue;
    const bool isForced = choice.needsProof();
    if (!series.mayRun() || task.isCancelled() ||
        (!isForced && (!series.measured().empty() || Clock::now() >= deadline)))
      break;
    candidates.request(*entry, compile_priority::kNow);
    if (!(isForced ? candidates.await(*entry)
                   : candidates.await(*entry, deadline)))
      break;
    const Clock::time_point end =
        isForced ? std::max(deadline, Clock::now() + kProofGrace) : deadline;
    // It runs once more if the config that gave the scale turned out to be
    // faulty.
    while (entry->isOpen() && series.mayRun())
      if (llvm::Error error = runBatch({entry.get()}, end, kLeastTime))
        return error;
    auto proven = choice.choose(deadline);
    if (!proven || *proven)
      return proven;
  }
  return nullptr;
}

} // namespace kiln
