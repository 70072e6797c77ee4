//===- Background.cpp - better plans, off the critical path ---------------===//
#include "Runtime/Background.h"

#include "Call/CanonicalProblem.h"
#include "Runtime/Acquisition.h"
#include "Runtime/Engine.h"
#include "Runtime/RangeParts.h"
#include "Support/Signals.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

using Clock = std::chrono::steady_clock;

//===----------------------------------------------------------------------===//
// The pace
//===----------------------------------------------------------------------===//

/// So long after a launch into a capture that capture is taken to go on.
static constexpr std::chrono::milliseconds kCaptureHold{250};

bool BackgroundPace::begin() {
  const Clock::time_point start = Clock::now();
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    if (isInterrupted)
      return false;
    const Clock::time_point from = std::max(nextBegin, captureEnd);
    if (Clock::now() >= from)
      break;
    changed.wait_until(lock, from);
  }
  total += Clock::now() - start;
  return true;
}

void BackgroundPace::end(Clock::duration time) {
  used.fetch_add(
      static_cast<uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()),
      std::memory_order_relaxed);
  const auto rest = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, Clock::period>(time) * (1 / share - 1));
  std::lock_guard<std::mutex> lock(mutex);
  nextBegin = Clock::now() + rest;
}

/// How long there has to be no launch, after \p waited: the longer it takes,
/// the less is asked for. Who launches without a pause does so every few us.
static std::chrono::microseconds gapAfter(Clock::duration waited) {
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  return waited < milliseconds(10)   ? microseconds(1000)
         : waited < milliseconds(50) ? microseconds(300)
                                     : microseconds(100);
}

void BackgroundPace::awaitLoad() {
  constexpr std::chrono::microseconds kLook{20};
  constexpr std::chrono::seconds kPatience{1};
  constexpr std::chrono::milliseconds kOpen{50};
  const Clock::time_point start = Clock::now();
  if (start < loadsUntil)
    return;
  Clock::time_point lastLaunch = start;
  uint64_t seen = launches();
  for (;;) {
    const Clock::time_point now = Clock::now();
    if (now - lastLaunch >= gapAfter(now - start) || isInterrupted)
      return;
    if (now - start >= kPatience) {
      loadsUntil = now + kOpen; // several in a row hold up others but once
      return;
    }
    std::this_thread::sleep_for(kLook);
    if (const uint64_t count = launches(); count != seen) {
      seen = count;
      lastLaunch = Clock::now();
    }
  }
}

void BackgroundPace::interrupt(bool is) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isInterrupted = is;
    interruptCount += is;
  }
  changed.notify_all();
}

void BackgroundPace::noteCapture() {
  std::lock_guard<std::mutex> lock(mutex);
  captureEnd = Clock::now() + kCaptureHold;
}

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

/// So many of the values that were launched are looked at one by one.
static constexpr size_t kMostLaunched = 8;
/// Of these, so many get the estimator's choice before the layer does.
static constexpr size_t kMostFirst = 3;
/// A job of which the trials came to nothing, through no fault of its kernels,
/// is begun so many times, so long after each other.
static constexpr int kMostAttempts = 3;
static constexpr std::chrono::seconds kBetweenAttempts{10};

struct Background::Job {
  std::shared_ptr<ContextState> context;
  const KernelFamily *family = nullptr;
  Problem problem; ///< speaks for it
  std::string name;
  Stage stage = Stage::Generic;
  uint64_t order = 0;
  /// Of what kiln_prepare was asked for; a layer finds its own.
  std::optional<ProblemRange> range;
  bool isHinted = true, retunes = false;
  bool isLayer = false;   ///< that was launched
  bool hasFailed = false; ///< is not begun again
  int attempts = 0;
  Clock::time_point notBefore{}; ///< the next attempt
  /// Values of the layer that were launched; more may come while it is worked
  /// on, with the mutex held.
  std::vector<Problem> launched;
  /// The kernels of First, which compile while other jobs are worked on.
  std::vector<PendingArtifact> ahead;
};

