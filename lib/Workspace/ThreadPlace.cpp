//===- ThreadPlace.cpp - numbers of threads, and hooks at their end -------===//
#include "Workspace/ThreadPlace.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <unistd.h>
#include <vector>

namespace kiln {

/// Places and hooks of the process.
struct ThreadRegistry {
  const pid_t process = ::getpid();
  /// The registry of the process that forked this one, kept reachable.
  const ThreadRegistry *ofParent = nullptr;
  std::mutex placesMutex; ///< guards the next line, and writing the next two
  std::vector<uint64_t> freePlaces;
  /// Read by a forked child without the lock.
  std::atomic<uint64_t> places{0}, threads{0};
  /// Guards hooks, and is held while they are called. It differs from the mutex
  /// of places, because a hook may wait for the driver, and the driver for a
  /// thread that begins.
  std::mutex hooksMutex;
  std::vector<ThreadExitHook *> hooks;

  ThreadPlace enter() {
    std::lock_guard<std::mutex> lock(placesMutex);
    ThreadPlace entered;
    entered.number = ++threads;
    if (freePlaces.empty()) {
      entered.place = ++places;
    } else {
      entered.place = freePlaces.back();
      freePlaces.pop_back();
    }
    freePlaces.reserve(places); // leave() must not allocate
    return entered;
  }
  void leave(const ThreadPlace &ended) {
    {
      std::lock_guard<std::mutex> lock(hooksMutex);
      for (ThreadExitHook *hook : hooks)
        hook->function(hook->user, ended);
    }
    std::lock_guard<std::mutex> lock(placesMutex);
    freePlaces.push_back(ended.place);
  }
};

/// Returns the registry of this process. A child gets one of its own: another
/// thread of the parent may have held a lock when it forked, and the child must
/// not call hooks of the parent's engines. Never destroyed, because threads may
/// outlive the exit of main.
static ThreadRegistry &registry() {
  static std::atomic<ThreadRegistry *> current{nullptr};
  const pid_t self = ::getpid();
  ThreadRegistry *known = current.load(std::memory_order_acquire);
  while (!known || known->process != self) {
    auto made = std::make_unique<ThreadRegistry>();
    if (known) { // the thread that forked keeps its place
      made->places = known->places.load();
      made->threads = known->threads.load();
      made->ofParent = known;
    }
    if (current.compare_exchange_strong(known, made.get()))
      return *made.release();
  }
  return *known;
}

namespace {
struct CurrentThread {
  ThreadRegistry &entered = registry();
  const ThreadPlace place = entered.enter();
  ~CurrentThread() {
    if (entered.process == ::getpid())
      entered.leave(place);
  }
};
} // namespace

const ThreadPlace &threadPlace() {
  thread_local CurrentThread current;
  return current.place;
}

ThreadExitHook::ThreadExitHook(Function function, void *user)
    : function(function), user(user) {
  std::lock_guard<std::mutex> lock(registry().hooksMutex);
  registry().hooks.push_back(this);
}

ThreadExitHook::~ThreadExitHook() {
  std::lock_guard<std::mutex> lock(registry().hooksMutex);
  std::erase(registry().hooks, this);
}

} // namespace kiln
