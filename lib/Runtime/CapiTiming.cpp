//===- CapiTiming.cpp - the time of a program's calls ---------------------===//
#include "Runtime/Capi.h"

#include "Call/StructAccess.h"
#include "Runtime/EnteredContext.h"
#include "Trial/StreamTimer.h"

using namespace kiln;

namespace {
/// The options of a call. The size of the L2 comes later.
struct ReadOptions {
  StreamTimerOptions timer;
  bool flushes = false;
};
} // namespace

static llvm::Expected<ReadOptions>
readOptions(const kiln_timing_options &given) {
  constexpr uint32_t kMost = 100000;
  if (auto error = checkInput(given, "options"))
    return error;
  if (given.flags & ~uint32_t(KILN_TIMING_FLUSH_L2))
    return makeError(ErrorCode::Unsupported, "options: flags are {:#x}",
                     given.flags);
  if (given.reserved0 != 0)
    return makeError(ErrorCode::Unsupported,
                     "options: a reserved field is set");
  if (given.trials > kMost || given.calls_per_trial > kMost ||
      given.warmups > int32_t(kMost))
    return makeError(ErrorCode::InvalidArgument,
                     "options: {} trials of {} calls after {} warm-ups, at "
                     "most {} of each are allowed",
                     given.trials, given.calls_per_trial, given.warmups, kMost);
  constexpr int64_t kMostMs = 24 * 3600 * 1000;
  if (given.time_limit_ms < 0 || given.time_limit_ms > kMostMs)
    return makeError(ErrorCode::InvalidArgument,
                     "options: time_limit_ms is {}, 0 to {} are allowed",
                     given.time_limit_ms, kMostMs);
  ReadOptions read;
  read.flushes = given.flags & KILN_TIMING_FLUSH_L2;
  if (given.warmups != 0)
    read.timer.warmups = static_cast<unsigned>(std::max(given.warmups, 0));
  if (given.trials != 0)
    read.timer.trials = given.trials;
  read.timer.calls = given.calls_per_trial;
  if (given.time_limit_ms != 0)
    read.timer.timeLimit = std::chrono::milliseconds(given.time_limit_ms);
  return read;
}

static kiln_timing timingOf(const StreamTiming &measured) {
  constexpr double kUsPerNs = 1e-3;
  kiln_timing timing = KILN_INIT(kiln_timing);
  timing.trials = static_cast<uint32_t>(measured.device.count);
  timing.calls_per_trial = measured.calls;
  timing.calls = measured.allCalls;
  timing.median_us = measured.device.median * kUsPerNs;
  timing.median_low_us = measured.device.ciLow * kUsPerNs;
  timing.median_high_us = measured.device.ciHigh * kUsPerNs;
  timing.mean_us = measured.meanNs * kUsPerNs;
  timing.min_us = measured.minNs * kUsPerNs;
  timing.max_us = measured.maxNs * kUsPerNs;
  timing.deviation_us = measured.deviationNs * kUsPerNs;
  timing.wall_us = measured.meanWallNs * kUsPerNs;
  timing.wall_median_us = measured.wall.median * kUsPerNs;
  timing.host_us = measured.meanHostNs * kUsPerNs;
  return timing;
}

/// The error of a call that answered \p status, with the message that Kiln gave
/// for it, if it did.
static llvm::Error callError(kiln_status status, bool hasMessage) {
  if (!hasMessage)
    return makeError(static_cast<ErrorCode>(status),
                     "the timed call returned the status {} ({})", status,
                     kiln_status_name(status));
  return errorOf({static_cast<ErrorCode>(status),
                  std::string("the timed call: ") + kiln_last_error_message(),
                  kiln_last_driver_error()});
}

namespace {
/// One kiln_time_calls.
struct Timed {
  Engine &engine;
  kiln_timed_call call;
  void *user;
  CudaStream stream;

  llvm::Expected<StreamTiming> run(ReadOptions options) const;
  llvm::Error refuseCaptured(const Driver &driver) const;
  llvm::Error callOnce() const {
    const uint64_t before = reportsOfThread();
    const kiln_status status = call(user, stream);
    if (status == KILN_SUCCESS) [[likely]]
      return llvm::Error::success();
    return callError(status, reportsOfThread() != before);
  }
};
} // namespace

/// NotPrepared while the stream is being captured.
llvm::Error Timed::refuseCaptured(const Driver &driver) const {
  auto capture = captureStatus(driver, stream);
  if (!capture)
    return capture.takeError();
  if (*capture == CaptureStatus::None)
    return llvm::Error::success();
  return makeError(ErrorCode::NotPrepared,
                   "the stream is being captured: time calls outside of "
                   "captures");
}

llvm::Expected<StreamTiming> Timed::run(ReadOptions options) const {
  auto driver = engine.driver();
  if (!driver)
    return driver.takeError();
  auto context = findContext(**driver, stream);
  if (!context)
    return context.takeError();
  auto current = CurrentContext::enter(**driver, *context);
  if (!current)
    return current.takeError();
  if (auto error = refuseCaptured(**driver))
    return error;
  if (options.flushes) {
    auto entered = EnteredContext::of(engine, *context);
    if (!entered)
      return entered.takeError();
    options.timer.flushBytes = 2 * uint64_t(entered->state().model.l2Bytes);
    options.timer.gauge = engine.memory().scratch;
  }
  bool isFirst = true;
  auto call = [&]() -> llvm::Error {
    if (llvm::Error error = callOnce())
      return error;
    // Events of a capture tell no time.
    return std::exchange(isFirst, false) ? refuseCaptured(**driver)
                                         : llvm::Error::success();
  };
  return timeCalls(**driver, stream, call, options.timer);
}

extern "C" {

kiln_status kiln_time_calls(kiln_engine *engine, kiln_timed_call call,
                            void *user, kiln_stream stream,
                            const kiln_timing_options *options,
                            kiln_timing *timing) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!engine || !call)
      return nullArgument(engine ? "call" : "engine");
    if (auto error = checkOutput(timing, "timing"))
      return error;
    const kiln_timing_options usual = KILN_INIT(kiln_timing_options);
    auto read = readOptions(options ? *options : usual);
    if (!read)
      return read.takeError();
    auto measured = Timed{*engine->engine, call, user, stream}.run(*read);
    if (!measured)
      return measured.takeError();
    fillOutput(timing, timingOf(*measured));
    return llvm::Error::success();
  });
}

} // extern "C"
