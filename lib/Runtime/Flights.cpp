//===- Flights.cpp - one thread works on a problem, others wait -----------===//
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
#include "Runtime/Acquisition.h"
#include "Support/Waiting.h"

namespace kiln {

/// Flights that this thread works on: more than one in hooks.
static thread_local unsigned flightsHeld = 0;

/// What one flight is for.
static std::string nameOf(const ContextState &context,
                          const PlanRequest &request) {
  std::string name;
  auto add = [&](const void *from, size_t count) {
    name.append(static_cast<const char *>(from), count);
  };
  const KernelFamily *family = &request.family;
  add(&family, sizeof(family));
  add(&context.id, sizeof(context.id));
  for (const Problem *problem : {&request.largest, &request.common})
    add(problem->record.values().data(),
        problem->record.values().size() * sizeof(int64_t));
  name.push_back(request.isRange ? 'r' : 'v');
  return name;
}

void Engine::deliverMessages() const {
  if (!flightsHeld)
    hooks().deliver();
}

llvm::Expected<ChosenPlan> Engine::acquire(ContextState &context,
                                           const PlanRequest &request,
                                           const AcquireOptions &given) {
  auto found = joinOrWork(context, request, given);
  deliverMessages();
  return found;
}

llvm::Expected<ChosenPlan> Engine::joinOrWork(ContextState &context,
                                              const PlanRequest &request,
                                              const AcquireOptions &given) {
  using Clock = std::chrono::steady_clock;
  // A budget is one of trials, and they are part of it that others make.
  const Clock::time_point deadline =
      Clock::now() + (options.mode == KILN_MODE_TUNE
                          ? given.budget
                          : EngineConfig::timeOf(INT64_MAX));
  AcquireOptions left = given;
  std::string name = nameOf(context, request);
  for (;;) {
    auto own = std::make_shared<Flight>(given);
    std::shared_ptr<Flight> flight;
    {
      std::lock_guard<std::mutex> lock(mutex);
      flight = flights.try_emplace(name, own).first->second;
    }
    if (flight == own)
      return work(context, request, left, name, *flight);
    if (flight->worker == std::this_thread::get_id())
      return makeError(ErrorCode::InProgress,
                       "{}: asked for by a hook of the call that works on it",
                       request.common.text());
    if (flightsHeld)
      return Acquisition(*this, context, request, given, nullptr)
          .runWithoutTrials();
    std::unique_lock<std::mutex> lock(flight->mutex);
    bool hasEnded = waitUntil(flight->ended, lock, deadline, given.cancel,
                              [&] { return flight->done; });
    lock.unlock();
    bool isCancelled = given.cancel && *given.cancel;
    if (!hasEnded && isCancelled)
      return makeError(ErrorCode::Cancelled, "cancelled");
    if (!hasEnded)
      return workBeside(context, request, given);
    if (flight->chosen) {
      if (flight->meets(given) || given.takes(*flight->chosen.plan))
        return flight->chosen;
    } else if (flight->error.code != ErrorCode::Cancelled || isCancelled) {
      return errorOf(flight->error);
    }
    // It did less than we were asked to, or was cancelled, which is not ours to
    // be: we do the work in the time that is left.
    left.budget = std::chrono::ceil<std::chrono::milliseconds>(
        std::max(deadline - Clock::now(), Clock::duration::zero()));
  }
}

/// What there is for a caller whose budget ends before the work of another
/// thread does. It serves until then, also those whose budgets end later.
llvm::Expected<ChosenPlan> Engine::workBeside(ContextState &context,
                                              const PlanRequest &request,
                                              const AcquireOptions &given) {
  DispatchKey key{&request.family, context.id, request.largest.record.values()};
  const bool isOfLargest = request.isOfLargest();
  if (ChosenPlan known = isOfLargest ? dispatch.lookup(key) : ChosenPlan();
      known && given.takes(*known.plan))
    return known;
  auto found =
      Acquisition(*this, context, request, given, nullptr).runWithoutTrials();
  if (!found || !isOfLargest)
    return found;
  return dispatch.offer(key, *found);
}

llvm::Expected<ChosenPlan> Engine::work(ContextState &context,
                                        const PlanRequest &request,
                                        const AcquireOptions &given,
                                        const std::string &name,
                                        Flight &flight) {
  // Whatever happens, also an exception: those who wait go on.
  struct Ending {
    Engine &engine;
    const std::string &name;
    Flight &flight;
    Ending(Engine &engine, const std::string &name, Flight &flight)
        : engine(engine), name(name), flight(flight) {
      ++flightsHeld;
    }
    ~Ending() {
      --flightsHeld;
      {
        std::lock_guard<std::mutex> lock(engine.mutex);
        engine.flights.erase(name);
      }
      std::lock_guard<std::mutex> lock(flight.mutex);
      flight.done = true;
      flight.ended.notify_all();
    }
  } ending(*this, name, flight);

  // Launches of the largest value hit what is chosen for it.
  DispatchKey key{&request.family, context.id, request.largest.record.values()};
  const bool isOfLargest = request.isOfLargest();
  // The one before us may have ended since our caller looked.
  ChosenPlan known = isOfLargest ? dispatch.lookup(key) : ChosenPlan();
  if (known && given.takes(*known.plan)) {
    std::lock_guard<std::mutex> lock(flight.mutex);
    flight.chosen = known;
    return known;
  }
  if (given.worked)
    *given.worked = true;
  auto found = Acquisition(*this, context, request, given, &flight.state).run();
  if (!found) {
    ErrorSummary summary = summarize(found.takeError());
    std::lock_guard<std::mutex> lock(flight.mutex);
    flight.error = summary;
    return errorOf(summary);
  }
  // Before the flight ends, so that nobody begins another.
  if (isOfLargest)
    dispatch.publish(key, *found);
  std::lock_guard<std::mutex> lock(flight.mutex);
  flight.chosen = *found;
  return found;
}

kiln_state Engine::workOn(const ContextState &context,
                          const PlanRequest &request) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = flights.find(nameOf(context, request));
  return found == flights.end() ? kiln_state(KILN_STATE_MISSING)
                                : found->second->state.load();
}

llvm::Expected<ChosenPlan> Engine::findLoaded(ContextState &context,
                                              const PlanRequest &request) {
  return Acquisition(*this, context, request, AcquireOptions(), nullptr)
      .runLoaded();
}

} // namespace kiln
