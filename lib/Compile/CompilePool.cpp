//===- CompilePool.cpp ----------------------------------------------------===//
//
// All state is behind one mutex in State, which every thread shares. A job is
// queued, running, or gone: the thread that takes it out of its table owns its
// callback and calls it, so that it is called once whatever ends the job. A
// worker whose job was taken from it ends without touching the state again.
//
//===----------------------------------------------------------------------===//
#include "Compile/CompilePool.h"

#include "Compile/ResourceLimits.h"
#include "Observe/Observe.h"
#include "Observe/Span.h"
#include "Observe/Trace.h"
#include "Support/Signals.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace kiln {

using Clock = CompilePool::Clock;
using Ticket = CompilePool::Ticket;
using Callback = CompilePool::Callback;

unsigned compileConcurrency(unsigned cap) {
  uint64_t width = availableCpus();
  if (std::optional<uint64_t> bytes = availableMemoryBytes())
    width = std::min<uint64_t>(width, *bytes / kBytesPerCompile);
  if (cap)
    width = std::min<uint64_t>(width, cap);
  return static_cast<unsigned>(std::max<uint64_t>(width, 1));
}

namespace {
struct QueuedJob {
  TranslationUnit unit;
  Callback callback;
  CompilePool::Gate gate; ///< may be null
  observe::Flow submitted;
};
struct RunningJob {
  std::string name;
  Clock::time_point start;
  Callback callback;
};
/// Lowest priority first, then the order of submission.
using QueueKey = std::pair<int64_t, Ticket>;
} // namespace

struct CompilePool::State {
  std::shared_ptr<Compiler> compiler;
  CompilePoolOptions options;

  /// Known once it is needed: most processes compile nothing, and it takes some
  /// 70 files to find out.
  unsigned width() {
    std::call_once(widthKnown,
                   [&] { knownWidth = compileConcurrency(options.threads); });
    return knownWidth;
  }
  std::once_flag widthKnown;
  unsigned knownWidth = 1;

  std::mutex mutex;
  std::condition_variable work; ///< something was queued, or the end
  std::condition_variable done; ///< a job or a worker ended
  std::map<QueueKey, QueuedJob> queue;
  std::map<Ticket, QueueKey> queued; ///< where a ticket is in the queue
  std::map<Ticket, RunningJob> running;
  /// Jobs that have left the tables and whose callback, or gate, has not
  /// returned.
  std::set<Ticket> ending;
  unsigned workers = 0; ///< threads, except for those of abandoned jobs
  unsigned busy = 0;    ///< of these, with a job or its callback
  bool stopping = false;
  Ticket lastTicket = 0;
  int64_t postponed = 0; ///< answers "later" so far

  static void runWorker(std::shared_ptr<State> state);
  static void startWorkers(const std::shared_ptr<State> &state);
  bool runNext(std::unique_lock<std::mutex> &lock);
  CompilePool::Result compileShown(const TranslationUnit &unit,
                                   observe::Flow submitted);
  bool admit(std::unique_lock<std::mutex> &lock, Ticket ticket, QueuedJob &job);
  void finish(std::unique_lock<std::mutex> &lock, Ticket ticket,
              Callback callback, CompilePool::Result result);
  size_t abandon(const std::shared_ptr<State> &self,
                 std::unique_lock<std::mutex> &lock, ErrorCode code,
                 llvm::function_ref<bool(Ticket, const RunningJob &)> isGiven);
  size_t abandonOld(const std::shared_ptr<State> &self,
                    std::unique_lock<std::mutex> &lock, Clock::duration limit);
};

/// See CompilePool::lostInProcess().
static std::atomic<size_t> lost{0};

size_t CompilePool::lostInProcess() { return lost.load(); }

/// Calls \p callback without the lock; afterwards the ticket is over.
void CompilePool::State::finish(std::unique_lock<std::mutex> &lock,
                                Ticket ticket, Callback callback,
                                CompilePool::Result result) {
  ending.insert(ticket);
  lock.unlock();
  callback(std::move(result));
  // Destroyed unlocked, too, because objects that it owns may call the pool.
  callback = nullptr;
  lock.lock();
  ending.erase(ticket);
  done.notify_all();
}

