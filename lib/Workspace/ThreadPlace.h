//===- ThreadPlace.h - numbers of threads, and hooks at their end ---------===//
#pragma once

#include <cstdint>

namespace kiln {

/// The calling thread as a key of per-thread state.
struct ThreadPlace {
  /// From 1; unique among living threads, and reused.
  uint64_t place = 0;
  /// From 1; never reused in the process.
  uint64_t number = 0;
};

/// Takes some ns, except for a thread's first call.
const ThreadPlace &threadPlace();

/// Calls a function on each thread that called threadPlace(), when that ends,
/// and before its place is reused. No thread is inside the function when the
/// destructor returns. A forked child has no hooks of its parent.
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
