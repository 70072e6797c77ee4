//===- ProfilerWindow.cpp - the launches that profilers record ------------===//
#include "Runtime/ProfilerWindow.h"

#include "Driver/Context.h"
#include "Driver/Profiler.h"
#include "Observe/Watch.h"
#include "Support/Error.h"
#include "Trial/Sampling.h"

#include <chrono>
#include <mutex>

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
    : unit(given.unit), first(given.first), last(given.last) {}

ProfilerWindow &ProfilerWindow::ofProcess() {
  // Never destroyed: threads may launch while the process exits.
  static ProfilerWindow &window = *new ProfilerWindow;
  return window;
}

void ProfilerWindow::open(const ProfilerWindow &given) {
  static std::once_flag isOpen;
  std::call_once(isOpen, [&] {
    unit = given.unit;
    first = given.first;
    last = given.last;
    observe::watch(observe::kProfilerWindow);
  });
}

void ProfilerWindow::start(const Driver &driver) {
  // A profiler is no part of the work that it watches: a failure stops nothing.
  isStarted = !llvm::errorToBool(startProfilers(driver));
}

void ProfilerWindow::stop(const Driver &driver) {
  if (isStarted.exchange(false))
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
  isLast = number == window.last;
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
  if (!isLast)
    return;
  awaitWork(driver, stream);
  window.stop(driver);
}

void ProfilerWindow::beginStep(const Driver &driver) {
  observe::seeWatched();
  if (unit == Unit::Steps && ++begun == first)
    start(driver);
}

void ProfilerWindow::endStep(const Driver &driver) {
  if (unit == Unit::Steps && ++ended == last)
    stop(driver);
}

} // namespace kiln
