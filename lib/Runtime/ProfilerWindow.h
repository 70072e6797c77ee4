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

/// From which launch, or step, to which one a profiler records.
struct ProfilerLimits {
  enum class Unit { Launches, Steps };

  /// Reads "launches:1000-1100" or "steps:10-12"; "steps:10" is one step.
  /// Numbers count from 1. Errors: InvalidArgument.
  static llvm::Expected<ProfilerLimits> parse(llvm::StringRef text);

  bool contains(uint64_t number) const {
    return number >= first && number <= last;
  }

  Unit unit = Unit::Launches;
  uint64_t first = 1, last = 1;
};

/// Counts the launches, or steps, of the process, and lets profilers record
/// those within the limits. Thread-safe.
class ProfilerWindow {
public:
  /// Opens the window of the process, unless it has one. A child of a fork has
  /// none. From now on kProfilerWindow is watching.
  static void open(const ProfilerLimits &limits);
  /// Only where kProfilerWindow was found watching.
  static ProfilerWindow &ofProcess();

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
  using Unit = ProfilerLimits::Unit;

  explicit ProfilerWindow(const ProfilerLimits &limits)
      : limits(limits), left(limits.last - limits.first + 1) {}
  void start(const Driver &driver);
  void stop(const Driver &driver);

  const ProfilerLimits limits;
  std::atomic<uint64_t> begun{0};
  /// Launches or steps within the limits that have not ended.
  std::atomic<uint64_t> left;
  std::mutex mutex; ///< held while profilers are started and stopped
  bool isStarted = false, isOver = false;
};

} // namespace kiln
