//===- ProfilerWindow.cpp - the launches that profilers record ------------===//
#include "Runtime/ProfilerWindow.h"

#include "Driver/Context.h"
#include "Driver/Profiler.h"
#include "Observe/Watch.h"
#include "Support/Error.h"
#include "Trial/Sampling.h"

#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

namespace kiln {

llvm::Expected<ProfilerLimits> ProfilerLimits::parse(llvm::StringRef text) {
  ProfilerLimits limits;
  const auto [unit, range] = text.split(':');
  const auto [first, last] = range.split('-');
  limits.unit = unit == "steps" ? Unit::Steps : Unit::Launches;
  if ((unit != "launches" && unit != "steps") ||
      first.getAsInteger(10, limits.first) ||
      (range.contains('-') ? last : first).getAsInteger(10, limits.last) ||
      limits.first == 0 || limits.last < limits.first)
    return makeError(ErrorCode::InvalidArgument,
                     "KILN_PROFILE is \"{}\", expected launches:FIRST-LAST or "
                     "steps:FIRST-LAST, counted from 1",
                     text);
  return limits;
}

/// Windows are never destroyed: threads may launch while the process exits.
static constinit std::atomic<ProfilerWindow *> current{nullptr};
/// The process whose window it is.
static constinit std::atomic<pid_t> owner{0};

ProfilerWindow &ProfilerWindow::ofProcess() {
  observe::seeWatched();
  return *current.load();
}

void ProfilerWindow::open(const ProfilerLimits &limits) {
  const pid_t process = ::getpid();
  if (owner.exchange(process) == process)
    return;
  current = new ProfilerWindow(limits);
  observe::watch(observe::kProfilerWindow);
}

void ProfilerWindow::start(const Driver &driver) {
  std::lock_guard<std::mutex> lock(mutex);
  // A profiler is no part of the work that it watches: a failure stops nothing.
  if (!isOver)
    isStarted = !llvm::errorToBool(startProfilers(driver));
}

void ProfilerWindow::stop(const Driver &driver) {
  std::lock_guard<std::mutex> lock(mutex);
  isOver = true;
  if (std::exchange(isStarted, false))
    llvm::consumeError(stopProfilers(driver));
  observe::unwatch(observe::kProfilerWindow);
}

ProfilerWindow::Launch::Launch(ProfilerWindow &window, const Driver &driver,
                               CudaStream stream)
    : window(window), driver(driver), stream(stream) {
  if (window.limits.unit != Unit::Launches)
    return;
  const uint64_t number = ++window.begun;
  isInside = window.limits.contains(number);
  if (number == window.limits.first)
    window.start(driver);
}

/// The profiler would miss kernels that are yet to run.
static void awaitWork(const Driver &driver, CudaStream stream) {
  CaptureModeGuard relaxed(driver);
  auto status = captureStatus(driver, stream);
  if (!status)
    return llvm::consumeError(status.takeError());
  constexpr std::chrono::seconds kLimit{10};
  if (*status == CaptureStatus::None)
    llvm::consumeError(waitWithLimit(driver, stream, kLimit));
}

ProfilerWindow::Launch::~Launch() {
  if (!isInside || --window.left > 0)
    return;
  awaitWork(driver, stream);
  window.stop(driver);
}

namespace {
/// A step that is open on this thread.
struct OpenStep {
  const ProfilerWindow *window; ///< in a child, also its parent's
  uint64_t number;
};
} // namespace
static thread_local std::vector<OpenStep> openSteps;

void ProfilerWindow::beginStep(const Driver &driver) {
  if (limits.unit != Unit::Steps)
    return;
  const uint64_t number = ++begun;
  openSteps.push_back({this, number});
  if (number == limits.first)
    start(driver);
}

void ProfilerWindow::endStep(const Driver &driver) {
  if (limits.unit != Unit::Steps || openSteps.empty())
    return; // it began before the window was there
  const OpenStep step = openSteps.back();
  openSteps.pop_back();
  if (step.window == this && limits.contains(step.number) && --left == 0)
    stop(driver);
}

} // namespace kiln
