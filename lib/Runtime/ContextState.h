//===- ContextState.h - the state of one context in an engine -------------===//
#pragma once

#include "Choice/PlanPool.h"
#include "Device/DeviceModel.h"
#include "Driver/StreamContext.h"
#include "Runtime/Dispatch.h"
#include "Runtime/KernelRoom.h"
#include "Runtime/LateKernels.h"
#include "Runtime/LayerTrials.h"
#include "Runtime/PreparedRange.h"
#include "Trial/InProcessTrials.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace kiln {

/// One context of one device. The model and what follows from it are immutable;
/// the rest is thread-safe.
class ContextState : public std::enable_shared_from_this<ContextState> {
public:
  ContextState(uint64_t id, CudaContext handle, DeviceModel model);

  const uint64_t id;
  const CudaContext handle;
  const DeviceModel model;
  const std::string deviceClass; ///< deviceClassKey(model)
  PlanPool plans;
  PortfolioPool portfolios; ///< of layers that were launched unprepared
  /// Changes when a portfolio was added for which launches have stand-ins.
  std::atomic<uint64_t> portfolioVersion{0};
  LateKernels late;
  LayerTrials layerTrials;
  KernelRoom ahead;
  class TuningTurn;

  /// Returns the one ActivePlan of \p loaded with these attributes.
  ActivePlanPtr activate(const std::shared_ptr<const LoadedPlan> &loaded,
                         kiln_source source, bool isFallback);

  /// Which older ranges an added range replaces.
  enum class Standing {
    Latest,  ///< all whose values it serves as well
    ByMerit, ///< of these, the ones that were measured no further; it goes
             ///< behind the others
    ByExtent ///< like Latest; it goes behind those of more values
  };
  /// Adds a range, and returns the one that serves all of it now.
  std::shared_ptr<const PreparedRange>
  addRange(std::shared_ptr<const PreparedRange> added, Standing standing);
  /// Takes out the ranges that serve all of \p range, or nothing beyond it: all
  /// of its plans were found wrong.
  void dropRange(const ProblemRange &range);
  /// Returns the prepared range that serves all of \p range, or null.
  std::shared_ptr<const PreparedRange>
  findRange(const ProblemRange &range) const {
    return ranges.find(range);
  }
  /// Whether a prepared range has a frozen choice for \p problem that was found
  /// wrong since.
  bool hasLost(const KernelFamily &family, const Problem &problem) const;
  /// Returns all prepared ranges.
  std::vector<std::shared_ptr<const PreparedRange>> allRanges() const {
    return ranges.all();
  }
  /// Changes whenever a range is added.
  uint64_t rangesVersion() const { return version.load(); }
  using PlanFilter = PreparedRange::PlanFilter;
  /// Returns the plan that a prepared range has for \p problem. Provisional
  /// ranges are left out; none if a better plan is not loaded. Some
  /// microseconds; calls no driver and reads no file.
  ChosenPlan chooseFromRanges(const KernelFamily &family,
                              const Problem &problem) const;
  /// Like chooseFromRanges(), among the plans that are loaded and that \p
  /// isMeant accepts (null: all).
  ChosenPlan chooseLoaded(const KernelFamily &family, const Problem &problem,
                          PlanFilter isMeant = nullptr) const;
  /// Returns a plan that a replaced range had for \p problem, the latest that
  /// \p isMeant accepts; or none.
  ChosenPlan chooseFromOutgrown(const KernelFamily &family,
                                const Problem &problem,
                                PlanFilter isMeant) const;
  /// Returns the workspace that launches of values of \p range need: that of
  /// the range that serves all of it, and of the ranges that go before it.
  WorkspaceLayout workspaceOf(const ProblemRange &range) const;

  /// Notes that a launch of the trials did not end in time. Called by the
  /// thread whose turn it is.
  void noteLateTrials() { hasLateTrials = true; }
  /// Frees the memory of such a launch once it has ended, unless a thread is
  /// tuning. The context must be current. Costs one read if there is no late
  /// launch.
  void collectLateTrials();

  /// Ends the trials. The context must be current, and no thread may be tuning.
  /// False if a launch of the trials still runs, which every free would wait
  /// for.
  bool closeTrials() {
    const bool isBusy = trials && trials->isBusy();
    trials.reset();
    return !isBusy;
  }
  /// Ends the trials of a destroyed context, whose stream and memory went with
  /// it.
  void abandonTrials() {
    if (!trials)
      return;
    trials->leakScratch();
    keepForever(std::move(trials));
  }

private:
  RangeIndex<PreparedRange> ranges;
  std::atomic<uint64_t> version{0}; ///< of `ranges`

  /// Belongs to the thread that has the turn, or that ends the context.
  std::unique_ptr<InProcessTrials> trials;

  void keepOutgrown(std::shared_ptr<const PreparedRange> range);

  mutable std::mutex mutex; ///< guards what follows
  /// Replaced ranges by layer, the latest last. A stream may have been prepared
  /// for no more workspace than theirs.
  std::map<std::string, std::vector<std::shared_ptr<const PreparedRange>>>
      outgrown;
  std::condition_variable turnEnded;
  bool isTuning = false;
  std::map<const LoadedPlan *, std::vector<ActivePlanPtr>> active;
  std::atomic<bool> hasLateTrials{false}; ///< needs no mutex
};

/// A thread's turn at the context's trials. No lock is held during it, so that
/// hooks may be called. See Flights.h for the order in which threads may wait
/// for each other.
class ContextState::TuningTurn {
public:
  using Clock = std::chrono::steady_clock;

  /// Waits for the turns of other threads until \p deadline, or until \p
  /// cancel, which may be null, becomes true; then it is not granted. A thread
  /// that has a turn of any context does not wait at all: it is in a hook that
  /// was called during tuning.
  TuningTurn(ContextState &state, Clock::time_point deadline,
             const std::atomic<bool> *cancel);
  ~TuningTurn();
  TuningTurn(const TuningTurn &) = delete;
  TuningTurn &operator=(const TuningTurn &) = delete;

  bool isGranted() const { return granted; }
  bool hasWaited() const { return waited; }
  /// Returns the trials of the context, made by \p make if they do not exist
  /// yet; null if there can be none now.
  template <class Make> InProcessTrials *trials(const Make &make) {
    if (!state.trials)
      state.trials = make();
    return state.trials.get();
  }

private:
  ContextState &state;
  bool granted = false, waited = false;
};

} // namespace kiln
