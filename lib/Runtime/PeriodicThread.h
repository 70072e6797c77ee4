//===- PeriodicThread.h - a thread that works now and then ----------------===//
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace kiln {

/// Calls a function every interval, on a thread of its own, until it is
/// stopped.
class PeriodicThread {
public:
  PeriodicThread() = default;
  ~PeriodicThread() { stop(); }
  PeriodicThread(const PeriodicThread &) = delete;
  PeriodicThread &operator=(const PeriodicThread &) = delete;

  /// Starts the thread, which profilers call \p name. \p work must not throw.
  /// Once. False: the system refuses a thread.
  bool start(const char *name, std::chrono::milliseconds interval,
             std::function<void()> work);
  /// Waits for the call in progress. Nothing is called afterwards.
  void stop();

private:
  std::mutex mutex; ///< guards what follows
  std::condition_variable changed;
  bool isEnding = false;
  std::thread thread;
};

} // namespace kiln
