//===- PrepareTask.cpp - kiln_prepare, beside the caller or not -----------===//
#include "Runtime/PrepareTask.h"

#include "Call/StructAccess.h"
#include "Choice/Chooser.h"
#include "Support/Signals.h"
#include "Tune/Warmup.h"

#include <algorithm>
#include <thread>

namespace kiln {

using Clock = std::chrono::steady_clock;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

llvm::Error PrepareTask::readOptions(const kiln_prepare_options *options) {
  if (!options)
    return llvm::Error::success();
  if (auto error = checkInput(*options, "kiln_prepare_options"))
    return error;
  constexpr uint32_t kKnownFlags =
      KILN_PREPARE_COMPILE_ONLY | KILN_PREPARE_RETUNE;
  if (options->flags & ~kKnownFlags || options->reserved0)
    return makeError(ErrorCode::Unsupported,
                     "kiln_prepare_options: flags {:#x} are unknown",
                     options->flags & ~kKnownFlags);
  if (options->budget_ms < 0)
    return makeError(ErrorCode::InvalidArgument, "budget_ms is {}",
                     options->budget_ms);
  if (options->stream_count && !options->streams)
    return makeError(ErrorCode::InvalidArgument,
                     "streams is null, with a count of {}",
                     options->stream_count);
  flags = options->flags;
  totalBudget = EngineConfig::timeOf(options->budget_ms);
  progressHook = options->progress;
  progressUser = options->progress_user;
  return llvm::Error::success();
}

/// Looks up the contexts now, because "current" means the caller's thread.
llvm::Error PrepareTask::findTargets(const kiln_prepare_options *options) {
  bool hasStreams = options && options->stream_count;
  if ((flags & KILN_PREPARE_COMPILE_ONLY) && !hasStreams) {
    auto named = engine.namedDevice();
    if (!named)
      return named.takeError();
    if (*named)
      return llvm::Error::success();
  }
  auto driver = engine.driver();
  if (!driver)
    return driver.takeError();
  for (uint32_t i = 0; i < (hasStreams ? options->stream_count : 1); ++i) {
    Target target;
    target.hasStream = hasStreams;
    target.stream = hasStreams ? options->streams[i] : nullptr;
    auto context = findContext(**driver, target.stream);
    if (!context)
      return context.takeError();
    target.context = *context;
    // The thread that works has no context of its own.
    target.context.isCurrent = false;
    targets.push_back(target);
  }
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<PrepareTask>>
PrepareTask::create(Engine &engine, const kiln_problem *problems, size_t count,
                    const kiln_prepare_options *options) {
  std::shared_ptr<PrepareTask> task(new PrepareTask(engine));
  if (auto error = task->readOptions(options))
    return error;
  if (auto error = checkArray(problems, count, "kiln_problem"))
    return error;
  for (size_t i = 0; i < count; ++i) {
    Item item;
    auto spec = ProblemSpec::parse(engine.families(), &at(problems, i));
    if (spec)
      item.spec = std::move(*spec);
    else
      item.error = summarize(spec.takeError());
    task->items.push_back(std::move(item));
  }
  if (auto error = task->findTargets(options))
    return error;
  task->counts.problems_total = count;
  task->startTime = Clock::now();
  return task;
}

//===----------------------------------------------------------------------===//
// Watching
//===----------------------------------------------------------------------===//

bool PrepareTask::wait(int64_t timeoutMs) {
  std::unique_lock<std::mutex> lock(mutex);
  auto isDone = [&] { return done; };
  if (timeoutMs < 0) {
    ended.wait(lock, isDone);
    return true;
  }
  return ended.wait_for(lock, EngineConfig::timeOf(timeoutMs), isDone);
}

kiln_progress PrepareTask::progress() const {
  kiln_progress now;
  {
    std::lock_guard<std::mutex> lock(mutex);
    now = counts;
    now.trials_done = trialsDone;
    if (done)
      return now;
  }
  now.elapsed_ms =
      std::chrono::duration<double, std::milli>(Clock::now() - startTime)
          .count();
  return now;
}

llvm::Error PrepareTask::result() const {
  std::lock_guard<std::mutex> lock(mutex);
  if (firstError.code == ErrorCode::Success)
    return llvm::Error::success();
  return errorOf(firstError);
}

void PrepareTask::callProgress() {
  if (!progressHook)
    return;
  kiln_progress now = progress();
  if (progressHook(progressUser, &now) != 0)
    cancel();
}

void PrepareTask::finishProblem(size_t index, ErrorSummary error) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ++counts.problems_done;
    counts.problem = index;
    counts.problem_status = static_cast<kiln_status>(error.code);
    if (error.code != ErrorCode::Success &&
        firstError.code == ErrorCode::Success)
      firstError = {error.code,
                    fmt::format("problem {}: {}", index, error.message),
                    error.driverCode};
  }
  engine.deliverMessages();
  callProgress();
}