static std::string nameOf(const ContextState &context, const char *kind,
                          const std::string &rest) {
  return fmt::format("{} {} {}", kind, context.id, rest);
}

Background::Background(Engine &engine, double share,
                       BackgroundPace::LaunchCount launches)
    : engine(engine), thePace(share, std::move(launches)) {}

Background::~Background() { stop(); }

void Background::cancel() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isStopping = true;
    thePace.interrupt(true);
  }
  changed.notify_all();
}

void Background::stop() {
  cancel();
  if (thread.joinable())
    thread.join();
}

void Background::noteLaunch(ContextState &context, const KernelFamily &family,
                            const Problem &problem) {
  std::string name = nameOf(context, "layer", layerKey(family, problem));
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (isStopping || failed.count(name))
      return;
    if (auto known = jobs.find(name); known != jobs.end()) {
      std::vector<Problem> &launched = known->second->launched;
      if (launched.size() < kMostLaunched)
        launched.push_back(problem);
      return;
    }
  }
  auto job = std::make_shared<Job>();
  job->context = context.shared_from_this();
  job->family = &family;
  job->problem = problem;
  job->name = std::move(name);
  job->isLayer = true;
  job->launched.push_back(problem);
  add(std::move(job));
}

void Background::noteRange(ContextState &context, const RangePart &part,
                           bool retune) {
  auto job = std::make_shared<Job>();
  job->context = context.shared_from_this();
  job->family = part.range.family;
  job->problem = part.typical;
  job->range = part.range;
  job->isHinted = part.isHinted;
  job->retunes = retune;
  job->name =
      nameOf(context, "range", part.range.fixedText() + part.range.text());
  add(std::move(job));
}

void Background::noteValue(ContextState &context, const KernelFamily &family,
                           const Problem &problem, bool retune) {
  auto job = std::make_shared<Job>();
  job->context = context.shared_from_this();
  job->family = &family;
  job->problem = problem;
  job->retunes = retune;
  job->name = nameOf(context, "value", problem.text());
  add(std::move(job));
}

void Background::add(JobPtr job) {
  EventInfo info;
  info.kind = KILN_EVENT_PENDING;
  if (engine.hooks().hasEvents())
    info.problem = job->problem.text();
  bool isRefused = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (isStopping || (failed.count(job->name) && !job->retunes))
      return;
    if (!jobs.emplace(job->name, job).second)
      return;
    job->order = nextOrder++;
    queue.emplace(std::pair(job->stage, job->order), job);
    isRefused = !thread.joinable() && !start();
    if (isRefused)
      queue.erase({job->stage, job->order});
  }
  if (isRefused) {
    // Not for ever: what is launched later tries again.
    end(*job);
    engine.hooks().log().warning("background: the system refuses a thread");
    return;
  }
  changed.notify_all();
  engine.hooks().emit(info);
}

/// Whether there is a thread now. The mutex is held.
bool Background::start() {
  SignalsBlocked whileItStarts;
  try {
    thread = std::thread([this] { work(); });
    return true;
  } catch (const std::system_error &) {
    return false;
  }
}

void Background::awaitLoad() {
  if (worker == std::this_thread::get_id())
    thePace.awaitLoad();
}

void Background::pause() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ++pauses;
    thePace.interrupt(true);
  }
  changed.notify_all();
}

bool Background::resume() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (pauses == 0)
      return false;
    if (--pauses > 0)
      return true;
    thePace.interrupt(isStopping);
  }
  changed.notify_all();
  return true;
}

/// The mutex is held.
bool Background::isQuiet() const {
  return !isWorking && (pauses > 0 || jobs.empty() || isStopping);
}

