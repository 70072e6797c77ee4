//===- Fiber.h - a flow of control with a stack of its own ----------------===//
#pragma once

#include <cstddef>

namespace kiln::emulated {

/// Runs a function alternately with the thread that resumes it. Made for
/// thousands that run for a short while: their stacks are used again. Objects
/// on the stack of a fiber that never ends are left there.
class Fiber {
public:
  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  /// Its first turn will call \p function, which must end with suspend() and
  /// not return.
  void start(void (*function)());
  /// Gives it a turn: returns when it suspends.
  void resume();
  /// Ends the turn of this fiber, which is running.
  void suspend();

private:
  std::byte *stack = nullptr;
  void *top = nullptr;        ///< of its stack, while it is suspended
  void *resumerTop = nullptr; ///< of the other's, while it runs
};

} // namespace kiln::emulated
