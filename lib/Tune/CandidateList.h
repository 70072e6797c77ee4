//===- CandidateList.h - the configs that a session may try ---------------===//
//
// Private to the tuner. The list holds the configs that a record knows, the top
// of the ranking, the generic configs in reserve, and relatives of the best so
// far. It also requests their kernels.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/TrialSeries.h"
#include "Tune/TuningTask.h"

#include <llvm/ADT/StringRef.h>

#include <memory>

namespace kiln {

class CandidateList {
public:
  using Clock = TuningOptions::Clock;
  using Entries = std::vector<std::unique_ptr<TuningCandidate>>;

  /// \p task must outlive it.
  explicit CandidateList(const TuningTask &task) : task(task) {}

  /// Ranks the space and fills the list. Errors: those of exploreSpace().
  llvm::Error explore();
  /// The number of configs that the pruner let pass.
  size_t spaceSize() const { return ranked; }
  /// LeftOut::leastBytes of the space.
  uint64_t leftOutBytes() const { return leftOut; }
  /// The entries in the order in which they are to be tried.
  const Entries &entries() const { return list; }

  /// Adds variations of the idea of \p best, wherever they rank.
  void addRelatives(const TuningCandidate &best);
  /// Returns the entry of \p config, added if there is none; null if this
  /// version does not know it or it may not run.
  TuningCandidate *findOrAdd(llvm::StringRef config);

  /// Plans \p entry and requests its artifacts, unless the record rejects its
  /// kernel. Does nothing for an entry that was tried, or whose kernel cannot
  /// be had.
  void request(TuningCandidate &entry, int64_t priority);
  /// Waits until \p entry is no longer compiling; false when it still is at
  /// \p until or when tuning was cancelled.
  bool await(TuningCandidate &entry, Clock::time_point until) const;
  /// Like the above, for as long as the compilation takes.
  bool await(TuningCandidate &entry) const;

  /// Returns the entries that may be tried and are within the bound that
  /// follows from \p series, in the order of their trials.
  CandidateRefs worthTrying(const TrialSeries &series) const;
  /// The number of entries that may be tried and are not because of that bound.
  size_t skippedByBound(const TrialSeries &series) const;

private:
  TuningCandidate &add(Candidate candidate, int rank, bool isReserve = false);

  const TuningTask &task;
  Entries list;
  size_t ranked = 0;
  uint64_t leftOut = Allowance::kUnlimited;
  const TuningCandidate *kin = nullptr; ///< whose relatives were added last
};

/// Makes the candidate of a config that prune() let pass, with its estimate.
Candidate makeCandidate(const TuningTask &task, const Template &tmpl,
                        const Values &config);

/// The interval of polling cancel flags and compilations.
inline constexpr std::chrono::milliseconds kPollInterval{1};

} // namespace kiln