bool Background::wait(int64_t timeoutMs) {
  std::unique_lock<std::mutex> lock(mutex);
  if (worker == std::this_thread::get_id())
    return isQuiet();
  auto isOver = [&] { return isQuiet(); };
  if (timeoutMs < 0) {
    changed.wait(lock, isOver);
    return true;
  }
  return changed.wait_for(lock, EngineConfig::timeOf(timeoutMs), isOver);
}

Background::Counts Background::counts() const {
  Counts counts;
  counts.swaps = swapCount.load();
  counts.gpuNs = thePace.usedNs();
  std::lock_guard<std::mutex> lock(mutex);
  counts.pending = jobs.size();
  counts.done = doneCount;
  counts.isPaused = pauses > 0;
  return counts;
}

//===----------------------------------------------------------------------===//
// The thread
//===----------------------------------------------------------------------===//

/// The next job, waited for; null: the end.
Background::JobPtr Background::takeNext() {
  std::unique_lock<std::mutex> lock(mutex);
  isWorking = false;
  changed.notify_all();
  while (!isStopping) {
    if (pauses > 0 || queue.empty()) {
      changed.wait(lock);
      continue;
    }
    auto isDue = [now = Clock::now()](const auto &entry) {
      return entry.second->notBefore <= now;
    };
    if (auto due = llvm::find_if(queue, isDue); due != queue.end()) {
      isWorking = true;
      interruptionsBefore = thePace.interruptions();
      JobPtr job = due->second;
      queue.erase(due);
      return job;
    }
    changed.wait_for(lock, kBetweenAttempts / 10);
  }
  return nullptr;
}

void Background::work() noexcept {
  worker = std::this_thread::get_id();
  while (JobPtr job = takeNext()) {
    try {
      run(*job);
      engine.deliverMessages();
      if (job->stage == Stage::Done) {
        finish(*job);
        continue;
      }
      std::lock_guard<std::mutex> lock(mutex);
      queue.emplace(std::pair(job->stage, job->order), job);
    } catch (...) { // a hook, or out of host memory
      job->hasFailed = true;
      end(*job);
    }
  }
}

/// Takes \p job out. Allocates nothing.
void Background::end(const Job &job) noexcept {
  std::lock_guard<std::mutex> lock(mutex);
  auto node = jobs.extract(job.name);
  if (node.empty())
    return;
  ++doneCount;
  if (!job.hasFailed)
    return;
  node.mapped() = nullptr;
  failed.insert(std::move(node));
}

/// The same. What was launched meanwhile and is not served by what it left
/// becomes a job of its own: a value beyond the layer's range.
void Background::finish(Job &job) {
  end(job);
  if (!job.isLayer || job.hasFailed)
    return;
  std::vector<Problem> launched;
  {
    std::lock_guard<std::mutex> lock(mutex);
    launched.swap(job.launched);
  }
  for (const Problem &problem : launched)
    if (job.range ? !serves(*job.range, problem.record)
                  : !(problem.record == job.problem.record))
      noteLaunch(*job.context, *job.family, problem);
}

/// Whether the context that \p state was made for still exists.
static bool isAlive(const Driver &driver, const ContextState &state) {
  auto id = contextId(driver, state.handle);
  if (id)
    return *id == state.id;
  llvm::consumeError(id.takeError());
  return false;
}

void Background::run(Job &job) {
  const Driver &driver = *llvm::cantFail(engine.driver());
  if (!isAlive(driver, *job.context)) {
    job.stage = Stage::Done;
    return;
  }
  auto scope = ScopedContext::push(driver, job.context->handle);
  if (!scope)
    return fail(job, scope.takeError());
  CaptureModeGuard relaxed(driver);
  const Stage next = runStage(job);
  // A stage that was interrupted begins again.
  if (job.stage != Stage::Done && !wasInterrupted())
    job.stage = next;
}

/// Notes that \p job comes to nothing, unless it was only interrupted.
void Background::fail(Job &job, llvm::Error error) {
  ErrorSummary summary = summarize(std::move(error));
  if (wasInterrupted())
    return;
  engine.hooks().log().warning("background: {}: {}", job.problem.text(),
                               summary.message);
  job.stage = Stage::Done;
  job.hasFailed = true;
}

