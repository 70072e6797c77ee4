//===- StreamTimer.cpp - the time of calls on a stream --------------------===//
#include "Trial/StreamTimer.h"

#include "Driver/Context.h"
#include "Driver/DeviceMemory.h"
#include "Driver/Event.h"
#include "Trial/Sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

namespace kiln {

namespace {

using Clock = std::chrono::steady_clock;

double nsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

/// A caller's work takes the time that it takes.
constexpr std::chrono::hours kNoLimit(24 * 365);

/// Waits for \p stream as waitWithLimit() does, beside captures of other
/// threads.
llvm::Error waitFor(const Driver &driver, CudaStream stream) {
  CaptureModeGuard relaxed(driver);
  return waitWithLimit(driver, stream, kNoLimit);
}

/// Two events of a stream.
class Interval {
public:
  static llvm::Expected<Interval> create(const Driver &driver,
                                         CudaStream stream) {
    CaptureModeGuard relaxed(driver);
    auto start = Event::create(driver);
    if (!start)
      return start.takeError();
    auto stop = Event::create(driver);
    if (!stop)
      return stop.takeError();
    return Interval(driver, stream, std::move(*start), std::move(*stop));
  }
  llvm::Error begin() { return start.record(stream); }
  /// Waits for the end.
  llvm::Expected<double> end() {
    if (llvm::Error error = stop.record(stream))
      return error;
    CaptureModeGuard relaxed(driver);
    if (llvm::Error error = waitWithLimit(stop, kNoLimit))
      return error;
    return elapsedNs(driver, start, stop);
  }

private:
  Interval(const Driver &driver, CudaStream stream, Event start, Event stop)
      : driver(driver), stream(stream), start(std::move(start)),
        stop(std::move(stop)) {}

  const Driver &driver;
  CudaStream stream;
  Event start, stop;
};

/// One trial, in ns of a call.
struct TrialTime {
  double device = 0, wall = 0, host = 0;
};

class StreamTimer {
public:
  StreamTimer(const Driver &driver, CudaStream stream, TimedCall call,
              const StreamTimerOptions &options, Interval interval)
      : driver(driver), stream(stream), call(call), options(options),
        interval(std::move(interval)) {}

  llvm::Expected<StreamTiming> run();

private:
  llvm::Error takeFlushMemory();
  llvm::Error enqueue(unsigned count);
  llvm::Error chooseCalls();
  llvm::Error probe(unsigned count, double &ns);
  llvm::Expected<TrialTime> takeTrial();
  llvm::Error takeTrials();
  StreamTiming summarise() const;

  const Driver &driver;
  CudaStream stream;
  TimedCall call;
  const StreamTimerOptions &options;
  Interval interval;
  const Clock::time_point deadline = Clock::now() + options.timeLimit;
  std::optional<MemoryPool> pool;
  DeviceMemory flushed;
  unsigned calls = 0;
  uint64_t allCalls = 0;
  std::vector<double> device, wall, host;
};

} // namespace

llvm::Error StreamTimer::takeFlushMemory() {
  if (options.flushBytes == 0)
    return llvm::Error::success();
  CaptureModeGuard relaxed(driver);
  auto made = MemoryPool::create(driver, options.gauge);
  if (!made)
    return made.takeError();
  pool.emplace(std::move(*made));
  auto memory = pool->allocate(options.flushBytes, stream);
  if (!memory)
    return addContext(memory.takeError(), "memory to flush the L2 with");
  flushed = std::move(*memory);
  return llvm::Error::success();
}

llvm::Error StreamTimer::enqueue(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    ++allCalls;
    if (llvm::Error error = call())
      return error;
  }
  return llvm::Error::success();
}

/// The time of each of \p count calls, about.
llvm::Error StreamTimer::probe(unsigned count, double &ns) {
  if (llvm::Error error = interval.begin())
    return error;
  if (llvm::Error error = enqueue(count))
    return error;
  auto elapsed = interval.end();
  if (!elapsed)
    return elapsed.takeError();
  ns = *elapsed / count;
  return llvm::Error::success();
}