//===----------------------------------------------------------------------===//
// Working
//===----------------------------------------------------------------------===//

void PrepareTask::run() noexcept {
  try {
    work();
  } catch (const std::bad_alloc &) {
    std::lock_guard<std::mutex> lock(mutex);
    firstError.code = ErrorCode::OutOfMemory;
  } catch (...) {
    std::lock_guard<std::mutex> lock(mutex);
    firstError.code = ErrorCode::Internal;
  }
  double elapsedMs = progress().elapsed_ms;
  std::lock_guard<std::mutex> lock(mutex);
  counts.elapsed_ms = elapsedMs;
  done = true;
  ended.notify_all();
}

void PrepareTask::start() {
  using Argument = std::shared_ptr<PrepareTask>;
  auto body = [](void *argument) {
    std::unique_ptr<Argument> task(static_cast<Argument *>(argument));
    (*task)->run();
  };
  auto argument = std::make_unique<Argument>(shared_from_this());
  // What fails from here on takes it back: the engine must not wait for a task
  // that nobody will run.
  engine.addTask(shared_from_this());
  const std::optional<kiln_executor> &executor = engine.config().executor;
  if (executor &&
      executor->submit(executor->user, body, argument.get()) == KILN_SUCCESS) {
    (void)argument.release();
    return;
  }
  try {
    SignalsBlocked whileItStarts;
    std::thread(body, argument.get()).detach();
    (void)argument.release();
  } catch (...) {
    engine.removeTask(this);
    throw;
  }
}

void PrepareTask::work() {
  if (flags & KILN_PREPARE_COMPILE_ONLY)
    return compileOnly();
  if (items.size() > 1)
    compileAhead();
  for (size_t i = 0; i < items.size(); ++i) {
    Item &item = items[i];
    if (cancelled) {
      ahead.clear(); // takes back what has not begun
      finishProblem(i, {ErrorCode::Cancelled, "cancelled", 0});
      continue;
    }
    if (item.spec && item.error.code == ErrorCode::Success)
      item.error = summarize(prepareProblem(*item.spec));
    // It has a plan, but not the trials that were asked for.
    if (cancelled && item.error.code == ErrorCode::Success)
      item.error = {ErrorCode::Cancelled, "cancelled", 0};
    finishProblem(i, item.error);
  }
}

/// Starts to compile what the problems will ask for one after another.
void PrepareTask::compileAhead() {
  auto driver = engine.driver();
  if (!driver) {
    llvm::consumeError(driver.takeError()); // each problem will say so
    return;
  }
  CaptureModeGuard relaxed(**driver);
  auto state = engine.contextState(**driver, targets.front().context);
  if (!state) {
    llvm::consumeError(state.takeError());
    return;
  }
  for (const Item &item : items) {
    if (!item.spec || item.spec->family->isEmpty(item.spec->problem))
      continue;
    const Problem &problem = item.spec->problem;
    PlanRequest request{*item.spec->family, problem, problem};
    for (const TranslationUnit &unit :
         engine.chooser(**state, request).unitsToCompile()) {
      auto place = static_cast<int64_t>(ahead.size());
      ahead.push_back(engine.services().artifacts->request(
          unit, compile_priority::kAhead + place));
    }
  }
}

/// What is left for the next problem, evenly shared.
std::chrono::milliseconds PrepareTask::budgetForNext() const {
  if (totalBudget.count() == 0)
    return engine.config().tuneBudget;
  auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
      Clock::now() - startTime);
  auto left = std::max(totalBudget - spent, std::chrono::milliseconds(0));
  return left /
         static_cast<int64_t>(counts.problems_total - counts.problems_done);
}

llvm::Error PrepareTask::prepareProblem(const ProblemSpec &spec) {
  auto driver = engine.driver();
  if (!driver)
    return driver.takeError();
  std::chrono::milliseconds budget =
      budgetForNext() / static_cast<int64_t>(targets.size());
  for (const Target &target : targets) {
    auto entered = CurrentContext::enter(**driver, target.context);
    if (!entered)
      return entered.takeError();
    CaptureModeGuard relaxed(**driver);
    auto state = engine.contextState(**driver, target.context);
    if (!state)
      return state.takeError();
    auto boxes = boxesOf(spec);
    if (!boxes)
      return boxes.takeError();
    for (const ExtentBox &box : *boxes) {
      if (spec.family->isEmpty(box.largest))
        continue;
      auto plan = preparePart(**state, spec, box,
                              budget / static_cast<int64_t>(boxes->size()));
      if (!plan)
        return plan.takeError();
      if (!target.hasStream)
        continue;
      StreamContext here = target.context;
      here.isCurrent = true;
      if (auto error =
              engine.ensureArena(**driver, here, *plan->plan, target.stream))
        return error;
    }
  }
  return llvm::Error::success();
}

