//===- ThreadPlace.cpp - threads, numbered, and told of when they end -----===//
#include "Runtime/ThreadPlace.h"

#include <mutex>
#include <vector>

namespace kiln {

/// Places and hooks of the process.
struct ThreadRegistry {
  std::mutex mutex; ///< held while hooks are called, too
  std::vector<uint64_t> freePlaces;
  uint64_t places = 0, threads = 0;
  std::vector<ThreadExitHook *> hooks;

  ThreadPlace enter() {
    std::lock_guard<std::mutex> lock(mutex);
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
    std::lock_guard<std::mutex> lock(mutex);
    for (ThreadExitHook *hook : hooks)
      hook->function(hook->user, ended);
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
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().hooks.push_back(this);
}

ThreadExitHook::~ThreadExitHook() {
  std::lock_guard<std::mutex> lock(registry().mutex);
  std::erase(registry().hooks, this);
}

} // namespace kiln