AcquireOptions Background::options(const Job &job) const {
  AcquireOptions options;
  options.isBackground = true;
  options.preferTrials = true;
  options.retune = job.retunes;
  options.budget = EngineConfig::timeOf(INT64_MAX);
  options.cancel = &thePace.interrupted();
  return options;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

Background::Stage Background::runStage(Job &job) {
  switch (job.stage) {
  case Stage::Generic:
    loadGeneric(job);
    return Stage::First;
  case Stage::First:
    compileAhead(job);
    chooseFirst(job);
    return Stage::Cover;
  case Stage::Cover:
    if (job.isLayer && findRange(job) && !cover(job))
      return Stage::Done;
    return Stage::Measure;
  case Stage::Measure:
    if (job.range)
      return measure(job);
    measureValue(job);
    return Stage::Done;
  case Stage::Done:
    break;
  }
  return Stage::Done;
}

/// So that whatever is launched next has something that serves.
void Background::loadGeneric(Job &job) {
  const PlanRequest request{*job.family, job.problem};
  const AcquireOptions given = options(job);
  llvm::Error error =
      Acquisition(engine, *job.context, request, given, nullptr).loadGeneric();
  // There may be none, and other kernels may serve.
  llvm::consumeError(std::move(error));
}

/// The values of \p job that the estimator chooses for one by one.
std::vector<Problem> Background::firstProblems(const Job &job) const {
  std::vector<Problem> problems;
  if (!job.isLayer)
    return problems;
  problems.push_back(job.problem);
  std::lock_guard<std::mutex> lock(mutex);
  for (const Problem &problem : job.launched)
    if (problems.size() < kMostFirst && !(problem.record == job.problem.record))
      problems.push_back(problem);
  return problems;
}

/// Begins to compile what \p job, and others in the stage First, will ask for.
void Background::compileAhead(Job &job) {
  std::vector<Job *> waiting = {&job};
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto &[key, other] : queue)
      if (key.first == Stage::First)
        waiting.push_back(other.get());
  }
  for (Job *one : waiting) {
    if (!one->ahead.empty())
      continue;
    for (const Problem &problem : firstProblems(*one)) {
      const PlanRequest request{*one->family, problem};
      for (const TranslationUnit &unit :
           engine.chooser(*one->context, request).unitsToCompile())
        one->ahead.push_back(engine.services().artifacts->request(
            unit, compile_priority::kAhead));
    }
  }
}

/// The estimator's choices for what has a stand-in.
void Background::chooseFirst(Job &job) {
  for (const Problem &problem : firstProblems(job)) {
    if (wasInterrupted())
      return;
    const DispatchKey key{job.family, job.context->id, problem.record.values()};
    const ChosenPlan known = engine.plans().lookup(key);
    if (known && known.plan->source != KILN_SOURCE_STAND_IN &&
        known.plan->source != KILN_SOURCE_GENERIC)
      continue;
    const PlanRequest request{*job.family, problem};
    AcquireOptions given = options(job);
    given.preferTrials = false;
    auto chosen = Acquisition(engine, *job.context, request, given, nullptr)
                      .runWithoutTrials();
    if (!chosen)
      return fail(job, chosen.takeError());
    replace(job, problem, *chosen);
  }
  job.ahead.clear();
}

/// What the layer of the job is prepared for. False: it has no range.
bool Background::findRange(Job &job) {
  const KernelFamily &family = *job.family;
  auto sizeOf = [&](const Problem &problem) {
    double size = 1;
    for (int extent : family.dynamicExtents())
      size *= static_cast<double>(problem.record[extent]);
    return size;
  };
  Problem largest = job.problem;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (const Problem &problem : job.launched)
      if (sizeOf(problem) > sizeOf(largest))
        largest = problem;
  }
  job.range = layerOf(family, largest, job.context->portfolios);
  return job.range.has_value();
}

