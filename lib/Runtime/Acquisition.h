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

struct TuningChoice;
struct TuningOptions;
struct TuningResult;

/// One problem in work; those who want the same wait for it.
struct Engine::Flight {
  explicit Flight(const AcquireOptions &options)
      : retunes(options.retune), prefersTrials(options.preferTrials) {}
  /// Whether its outcome is what \p options ask for.
  bool meets(const AcquireOptions &options) const {
    return retunes >= options.retune && prefersTrials >= options.preferTrials;
  }

  const std::thread::id worker = std::this_thread::get_id();
  const bool retunes, prefersTrials;
  std::atomic<kiln_state> state{KILN_STATE_COMPILING};
  std::mutex mutex; ///< guards what follows
  std::condition_variable ended;
  bool done = false;
  ChosenPlan chosen;
  /// If none was chosen. As it is from the start when an exception ends the
  /// work: nothing can be allocated then.
  ErrorSummary error{ErrorCode::OutOfMemory, "out of host memory", 0};
};

/// The work of the one thread that finds a problem's plan.
class Engine::Acquisition {
public:
  /// How far it may go for a config.
  enum class Effort {
    Loaded,   ///< what a launch under capture may use: nothing is made
    Existing, ///< kernels in memory or on disk
    Compiled,
  };

  /// \p state tells others how far it is; may be null.
  Acquisition(Engine &engine, ContextState &context, const PlanRequest &request,
              const AcquireOptions &options, std::atomic<kiln_state> *state);

  /// By the order of choice.
  llvm::Expected<ChosenPlan> run();
  /// The same without trials and turns, for a thread that must not wait for
  /// them. Errors: NoCandidate where it may not launch without a trial.
  llvm::Expected<ChosenPlan> runWithoutTrials();
  /// Only what is loaded; none if that is not what run() would take.
  llvm::Expected<ChosenPlan> runLoaded();

private:
  using Clock = std::chrono::steady_clock;
  /// None: try the next.
  using Attempt = llvm::Expected<ChosenPlan>;

  Attempt fromStores();
  Attempt fromTrials();
  Attempt withoutTrials();
  Attempt fromEstimate();
  Attempt fromShortlist();
  Attempt fromAlone();
  Attempt fromRanking(const std::vector<Candidate> &ranked);
  Choice choiceOf(const Candidate &candidate, size_t rank) const;
  Attempt firstExisting(const std::vector<Candidate> &ranked, size_t begin,
                        size_t end);
  Attempt firstCompiled(const std::vector<Candidate> &ranked);
  void keepShortlist(const std::vector<Candidate> &ranked,
                     const ChosenPlan &chosen);
  Attempt load(const Choice &choice, Effort effort);
  Attempt loadNew(const Problem &target, Plan plan, const Choice &choice,
                  Effort effort);
  ChosenPlan chosenPlan(const Choice &choice,
                        const std::shared_ptr<const LoadedPlan> &loaded);
  bool getArtifacts(const Plan &plan);
  Attempt fail(llvm::Error error);
  Attempt finish(Attempt found, Clock::time_point start);
  TuningOptions tuningOptions() const;
  Attempt failedTrials(const ErrorSummary &error);
  Attempt loadTuned(const TuningChoice &tuned);
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
  std::atomic<kiln_state> *state;
  Chooser chooser;
  const kiln_mode mode;
  const llvm::SmallVector<Problem, 2> targets;
  Effort most;             ///< for any config
  bool mayBeAlone = false; ///< a plan may be for this value and no other
  bool trialsAhead = true; ///< in the mode tune
  // What fromStores() saw.
  bool storesChoose = false, foundNoneRight = false;
  ErrorSummary firstError;
};

} // namespace kiln