llvm::Expected<ChosenPlan>
PrepareTask::preparePart(ContextState &state, const ProblemSpec &spec,
                         const ExtentBox &box,
                         std::chrono::milliseconds budget) {
  const bool tunes = hasStep(engine.config().mode, ChoiceStep::Trials);
  bool isRange = !spec.ranges.empty();
  AcquireOptions options;
  options.retune = tunes && (flags & KILN_PREPARE_RETUNE);
  options.preferTrials = tunes;
  options.budget = budget;
  options.cancel = &cancelled;
  options.trials = &trialsDone;
  options.trialsChanged = [this] { callProgress(); };
  bool worked = false;
  options.worked = &worked;
  DispatchKey key{spec.family, state.id, box.largest.record.values()};
  ChosenPlan launched = engine.plans().lookup(key);
  // A plan that was chosen for other values of a range is not this one's.
  ChosenPlan before =
      isRange ? state.findRangePlan(*spec.family, box) : launched;
  if (before && options.takes(*before.plan))
    return isRange ? before : engine.plans().keep(key, before);
  auto chosen = engine.flights().acquire(
      state,
      {*spec.family, isRange ? box.common : box.largest, box.largest, isRange},
      options);
  if (!chosen)
    return chosen.takeError();
  // Launches find it from now on; so what they found before can be replaced.
  const ChosenPlan kept =
      isRange ? state.addRangePlan({spec.family, spec.ranges, box, *chosen},
                                   /*isLatest=*/worked)
              : engine.plans().keep(key, *chosen);
  // Values of the part that were launched have entries of their own. Without a
  // range only those are replaced that wait for something better: others may
  // have been measured at their own extents.
  auto serves = [&](llvm::ArrayRef<int64_t> values) {
    int dynamic = spec.family->dynamicExtent();
    const Record &largest = kept.plan->loaded->plan().problem;
    return isRange ? box.covers(*spec.family, spec.ranges, values)
                   : dynamic < 0 || values[dynamic] <= largest[dynamic];
  };
  for (const ChosenPlan &old : {before, launched})
    if (old && old.plan != kept.plan && (isRange || old.plan->isFallback))
      engine.plans().replace(old.plan.get(),
                             isRange ? kept : ChosenPlan{kept.plan}, serves);
  return kept;
}

//===----------------------------------------------------------------------===//
// Only compiling
//===----------------------------------------------------------------------===//

llvm::Expected<DeviceModel> PrepareTask::deviceToCompileFor() {
  if (!targets.empty()) {
    auto driver = engine.driver();
    if (!driver)
      return driver.takeError();
    auto state = engine.contextState(**driver, targets.front().context);
    if (!state)
      return state.takeError();
    return (*state)->model;
  }
  auto named = engine.namedDevice();
  if (!named)
    return named.takeError();
  return **named;
}

void PrepareTask::compileOnly() {
  auto device = deviceToCompileFor();
  ErrorSummary noDevice;
  if (!device)
    noDevice = summarize(device.takeError());
  std::vector<Registry::NamedProblem> problems;
  std::vector<size_t> owners;
  for (size_t i = 0; i < items.size(); ++i) {
    Item &item = items[i];
    if (item.spec && noDevice.code != ErrorCode::Success)
      item.error = noDevice;
    if (!item.spec || item.error.code != ErrorCode::Success)
      continue;
    auto boxes = boxesOf(*item.spec);
    if (!boxes) {
      item.error = summarize(boxes.takeError());
      continue;
    }
    for (ExtentBox &box : *boxes) {
      problems.push_back({item.spec->family, std::move(box.common)});
      owners.push_back(i);
    }
  }
  if (!problems.empty()) {
    Engine::Services &services = engine.services();
    WarmupOptions options;
    options.cancel = &cancelled;
    options.progress = [&](const ArtifactStore::Progress &progress) {
      {
        std::lock_guard<std::mutex> lock(mutex);
        counts.compiles_done = progress.done;
        counts.compiles_total = progress.total;
      }
      callProgress();
    };
    WarmupResult result = warmup(problems, *device, *services.artifacts,
                                 *services.decisions, options);
    for (const WarmupRow &row : result.rows) {
      ErrorSummary &error = items[owners[row.problem]].error;
      if (error.code == ErrorCode::Success && !row.isReplaced)
        error = row.error;
    }
  }
  for (size_t i = 0; i < items.size(); ++i)
    finishProblem(i, items[i].error);
}

} // namespace kiln
