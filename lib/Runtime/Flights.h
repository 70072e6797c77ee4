//===- Flights.h - one thread works on a problem, others wait -------------===//
//
// Who waits for whom. A thread of the compile pool waits for nobody and calls
// no hook (what the cache says there waits in a queue). A thread that has a
// tuning turn waits for the pool alone. One that works on a problem, which is a
// flight, waits for the pool and, until a deadline, for a turn. Only a thread
// that has neither waits for flights of others, until its budget ends or it is
// cancelled. Each waits for those before it in this list, so no ring of waiting
// threads can close, whatever hooks launch: a hook that is called from work on
// one problem and asks for one that another thread works on gets the
// estimator's choice, made beside that flight. (A hook that waits for its
// caller in ways of its own, as for a task, is beyond this.)
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

/// How a plan is to be had.
struct AcquireOptions {
  /// Measure although a record, a decision or a plan that is there could serve
  /// (mode tune only).
  bool retune = false;
  /// Only what was measured for the request, at its value or over its range,
  /// stands in for trials (mode tune only).
  bool preferTrials = false;
  /// In the mode background: who makes its trials, which is a thread of the
  /// engine's own. Others leave them to it.
  bool isBackground = false;
  /// In the mode background: Launch takes whatever is there.
  Haste haste = Haste::None;
  std::chrono::milliseconds budget{2000};
  const std::atomic<bool> *cancel = nullptr; ///< may be null
  /// Of a range: see PortfolioOptions; may be null.
  std::shared_ptr<const Portfolio> *cover = nullptr;
  const std::atomic<bool> *cancelCover = nullptr;
  /// Receives how many configs were tried so far; may be null.
  std::atomic<uint64_t> *trials = nullptr;
  /// Of a range: receives how many kernels are there and how many it has; may
  /// be empty.
  std::function<void(size_t ready, size_t kernels)> compiled;
  /// Called, with no lock held, when one of these changed; may be empty.
  std::function<void()> progressed;

  bool isCancelled() const { return cancel && *cancel; }
  /// Whether a plan that is there will do for \p request.
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
  /// The same of \p range, of which \p known speaks for the request. A value
  /// that was measured by itself does not tell of the others.
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

  /// The plan of a problem that is in no table, in the context that is current:
  /// by the order of choice. One thread works, others that ask the same wait,
  /// in the mode tune until their budgets end: then they get what there is
  /// without trials. Run it under a CaptureModeGuard. Adds what it finds to the
  /// engine's tables.
  llvm::Expected<ChosenPlan> acquire(ContextState &context,
                                     const PlanRequest &request,
                                     const AcquireOptions &options);
  /// The same of a range: what serves all of it. Errors: NoCandidate as well
  /// where trials of other threads have found it wrong meanwhile.
  llvm::Expected<std::shared_ptr<const PreparedRange>>
  acquireRange(ContextState &context, const PlanRequest &request,
               const AcquireOptions &options);
  /// What works on a problem now: Missing if nothing does.
  kiln_state stateOf(const ContextState &context,
                     const PlanRequest &request) const;
  /// Whether this thread is in the midst of work that others wait for.
  static bool isWorking();

private:
  struct Flight;
  /// What a flight ends with.
  struct Outcome {
    ChosenPlan chosen;
    std::shared_ptr<const PreparedRange> range; ///< if a range was asked for

    /// Whether it is what \p options ask for.
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
