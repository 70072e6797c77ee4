//===- Flights.cpp - one thread works on a problem, others wait -----------===//
#include "Runtime/Flights.h"

#include "Compile/ProcessExit.h"
#include "Observe/Span.h"
#include "Runtime/Acquisition.h"
#include "Runtime/Engine.h"
#include "Support/Waiting.h"

#include <condition_variable>
#include <thread>

namespace kiln {

/// One problem in work; threads that want the same problem wait for it.
struct Flights::Flight {
  explicit Flight(const AcquireOptions &options)
      : retunes(options.retune), prefersTrials(options.preferTrials),
        isHasty(options.haste == Haste::Launch) {}
  /// Whether its outcome will satisfy \p options.
  bool meets(const AcquireOptions &options) const {
    return retunes >= options.retune && prefersTrials >= options.preferTrials &&
           isHasty <= (options.haste == Haste::Launch);
  }

  const std::thread::id worker = std::this_thread::get_id();
  const bool retunes, prefersTrials, isHasty;
  std::atomic<kiln_state> state{KILN_STATE_COMPILING};
  std::mutex mutex; ///< guards what follows
  std::condition_variable ended;
  bool done = false;
  Outcome outcome;
  /// The error if no plan was chosen. It is set from the start, because nothing
  /// can be allocated when an exception ends the work.
  ErrorSummary error{ErrorCode::OutOfMemory, "out of host memory", 0};
};

/// The number of flights that this thread works on; more than one in hooks.
static thread_local unsigned flightsHeld = 0;

/// The name of one flight.
static std::string nameOf(const ContextState &context,
                          const PlanRequest &request) {
  std::string name;
  auto add = [&](const void *from, size_t count) {
    name.append(static_cast<const char *>(from), count);
  };
  const KernelFamily *family = &request.family;
  add(&family, sizeof(family));
  add(&context.id, sizeof(context.id));
  llvm::ArrayRef<int64_t> values = request.problem.values.array();
  add(values.data(), values.size() * sizeof(int64_t));
  if (request.range)
    name += request.range->fixedText() + request.range->text();
  return name;
}

/// The key by which launches find their plan.
static DispatchKey keyOf(const ContextState &context,
                         const PlanRequest &request) {
  return {&request.family, context.id, request.problem.values.array()};
}

/// The plan that serves \p request now, or none.
Flights::Outcome Flights::lookUp(Engine &engine, const ContextState &context,
                                 const PlanRequest &request) {
  if (!request.range)
    return {engine.plans().lookup(keyOf(context, request)), nullptr};
  auto range = context.findRange(*request.range);
  if (!range)
    return {};
  return {range->choose(request.problem), range};
}

bool Flights::isWorking() { return flightsHeld > 0; }

llvm::Expected<ChosenPlan> Flights::acquire(ContextState &context,
                                            const PlanRequest &request,
                                            const AcquireOptions &given) {
  auto found = acquireAny(context, request, given);
  if (!found)
    return found.takeError();
  return std::move(found->chosen);
}

llvm::Expected<std::shared_ptr<const PreparedRange>>
Flights::acquireRange(ContextState &context, const PlanRequest &request,
                      const AcquireOptions &given) {
  auto found = acquireAny(context, request, given);
  if (!found)
    return found.takeError();
  // Only wrong ranges are taken out.
  if (!context.findRange(*request.range))
    return makeError(ErrorCode::NoCandidate,
                     "no kernel is known to compute {} over {} correctly on "
                     "{}: trials found wrong results",
                     request.problem.text(), request.range->text(),
                     context.model.name);
  return std::move(found->range);
}

llvm::Expected<Flights::Outcome>
Flights::acquireAny(ContextState &context, const PlanRequest &request,
                    const AcquireOptions &given) {
  foreseeCompilation();
  auto found = joinOrWork(context, request, given);
  engine.deliverMessages();
  return found;
}

llvm::Expected<Flights::Outcome>
Flights::workWithoutTrials(ContextState &context, const PlanRequest &request,
                           const AcquireOptions &given) {
  Acquisition work(engine, context, request, given, nullptr);
  auto found = work.runWithoutTrials();
  if (!found)
    return found.takeError();
  return Outcome{std::move(*found), work.takeServing()};
}

llvm::Expected<Flights::Outcome>
Flights::joinOrWork(ContextState &context, const PlanRequest &request,
                    const AcquireOptions &given) {
  using Clock = std::chrono::steady_clock;
  // A budget limits trials, and those of other threads are part of it.
  const Clock::time_point deadline =
      Clock::now() + (triesFirst(engine.config().mode)
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
                       request.problem.text());
    if (flightsHeld)
      return workWithoutTrials(context, request, given);
    std::optional<observe::Span> span(
        std::in_place, observe::Phase::Wait,
        [&] { return request.problem.text(); },
        "another thread works on the problem");
    std::unique_lock<std::mutex> lock(flight->mutex);
    bool hasEnded = waitUntil(flight->ended, lock, deadline, given.cancel,
                              [&] { return flight->done; });
    lock.unlock();
    span.reset();
    const bool isCancelled = given.isCancelled();
    if (!hasEnded && isCancelled)
      return makeError(ErrorCode::Cancelled, "cancelled");
    if (!hasEnded)
      return workBeside(context, request, given);
    if (const Outcome &outcome = flight->outcome; outcome.chosen) {
      if (flight->meets(given) || outcome.meets(given, request))
        return outcome;
    } else if (flight->error.code != ErrorCode::Cancelled || isCancelled) {
      return errorOf(flight->error);
    }
    // The flight did less than this request asks for, or was cancelled, which
    // does not cancel this one. So the work is done in the time that is left.
    left.budget = std::chrono::ceil<std::chrono::milliseconds>(
        std::max(deadline - Clock::now(), Clock::duration::zero()));
  }
}

