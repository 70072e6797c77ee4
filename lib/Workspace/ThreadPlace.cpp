//===- ThreadPlace.cpp - threads, numbered, and told of when they end -----===//
#include "Workspace/ThreadPlace.h"

#include <mutex>
#include <vector>

namespace kiln {

/// Places and hooks of the process.
struct ThreadRegistry {
  std::mutex placesMutex; ///< guards the next two lines
  std::vector<uint64_t> freePlaces;
  uint64_t places = 0, threads = 0;
  /// Guards hooks, and is held while they are called. Another one than that of
  /// places: a hook may wait for the driver, and that for a thread that begins.
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

/// Never destroyed: threads may outlive the exit of main.
static ThreadRegistry &registry() {
  static ThreadRegistry &made = *new ThreadRegistry;
  return made;
}

namespace {
struct CurrentThread {
  const ThreadPlace place = registry().enter();
  ~CurrentThread() { registry().leave(place); }
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
