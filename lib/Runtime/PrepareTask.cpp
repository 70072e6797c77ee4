//===- PrepareTask.cpp - kiln_prepare, synchronous or as a task -----------===//
#include "Runtime/PrepareTask.h"

#include "Call/RangeParts.h"
#include "Call/StructAccess.h"
#include "Choice/Chooser.h"
#include "Compile/ProcessExit.h"
#include "Observe/CallScope.h"
#include "Observe/Observe.h"
#include "Runtime/Background.h"
#include "Runtime/EnteredContext.h"
#include "Runtime/HistoryWriter.h"
#include "Runtime/ServedValues.h"
#include "Support/Signals.h"

#include <algorithm>

namespace kiln {

using Clock = std::chrono::steady_clock;

/// A range's default budget as a multiple of that of a value.
static constexpr int64_t kRangeShare = 6;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

llvm::Error PrepareTask::readOptions(const kiln_prepare_options *options) {
  if (!options)
    return llvm::Error::success();
  if (auto error = checkInput(*options, "kiln_prepare_options"))
    return error;
  constexpr uint32_t kKnownFlags =
      KILN_PREPARE_COMPILE_ONLY | KILN_PREPARE_RETUNE | KILN_PREPARE_POOL;
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
  if (onlyCompiles() && !hasStreams) {
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
    // The working thread has no context of its own.
    target.context.isCurrent = false;
    targets.push_back(target);
  }
  return llvm::Error::success();
}

bool PrepareTask::onlyCompiles() const {
  return flags & (KILN_PREPARE_COMPILE_ONLY | KILN_PREPARE_POOL);
}

/// Reads one problem, and keeps the reason why it cannot be read as its error.
void PrepareTask::readItem(const kiln_problem &problem, Item &item) const {
  if (flags & KILN_PREPARE_POOL) {
    auto pool = readPoolSubject(engine.families(), problem);
    if (pool)
      item.pool = std::move(*pool);
    else
      item.error = summarize(pool.takeError());
    return;
  }
  auto spec = engine.readProblem(&problem);
  if (spec)
    item.spec = std::move(*spec);
  else
    item.error = summarize(spec.takeError());
}

llvm::Expected<std::shared_ptr<PrepareTask>>
PrepareTask::create(Engine &engine, const kiln_problem *problems, size_t count,
                    const kiln_prepare_options *options) {
  foreseeCompilation(); // the process may end before the task's thread begins
  std::shared_ptr<PrepareTask> task(new PrepareTask(engine));
  if (auto error = task->readOptions(options))
    return error;
  if (auto error = checkArray(problems, count, "kiln_problem"))
    return error;
  for (size_t i = 0; i < count; ++i) {
    Item item;
    task->readItem(at(problems, i), item);
    if (HistoryWriter *history = engine.history(); history && item.spec)
      history->note(*item.spec);
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

void PrepareTask::join() {
  wait(-1);
  if (thread.joinable())
    thread.join();
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
  if (!progressHook || !mayCallHooks())
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

/// The problem, or the first of several.
std::string PrepareTask::subject() const {
  for (const Item &item : items)
    if (item.spec)
      return items.size() == 1 ? item.spec->text
                               : fmt::format("{} problems, {} ...",
                                             items.size(), item.spec->text);
  return {};
}

void PrepareTask::run(observe::WaitLedger *ledger) noexcept {
  foreseeCompilation();
  observe::CallScope watched("kiln_prepare", ledger);
  auto text = [this] { return subject(); };
  const observe::CallScope::Subject subject(watched, text);
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
  // A failure from here on takes the task back: the engine must not wait for a
  // task that never runs.
  engine.addTask(shared_from_this());
  const std::optional<kiln_executor> &executor = engine.config().executor;
  if (executor &&
      executor->submit(executor->user, body, argument.get()) == KILN_SUCCESS) {
    (void)argument.release();
    return;
  }
  try {
    SignalsBlocked whileItStarts;
    thread = std::thread([body, argument = argument.get()] {
      observe::nameThread("kiln-prepare");
      body(argument);
    });
    (void)argument.release();
  } catch (...) {
    engine.removeTask(this);
    throw;
  }
}

void PrepareTask::work() {
  if (onlyCompiles())
    return compileOnly();
  if (items.size() > 1)
    compileAhead();
  for (size_t i = 0; i < items.size(); ++i) {
    Item &item = items[i];
    if (cancelled) {
      ahead.clear(); // cancels compilations that have not begun
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

/// Starts to compile the kernels that the problems will ask for one after
/// another.
void PrepareTask::compileAhead() {
  auto entered = EnteredContext::of(engine, targets.front().context);
  if (!entered) {
    llvm::consumeError(entered.takeError()); // each problem will say so
    return;
  }
  for (const Item &item : items) {
    if (!item.spec || !item.spec->ranges.empty() ||
        item.spec->family->isEmpty(item.spec->problem))
      continue;
    const PlanRequest request{*item.spec->family, item.spec->problem};
    for (const TranslationUnit &unit :
         engine.chooser(entered->state(), request).unitsToCompile()) {
      auto place = static_cast<int64_t>(ahead.size());
      ahead.push_back(engine.services().artifacts->request(
          unit, compile_priority::kAhead + place));
    }
  }
}

/// The next problem's even share of the time that is left. By default a range,
/// which is measured at many of its values, has several times the budget of a
/// value.
std::chrono::milliseconds
PrepareTask::budgetForNext(const ProblemSpec &spec) const {
  if (totalBudget.count() == 0)
    return engine.config().tuneBudget * (spec.ranges.empty() ? 1 : kRangeShare);
  auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
      Clock::now() - startTime);
  auto left = std::max(totalBudget - spent, std::chrono::milliseconds(0));
  return left /
         static_cast<int64_t>(counts.problems_total - counts.problems_done);
}

llvm::Error PrepareTask::prepareProblem(const ProblemSpec &spec) {
  const observe::Span span(observe::Phase::Lookup, [&] { return spec.text; });
  std::chrono::milliseconds budget =
      budgetForNext(spec) / static_cast<int64_t>(targets.size());
  for (const Target &target : targets) {
    auto entered = EnteredContext::of(engine, target.context);
    if (!entered)
      return entered.takeError();
    if (auto error = prepareIn(entered->driver(), entered->state(), spec,
                               target, budget))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error PrepareTask::prepareIn(const Driver &driver, ContextState &state,
                                   const ProblemSpec &spec,
                                   const Target &target,
                                   std::chrono::milliseconds budget) {
  WorkspaceLayout needed;
  auto take = [&](llvm::Expected<WorkspaceLayout> part) -> llvm::Error {
    if (!part)
      return part.takeError();
    needed.merge(*part);
    return llvm::Error::success();
  };
  if (spec.ranges.empty()) {
    if (spec.family->isEmpty(spec.problem))
      return llvm::Error::success();
    if (auto error = take(prepareValue(state, spec, budget)))
      return error;
  } else {
    auto parts = partsOf(spec);
    if (!parts)
      return parts.takeError();
    for (const RangePart &part : *parts)
      if (auto error = take(prepareRange(
              state, part, budget / static_cast<int64_t>(parts->size()))))
        return error;
  }
  if (!target.hasStream)
    return llvm::Error::success();
  StreamContext here = target.context;
  here.isCurrent = true;
  return engine.ensureArena(driver, here, needed, target.stream);
}

AcquireOptions PrepareTask::acquireOptions(std::chrono::milliseconds budget) {
  const bool tunes = triesFirst(engine.config().mode);
  AcquireOptions options;
  options.retune = tunes && (flags & KILN_PREPARE_RETUNE);
  options.preferTrials = tunes;
  options.budget = budget;
  options.cancel = &cancelled;
  options.trials = &trialsDone;
  options.compiled = [this](size_t ready, size_t kernels) {
    noteCompiles(ready, kernels);
  };
  options.progressed = [this] { callProgress(); };
  return options;
}

llvm::Expected<WorkspaceLayout>
PrepareTask::prepareRange(ContextState &state, const RangePart &part,
                          std::chrono::milliseconds budget) {
  const ProblemRange &range = part.range;
  const PlanRequest request{*range.family, part.typical, &range, part.isHinted};
  const AcquireOptions options = acquireOptions(budget);
  auto prepared = state.findRange(range);
  ChosenPlan known = prepared ? prepared->choose(part.typical) : ChosenPlan();
  if (prepared && options.takes(request, *prepared, known)) {
    measureLater(state, part, *prepared);
    return workspaceOf(state, range);
  }
  auto made = engine.flights().acquireRange(state, request, options);
  if (!made)
    return made.takeError();
  prepared = std::move(*made);
  // Values that were launched before have entries of their own. They are not
  // taken out, because the table knows the room of their streams. A plan that
  // was measured at the value goes first, unless the order of calls may not
  // matter.
  const bool isOrdered = !isFrozen(engine.config().mode);
  forEachServed(engine.plans(), range, state.id, [&](const Problem &problem) {
    const DispatchKey key{range.family, state.id, problem.values.array()};
    ChosenPlan now = state.chooseFromRanges(*range.family, problem);
    if (now && isOrdered)
      engine.plans().replace(key, now);
    else if (now)
      engine.plans().publish(key, now);
  });
  measureLater(state, part, *prepared);
  return workspaceOf(state, range);
}

/// The workspace that launched values of \p range need: some keep a plan that
/// was measured for them alone.
WorkspaceLayout PrepareTask::workspaceOf(const ContextState &state,
                                         const ProblemRange &range) const {
  WorkspaceLayout needed = state.workspaceOf(range);
  forEachServed(engine.plans(), range, state.id, [&](const Problem &problem) {
    if (ChosenPlan serving = engine.plans().lookup(
            {range.family, state.id, problem.values.array()}))
      needed.merge(serving.plan->loaded->workspace());
  });
  return needed;
}

/// In the mode background no caller waits for trials, so they are queued.
void PrepareTask::measureLater(ContextState &state, const RangePart &part,
                               const PreparedRange &prepared) {
  const bool retunes = flags & KILN_PREPARE_RETUNE;
  if (Background *background = engine.background())
    if (retunes || prepared.isFallback())
      background->noteRange(state, part, retunes);
}

llvm::Expected<WorkspaceLayout>
PrepareTask::prepareValue(ContextState &state, const ProblemSpec &spec,
                          std::chrono::milliseconds budget) {
  const PlanRequest request{*spec.family, spec.problem};
  const AcquireOptions options = acquireOptions(budget);
  const DispatchKey key{spec.family, state.id, spec.problem.values.array()};
  ChosenPlan chosen = engine.plans().lookup(key);
  if (!chosen && !options.preferTrials)
    chosen = state.chooseFromRanges(*spec.family, spec.problem);
  if (!chosen || !options.takes(request, chosen)) {
    auto made = engine.flights().acquire(state, request, options);
    if (!made)
      return made.takeError();
    chosen = std::move(*made);
  }
  const bool retunes = flags & KILN_PREPARE_RETUNE;
  WorkspaceLayout needed =
      engine.plans().keep(key, chosen).plan->loaded->workspace();
  if (Background *background = engine.background())
    if (retunes || chosen.measuredNs == 0)
      background->noteValue(state, *spec.family, spec.problem, retunes);
  return needed;
}

} // namespace kiln