/// Finds a plan for a caller whose budget ends before the work of another
/// thread. Until that ends it also serves callers whose budgets end later.
llvm::Expected<Flights::Outcome>
Flights::workBeside(ContextState &context, const PlanRequest &request,
                    const AcquireOptions &given) {
  if (Outcome known = lookUp(engine, context, request);
      known.meets(given, request))
    return known;
  const uint64_t version = context.portfolioVersion;
  auto found = workWithoutTrials(context, request, given);
  if (!found || request.range)
    return found;
  found->chosen = engine.plans().offer(keyOf(context, request), found->chosen);
  dropIfStale(context, request, found->chosen, version);
  return found;
}

/// Drops a stand-in that was chosen before the portfolio of its layer came but
/// entered the table after it. It serves this launch alone.
void Flights::dropIfStale(ContextState &context, const PlanRequest &request,
                          const ChosenPlan &serving, uint64_t version) {
  if (serving.plan->isFallback && context.portfolioVersion != version)
    engine.plans().setAside(keyOf(context, request));
}

llvm::Expected<Flights::Outcome> Flights::work(ContextState &context,
                                               const PlanRequest &request,
                                               const AcquireOptions &given,
                                               const std::string &name,
                                               Flight &flight) {
  // Waiting threads go on whatever happens, also after an exception.
  struct Ending {
    Flights &all;
    const std::string &name;
    Flight &flight;
    Ending(Flights &all, const std::string &name, Flight &flight)
        : all(all), name(name), flight(flight) {
      ++flightsHeld;
    }
    ~Ending() {
      --flightsHeld;
      {
        std::lock_guard<std::mutex> lock(all.mutex);
        all.flights.erase(name);
      }
      std::lock_guard<std::mutex> lock(flight.mutex);
      flight.done = true;
      flight.ended.notify_all();
    }
  } ending(*this, name, flight);

  // The one before us may have ended since our caller looked.
  if (Outcome known = lookUp(engine, context, request);
      known.meets(given, request)) {
    std::lock_guard<std::mutex> lock(flight.mutex);
    flight.outcome = known;
    return known;
  }
  Acquisition work(engine, context, request, given, &flight.state);
  auto found = work.run();
  if (!found) {
    ErrorSummary summary = summarize(found.takeError());
    std::lock_guard<std::mutex> lock(flight.mutex);
    flight.error = summary;
    return errorOf(summary);
  }
  // This comes before the flight ends, so that no thread begins another.
  if (!request.range) {
    publish(context, request, *found);
    dropIfStale(context, request, *found, work.versionOfChoice());
  }
  Outcome outcome{std::move(*found), work.takeServing()};
  std::lock_guard<std::mutex> lock(flight.mutex);
  flight.outcome = outcome;
  return outcome;
}

/// Lets launches hit \p found. A range that was prepared meanwhile goes before
/// it, unless \p found was measured at the value itself.
void Flights::publish(ContextState &context, const PlanRequest &request,
                      ChosenPlan &found) {
  const DispatchKey key = keyOf(context, request);
  engine.plans().publish(key, found);
  if (found.measuredNs > 0 && !isFrozen(engine.config().mode))
    return;
  if (ChosenPlan prepared =
          context.chooseFromRanges(request.family, request.problem)) {
    found = std::move(prepared);
    engine.plans().publish(key, found);
  }
}

kiln_state Flights::stateOf(const ContextState &context,
                            const PlanRequest &request) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = flights.find(nameOf(context, request));
  return found == flights.end() ? kiln_state(KILN_STATE_MISSING)
                                : found->second->state.load();
}

} // namespace kiln
