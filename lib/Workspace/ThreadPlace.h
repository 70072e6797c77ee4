//===- ThreadPlace.h - threads, numbered, and told of when they end -------===//
#pragma once

#include <cstdint>

namespace kiln {

/// The calling thread, for what is kept for each thread.
struct ThreadPlace {
  /// From 1; no two threads that live have one, and it is given out again.
  uint64_t place = 0;
  /// From 1; no other thread of the process had it or will have it.
  uint64_t number = 0;
};

/// Some ns, except for a thread's first call.
const ThreadPlace &threadPlace();

/// Has a function called on each thread that called threadPlace(), when that
/// ends, and before its place is given out again. No thread is inside the
/// function when the destructor returns. A forked child has no hooks of its
/// parent.
class ThreadExitHook {
public:
  using Function = void (*)(void *user, const ThreadPlace &ended);

  ThreadExitHook(Function function, void *user);
  ~ThreadExitHook();
  ThreadExitHook(const ThreadExitHook &) = delete;
  ThreadExitHook &operator=(const ThreadExitHook &) = delete;

private:
  friend struct ThreadRegistry;
  Function function;
  void *user;
};

} // namespace kiln
