//===- timing.h - the time of a program's calls ---------------------------===//
//
// Times anything that a program enqueues on a stream: calls of Kiln, of another
// library, kernels of its own. Included by kiln.h, whose head states the rules
// that all of it follows.
//
// A trial is a row of calls between two events of the stream. Ahead of it goes
// a call that is not timed, so that the device is at work when the first timed
// call arrives; a trial of one call, where that is asked for, has none and
// measures the latency of an idle stream, too. Where host_us is as long as
// median_us, the device waited for the host: a graph of the calls is faster.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_TIMING_H
#define KILN_TIMING_H

#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Enqueues the work to time on \p stream, and nothing elsewhere that later
/// work of that stream does not wait for. A status other than KILN_SUCCESS
/// ends the timing.
typedef kiln_status (*kiln_timed_call)(void *user, kiln_stream stream);

enum kiln_timing_flag {
  /// Empties the L2 before each trial, by writing twice its size. A trial is
  /// then one call unless calls_per_trial says else, of which only the first
  /// finds nothing in the L2. The memory comes from a pool in the order of the
  /// stream, and goes at the end.
  KILN_TIMING_FLUSH_L2 = 1
};

/// Options of kiln_time_calls. Null options are the defaults.
typedef struct kiln_timing_options {
  uint32_t struct_size;
  uint32_t flags;  ///< kiln_timing_flag
  int32_t warmups; ///< calls ahead of all trials; 0: 3; negative: none
  uint32_t trials; ///< 0: 20; at most 100000
  /// Calls that a trial times; at most 100000. 0: as many as make it last 0.4
  /// ms, since events resolve about 0.5 us, but no more than 1000.
  uint32_t calls_per_trial;
  uint32_t reserved0;
  /// No trial but the first begins after it; 0: 1000. Warm-ups count.
  int64_t time_limit_ms;
  uint64_t reserved[5];
} kiln_timing_options;

/// Times of one call, in us.
typedef struct kiln_timing {
  uint32_t struct_size;
  uint32_t trials;          ///< that were taken
  uint32_t calls_per_trial; ///< that were timed in each
  uint32_t reserved0;
  uint64_t calls; ///< that were made in all
  // On the device, by events: over the trials.
  double median_us;
  /// The 95 % confidence interval of the median, by order statistics; with
  /// fewer than 6 trials the range of all.
  double median_low_us, median_high_us;
  double mean_us, min_us, max_us;
  double deviation_us; ///< standard deviation; 0 with one trial
  // By the host's clock: from the first call of a trial until the stream was
  // empty, over the calls. 0 with KILN_TIMING_FLUSH_L2.
  double wall_us;        ///< mean over all trials
  double wall_median_us; ///< of the trials
  /// Until a timed call returned, on the host: mean over all trials.
  double host_us;
  uint64_t reserved[8];
} kiln_timing;

/// Times \p call, which this thread calls with \p user and \p stream, the
/// context of the stream being current.
///
/// Waits for all work of \p stream before the first trial and after each, by
/// polling an event for 2 ms and then every 0.05 ms; so the stream is empty
/// when it returns, also after a failure. Captures of other threads and this
/// call do not disturb each other, on any stream but the legacy default one.
/// \p options and \p timing are the caller's. May take as long as the warm-ups
/// and one trial, or time_limit_ms after them.
/// Errors: the status of a call that failed, with its message if Kiln has one;
/// KILN_NOT_PREPARED if \p stream is being captured: nothing is then called;
/// KILN_INVALID_ARGUMENT; KILN_UNSUPPORTED for unknown flags;
/// KILN_DEVICE_OUT_OF_MEMORY for a flush; errors of the driver, such as
/// KILN_CONTEXT_DEAD.
KILN_API kiln_status kiln_time_calls(kiln_engine *engine, kiln_timed_call call,
                                     void *user, kiln_stream stream,
                                     const kiln_timing_options *options,
                                     kiln_timing *timing) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_TIMING_H
