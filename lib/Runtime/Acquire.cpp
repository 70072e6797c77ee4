//===- Acquire.cpp - from a problem to a loaded plan ----------------------===//
//
// The order of choice:
//   1. measured records, if no trial is due;
//   2. a stored decision;
//   3. in the mode tune: trials;
//   4. the best-ranked candidate whose kernels are there, if it is close to the
//      best; otherwise the estimator's first choice is compiled, then the next
//      ones, then the generic kernels;
//   5. whatever candidate has its kernels there.
// Strict mode compiles nothing, so it takes the first of 1, 2 and 5 that is
// there. An existing kernel does not stand in for trials in the mode tune:
// kernels are shared between problems of one signature, so the second shape
// would never be measured.
//
//===----------------------------------------------------------------------===//
#include "Runtime/Engine.h"

#include "Tune/Tuner.h"
#include "Tune/Warmup.h"

#include <algorithm>

namespace kiln {

using Clock = std::chrono::steady_clock;

static double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

static uint64_t nsSince(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start)
          .count());
}

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

static llvm::Error errorOf(const ErrorSummary &summary) {
  return llvm::make_error<KilnError>(summary.code, summary.message,
                                     summary.driverCode);
}

/// True for what no other config would change.
static bool isFinal(ErrorCode code) {
  switch (code) {
  case ErrorCode::CompileFailed:
  case ErrorCode::CompilerMissing:
  case ErrorCode::NoCandidate:
  case ErrorCode::Unsupported:
  case ErrorCode::InvalidArgument:
  case ErrorCode::Missing:
    return false;
  default:
    return true;
  }
}

//===----------------------------------------------------------------------===//
// One problem
//===----------------------------------------------------------------------===//

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

EventInfo Engine::Acquisition::event(kiln_event_kind kind) const {
  EventInfo info;
  info.kind = kind;
  if (engine.hooks().hasEvents())
    info.problem = request.common.text();
  return info;
}

/// Keeps the first reason why a config did not work; an error only if no other
/// could.
Engine::Acquisition::Attempt Engine::Acquisition::fail(llvm::Error error) {
  ErrorSummary summary = summarize(std::move(error));
  if (isFinal(summary.code))
    return errorOf(summary);
  engine.hooks().log().debug("{}: {}", request.common.text(), summary.message);
  if (firstError.code == ErrorCode::Success)
    firstError = std::move(summary);
  return ActivePlanPtr();
}

/// Gets the kernels of \p plan, compiling what is missing. False if one cannot
/// be had: obtainPlan() then says why. So it is when the caller cancels.
bool Engine::Acquisition::getArtifacts(const Plan &plan) {
  llvm::SmallVector<PendingArtifact, 2> pending;
  for (const TranslationUnit &unit : plan.kernels)
    pending.push_back(
        services.artifacts->request(unit, compile_priority::kNow));
  bool complete = true;
  for (size_t i = 0; i < pending.size(); ++i) {
    if (!pending[i].waitUnless(options.cancel))
      return false;
    const ArtifactOutcome &outcome = pending[i].wait();
    complete &= static_cast<bool>(outcome);
    if (!engine.hooks().hasEvents() ||
        (outcome && outcome.origin != ArtifactOrigin::Compiled))
      continue;
    EventInfo info = event(KILN_EVENT_COMPILED);
    info.status = outcome.error.code;
    info.message = outcome.error.message;
    info.config = plan.configText();
    info.key = plan.kernels[i].digest().hex();
    info.elapsedMs = outcome.compileMs;
    engine.hooks().emit(info);
  }
  return complete;
}

Engine::Acquisition::Attempt Engine::Acquisition::load(Choice &choice,
                                                       bool mayCompile) {
  if (&request.common != &request.largest) {
    if (choice.tmpl->prune(request.largest, choice.config, context.model))
      return ActivePlanPtr();
    choice.plan =
        choice.tmpl->plan(request.largest, choice.config, context.model);
    if (choice.plan.workspace.bytes() > engine.options.workspaceLimit)
      return ActivePlanPtr();
  }
  if (!mayCompile && !chooser.hasArtifacts(choice.plan))
    return ActivePlanPtr();
  if (mayCompile && !getArtifacts(choice.plan) && options.cancel &&
      *options.cancel)
    return makeError(ErrorCode::Cancelled, "cancelled");
  Clock::time_point start = Clock::now();
  std::string config = choice.plan.configText();
  auto loaded =
      obtainPlan(*services.artifacts, *engine.loader, std::move(choice.plan),
                 static_cast<int32_t>(context.model.smCount));
  if (!loaded)
    return fail(loaded.takeError());
  engine.loadNs.fetch_add(nsSince(start), std::memory_order_relaxed);
  if (engine.hooks().hasEvents()) {
    EventInfo info = event(KILN_EVENT_LOADED);
    info.config = config;
    info.elapsedMs = msSince(start);
    engine.hooks().emit(info);
  }
  auto active = std::make_shared<ActivePlan>();
  active->loaded = std::move(*loaded);
  active->source = choice.source;
  active->predictedNs = choice.predictedNs;
  active->measuredNs = choice.measuredNs;
  active->isFallback = choice.isFallback;
  return ActivePlanPtr(std::move(active));
}