llvm::Error StreamTimer::chooseCalls() {
  calls = options.calls;
  if (calls == 0 && !flushed.empty())
    calls = 1;
  if (calls != 0)
    return llvm::Error::success();
  // Events resolve about 500 ns.
  constexpr double kTrialNs = 400e3;
  constexpr unsigned kProbes = 8, kMostCalls = 1000;
  double ns = 0;
  if (llvm::Error error = probe(1, ns))
    return error;
  // A short one is mostly the latency of an idle stream.
  if (ns < kTrialNs / kProbes)
    if (llvm::Error error = probe(kProbes, ns))
      return error;
  calls =
      static_cast<unsigned>(std::clamp(std::ceil(kTrialNs / std::max(ns, 1.0)),
                                       1.0, static_cast<double>(kMostCalls)));
  return llvm::Error::success();
}

llvm::Expected<TrialTime> StreamTimer::takeTrial() {
  const bool isFlushed = !flushed.empty();
  if (isFlushed)
    if (llvm::Error error =
            fillAsync(driver, flushed.address(), 0, flushed.bytes(), stream))
      return error;
  const unsigned ahead = isFlushed || options.calls == 1 ? 0 : 1;
  const Clock::time_point begin = Clock::now();
  if (llvm::Error error = enqueue(ahead))
    return error;
  if (llvm::Error error = interval.begin())
    return error;
  const Clock::time_point enqueued = Clock::now();
  if (llvm::Error error = enqueue(calls))
    return error;
  TrialTime time;
  time.host = nsSince(enqueued) / calls;
  auto elapsed = interval.end();
  if (!elapsed)
    return elapsed.takeError();
  time.wall = isFlushed ? 0 : nsSince(begin) / (calls + ahead);
  time.device = *elapsed / calls;
  return time;
}

llvm::Error StreamTimer::takeTrials() {
  while (device.size() < options.trials &&
         (device.empty() || Clock::now() < deadline)) {
    auto time = takeTrial();
    if (!time)
      return time.takeError();
    device.push_back(time->device);
    wall.push_back(time->wall);
    host.push_back(time->host);
  }
  return llvm::Error::success();
}

static double meanOf(llvm::ArrayRef<double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

StreamTiming StreamTimer::summarise() const {
  StreamTiming timing;
  timing.calls = calls;
  timing.allCalls = allCalls;
  timing.device = summarizeSamples(device);
  timing.meanNs = meanOf(device);
  const auto [least, most] = std::minmax_element(device.begin(), device.end());
  timing.minNs = *least;
  timing.maxNs = *most;
  double squares = 0;
  for (double ns : device)
    squares += (ns - timing.meanNs) * (ns - timing.meanNs);
  if (device.size() > 1)
    timing.deviationNs =
        std::sqrt(squares / static_cast<double>(device.size() - 1));
  timing.wall = summarizeSamples(wall);
  timing.meanWallNs = meanOf(wall);
  timing.meanHostNs = meanOf(host);
  return timing;
}

llvm::Expected<StreamTiming> StreamTimer::run() {
  auto measure = [&]() -> llvm::Error {
    if (llvm::Error error = takeFlushMemory())
      return error;
    if (llvm::Error error = enqueue(options.warmups))
      return error;
    // Nothing that was enqueued earlier is timed.
    if (llvm::Error error = waitFor(driver, stream))
      return error;
    if (llvm::Error error = chooseCalls())
      return error;
    return takeTrials();
  };
  llvm::Error error = measure();
  if (!error)
    return summarise();
  // Nothing is left pending. Where the device failed, the wait fails as well.
  llvm::consumeError(waitFor(driver, stream));
  return error;
}

llvm::Expected<StreamTiming> timeCalls(const Driver &driver, CudaStream stream,
                                       TimedCall call,
                                       const StreamTimerOptions &options) {
  auto interval = Interval::create(driver, stream);
  if (!interval)
    return interval.takeError();
  return StreamTimer(driver, stream, call, options, std::move(*interval)).run();
}

llvm::Expected<double> timeOnce(const Driver &driver, CudaStream stream,
                                TimedCall enqueue) {
  auto interval = Interval::create(driver, stream);
  if (!interval)
    return interval.takeError();
  llvm::Error error = interval->begin();
  if (!error)
    error = enqueue();
  if (!error)
    return interval->end();
  llvm::consumeError(waitFor(driver, stream));
  return error;
}

} // namespace kiln
