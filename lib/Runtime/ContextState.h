//===- ContextState.h - what an engine knows of one context ---------------===//
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
#include <optional>
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
  /// Changes when one was added for which launches have stand-ins.
  std::atomic<uint64_t> portfolioVersion{0};
  LateKernels late;
  LayerTrials layerTrials;
  KernelRoom ahead;
  class TuningTurn;

  /// The one ActivePlan that says this of \p loaded.
  ActivePlanPtr activate(const std::shared_ptr<const LoadedPlan> &loaded,
                         kiln_source source, bool isFallback);

  /// What a range that is added may take the place of.
  enum class Standing {
    Latest,  ///< of all that it serves as well
    ByMerit, ///< of what was measured no further; behind what was, elsewhere
  };
  /// Adds a range, and returns what serves all of it now.
  std::shared_ptr<const PreparedRange>
  addRange(std::shared_ptr<const PreparedRange> added, Standing standing);
  /// Takes out what serves all of \p range, or nothing beyond it: all of it was
  /// found wrong.
  void dropRange(const ProblemRange &range);
  /// What serves all of \p range, or null.
  std::shared_ptr<const PreparedRange>
  findRange(const ProblemRange &range) const {
    return ranges.find(range);
  }
  /// Changes whenever a range is added.
  uint64_t rangesVersion() const { return version.load(); }
  using PlanFilter = PreparedRange::PlanFilter;
  /// The plan that a prepared range has for \p problem; none of provisional
  /// ones, and none where a better one is not loaded. Some microseconds; calls
  /// no driver and reads no file.
  ChosenPlan chooseFromRanges(const KernelFamily &family,
                              const Problem &problem) const;
  /// The same of what is loaded and \p isMeant accepts (null: all).
  ChosenPlan chooseLoaded(const KernelFamily &family, const Problem &problem,
                          PlanFilter isMeant = nullptr) const;
  /// A plan that a range had for \p problem whose place another one took, the
  /// latest that \p isMeant accepts; or none.
  ChosenPlan chooseFromOutgrown(const KernelFamily &family,
                                const Problem &problem,
                                PlanFilter isMeant) const;
  /// What launches of values of \p range need: of the range that serves all of
  /// it, and of those that go before that one.
  WorkspaceLayout workspaceOf(const ProblemRange &range) const;

  /// Notes that a launch of the trials did not end in time; by the thread whose
  /// turn it is.
  void noteLateTrials() { hasLateTrials = true; }
  /// Frees what such a launch held once it has ended, unless somebody is
  /// tuning. The context must be current. Cost: a read where there is none.
  void collectLateTrials();

  /// Ends the trials; the context must be current and nobody be tuning. False
  /// if a launch of theirs still runs, which every free would wait for.
  bool closeTrials() {
    const bool isBusy = trials && trials->isBusy();
    trials.reset();
    return !isBusy;
  }
  /// The same for a context that is gone: its stream and memory went with it.
  void abandonTrials() {
    if (trials)
      keepForever(std::move(trials));
  }

private:
  RangeIndex<PreparedRange> ranges;
  std::atomic<uint64_t> version{0}; ///< of `ranges`

  /// Belongs to the thread that has the turn, or that ends the context.
  std::unique_ptr<InProcessTrials> trials;

  void keepOutgrown(std::shared_ptr<const PreparedRange> range);

  mutable std::mutex mutex; ///< guards what follows
  /// By layer, the latest last. Streams may have been prepared for no more than
  /// theirs.
  std::map<std::string, std::vector<std::shared_ptr<const PreparedRange>>>
      outgrown;
  std::condition_variable turnEnded;
  bool isTuning = false;
  std::map<const LoadedPlan *, std::vector<ActivePlanPtr>> active;
  std::atomic<bool> hasLateTrials{false}; ///< needs no mutex
};

/// A thread's turn at the context's trials. No lock is held during it, so that
/// hooks may be called. See Flights.h for who may wait for whom.
class ContextState::TuningTurn {
public:
  using Clock = std::chrono::steady_clock;

  /// Waits for the turns of others until \p deadline or until \p cancel, which
  /// may be null, becomes true: then it is not granted. A thread that has a
  /// turn, of whatever context, is in a hook that was called from inside tuning
  /// and does not wait at all.
  TuningTurn(ContextState &state, Clock::time_point deadline,
             const std::atomic<bool> *cancel);
  ~TuningTurn();
  TuningTurn(const TuningTurn &) = delete;
  TuningTurn &operator=(const TuningTurn &) = delete;

  bool isGranted() const { return granted; }
  bool hasWaited() const { return waited; }
  /// The trials of the context, made by \p make if there are none yet; null if
  /// there can be none now.
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
