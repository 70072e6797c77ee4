//===- StreamTimer.h - the time of calls on a stream ----------------------===//
//
// Times work that a caller enqueues as programs do: call after call on a stream
// of its own choice, without graphs. Sampling.h compares launches with each
// other; this tells what one costs its user, on the device and on the host.
//
// A trial is a row of calls between two events. One more call, which is not
// timed, goes ahead of the first event: the device is then at work when the
// first timed call is enqueued, and the trial does not begin with the latency
// of an idle stream. A trial of a single call is the exception, if the caller
// asks for it: it measures that latency, too. Where the host enqueues calls
// slower than the device runs them, the device waits for it, and its time per
// call is the host's; a graph of the calls has no such limit.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"
#include "Support/ByteGauge.h"
#include "Trial/Statistics.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <chrono>
#include <cstdint>

namespace kiln {

struct StreamTimerOptions {
  unsigned warmups = 3; ///< calls ahead of all trials
  unsigned trials = 20; ///< at least 1
  /// Calls that a trial times; 0: as many as make it last 0.4 ms, at most 1000,
  /// and one where the L2 is flushed.
  unsigned calls = 0;
  /// No trial but the first begins after it.
  std::chrono::milliseconds timeLimit{1000};
  /// Memory that is written before each trial, to empty the L2; 0: none. It
  /// comes from a pool, in the order of the stream, and counts in `gauge`.
  uint64_t flushBytes = 0;
  ByteGaugePtr gauge = nullptr;
};

/// Times of a call, in ns.
struct StreamTiming {
  /// On the device, by the events of each trial.
  SampleSummary device;
  double meanNs = 0, minNs = 0, maxNs = 0;
  double deviationNs = 0; ///< of the trials, with count - 1; 0 for one trial
  /// On the host's clock, from the beginning of a trial until the stream was
  /// empty, over its calls. Not measured with a flush.
  SampleSummary wall;
  double meanWallNs = 0;
  double meanHostNs = 0; ///< until a call returned
  unsigned calls = 0;    ///< that each trial timed
  uint64_t allCalls = 0; ///< that were made
};

/// Enqueues the work to time.
using TimedCall = llvm::function_ref<llvm::Error()>;

/// Times \p call, which enqueues work on \p stream, a stream of the current
/// context that is not being captured. Waits for the stream before and after,
/// and after each trial, by events: it ends no capture of another thread, and a
/// capture of another thread does not disturb it. Errors: those of \p call,
/// after which no more calls are made and the stream is empty; those of the
/// driver.
llvm::Expected<StreamTiming> timeCalls(const Driver &driver, CudaStream stream,
                                       TimedCall call,
                                       const StreamTimerOptions &options);

/// The time between two events around the work that \p enqueue puts on \p
/// stream, in ns; waits for it. As above.
llvm::Expected<double> timeOnce(const Driver &driver, CudaStream stream,
                                TimedCall enqueue);

} // namespace kiln
