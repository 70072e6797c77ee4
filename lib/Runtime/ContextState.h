//===- ContextState.h - what an engine knows of one context ---------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Driver/Context.h"
#include "Runtime/Dispatch.h"
#include "Runtime/ProblemSpec.h"
#include "Tune/InProcessTrials.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace kiln {

/// The context of a stream, as a call finds it.
struct StreamContext {
  CudaContext handle = nullptr;
  uint64_t id = 0;
  bool isCurrent = false; ///< to the calling thread
};

/// Looks up the context of \p stream; three driver look-ups, some 10 ns each.
/// Errors: InvalidArgument, ContextDead.
llvm::Expected<StreamContext> findContext(const Driver &driver,
                                          CudaStream stream);

/// Makes \p context current for its lifetime, unless it is.
class CurrentContext {
public:
  static llvm::Expected<CurrentContext> enter(const Driver &driver,
                                              const StreamContext &context);

private:
  std::optional<ScopedContext> scope;
};

/// A plan for all values of a part of a problem's ranges.
struct RangePlan {
  const KernelFamily *family = nullptr;
  std::vector<ExtentRange> ranges;
  ExtentBox box;
  ActivePlanPtr plan;
};

/// One context of one device. The model and what follows from it are immutable;
/// the rest is thread-safe.
class ContextState {
public:
  ContextState(uint64_t id, CudaContext handle, DeviceModel model);

  const uint64_t id;
  const CudaContext handle;
  const DeviceModel model;
  const std::string deviceClass; ///< deviceClassKey(model)
  /// Held while the context is tuned by one thread, by turns.
  class TuningTurn;

  /// Adds a plan of kiln_prepare; it replaces one for the same box.
  void addRangePlan(RangePlan plan);
  /// The plan of a range that \p problem is in, or null. Calls no driver.
  ActivePlanPtr findRangePlan(const KernelFamily &family,
                              const Problem &problem) const;

  /// Ends the trials; the context must be current and nobody be tuning. False
  /// if a launch of theirs still runs, which every free would wait for.
  bool closeTrials() {
    const bool isBusy = trials && trials->isBusy();
    trials.reset();
    return !isBusy;
  }
  /// The same for a context that is gone: its stream and memory went with it.
  void abandonTrials() { (void)trials.release(); }

private:
  mutable std::mutex mutex; ///< guards all below
  std::condition_variable turnEnded;
  bool isTuning = false;
  std::thread::id tuner;
  std::unique_ptr<InProcessTrials> trials;
  std::vector<RangePlan> rangePlans;
};

/// A thread's turn at the context's trials. No lock is held during it, so that
/// hooks may be called.
class ContextState::TuningTurn {
public:
  /// Waits for the turn of others. Not granted if this thread has it already:
  /// a hook that launches from inside tuning.
  explicit TuningTurn(ContextState &state);
  ~TuningTurn();
  TuningTurn(const TuningTurn &) = delete;
  TuningTurn &operator=(const TuningTurn &) = delete;

  bool isGranted() const { return granted; }
  /// The trials of the context, made by \p make if there are none yet; null if
  /// there can be none now.
  template <class Make> InProcessTrials *trials(const Make &make) {
    if (!state.trials)
      state.trials = make();
    return state.trials.get();
  }

private:
  ContextState &state;
  bool granted = false;
};

} // namespace kiln
