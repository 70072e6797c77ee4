//===- profile.h - what profilers, traces and logs of waits see -----------===//
//
// Included by kiln.h, whose head states the rules that all of it follows.
//
// Kiln tells profilers what it does: ranges of NVTX in the domain "kiln", for
// Nsight Systems and Nsight Compute; a trace in a file (KILN_TRACE); a ledger
// of the calls that waited. An engine adds its own steps and layers. Watching
// is a matter of the process and not of an engine. docs/profiling.md is a
// guide.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_PROFILE_H
#define KILN_PROFILE_H

#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Ranges of the engine that embeds Kiln
//===----------------------------------------------------------------------===//

typedef int32_t kiln_profile_kind;
enum kiln_profile_kind_value {
  KILN_PROFILE_STEP = 10,  ///< of a model: all layers for one batch
  KILN_PROFILE_LAYER = 20, ///< of a step
  KILN_PROFILE_OTHER = 30
};

/// Opens a range of the calling thread, which encloses what the thread does
/// until kiln_profile_end. Ranges nest. A replay of a graph makes no call of
/// Kiln, so it is told apart only by the engine's own ranges around it.
/// Waits for nothing; without a tool or a trace it costs some nanoseconds. With
/// KILN_PROFILE=steps:A-B the A-th KILN_PROFILE_STEP of the process starts the
/// profilers, which takes as long as they do.
/// \p name is copied. Errors: KILN_INVALID_ARGUMENT for null; KILN_UNSUPPORTED
/// for another kind.
KILN_API kiln_status kiln_profile_begin(kiln_engine *engine,
                                        kiln_profile_kind kind,
                                        const char *name) KILN_NOEXCEPT;

/// Closes the range that the calling thread opened last. Costs as
/// kiln_profile_begin. Errors: KILN_INVALID_ARGUMENT if there is none.
KILN_API kiln_status kiln_profile_end(kiln_engine *engine) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// The window of profilers
//
// `nsys profile --capture-range=cudaProfilerApi` and `ncu --profile-from-start
// off` record only between cuProfilerStart and cuProfilerStop of the driver.
// These calls bracket launches, and so does the environment:
//
// - KILN_PROFILE=launches:1000-1100: launches of all engines of the process;
// - KILN_PROFILE=steps:10-12: ranges of the kind KILN_PROFILE_STEP.
//
// Numbers count from 1. Another text fails kiln_engine_create.
// The end of a window of launches waits for the work of its last stream.
//===----------------------------------------------------------------------===//

/// Calls cuProfilerStart, or Stop, in the calling thread's current context.
/// Takes as long as the profiler does. Errors: KILN_DRIVER_ERROR;
/// KILN_INVALID_ARGUMENT without a current context.
KILN_API kiln_status kiln_profiler_start(kiln_engine *engine) KILN_NOEXCEPT;
KILN_API kiln_status kiln_profiler_stop(kiln_engine *engine) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// The trace
//===----------------------------------------------------------------------===//

/// Starts a trace of all of Kiln's work in this process, in the form of
/// Chrome's trace events, which ui.perfetto.dev shows; KILN_TRACE=path does so
/// when the first engine is made. "%p" in \p path stands for the number of the
/// process, which is also added to the name where another process writes. The
/// file is complete JSON at all times; `kiln trace` reads it. Launches that hit
/// are part of it if KILN_LAUNCH_RANGES=1.
/// Waits for the file system. Errors: KILN_IO; KILN_IN_PROGRESS while there is
/// a trace.
KILN_API kiln_status kiln_trace_start(const char *path) KILN_NOEXCEPT;

/// Ends the trace, if there is one. Waits for the file system.
KILN_API kiln_status kiln_trace_stop(void) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// The ledger of waits
//===----------------------------------------------------------------------===//

#define KILN_WAIT_PROBLEM_BYTES 512

/// A call that took longer than a millisecond. Launches that hit are not timed
/// unless KILN_WAITS=hits. Names are in static storage.
typedef struct kiln_wait {
  uint32_t struct_size;
  uint32_t reserved0;
  const char *call;       ///< the function, "kiln_gemm"; "launch" for a hit
  const char *phase;      ///< in which it spent the most time, "compile"
  const char *reason;     ///< of that phase, "a kernel is compiled"; or ""
  uint64_t start_unix_ns; ///< since 1970
  uint64_t elapsed_ns;    ///< of the whole call
  uint64_t phase_ns;      ///< of this, in that phase
  int64_t thread;         ///< the system's number of the calling thread
  /// Canonical text, cut to the room and ended by a null byte; "" if unknown.
  char problem[KILN_WAIT_PROBLEM_BYTES];
  uint64_t reserved[6];
} kiln_wait;

/// Fills \p waits with entries of the engine's ledger, oldest first, up to
/// \p capacity, and sets \p count to their number. \p position, zeroed before
/// the first call, remembers the last one, so that the next call returns what
/// came since; an engine keeps the latest 1024. The first element's struct_size
/// is the array's stride, and the call sets that of the others.
/// Waits for nothing. All of it is the caller's. Errors: KILN_INVALID_ARGUMENT
/// for null and for a stride that is no multiple of 8.
KILN_API kiln_status kiln_waits(kiln_engine *engine, uint64_t *position,
                                kiln_wait *waits, size_t capacity,
                                size_t *count) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_PROFILE_H