/// The estimator's portfolio. Whether there is more to do for the job.
bool Background::cover(Job &job) {
  const PlanRequest request{*job.family, job.problem, &*job.range, true};
  AcquireOptions given = options(job);
  given.retune = false;
  auto chosen = Acquisition(engine, *job.context, request, given, nullptr)
                    .runWithoutTrials();
  if (!chosen) {
    fail(job, chosen.takeError());
    return false;
  }
  swapRange(job);
  return true;
}

/// Whether nothing of \p range is left to measure.
static bool isMeasured(const ContextState &context, const ProblemRange &range) {
  auto known = context.findRange(range);
  return known && !known->isFallback();
}

Background::Stage Background::measure(Job &job) {
  const PlanRequest request{*job.family, job.problem, &*job.range,
                            job.isHinted};
  const AcquireOptions given = options(job);
  auto chosen =
      Acquisition(engine, *job.context, request, given, nullptr).run();
  if (!chosen) {
    ErrorSummary summary = summarize(chosen.takeError());
    if (summary.code == ErrorCode::NoCandidate && !wasInterrupted())
      dropRange(job);
    fail(job, errorOf(summary));
    return Stage::Done;
  }
  swapRange(job);
  if (wasInterrupted() || isMeasured(*job.context, *job.range))
    return Stage::Done;
  // There was no room, or the device was busy: later there may be.
  if (++job.attempts < kMostAttempts) {
    job.notBefore = Clock::now() + kBetweenAttempts;
    return Stage::Measure;
  }
  fail(job, makeError(ErrorCode::NotPrepared, "trials came to nothing"));
  return Stage::Done;
}

void Background::measureValue(Job &job) {
  const PlanRequest request{*job.family, job.problem};
  const AcquireOptions given = options(job);
  auto chosen =
      Acquisition(engine, *job.context, request, given, nullptr).run();
  if (!chosen)
    return fail(job, chosen.takeError());
  replace(job, job.problem, *chosen);
}

//===----------------------------------------------------------------------===//
// Swapping
//===----------------------------------------------------------------------===//

bool Background::replace(const Job &job, const Problem &problem,
                         const ChosenPlan &chosen) {
  const DispatchKey key{job.family, job.context->id, problem.record.values()};
  const bool isOther = engine.plans().replace(key, chosen);
  swapCount += isOther;
  return isOther;
}

/// Calls \p take with each problem of the table that the job's range serves.
template <class Take>
static void forEachServed(const DispatchTable &plans, const ProblemRange &range,
                          uint64_t contextId, const Take &take) {
  // So many places are looked at with the table's lock held.
  constexpr size_t kPlaces = 256;
  size_t place = 0;
  for (bool hasMore = true; hasMore;) {
    std::vector<DispatchTable::Values> values;
    hasMore = plans.list(*range.family, contextId, place, kPlaces, values);
    for (const DispatchTable::Values &one : values) {
      Record record(range.described.schema(), one);
      if (!serves(range, record))
        continue;
      auto problem = makeProblem(*range.family, std::move(record));
      if (problem)
        take(*problem);
      else
        llvm::consumeError(problem.takeError()); // it was launched
    }
  }
}

/// Values that were launched before the range was there choose again.
void Background::swapRange(Job &job) {
  forEachServed(
      engine.plans(), *job.range, job.context->id, [&](const Problem &problem) {
        ChosenPlan now = job.context->chooseFromRanges(*job.family, problem);
        if (now)
          replace(job, problem, now);
      });
}

/// Trials found nothing right: what serves there without trials must not.
void Background::dropRange(Job &job) {
  job.context->dropRange(*job.range);
  forEachServed(engine.plans(), *job.range, job.context->id,
                [&](const Problem &problem) {
                  engine.plans().drop(
                      {job.family, job.context->id, problem.record.values()});
                });
}

} // namespace kiln
