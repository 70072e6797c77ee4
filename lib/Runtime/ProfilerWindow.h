//===- ProfilerWindow.h - the launches that profilers record --------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>

namespace kiln {

/// From which launch, or step, to which one a profiler records. Thread-safe.
class ProfilerWindow {
public:
  enum class Unit { None, Launches, Steps };

  /// Reads "launches:1000-1100" or "steps:10-12"; "steps:10" is one step.
  /// Numbers count from 1. Errors: InvalidArgument.
  static llvm::Expected<ProfilerWindow> parse(llvm::StringRef text);

  /// The window of the process. It is closed, and without a unit, until
  /// open() is called.
  static ProfilerWindow &ofProcess();
  /// Sets the unit and the numbers of \p given, once.
  void open(const ProfilerWindow &given);

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
    bool isLast = false;
  };

  /// A step begins, or ends, in the current context.
  void beginStep(const Driver &driver);
  void endStep(const Driver &driver);

private:
  void start(const Driver &driver);
  void stop(const Driver &driver);

  Unit unit = Unit::None;
  uint64_t first = 0, last = 0;
  std::atomic<uint64_t> begun{0}, ended{0};
  std::atomic<bool> isStarted{false};
};

} // namespace kiln