/// Asks the gate of \p job. False: the job is in the queue again, or over.
bool CompilePool::State::admit(std::unique_lock<std::mutex> &lock,
                               Ticket ticket, QueuedJob &job) {
  ending.insert(ticket);
  lock.unlock();
  Admission answer = job.gate();
  lock.lock();
  ending.erase(ticket);
  if (answer == Admission::Compile && !stopping)
    return true;
  if (answer == Admission::Later && !stopping) {
    // Behind every priority, and behind jobs that were postponed before.
    constexpr int64_t kBehindAll = int64_t(1) << 62;
    const QueueKey key{kBehindAll + ++postponed, ticket};
    queued.emplace(ticket, key);
    queue.emplace(key, std::move(job));
    return false;
  }
  finish(lock, ticket, std::move(job.callback),
         makeError(ErrorCode::Cancelled, "compilation of {} was cancelled",
                   job.unit.name()));
  return false;
}

/// Compiles \p unit, for profilers and traces to see.
CompilePool::Result
CompilePool::State::compileShown(const TranslationUnit &unit,
                                 observe::Flow submitted) {
  const observe::Span span(observe::Phase::Compile,
                           [&] { return unit.name(); });
  submitted.arrive("compile");
  return compiler->compile(unit);
}

/// Compiles the first job of the queue. False when it was abandoned meanwhile,
/// and with it the thread.
bool CompilePool::State::runNext(std::unique_lock<std::mutex> &lock) {
  auto first = queue.begin();
  const Ticket ticket = first->first.second;
  QueuedJob next = std::move(first->second);
  queue.erase(first);
  queued.erase(ticket);
  ++busy;
  if (next.gate && !admit(lock, ticket, next)) {
    --busy;
    return true;
  }
  TranslationUnit unit = std::move(next.unit);
  running.emplace(
      ticket, RunningJob{unit.name(), Clock::now(), std::move(next.callback)});

  lock.unlock();
  CompilePool::Result result = compileShown(unit, next.submitted);
  lock.lock();

  auto job = running.find(ticket);
  if (job == running.end()) {
    --lost;
    llvm::consumeError(result.takeError());
    return false;
  }
  Callback callback = std::move(job->second.callback);
  running.erase(job);
  finish(lock, ticket, std::move(callback), std::move(result));
  --busy;
  return true;
}

void CompilePool::State::runWorker(std::shared_ptr<State> state) {
  // On Linux a priority is a thread's, and 0 is the calling one. A higher
  // niceness is refused nowhere.
  if (state->options.niceness > 0)
    ::setpriority(PRIO_PROCESS, 0, state->options.niceness);
  observe::nameThread("kiln-compile");
  std::unique_lock lock(state->mutex);
  while (!state->stopping) {
    if (state->queue.empty())
      state->work.wait(lock);
    else if (!state->runNext(lock))
      return; // not counted any more
  }
  --state->workers;
  state->done.notify_all();
}

/// Starts threads until each queued job has one that is free, as far as the
/// width and the system allow; the lock is held.
void CompilePool::State::startWorkers(const std::shared_ptr<State> &state) {
  while (!state->stopping &&
         state->workers - state->busy < state->queue.size() &&
         state->workers < state->width()) {
    try {
      SignalsBlocked whileItStarts;
      std::thread(runWorker, state).detach();
    } catch (const std::system_error &) {
      return; // the running threads will get to it
    }
    ++state->workers;
  }
}

/// Gives up on the running jobs that \p isGiven names, with an error of
/// \p code.
size_t CompilePool::State::abandon(
    const std::shared_ptr<State> &self, std::unique_lock<std::mutex> &lock,
    ErrorCode code,
    llvm::function_ref<bool(Ticket, const RunningJob &)> isGiven) {
  const Clock::time_point now = Clock::now();
  std::vector<std::pair<Ticket, RunningJob>> given;
  for (auto it = running.begin(); it != running.end();) {
    if (!isGiven(it->first, it->second)) {
      ++it;
      continue;
    }
    given.emplace_back(it->first, std::move(it->second));
    it = running.erase(it);
    // The thread is lost to the pool until its compilation ends, if ever.
    --workers;
    --busy;
    ++lost;
  }
  startWorkers(self);
  for (auto &[ticket, job] : given) {
    const auto ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(now - job.start);
    finish(lock, ticket, std::move(job.callback),
           makeError(code, "compilation of {} abandoned after {} ms", job.name,
                     ms.count()));
  }
  return given.size();
}

/// Gives up on jobs that have run for \p limit.
size_t CompilePool::State::abandonOld(const std::shared_ptr<State> &self,
                                      std::unique_lock<std::mutex> &lock,
                                      Clock::duration limit) {
  const Clock::time_point now = Clock::now();
  return abandon(
      self, lock, ErrorCode::CompileFailed,
      [&](Ticket, const RunningJob &job) { return now - job.start >= limit; });
}

