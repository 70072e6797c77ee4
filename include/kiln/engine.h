//===- engine.h - the object that holds all -------------------------------===//
//
// The hooks and options of an engine, and how it is made and ended. Included by
// kiln.h, whose head states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_ENGINE_H
#define KILN_ENGINE_H

#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Hooks
//
// Hooks are called from any thread, also several at once, and never with a lock
// of Kiln's held. No hook is called on a dispatch hit, except for the allocator
// where a stream has no arena yet or needs a larger one, and, with
// KILN_WAITS=hits, KILN_EVENT_WAIT. A hook may call Kiln, but not end the
// object that calls it and not wait for a task. A first call that a hook makes
// may get the estimator's choice; it gets KILN_IN_PROGRESS for the problem that
// its caller works on, and KILN_NO_CANDIDATE where all configs that were tried
// compute wrong results. A hook must not throw or jump out.
//===----------------------------------------------------------------------===//

/// Receives a message without a line end; valid during the call.
typedef void (*kiln_log_fn)(void *user, kiln_log_level level,
                            const char *message);

typedef int32_t kiln_event_kind;
enum kiln_event_kind_value {
  KILN_EVENT_MISS = 10,        ///< a problem had no loaded plan
  KILN_EVENT_COMPILED = 20,    ///< an artifact was compiled, or failed to be
  KILN_EVENT_LOADED = 30,      ///< a context got a plan's kernels
  KILN_EVENT_TRIAL = 40,       ///< one config was measured, or rejected
  KILN_EVENT_CHOSEN = 50,      ///< a plan now serves the problem
  KILN_EVENT_PENDING = 55,     ///< the background will look for a better plan
  KILN_EVENT_CACHE_FAULT = 60, ///< an entry was damaged, foreign or not written
  /// A call took longer than a ms; `message` says why. Calls that the hook
  /// makes itself are in the ledger of waits without an event.
  KILN_EVENT_WAIT = 70
};

/// One step of Kiln's work, for metrics and traces. Strings may be null and are
/// valid during the call.
typedef struct kiln_event {
  uint32_t struct_size;
  kiln_event_kind kind;
  kiln_status status;  ///< of the step
  kiln_source source;  ///< of a choice
  const char *problem; ///< canonical text
  const char *config;
  const char *key;     ///< of the artifact or record; the function that waited
  const char *message; ///< of a failure
  double elapsed_ms;   ///< wall time of the step
  double predicted_us, measured_us; ///< of the kernel; 0: not known
  uint64_t reserved[8];
} kiln_event;

typedef void (*kiln_event_fn)(void *user, const kiln_event *event);

/// Device memory for arenas. Trials take their memory, for milliseconds, from
/// the driver. The stream's context is current during the call.
typedef struct kiln_allocator {
  uint32_t struct_size;
  uint32_t flags; ///< none yet
  void *user;
  /// Returns memory aligned to `alignment` (a power of two, at most 512) that
  /// is usable on `stream` in stream order, or null if there is none.
  void *(*allocate)(void *user, size_t bytes, size_t alignment,
                    kiln_stream stream);
  /// `stream` is the one of `allocate` if unused memory is given back at once.
  /// In kiln_engine_destroy it is null: no launch uses the memory any more, and
  /// its stream may be gone.
  void (*deallocate)(void *user, void *data, size_t bytes, kiln_stream stream);
  uint64_t reserved[4];
} kiln_allocator;

/// Runs the tasks of kiln_prepare on the caller's threads. Compilations run on
/// threads of Kiln's own: one that hangs must be abandoned with its thread.
typedef struct kiln_executor {
  uint32_t struct_size;
  uint32_t flags; ///< none yet
  void *user;
  /// Arranges for work(argument) to be called exactly once, on any thread, at
  /// once or later. After another status than KILN_SUCCESS it does not call
  /// work: Kiln runs it on a thread of its own.
  kiln_status (*submit)(void *user, void (*work)(void *argument),
                        void *argument);
  uint64_t reserved[4];
} kiln_executor;

//===----------------------------------------------------------------------===//
// Engine
//===----------------------------------------------------------------------===//

enum kiln_engine_flag {
  /// Neither read nor write any cache on disk.
  KILN_ENGINE_MEMORY_ONLY = 1,
  /// Read the cache, write nothing.
  KILN_ENGINE_READ_ONLY = 2,
  /// Take no cached artifact that another NVRTC build compiled.
  KILN_ENGINE_TOOLCHAIN_EXACT = 4,
  /// Read no environment variable of Kiln's; HOME and XDG_CACHE_HOME neither.
  KILN_ENGINE_IGNORE_ENVIRONMENT = 8
};

