//===- Acquisition.h - the work of finding one plan -----------------------===//
//
// Private to Flights.cpp, Acquire.cpp, AcquireTrials.cpp and
// AcquireEstimate.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Runtime/Engine.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace kiln {

/// The error that \p summary says.
llvm::Error errorOf(const ErrorSummary &summary);

/// One problem on its way; those who want the same wait for it.
struct Engine::Flight {
  std::thread::id worker = std::this_thread::get_id();
  std::atomic<kiln_state> state{KILN_STATE_COMPILING};
  std::mutex mutex; ///< guards what follows
  std::condition_variable ended;
  bool done = false;
  ActivePlanPtr plan;
  ErrorSummary error;
};

/// The work of the one thread that finds a problem's plan.
class Engine::Acquisition {
public:
  Acquisition(Engine &engine, ContextState &context, const PlanRequest &request,
              const AcquireOptions &options, Flight &flight)
      : engine(engine), services(engine.services()), context(context),
        request(request), options(options), flight(flight),
        chooser(engine.chooser(context.model, context.deviceClass)),
        mode(engine.options.mode) {}

  llvm::Expected<ActivePlanPtr> run();

private:
  using Clock = std::chrono::steady_clock;
  /// Null: try the next.
  using Attempt = llvm::Expected<ActivePlanPtr>;

  Attempt fromStores();
  Attempt fromTrials();
  Attempt fromEstimate();
  Attempt firstExisting(const std::vector<Candidate> &ranked, size_t begin,
                        size_t end);
  Attempt firstCompiled(const std::vector<Candidate> &ranked);
  Attempt load(Choice &choice, bool mayCompile);
  bool getArtifacts(const Plan &plan);
  Attempt fail(llvm::Error error);
  void report(const TuningResult &result);
  std::unique_ptr<InProcessTrials> makeTrials();
  llvm::Error finalError() const;
  EventInfo event(kiln_event_kind kind) const;

  /// Wall time since \p start.
  static double msSince(Clock::time_point start);
  static uint64_t nsSince(Clock::time_point start);

  Engine &engine;
  Services &services;
  ContextState &context;
  const PlanRequest &request;
  const AcquireOptions &options;
  Flight &flight;
  Chooser chooser;
  const kiln_mode mode;
  ErrorSummary firstError;
};

} // namespace kiln
