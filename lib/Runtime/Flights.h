//===- Flights.h - one thread works on a problem, others wait -------------===//
//
// The order in which threads wait. A thread of the compile pool waits for no
// other thread and calls no hook (messages of the cache wait in a queue). A
// thread that has a tuning turn waits for the pool alone. A thread that works
// on a problem, which is a flight, waits for the pool and, until a deadline,
// for a turn. Only a thread that has neither waits for flights of other
// threads, until its budget ends or it is cancelled. Each waits only for
// threads before it in this list, so no cycle of waiting threads can close,
// whatever hooks launch. If a hook that is called during work on one problem
// asks for a problem that another thread works on, it gets the estimator's
// choice, made beside that flight. (Not covered: a hook that waits for its
// caller by other means, as for a task.)
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Choice/ChoiceOrder.h"
#include "Choice/PlanRequest.h"
#include "Runtime/ContextState.h"

#include <llvm/Support/Error.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace kiln {

class Engine;
class Portfolio;

/// The ways in which a plan may be found.
struct AcquireOptions {
  /// Measure although an existing record, decision or plan could serve (mode
  /// tune only).
  bool retune = false;
  /// Only measurements made for the request, at its value or over its range,
  /// replace trials (mode tune only).
  bool preferTrials = false;
  /// In the mode background: this is the engine's own thread, which makes the
  /// trials. Others leave them to it.
  bool isBackground = false;
  /// In the mode background: with Haste::Launch any plan that is there will do.
  Haste haste = Haste::None;
  std::chrono::milliseconds budget{2000};
  const std::atomic<bool> *cancel = nullptr; ///< may be null
  /// For a range: see PortfolioOptions; may be null.
  std::shared_ptr<const Portfolio> *cover = nullptr;
  const std::atomic<bool> *cancelCover = nullptr;
  /// Receives how many configs were tried so far; may be null.
  std::atomic<uint64_t> *trials = nullptr;
  /// For a range: receives how many of its kernels are there, and how many it
  /// has; may be empty.
  std::function<void(size_t ready, size_t kernels)> compiled;
  /// Called, with no lock held, when one of these changed; may be empty.
  std::function<void()> progressed;

  bool isCancelled() const { return cancel && *cancel; }
  /// Whether a plan that exists will do for \p request.
  bool takes(const PlanRequest &request, const ChosenPlan &known) const {
    if (retune)
      return false;
    const ActivePlan &plan = *known.plan;
    if (!preferTrials)
      return haste == Haste::Launch || plan.source != KILN_SOURCE_STAND_IN;
    // A range is measured at few of its values, a value at itself.
    return !plan.isFallback && plan.source != KILN_SOURCE_DECISION &&
           (request.range || known.measuredNs > 0);
  }
  /// Whether \p range, which has \p known for the request, will do. A value
  /// that was measured by itself says nothing about the others.
  bool takes(const PlanRequest &request, const PreparedRange &range,
             const ChosenPlan &known) const {
    return known && takes(request, known) && !range.isProvisional &&
           !(preferTrials && range.isFallback());
  }
};

/// The problems of an engine that are in work. Thread-safe.
class Flights {
public:
  explicit Flights(Engine &engine) : engine(engine) {}

  /// Finds the plan of a problem that is in no table, in the context that is
  /// current, by the order of choice. One thread works, and others that ask for
  /// the same problem wait; in the mode tune until their budgets end, when they
  /// get a plan without trials. Must run under a CaptureModeGuard. Adds its
  /// results to the engine's tables.
  llvm::Expected<ChosenPlan> acquire(ContextState &context,
                                     const PlanRequest &request,
                                     const AcquireOptions &options);
  /// Like acquire(), for a range: returns the prepared range that serves all of
  /// it. Errors: NoCandidate also if trials of other threads have found it
  /// wrong meanwhile.
  llvm::Expected<std::shared_ptr<const PreparedRange>>
  acquireRange(ContextState &context, const PlanRequest &request,
               const AcquireOptions &options);
  /// The kind of work on a problem that is in progress; Missing if there is
  /// none.
  kiln_state stateOf(const ContextState &context,
                     const PlanRequest &request) const;
  /// Whether this thread is doing work that others wait for.
  static bool isWorking();

private:
  struct Flight;
  /// The result of a flight.
  struct Outcome {
    ChosenPlan chosen;
    std::shared_ptr<const PreparedRange> range; ///< if a range was asked for

    /// Whether it satisfies \p options.
    bool meets(const AcquireOptions &options,
               const PlanRequest &request) const {
      return range ? options.takes(request, *range, chosen)
                   : chosen && options.takes(request, chosen);
    }
  };

  llvm::Expected<Outcome> acquireAny(ContextState &context,
                                     const PlanRequest &request,
                                     const AcquireOptions &options);
  static Outcome lookUp(Engine &engine, const ContextState &context,
                        const PlanRequest &request);
  llvm::Expected<Outcome> workWithoutTrials(ContextState &context,
                                            const PlanRequest &request,
                                            const AcquireOptions &given);
  llvm::Expected<Outcome> joinOrWork(ContextState &context,
                                     const PlanRequest &request,
                                     const AcquireOptions &given);
  llvm::Expected<Outcome> workBeside(ContextState &context,
                                     const PlanRequest &request,
                                     const AcquireOptions &given);
  llvm::Expected<Outcome> work(ContextState &context,
                               const PlanRequest &request,
                               const AcquireOptions &given,
                               const std::string &name, Flight &flight);

  void publish(ContextState &context, const PlanRequest &request,
               ChosenPlan &found);
  void dropIfStale(ContextState &context, const PlanRequest &request,
                   const ChosenPlan &serving, uint64_t version);

  Engine &engine;
  mutable std::mutex mutex; ///< guards what follows
  std::map<std::string, std::shared_ptr<Flight>> flights;
};

} // namespace kiln