Engine::Acquisition::Attempt Engine::Acquisition::fromStores() {
  bool mayCompile = mode != KILN_MODE_STRICT;
  bool tunes = mode == KILN_MODE_TUNE;
  if (tunes && options.retune)
    return ActivePlanPtr();
  RecordedChoices recorded = chooser.fromRecord(request.family, request.common);
  if (recorded.isFinal || !tunes)
    for (Choice &choice : recorded.choices) {
      if (tunes && choice.isFallback)
        break;
      auto plan = load(choice, mayCompile);
      if (!plan || *plan)
        return plan;
    }
  if (tunes && options.preferTrials)
    return ActivePlanPtr();
  for (Choice &choice : chooser.fromDecision(request.family, request.common)) {
    auto plan = load(choice, mayCompile);
    if (!plan || *plan)
      return plan;
  }
  return ActivePlanPtr();
}

//===----------------------------------------------------------------------===//
// Trials
//===----------------------------------------------------------------------===//

std::unique_ptr<InProcessTrials> Engine::Acquisition::makeTrials() {
  InProcessTrialsOptions trialOptions;
  trialOptions.scratchBytes = engine.options.scratchLimit;
  trialOptions.hangLimit = engine.options.trialTimeout;
  auto made =
      InProcessTrials::create(*engine.loadedDriver, engine.registry,
                              context.model, *services.artifacts, trialOptions);
  if (made)
    return std::move(*made);
  engine.hooks().log().warning("no trials: {}",
                               summarize(made.takeError()).message);
  return nullptr;
}

void Engine::Acquisition::report(const TuningResult &result) {
  for (const TuningTrial &trial : result.trials) {
    bool ok = trial.result.status == TrialStatus::Ok;
    engine.trials.fetch_add(1, std::memory_order_relaxed);
    engine.trialFailures.fetch_add(!ok, std::memory_order_relaxed);
    if (!engine.hooks().hasEvents())
      continue;
    EventInfo info = event(KILN_EVENT_TRIAL);
    info.config = trial.result.config;
    info.message = trial.result.message;
    info.status = ok ? ErrorCode::Success : ErrorCode::NoCandidate;
    info.predictedNs = trial.predictedNs;
    info.measuredNs = trial.result.medianNs;
    engine.hooks().emit(info);
  }
  for (const std::string &note : result.notes)
    engine.hooks().log().info("{}: {}", request.common.text(), note);
}

Engine::Acquisition::Attempt Engine::Acquisition::fromTrials() {
  flight.state = KILN_STATE_TUNING;
  Clock::time_point start = Clock::now();
  TuningOptions tuning;
  tuning.budget = options.budget;
  tuning.retune = options.retune;
  tuning.cancel = options.cancel;
  uint64_t before = options.trials ? options.trials->load() : 0;
  if (options.trials)
    tuning.progress = [&](const TuningProgress &progress) {
      uint64_t now = before + progress.trials;
      if (options.trials->exchange(now) != now && options.trialsChanged)
        options.trialsChanged();
    };
  auto result = [&]() -> llvm::Expected<TuningResult> {
    ContextState::TuningTurn turn(context);
    InProcessTrials *runner =
        turn.isGranted() ? turn.trials([&] { return makeTrials(); }) : nullptr;
    Tuner tuner(context.model, *services.artifacts, *services.records, runner);
    auto tuned = tuner.tune(request.family, request.common, tuning);
    if (runner)
      runner->releaseScratch();
    return tuned;
  }();
  engine.tuneNs.fetch_add(nsSince(start), std::memory_order_relaxed);
  flight.state = KILN_STATE_COMPILING;
  if (!result)
    return fail(result.takeError());
  report(*result);
  if (options.trials)
    options.trials->store(before + result->trials.size());
  TuningChoice &tuned = result->choice;
  Choice choice;
  choice.tmpl = tuned.candidate.tmpl;
  choice.config = tuned.candidate.config;
  choice.plan = std::move(tuned.plan);
  bool measured = tuned.origin != ChoiceOrigin::Estimated;
  choice.source = measured ? KILN_SOURCE_RECORD : KILN_SOURCE_ESTIMATE;
  choice.isFallback = !measured;
  choice.predictedNs = tuned.candidate.estimate.totalNs;
  choice.measuredNs = tuned.measuredNs;
  if (choice.plan.workspace.bytes() <= engine.options.workspaceLimit) {
    auto plan = load(choice, /*mayCompile=*/true);
    if (!plan || *plan)
      return plan;
  }
  // The winner needs more workspace than the engine may give: the next best.
  for (Choice &next :
       chooser.fromRecord(request.family, request.common).choices) {
    auto plan = load(next, /*mayCompile=*/true);
    if (!plan || *plan)
      return plan;
  }
  return ActivePlanPtr();
}

