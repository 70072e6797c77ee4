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

#include "Runtime/ContextState.h"
#include "Runtime/PlanRequest.h"

#include <llvm/Support/Error.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace kiln {

class Engine;

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
  /// What works on a problem now: Missing if nothing does.
  kiln_state stateOf(const ContextState &context,
                     const PlanRequest &request) const;
  /// Whether this thread is in the midst of work that others wait for.
  static bool isWorking();

private:
  struct Flight;

  llvm::Expected<ChosenPlan> joinOrWork(ContextState &context,
                                        const PlanRequest &request,
                                        const AcquireOptions &given);
  llvm::Expected<ChosenPlan> workBeside(ContextState &context,
                                        const PlanRequest &request,
                                        const AcquireOptions &given);
  llvm::Expected<ChosenPlan> work(ContextState &context,
                                  const PlanRequest &request,
                                  const AcquireOptions &given,
                                  const std::string &name, Flight &flight);

  Engine &engine;
  mutable std::mutex mutex; ///< guards what follows
  std::map<std::string, std::shared_ptr<Flight>> flights;
};

} // namespace kiln
