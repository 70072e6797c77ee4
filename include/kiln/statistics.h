//===- statistics.h - counts of an engine ---------------------------------===//
//
// Included by kiln.h, whose head states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_STATISTICS_H
#define KILN_STATISTICS_H

#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Counts since the engine was made. Each is exact when no call runs.
typedef struct kiln_statistics {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t launches;
  /// Plans that launches and kiln_plan_acquire did not find in the table.
  uint64_t dispatch_misses;
  uint64_t fallback_launches;
  uint64_t plans;        ///< loaded now
  uint64_t cache_hits;   ///< artifacts read from disk
  uint64_t cache_misses; ///< artifacts not found there
  uint64_t cache_faults; ///< damaged or foreign entries, failed writes
  uint64_t compiles;
  uint64_t compile_failures;
  uint64_t trials;         ///< also of problems in progress
  uint64_t trial_failures; ///< wrong, crashed or timed-out configs
  uint64_t compile_ns;     ///< summed over threads
  uint64_t tune_ns;
  uint64_t load_ns;
  uint64_t arena_bytes; ///< device memory of arenas now
  // Counts of the mode background; 0 in other modes.
  uint64_t background_pending; ///< layers, ranges and problems to be looked at
  uint64_t background_done;    ///< of these, looked at
  uint64_t background_swaps;   ///< values that got a better plan
  uint64_t background_gpu_ns;  ///< GPU time of trials, an upper bound
  uint64_t background_paused;  ///< not 0: the background is paused
  uint64_t background_held_ns; ///< time that captures kept trials waiting
  /// Entries that this engine removed to keep the cache under its limit.
  uint64_t cache_evictions;
  // Memory that the engine holds. A peak is the most at one time since the
  // engine was made or kiln_reset_peaks was called.
  uint64_t arena_peak_bytes;
  /// Device memory of loaded kernels, also of trials: code, constants and
  /// variables as their files say. The driver takes more, in pages of its own.
  uint64_t module_bytes, module_peak_bytes;
  /// Device memory of trials: operands, references and workspaces.
  uint64_t scratch_bytes, scratch_peak_bytes;
  /// Host memory of the table of plans, and of kernels and entries of the cache
  /// that are kept in memory: their bytes as files, and 1 KiB for each. An
  /// entry takes several times as much once it is parsed, and plans, compilers
  /// and the driver take memory that is not counted.
  uint64_t host_bytes, host_peak_bytes;
  // Calls that took longer than a millisecond: see kiln_waits.
  uint64_t waits;           ///< their number
  uint64_t wait_ns;         ///< their time
  uint64_t longest_wait_ns; ///< of one call
  uint64_t reserved[8];
} kiln_statistics;

/// Tells the engine's counts.
/// Waits for nothing. \p statistics belongs to the caller.
/// Errors: KILN_INVALID_ARGUMENT.
KILN_API kiln_status kiln_get_statistics(
    kiln_engine *engine, kiln_statistics *statistics) KILN_NOEXCEPT;

/// Makes the bytes that the engine holds now its peaks. Bytes that other
/// threads take meanwhile count.
/// Waits for nothing. Errors: KILN_INVALID_ARGUMENT.
KILN_API kiln_status kiln_reset_peaks(kiln_engine *engine) KILN_NOEXCEPT;

/// Writes all fields of kiln_statistics as a text of OpenMetrics 1.0, which
/// Prometheus and its relatives read: a family of metrics for each field, named
/// "kiln_" and the field, with times in seconds, and kiln_build_info, whose
/// label has the version. Serve it as "application/openmetrics-text;
/// version=1.0.0; charset=utf-8". Where a process has several engines, the
/// caller adds a label to tell them apart.
/// Waits for nothing. Writes as kiln_problem_text (text.h) does; 16 KiB are
/// enough for this version.
/// Errors: KILN_INVALID_ARGUMENT.
KILN_API kiln_status kiln_openmetrics(kiln_engine *engine, char *buffer,
                                      size_t capacity,
                                      size_t *length) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_STATISTICS_H
