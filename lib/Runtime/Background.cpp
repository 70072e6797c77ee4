//===- Background.cpp - better plans, off the critical path ---------------===//
#include "Runtime/Background.h"

#include "Call/RangeParts.h"
#include "Compile/ProcessExit.h"
#include "Observe/Observe.h"
#include "Observe/Span.h"
#include "Runtime/BackgroundJob.h"
#include "Runtime/Engine.h"
#include "Support/Signals.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

using Clock = TrialPace::Clock;

/// The number of a layer's launched values that are remembered.
static constexpr size_t kMostLaunched = 8;
/// The interval of looking for kernels that other processes found wrong.
static constexpr std::chrono::seconds kRecheckInterval{1};
/// The number of failed jobs that are remembered.
static constexpr size_t kMostEnded = 4096;

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

void Background::Job::note(const Problem &value) {
  const auto extents = family->dynamicExtents();
  if (largest.empty())
    largest.assign(extents.size(), value);
  for (size_t i = 0; i < largest.size(); ++i)
    if (value.values[extents[i]] > largest[i].values[extents[i]])
      largest[i] = value;
  // A launch that fails, such as one into a capture, may be repeated often.
  auto isValue = [&](const Problem &known) {
    return known.values == value.values;
  };
  if (llvm::any_of(launched, isValue))
    return;
  if (launched.size() < kMostLaunched)
    launched.push_back(value);
  else
    hasDropped = true;
}

static std::string nameOf(const ContextState &context, const char *kind,
                          const std::string &rest) {
  return fmt::format("{} {} {}", kind, context.id, rest);
}

Background::Background(Engine &engine, double share,
                       BackgroundPace::LaunchCount launches)
    : engine(engine),
      thePace(share, std::move(launches), [this] { recheckVerdicts(); }) {}

Background::~Background() { stop(); }

void Background::cancel() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    // The order matters: work that isStopping cancels has to count as
    // interrupted.
    thePace.interrupt(BackgroundPace::Interruption::End);
    isStopping = true;
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
      known->second->note(problem);
      return;
    }
  }
  auto job = std::make_shared<Job>();
  job->context = context.shared_from_this();
  job->family = &family;
  job->problem = problem;
  job->name = std::move(name);
  job->isLayer = true;
  job->note(problem);
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
  job->asked = observe::Flow::here();
  EventInfo info;
  info.kind = KILN_EVENT_PENDING;
  if (engine.hooks().hasEvents())
    info.problem = job->problem.text();
  bool isRefused = false, isNews = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (isStopping)
      return;
    if (auto known = jobs.find(job->name); known != jobs.end()) {
      // It may be in work; the thread sees the flag when it takes or ends the
      // job.
      known->second->wantsRetune |= job->retunes;
      return;
    }
    if (failed.count(job->name) && !job->retunes)
      return;
    if (auto known = givenUp.find(job->name); known != givenUp.end()) {
      job->notBefore = known->second;
      givenUp.erase(known);
    }
    job->order = nextOrder++;
    // The order matters: a job in `jobs` alone would never end.
    queue.emplace(std::pair(job->stage, job->order), job);
    jobs.emplace(job->name, job);
    if (job->isLayer && mayYield && !isYielding) {
      isYielding = true;
      thePace.interrupt(interruption());
    }
    isRefused = !thread.joinable() && !start();
    if (isRefused) {
      queue.erase({job->stage, job->order});
      isNews = !std::exchange(wasRefused, true);
    }
  }
  if (isRefused) {
    // The job does not count as failed: a later launch tries again.
    end(*job);
    if (isNews)
      engine.hooks().log().warning(
          "background: the system refuses a thread; no plan is improved "
          "until it grants one");
    return;
  }
  changed.notify_all();
  engine.hooks().emit(info);
}

/// The interruption that trials have to see. The mutex is held.
BackgroundPace::Interruption Background::interruption() const {
  using Interruption = BackgroundPace::Interruption;
  return isStopping || pauses > 0 ? Interruption::End
         : isYielding             ? Interruption::Yield
                                  : Interruption::None;
}

/// Starts the thread; false if the system grants none. The mutex is held.
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
    thePace.interrupt(interruption());
  }
  changed.notify_all();
}

bool Background::resume() {
  foreseeCompilation(); // of jobs that have waited
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (pauses == 0)
      return false;
    if (--pauses > 0)
      return true;
    thePace.interrupt(interruption());
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
  counts.heldNs = thePace.heldNs();
  std::lock_guard<std::mutex> lock(mutex);
  counts.pending = jobs.size();
  counts.done = doneCount;
  counts.isPaused = pauses > 0;
  return counts;
}