CompilePool::CompilePool(std::shared_ptr<Compiler> compiler,
                         CompilePoolOptions options)
    : state(std::make_shared<State>()) {
  state->compiler = std::move(compiler);
  // A limit that gives a compilation a chance and overflows no time point.
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1000);
  constexpr std::chrono::milliseconds kShortest(1);
  options.compileLimit = std::clamp(options.compileLimit, kShortest, kLongest);
  options.shutdownGrace = std::min(options.shutdownGrace, kLongest);
  state->options = options;
}

CompilePool::~CompilePool() { stop(); }

void CompilePool::stop() {
  {
    // First, so that nothing is queued behind the cancellation.
    std::lock_guard lock(state->mutex);
    state->stopping = true;
  }
  cancelAll();
  std::unique_lock lock(state->mutex);
  state->work.notify_all();
  state->done.wait_for(lock, state->options.shutdownGrace,
                       [&] { return state->workers == 0; });
  state->abandonOld(state, lock, Clock::duration::zero());
  // A callback is the caller's code and may use objects that end with the pool.
  state->done.wait(lock, [&] { return state->ending.empty(); });
}

CompilePool::Ticket CompilePool::submit(TranslationUnit unit, int64_t priority,
                                        Callback callback, Gate gate) {
  std::unique_lock lock(state->mutex);
  const Ticket ticket = ++state->lastTicket;
  if (state->stopping) {
    // A callback of a pool that ends asks for more.
    state->finish(lock, ticket, std::move(callback),
                  makeError(ErrorCode::Cancelled,
                            "compilation of {} was cancelled", unit.name()));
    return ticket;
  }
  const QueueKey key{priority, ticket};
  auto job =
      state->queue
          .emplace(key, QueuedJob{std::move(unit), std::move(callback),
                                  std::move(gate), observe::Flow::here()})
          .first;
  state->queued.emplace(ticket, key);
  State::startWorkers(state);
  state->work.notify_one();
  if (state->workers > 0)
    return ticket;

  // The system gives no thread at all, so the job would never run.
  QueuedJob stuck = std::move(job->second);
  state->queue.erase(job);
  state->queued.erase(ticket);
  state->finish(lock, ticket, std::move(stuck.callback),
                makeError(ErrorCode::OutOfMemory,
                          "cannot start a thread to compile {}",
                          stuck.unit.name()));
  return ticket;
}

std::future<CompilePool::Result> CompilePool::submit(TranslationUnit unit,
                                                     int64_t priority) {
  std::promise<Result> promise;
  std::future<Result> future = promise.get_future();
  submit(std::move(unit), priority,
         [promise = std::move(promise)](Result result) mutable {
           promise.set_value(std::move(result));
         });
  return future;
}

bool CompilePool::cancel(Ticket ticket) {
  std::unique_lock lock(state->mutex);
  auto position = state->queued.find(ticket);
  if (position == state->queued.end())
    return false;
  auto job = state->queue.find(position->second);
  // Calls that may throw come before any change.
  auto reason = std::make_unique<KilnError>(
      ErrorCode::Cancelled,
      fmt::format("compilation of {} was cancelled", job->second.unit.name()));
  state->ending.insert(ticket);
  Callback callback = std::move(job->second.callback);
  state->queue.erase(job);
  state->queued.erase(position);
  state->finish(lock, ticket, std::move(callback),
                llvm::Error(std::move(reason)));
  return true;
}

bool CompilePool::abandon(Ticket ticket) {
  std::unique_lock lock(state->mutex);
  return state->abandon(state, lock, ErrorCode::Cancelled,
                        [&](Ticket other, const RunningJob &) {
                          return other == ticket;
                        }) > 0;
}

size_t CompilePool::cancelAll() {
  std::vector<Ticket> tickets;
  {
    std::lock_guard lock(state->mutex);
    for (const auto &[ticket, key] : state->queued)
      tickets.push_back(ticket);
  }
  size_t cancelled = 0;
  for (Ticket ticket : tickets)
    cancelled += cancel(ticket);
  return cancelled;
}

size_t CompilePool::abandonOverdue() {
  std::unique_lock lock(state->mutex);
  return state->abandonOld(state, lock, state->options.compileLimit);
}

unsigned CompilePool::width() const { return state->width(); }

} // namespace kiln