//===----------------------------------------------------------------------===//
// The estimator
//===----------------------------------------------------------------------===//

/// The first candidate from \p begin to \p end that has its kernels there.
Engine::Acquisition::Attempt
Engine::Acquisition::firstExisting(const std::vector<Candidate> &ranked,
                                   size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    Choice choice;
    if (!chooser.makeChoice(request.common, ranked[i], i, choice))
      continue;
    auto plan = load(choice, /*mayCompile=*/false);
    if (!plan || *plan)
      return plan;
  }
  return ActivePlanPtr();
}

/// Compiles in the order of the ranking: a few, then only generic kernels.
Engine::Acquisition::Attempt
Engine::Acquisition::firstCompiled(const std::vector<Candidate> &ranked) {
  size_t attempts = 0;
  for (size_t i = 0; i < ranked.size(); ++i) {
    if (options.cancel && *options.cancel)
      return makeError(ErrorCode::Cancelled, "cancelled");
    Choice choice;
    if ((attempts >= kCompileAttempts && !ranked[i].tmpl->isGeneric()) ||
        !chooser.makeChoice(request.common, ranked[i], i, choice))
      continue;
    ++attempts;
    choice.isFallback |= mode == KILN_MODE_TUNE;
    auto plan = load(choice, /*mayCompile=*/true);
    if (!plan || *plan || firstError.code == ErrorCode::CompilerMissing)
      return plan;
  }
  return ActivePlanPtr();
}

Engine::Acquisition::Attempt Engine::Acquisition::fromEstimate() {
  auto ranked = chooser.rank(request.family, request.common);
  if (!ranked)
    return ranked.takeError();
  if (mode != KILN_MODE_STRICT && !ranked->empty()) {
    size_t there = chooser.firstCloseAndThere(request.common, *ranked);
    auto plan =
        firstExisting(*ranked, there, std::min(there + 1, ranked->size()));
    if (!plan || *plan)
      return plan;
    plan = firstCompiled(*ranked);
    if (!plan || *plan)
      return plan;
  }
  return firstExisting(*ranked, 0, ranked->size());
}

llvm::Error Engine::Acquisition::finalError() const {
  std::string text = request.common.text();
  if (mode == KILN_MODE_STRICT)
    return makeError(
        ErrorCode::Missing,
        "strict mode has no kernel for {}; the missing key is: {}", text,
        engine.keyOf(request.family, request.common, context.deviceClass));
  if (firstError.code != ErrorCode::Success)
    return addContext(errorOf(firstError), text);
  return makeError(ErrorCode::NoCandidate, "{}: no config runs on {}", text,
                   context.model.name);
}

llvm::Expected<ActivePlanPtr> Engine::Acquisition::run() {
  Clock::time_point start = Clock::now();
  auto plan = fromStores();
  if (plan && !*plan && mode == KILN_MODE_TUNE)
    plan = fromTrials();
  if (plan && !*plan)
    plan = fromEstimate();
  if (plan && !*plan)
    plan = finalError();
  if (!plan)
    return plan.takeError();
  if (engine.hooks().hasEvents()) {
    EventInfo info = event(KILN_EVENT_CHOSEN);
    info.source = (*plan)->source;
    info.config = (*plan)->loaded->plan().configText();
    info.predictedNs = (*plan)->predictedNs;
    info.measuredNs = (*plan)->measuredNs;
    info.elapsedMs = msSince(start);
    engine.hooks().emit(info);
  }
  return plan;
}

//===----------------------------------------------------------------------===//
// One thread works, others wait
//===----------------------------------------------------------------------===//

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
