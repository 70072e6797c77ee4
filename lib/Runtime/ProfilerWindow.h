//===- ProfilerWindow.h - the launches that profilers record --------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace kiln {

/// From which launch, or step, to which one a profiler records. Thread-safe.
class ProfilerWindow {
public:
  enum class Unit { None, Launches, Steps };

  /// Reads "launches:1000-1100" or "steps:10-12"; "steps:10" is one step.
  /// Numbers count from 1. Errors: InvalidArgument.
  static llvm::Expected<ProfilerWindow> parse(llvm::StringRef text);

  /// The window of the process, which has no unit until open() was called in
  /// this process, and not in a parent of it.
  static ProfilerWindow &ofProcess();
  /// Lets \p given be the window of the process, unless there is one.
  static void open(const ProfilerWindow &given);

  ProfilerWindow() = default;
  ProfilerWindow(const ProfilerWindow &given);

  /// A launch, from its construction on. Its context is current.
  class Launch {
  public:
    Launch(ProfilerWindow &window, const Driver &driver, CudaStream stream);
    ~Launch();
    Launch(const Launch &) = delete;
    Launch &operator=(const Launch &) = delete;

  private:
    ProfilerWindow &window;
    const Driver &driver;
    CudaStream stream;
    bool isInside = false;
  };

  /// A step begins, or ends, on this thread and in the current context.
  void beginStep(const Driver &driver);
  void endStep(const Driver &driver);

private:
  void start(const Driver &driver);
  void stop(const Driver &driver);

  Unit unit = Unit::None;
  uint64_t first = 0, last = 0;
  std::atomic<uint64_t> begun{0};
  /// Launches or steps of the window that have not ended.
  std::atomic<uint64_t> left{0};
  std::mutex mutex; ///< held while profilers are started and stopped
  bool isStarted = false, isOver = false;
};

} // namespace kiln