//===----------------------------------------------------------------------===//
// The thread
//===----------------------------------------------------------------------===//

/// Waits for the next job; null at the end.
Background::JobPtr Background::takeNext() {
  std::unique_lock<std::mutex> lock(mutex);
  isWorking = mayYield = false;
  if (std::exchange(isYielding, false))
    thePace.interrupt(interruption());
  changed.notify_all();
  while (!isStopping) {
    if (Clock::now() >= recheckAt) {
      lock.unlock();
      recheckVerdicts();
      lock.lock();
      continue;
    }
    if (pauses > 0 || queue.empty()) {
      changed.wait_until(lock, recheckAt);
      continue;
    }
    auto isDue = [now = Clock::now()](const auto &entry) {
      return entry.second->notBefore <= now;
    };
    if (auto due = llvm::find_if(queue, isDue); due != queue.end()) {
      isWorking = true;
      interruptionsBefore = thePace.interruptions();
      JobPtr job = due->second;
      if (std::exchange(job->wantsRetune, false))
        job->retunes = true;
      // A cut retuning of a single problem would start over.
      mayYield = job->stage == Stage::Measure && (job->range || !job->retunes);
      queue.erase(due);
      return job;
    }
    changed.wait_until(lock, std::min(recheckAt, Clock::now() + putOff / 10));
  }
  return nullptr;
}

/// Looks, once an interval, for kernels that other processes found wrong.
/// Launches do not read these files.
void Background::recheckVerdicts() noexcept {
  if (Clock::now() < recheckAt)
    return;
  try {
    engine.recheckVerdicts();
    engine.deliverMessages();
  } catch (...) { // a hook, or out of host memory
  }
  recheckAt = Clock::now() + kRecheckInterval;
}

void Background::watch() {
  std::lock_guard<std::mutex> lock(mutex);
  if (!isStopping && !thread.joinable())
    start();
}

void Background::work() noexcept {
  worker = std::this_thread::get_id();
  observe::nameThread("kiln-background");
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
  if (failed.size() == kMostEnded)
    failed.erase(failed.begin());
  failed.insert(std::move(node));
}

/// Takes \p job out. A value that was launched meanwhile and is beyond the
/// layer's range becomes a job of its own.
void Background::finish(Job &job) {
  end(job);
  std::vector<Problem> launched;
  bool wantsRetune = false, hasDropped = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    launched.swap(job.launched);
    launched.insert(launched.end(), job.largest.begin(), job.largest.end());
    wantsRetune = job.wantsRetune;
    hasDropped = job.hasDropped;
  }
  if (wantsRetune && !job.isGone) { // it came too late for the trials in work
    auto again = std::make_shared<Job>();
    again->context = job.context;
    again->family = job.family;
    again->problem = job.problem;
    again->name = job.name;
    again->range = job.range;
    again->isHinted = job.isHinted;
    again->retunes = true;
    add(std::move(again));
  }
  if (!job.isLayer || job.hasFailed || job.isGivenUp || job.isGone)
    return;
  for (const Problem &problem : launched)
    if (job.range ? !serves(*job.range, problem.values)
                  : !(problem.values == job.problem.values))
      noteLaunch(*job.context, *job.family, problem);
  if (hasDropped)
    noteStandIns(job);
}

/// The purpose of a stage, as traces show it.
const char *Background::purposeOf(Stage stage) {
  switch (stage) {
  case Stage::Generic:
    return "a generic kernel is loaded";
  case Stage::First:
    return "the estimator's choices are loaded";
  case Stage::Cover:
    return "the kernels of a range are chosen";
  case Stage::Measure:
    return "the kernels of a range are measured";
  case Stage::Done:
    break;
  }
  return "";
}

void Background::run(Job &job) {
  foreseeCompilation(); // the launch that asked for it waits for no loader
  const Driver &driver = *llvm::cantFail(engine.driver());
  if (!isAlive(driver, job.context->handle, job.context->id)) {
    job.stage = Stage::Done;
    job.isGone = true;
    return;
  }
  auto scope = ScopedContext::push(driver, job.context->handle);
  if (!scope) {
    job.stage = fail(job, scope.takeError());
    return;
  }
  CaptureModeGuard relaxed(driver);
  const Stage before = job.stage;
  const observe::Span span(
      observe::Phase::Background, [&] { return job.problem.text(); },
      purposeOf(before));
  job.stage = runStage(job);
  if (job.stage != before)
    job.attempts = 0;
}

} // namespace kiln
