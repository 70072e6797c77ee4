//===- ProcessExit.cpp - compilations when the process ends ---------------===//
#include "Compile/ProcessExit.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <link.h>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace kiln {

using Clock = std::chrono::steady_clock;

struct ExitNotice::Shared {
  explicit Shared(Log log) : log(std::move(log)) {}
  /// Held while the log is called, which may destroy the engine.
  std::recursive_mutex mutex;
  const Log log;
  bool isOver = false;
};

/// The state of one process; a forked child makes its own. Never destroyed,
/// because threads outlive the exit of main.
struct ExitState {
  const pid_t process = ::getpid();
  std::atomic<bool> isEnding{false};
  std::atomic<std::thread::id> ender{};
  /// The value of libraryLoads() before the handler was last registered.
  std::atomic<unsigned long long> loadsBefore{0};

  std::mutex mutex; ///< guards what follows
  std::condition_variable left;
  unsigned stays = 0, loadings = 0;
  Clock::time_point deadline{};
  bool hasTold = false;

  std::mutex noticesMutex; ///< guards the notices
  std::vector<std::shared_ptr<ExitNotice::Shared>> notices;

  void tell(unsigned count);
  void end();
};

static std::atomic<ExitState *> currentState{nullptr};

static ExitState &exitState() {
  const pid_t self = ::getpid();
  ExitState *state = currentState.load(std::memory_order_acquire);
  while (!state || state->process != self) {
    auto made = std::make_unique<ExitState>();
    if (currentState.compare_exchange_strong(state, made.get()))
      return *made.release();
  }
  return *state;
}

/// Stays of this thread: exit() may be called from inside of the compiler.
static thread_local unsigned ownStays = 0, ownLoadings = 0;

//===----------------------------------------------------------------------===//
// The handler
//===----------------------------------------------------------------------===//

void ExitState::tell(unsigned count) {
  std::vector<std::shared_ptr<ExitNotice::Shared>> all;
  {
    std::lock_guard<std::mutex> lock(noticesMutex);
    all = notices;
  }
  for (const auto &one : all) {
    std::lock_guard<std::recursive_mutex> lock(one->mutex);
    if (!one->isOver)
      one->log.warning(
          "the process ends, and waits up to {} s for compilations: {}",
          std::chrono::duration_cast<std::chrono::seconds>(kExitLimit).count(),
          count);
  }
}

void ExitState::end() {
  std::unique_lock<std::mutex> lock(mutex);
  if (!isEnding) {
    ender = std::this_thread::get_id();
    deadline = Clock::now() + kExitLimit;
    isEnding = true;
  }
  auto isOut = [&] { return stays <= ownStays; };
  if (!hasTold &&
      !left.wait_until(lock, deadline - kExitLimit + kExitNoticeAfter, isOut)) {
    hasTold = true;
    const unsigned count = stays - ownStays;
    lock.unlock();
    tell(count);
    lock.lock();
  }
  left.wait_until(lock, deadline, isOut);
}

static void endCompilations() {
  // A parent's state belongs to another process: its mutex may be locked for
  // ever.
  ExitState *state = currentState.load(std::memory_order_acquire);
  if (!state || state->process != ::getpid())
    return;
  try {
    state->end();
  } catch (...) { // a hook, or out of memory
  }
}

/// How many libraries this process has ever loaded.
static unsigned long long libraryLoads() {
  unsigned long long loads = 0;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *result) {
        *static_cast<unsigned long long *>(result) = info->dlpi_adds;
        return 1; // each entry has the same
      },
      &loads);
  return loads;
}

void watchProcessExit() {
  ExitState &state = exitState();
  // Counted first: a library that is mapped meanwhile counts as loaded later.
  const unsigned long long loads = libraryLoads();
  // Without memory for it, the process ends as it can.
  (void)std::atexit(endCompilations);
  state.loadsBefore = loads;
}

/// Whether a library was loaded since the handler was last registered.
static bool hasNewLibrary() {
  return exitState().loadsBefore != libraryLoads();
}

bool isProcessEnding() {
  ExitState *state = currentState.load(std::memory_order_acquire);
  return state && state->isEnding.load(std::memory_order_acquire) &&
         state->process == ::getpid();
}

bool mayCallHooks() {
  return !isProcessEnding() ||
         exitState().ender.load() == std::this_thread::get_id();
}

//===----------------------------------------------------------------------===//
// Stays and notices
//===----------------------------------------------------------------------===//

CompilerStay::CompilerStay() {
  ExitState &state = exitState();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.isEnding)
    return;
  granted = true;
  ++state.stays;
  ++ownStays;
}

CompilerStay::~CompilerStay() {
  if (!granted)
    return;
  ExitState &state = exitState();
  --ownStays;
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.stays > 0) // a child forks in the midst of one
    --state.stays;
  state.left.notify_all();
}

CompilerLoading::CompilerLoading() {
  ExitState &state = exitState();
  std::lock_guard<std::mutex> lock(state.mutex);
  ++state.loadings;
  ++ownLoadings;
}

CompilerLoading::~CompilerLoading() {
  ExitState &state = exitState();
  --ownLoadings;
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.loadings > 0) // as above
    --state.loadings;
  state.left.notify_all();
}

namespace {
/// exit() destroys the thread-local objects of its thread before it calls any
/// handler. So this destructor waits for the end of a loading, which registers
/// destructors by the thousand, and registers the handler once more, which so
/// runs before all destructors. Where only the thread ends, the cost is one
/// more handler and some milliseconds; so it is done while a kernel is compiled
/// or once a library was loaded, and on the main thread, whose end is mostly
/// that of the process.
struct RegisteredLast {
  ~RegisteredLast() {
    ExitState *state = currentState.load(std::memory_order_acquire);
    if (!state || state->process != ::getpid())
      return; // a forked child that has not used Kiln
    std::unique_lock<std::mutex> lock(state->mutex);
    state->left.wait_for(lock, kExitLimit,
                         [&] { return state->loadings <= ownLoadings; });
    const bool isCompiling = state->stays > 0;
    lock.unlock();
    if (isCompiling || ::gettid() == ::getpid() || hasNewLibrary())
      watchProcessExit();
  }
};
} // namespace

void foreseeCompilation() {
  [[maybe_unused]] thread_local RegisteredLast last;
  (void)&last;
  if (hasNewLibrary())
    watchProcessExit();
}

ExitNotice::ExitNotice(Log log)
    : shared(std::make_shared<Shared>(std::move(log))) {
  foreseeCompilation();
  ExitState &state = exitState();
  std::lock_guard<std::mutex> lock(state.noticesMutex);
  state.notices.push_back(shared);
}

ExitNotice::~ExitNotice() {
  ExitState &state = exitState();
  {
    std::lock_guard<std::mutex> lock(state.noticesMutex);
    std::erase(state.notices, shared);
  }
  std::lock_guard<std::recursive_mutex> lock(shared->mutex);
  shared->isOver = true;
}

} // namespace kiln