/// Options of an engine. An option given here beats its environment variable.
typedef struct kiln_engine_options {
  uint32_t struct_size;
  kiln_mode mode;
  uint32_t flags; ///< kiln_engine_flag
  /// Host threads that compile; 0: as many as CPUs and cgroup memory allow, in
  /// the mode background half as many.
  int32_t threads;
  /// Wall time that the first call of a problem may spend on compiling further
  /// candidates and on trials of its layer: see KILN_MODE_TUNE. A first kernel
  /// is always finished; if it is late, its trial gets half a second. The first
  /// comparison with the reference is finished, too, if it ends within
  /// trial_timeout_ms and within 20 s after the budget. Waiting for another
  /// thread's work on the problem counts. 0: 2000.
  int64_t tune_budget_ms;
  /// Most device memory that trials hold at a time; 0: a 16th of the device's
  /// memory, at least 2 GiB. It is never more than half of the memory that is
  /// free when the trials of a problem begin.
  uint64_t scratch_limit_bytes;
  /// Largest workspace that a chosen plan may need; 0: 256 MiB.
  uint64_t workspace_limit_bytes;
  /// Size that the write tier of the cache is kept under: entries that were
  /// loaded least recently go, kernels first, measurements last. The limit
  /// belongs to the folder: the largest that an engine or the tool asked for
  /// counts, see `kiln cache ls`. Entries that this engine published or loaded
  /// stay, with a warning where they alone are over the limit. Checked by
  /// threads that compile. 0: 4 GiB; UINT64_MAX: no limit.
  uint64_t cache_limit_bytes;
  /// Write tier; null: KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else
  /// ~/.cache/kiln. Made with mode 0700; used only if it belongs to this user
  /// and no other may write to it.
  const char *cache_dir;
  /// Read tiers behind the write tier, first to last; none: the tiers of
  /// KILN_CACHE_READ_DIRS, whose paths are separated by colons. Each belongs to
  /// this user or root, and no other may write to it.
  const char *const *read_dirs;
  uint32_t read_dir_count;
  kiln_log_level log_level; ///< least level that `log` gets
  /// A name of the device catalog ("h200-sxm") or the path of a JSON file:
  /// it replaces the facts that are read from the GPU, or stands for a GPU
  /// where there is none.
  const char *device_model;
  const char *nvrtc_path;  ///< null: KILN_NVRTC, else the usual places
  const char *driver_path; ///< null: KILN_DRIVER, else the loader's libcuda
  kiln_log_fn log;         ///< null: messages are dropped
  void *log_user;
  kiln_event_fn event; ///< null: none
  void *event_user;
  const kiln_allocator *allocator; ///< copied; null: the driver's allocation
  const kiln_executor *executor;   ///< copied; null: threads of Kiln's own
  /// Longest time that a launch of a trial may take: it may be waiting for
  /// kernels that occupy the device. After it the trials of its problem are
  /// given up, and the call launches the estimator's choice; no trial begins
  /// while the late launch runs. 0: 20000.
  int64_t trial_timeout_ms;
  /// KILN_MODE_BACKGROUND: the share of the GPU's time that trials may take, in
  /// thousandths of wall time, at most 1000. 0: 50.
  uint32_t background_permille;
  /// KILN_DETERMINISM_FROZEN_CHOICE: the kernel of a problem follows from the
  /// cache, the device model, the options and the prepared ranges that it is
  /// in; not from the time, other calls and their order, kernels that are
  /// loaded, or memory. So the ranks of a job that open equal caches launch
  /// equal kernels; at values that nothing prepared only while no process
  /// changes the cache between the launches of two ranks. It needs
  /// KILN_MODE_PREDICT or KILN_MODE_STRICT: another engine measures beforehand,
  /// and stores.
  ///
  /// The choice is a measured one of the cache, else one that was stored
  /// without trials, else one of a pool, else the estimator's. The mode predict
  /// compiles it where it is missing; the mode strict passes over kernels that
  /// are not in the cache. Each choice and measurement of the cache, and in
  /// strict whether it has a kernel, counts as it was when this engine first
  /// looked, whatever other processes store later; memory for what was read
  /// grows with the problems. This engine stores kernels, but no choices unless
  /// KILN_PREPARE_COMPILE_ONLY or KILN_PREPARE_POOL asks for that. Where
  /// prepared ranges overlap, the one of most values serves. A value chooses
  /// again when a range is prepared that it is in, and after 65,536 other
  /// values that were not prepared.
  ///
  /// Nothing takes the place of a choice: a kernel that gets a verdict later is
  /// not launched, and its problem is KILN_NO_CANDIDATE once this engine
  /// notices; start all ranks again. A workspace or arena that is too small is
  /// an error, too, and kernels of prepared ranges are loaded beyond
  /// pool_limit_bytes. kiln_plans_digest tells whether ranks agree.
  kiln_determinism determinism;
  /// Most device memory of a context that kernels take before a launch asks
  /// for them: kernels of prepared ranges and of pools, some 43 KiB each.
  /// Where they need more, the most valuable are loaded, and the log tells. The
  /// others are loaded when a launch asks for one. Loaded kernels stay. 0: 256
  /// MiB.
  uint64_t pool_limit_bytes;
  /// File to which the engine appends, as a line each, the problems and ranges
  /// that it is asked to prepare or to plan, and the problems that launches
  /// meet outside of them: see kiln_prepare_history. "%p" stands for the number
  /// of the process. Several engines and processes may share it. It is written
  /// every few seconds and at the end of the engine; failures, and lines beyond
  /// its bounds, are told to the log. A link is refused, and so is a file of
  /// another user that any user may write, or whose folder any user may write
  /// to. Null: KILN_HISTORY, else none.
  const char *history;
  uint64_t reserved[12];
} kiln_engine_options;

/// Makes an engine; null options are the defaults.
/// Waits for nothing: microseconds. Driver, compiler and files are opened when
/// they are first needed, so it works without a GPU. Exceptions: an NVTX tool
/// and the files of KILN_TRACE and KILN_STATISTICS are opened at once.
/// The caller owns the engine and ends it with kiln_engine_destroy. Strings and
/// hook structs of the options are copied.
/// Errors: KILN_INVALID_ARGUMENT, KILN_UNSUPPORTED, KILN_OUT_OF_MEMORY.
KILN_API kiln_status kiln_engine_create(const kiln_engine_options *options,
                                        kiln_engine **engine) KILN_NOEXCEPT;

/// Ends an engine: cancels its work, unloads its kernels, frees its arenas.
/// Waits for its threads and, as the driver does, for the device. A compilation
/// that hangs is given up after 2 s; its thread stays.
/// The last call on the engine: its plans, tasks, launches in flight and graphs
/// have ended before ("Lifetime" in kiln.h). Null is allowed.
KILN_API void kiln_engine_destroy(kiln_engine *engine) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_ENGINE_H
