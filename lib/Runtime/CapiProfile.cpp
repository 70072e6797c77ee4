//===- CapiProfile.cpp - ranges, profilers, traces, waits -----------------===//
#include "Runtime/Capi.h"

#include "Call/StructAccess.h"
#include "Driver/Profiler.h"
#include "Observe/ProfileRange.h"
#include "Observe/Trace.h"
#include "Runtime/ProfilerWindow.h"

using namespace kiln;

static llvm::Expected<observe::Phase> phaseOf(kiln_profile_kind kind) {
  switch (kind) {
  case KILN_PROFILE_STEP:
    return observe::Phase::Step;
  case KILN_PROFILE_LAYER:
    return observe::Phase::Layer;
  case KILN_PROFILE_OTHER:
    return observe::Phase::Range;
  default:
    return makeError(ErrorCode::Unsupported, "kiln_profile_kind {} is unknown",
                     kind);
  }
}

/// The driver, where steps are counted for profilers.
static llvm::Expected<const Driver *> driverToCount(kiln_engine &engine,
                                                    observe::Phase phase) {
  const bool counts = phase == observe::Phase::Step &&
                      (observe::watching() & observe::kProfilerWindow);
  return counts ? engine.engine->driver() : nullptr;
}

static kiln_status tellProfilers(kiln_engine *engine,
                                 llvm::Error (&tell)(const Driver &)) noexcept {
  return guardedOf(engine, [&]() -> llvm::Error {
    auto driver = engine->engine->driver();
    return driver ? tell(**driver) : driver.takeError();
  });
}

/// Writes an entry of the ledger as kiln.h has it.
static kiln_wait waitOf(const observe::WaitEntry &entry) {
  kiln_wait wait = KILN_INIT(kiln_wait);
  wait.call = entry.call;
  wait.phase = nameOf(entry.phase).data();
  wait.reason = entry.reason;
  wait.start_unix_ns = entry.startUnixNs;
  wait.elapsed_ns = entry.elapsedNs;
  wait.phase_ns = entry.phaseNs[static_cast<size_t>(entry.phase)];
  wait.thread = entry.thread;
  entry.problem.copy(wait.problem, sizeof(wait.problem) - 1);
  return wait;
}

extern "C" {

kiln_status kiln_profile_begin(kiln_engine *engine, kiln_profile_kind kind,
                               const char *name) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!engine || !name)
      return nullArgument(engine ? "name" : "engine");
    auto phase = phaseOf(kind);
    if (!phase)
      return phase.takeError();
    auto driver = driverToCount(*engine, *phase);
    if (!driver)
      return driver.takeError();
    if (*driver)
      ProfilerWindow::ofProcess().beginStep(**driver);
    observe::beginRange(*phase, name);
    return llvm::Error::success();
  });
}

kiln_status kiln_profile_end(kiln_engine *engine) KILN_NOEXCEPT {
  return guardedOf(engine, [&]() -> llvm::Error {
    const std::optional<observe::Phase> phase = observe::endRange();
    if (!phase)
      return makeError(ErrorCode::InvalidArgument,
                       "this thread has no range that is open");
    auto driver = driverToCount(*engine, *phase);
    if (!driver)
      return driver.takeError();
    if (*driver)
      ProfilerWindow::ofProcess().endStep(**driver);
    return llvm::Error::success();
  });
}

kiln_status kiln_profiler_start(kiln_engine *engine) KILN_NOEXCEPT {
  return tellProfilers(engine, startProfilers);
}

kiln_status kiln_profiler_stop(kiln_engine *engine) KILN_NOEXCEPT {
  return tellProfilers(engine, stopProfilers);
}

kiln_status kiln_trace_start(const char *path) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!path)
      return nullArgument("path");
    if (!*path)
      return makeError(ErrorCode::InvalidArgument, "path is empty");
    auto started = observe::startTrace(path);
    return started ? llvm::Error::success() : started.takeError();
  });
}

kiln_status kiln_trace_stop(void) KILN_NOEXCEPT {
  observe::stopTrace();
  return KILN_SUCCESS;
}

kiln_status kiln_waits(kiln_engine *engine, uint64_t *position,
                       kiln_wait *waits, size_t capacity,
                       size_t *count) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!engine || !position || !count)
      return nullArgument(!engine     ? "engine"
                          : !position ? "position"
                                      : "count");
    *count = 0;
    if (auto error = checkOutputArray(waits, capacity, "waits"))
      return error;
    const auto entries = engine->engine->waits().entries(*position, capacity);
    for (size_t i = 0; i < entries.size(); ++i)
      fillElement(waits, i, waitOf(entries[i]));
    *count = entries.size();
    return llvm::Error::success();
  });
}

} // extern "C"
