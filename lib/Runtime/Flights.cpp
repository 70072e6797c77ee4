//===- Flights.cpp - one thread works on a problem, others wait -----------===//
#include "Runtime/Acquisition.h"

namespace kiln {

static std::string bytesOf(const DispatchKey &key) {
  std::string bytes;
  auto add = [&](const void *from, size_t count) {
    bytes.append(static_cast<const char *>(from), count);
  };
  add(&key.family, sizeof(key.family));
  add(&key.contextId, sizeof(key.contextId));
  add(key.values.data(), key.values.size() * sizeof(int64_t));
  return bytes;
}

llvm::Error errorOf(const ErrorSummary &summary) {
  return llvm::make_error<KilnError>(summary.code, summary.message,
                                     summary.driverCode);
}

llvm::Expected<ActivePlanPtr> Engine::acquire(ContextState &context,
                                              const PlanRequest &request,
                                              const AcquireOptions &given) {
  DispatchKey key{&request.family, context.id,
                  request.largest.extents.values()};
  std::string name = bytesOf(key);
  std::shared_ptr<Flight> flight;
  for (;;) {
    bool works = false;
    {
      std::lock_guard<std::mutex> lock(mutex);
      std::shared_ptr<Flight> &place = flights[name];
      works = !place;
      if (works)
        place = std::make_shared<Flight>();
      flight = place;
    }
    if (works)
      break;
    if (flight->worker == std::this_thread::get_id())
      return makeError(ErrorCode::InProgress,
                       "{}: asked for by a hook of the call that works on it",
                       request.common.text());
    std::unique_lock<std::mutex> lock(flight->mutex);
    flight->ended.wait(lock, [&] { return flight->done; });
    if (flight->plan)
      return flight->plan;
    // Another caller's change of mind is not ours: we do the work then.
    bool isCancelled = given.cancel && *given.cancel;
    if (flight->error.code != ErrorCode::Cancelled || isCancelled)
      return errorOf(flight->error);
  }
  // Whatever happens, also an exception: those who wait go on.
  struct Ending {
    Engine &engine;
    const std::string &name;
    Flight &flight;
    ~Ending() {
      {
        std::lock_guard<std::mutex> lock(engine.mutex);
        engine.flights.erase(name);
      }
      std::lock_guard<std::mutex> lock(flight.mutex);
      flight.done = true;
      if (!flight.plan && flight.error.code == ErrorCode::Success)
        flight.error = {ErrorCode::OutOfMemory, "out of host memory", 0};
      flight.ended.notify_all();
    }
  } ending{*this, name, *flight};

  // The one before us may have ended since our caller looked.
  const DispatchEntry *entry = given.replace ? nullptr : dispatch.find(key);
  if (entry) {
    std::lock_guard<std::mutex> lock(flight->mutex);
    flight->plan = entry->plan;
    return entry->plan;
  }
  auto plan = Acquisition(*this, context, request, given, *flight).run();
  if (!plan) {
    ErrorSummary summary = summarize(plan.takeError());
    std::lock_guard<std::mutex> lock(flight->mutex);
    flight->error = summary;
    return errorOf(summary);
  }
  // Before the flight ends, so that nobody begins another.
  dispatch.publish(key, *plan);
  std::lock_guard<std::mutex> lock(flight->mutex);
  flight->plan = *plan;
  return *plan;
}

kiln_state Engine::workOn(const DispatchKey &key) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = flights.find(bytesOf(key));
  return found == flights.end() ? kiln_state(KILN_STATE_MISSING)
                                : found->second->state.load();
}

} // namespace kiln
