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

llvm::Expected<ProfilerWindow> ProfilerWindow::parse(llvm::StringRef text) {
  ProfilerWindow window;
  auto [unit, range] = text.split(':');
  window.unit = unit == "launches" ? Unit::Launches
                : unit == "steps"  ? Unit::Steps
                                   : Unit::None;
  auto [first, last] = range.split('-');
  const bool isRead =
      !first.getAsInteger(10, window.first) &&
      (range.contains('-') ? !last.getAsInteger(10, window.last)
                           : (window.last = window.first, true));
  if (window.unit == Unit::None || !isRead || window.first == 0 ||
      window.last < window.first)
    return makeError(ErrorCode::InvalidArgument,
                     "KILN_PROFILE is \"{}\", expected launches:FIRST-LAST or "
                     "steps:FIRST-LAST, counted from 1",
                     text);
  return window;
}

ProfilerWindow::ProfilerWindow(const ProfilerWindow &given)
    : unit(given.unit), first(given.first), last(given.last),
      left(given.last - given.first + 1) {}

/// Windows are never destroyed: threads may launch while the process exits.
static constinit std::atomic<ProfilerWindow *> current{nullptr};
/// The process whose window it is.
static constinit std::atomic<pid_t> owner{0};

ProfilerWindow &ProfilerWindow::ofProcess() {
  static ProfilerWindow &none = *new ProfilerWindow;
  ProfilerWindow *window = current.load(std::memory_order_acquire);
  return window ? *window : none;
}

void ProfilerWindow::open(const ProfilerWindow &given) {
  const pid_t process = ::getpid();
  if (owner.exchange(process) == process)
    return;
  current = new ProfilerWindow(given);
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
  observe::seeWatched();
  if (window.unit != Unit::Launches)
    return;
  const uint64_t number = ++window.begun;
  isInside = number >= window.first && number <= window.last;
  if (number == window.first)
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

/// The numbers of the steps that are open on this thread.
static thread_local std::vector<uint64_t> openSteps;

void ProfilerWindow::beginStep(const Driver &driver) {
  observe::seeWatched();
  if (unit != Unit::Steps)
    return;
  const uint64_t number = ++begun;
  openSteps.push_back(number);
  if (number == first)
    start(driver);
}

void ProfilerWindow::endStep(const Driver &driver) {
  if (unit != Unit::Steps || openSteps.empty())
    return; // it began before the window was there
  const uint64_t number = openSteps.back();
  openSteps.pop_back();
  if (number >= first && number <= last && --left == 0)
    stop(driver);
}

} // namespace kiln
