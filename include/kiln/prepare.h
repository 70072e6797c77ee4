//===- prepare.h - making problems ready ----------------------------------===//
//
// Problems that are prepared before the first launch, tasks that do it beside
// the caller, and how far a problem is. Included by kiln.h, whose head states
// the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_PREPARE_H
#define KILN_PREPARE_H

#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

/// How far a kiln_prepare is.
typedef struct kiln_progress {
  uint32_t struct_size;
  /// Status that a launch of the problem that was finished last would return.
  kiln_status problem_status;
  uint64_t problems_done, problems_total;
  uint64_t problem; ///< index of the problem that was finished last
  /// Compilations of KILN_PREPARE_COMPILE_ONLY, or of the range that is
  /// prepared now.
  uint64_t compiles_done, compiles_total;
  uint64_t trials_done;
  double elapsed_ms;
  uint64_t reserved[8];
} kiln_progress;

/// Called whenever a count changed. A result other than 0 cancels the
/// kiln_prepare.
typedef int32_t (*kiln_progress_fn)(void *user, const kiln_progress *progress);

enum kiln_prepare_flag {
  /// Only put artifacts and the estimator's choices into the cache: no trials
  /// and no loading, so with a device_model it needs neither GPU nor driver. A
  /// problem with an entry that is not on disk at the end has failed with
  /// KILN_IO, unless the engine writes no cache.
  KILN_PREPARE_COMPILE_ONLY = 1,
  /// Measure again although there are measurements in the cache. Where that is
  /// cut short, earlier measurements stay. (The mode background measures again,
  /// and replaces, part by part.)
  KILN_PREPARE_RETUNE = 2,
  /// Put the pool of each problem's signature into the cache: the kernels that
  /// serve all sizes, of models that are not known yet. Sizes and leading
  /// dimensions of a struct are ignored; a text has none: "gemm dtype=bf16
  /// layout=NT". Needs neither GPU nor driver with a device_model, and takes
  /// CPU time: for a GEMM some minutes to choose and compile 800 kernels.
  /// Without KILN_PREPARE_COMPILE_ONLY it loads the kernels as well, where
  /// streams are given or the engine has no device_model: the most valuable
  /// first, as far as pool_limit_bytes allows.
  /// An engine in the mode strict then serves every problem of the signature
  /// whose addresses and rows are multiples of 16 bytes; the modes that compile
  /// find a kernel of the pool where it is close to the best.
  KILN_PREPARE_POOL = 4
};

typedef struct kiln_prepare_options {
  uint32_t struct_size;
  uint32_t flags; ///< kiln_prepare_flag
  /// Wall time for all problems together; 0: tune_budget_ms for each, and six
  /// times that for one with ranges. It limits trials: problems not reached by
  /// then get the estimator's choice, and the kernels of a range are compiled
  /// all the same.
  int64_t budget_ms;
  /// Streams that will be used: the kernels are loaded into their contexts, and
  /// each stream gets its arena. None: the calling thread's current context, no
  /// arenas. CU_STREAM_PER_THREAD is the calling thread's, so a task refuses
  /// it: KILN_INVALID_ARGUMENT.
  const kiln_stream *streams;
  uint32_t stream_count;
  uint32_t reserved0;
  kiln_progress_fn progress; ///< null: none
  void *progress_user;
  uint64_t reserved[8];
} kiln_prepare_options;

/// Makes problems ready: chooses, compiles, loads and sizes arenas. Later
/// launches of them hit, also under capture, whatever else is launched; for
/// problems without ranges that holds for the first 65,536. In the mode tune it
/// chooses with trials: for ranges at some of their values, for a problem
/// without ranges at its own. In the mode background it takes the estimator's
/// choices and leaves trials to the engine's thread. In the mode strict it
/// loads from the cache. Null options are the defaults.
/// Waits for compilations and loads, and for trials up to the budget. With
/// \p task it copies its arguments and returns at once.
/// The caller owns the task and ends it with kiln_task_release.
/// A problem that fails does not stop the others. Errors: the first failed
/// problem's status; its index is in the message and in the progress calls.
KILN_API kiln_status kiln_prepare(kiln_engine *engine,
                                  const kiln_problem *problems, size_t count,
                                  const kiln_prepare_options *options,
                                  kiln_task **task) KILN_NOEXCEPT;

/// kiln_prepare of what engines asked for before: the lines of a history (see
/// `history` of kiln_engine_options), problems and ranges alike. A null \p path
/// is the file that this engine writes itself. With it a start prepares all
/// that an earlier one needed; with KILN_PREPARE_COMPILE_ONLY and a
/// device_model no GPU is needed. `kiln warmup --history` does that. The mode
/// strict prepares all that is in the cache: ranges that the history made of
/// many launches have to be prepared once in another mode, or warmed up. A file
/// that is not there is an empty history. Lines that cannot be read, or whose
/// problems this version does not know, are skipped with a warning to the log.
/// A history may have thousands of lines: budget_ms bounds the trials of all
/// together.
/// Waits as kiln_prepare does, and first reads the file: a \p path that is a
/// pipe is read to its end. The engine's own file has to be a plain one, see
/// `history`.
/// Errors: those of kiln_prepare; KILN_INVALID_ARGUMENT also where \p path is
/// null and the engine writes no history, and for a file that cannot be read or
/// is no history.
KILN_API kiln_status kiln_prepare_history(kiln_engine *engine, const char *path,
                                          const kiln_prepare_options *options,
                                          kiln_task **task) KILN_NOEXCEPT;

/// Tells whether a task has ended.
/// Waits for nothing.
/// \p progress may be null and is filled in either case.
/// Errors: KILN_IN_PROGRESS until the end, then the status that kiln_prepare
/// would have returned.
KILN_API kiln_status kiln_task_poll(kiln_task *task,
                                    kiln_progress *progress) KILN_NOEXCEPT;

/// Waits for the end of a task, for at most \p timeout_ms; a negative time-out
/// waits for ever. Several threads may wait for one task; hooks may not.
/// Errors: as kiln_task_poll.
KILN_API kiln_status kiln_task_wait(kiln_task *task,
                                    int64_t timeout_ms) KILN_NOEXCEPT;

/// Asks a task to end soon; it then polls as KILN_CANCELLED.
/// Waits for nothing. The task finishes a trial in progress, and waits for a
/// compilation for 2 s at most; finished work is kept.
KILN_API kiln_status kiln_task_cancel(kiln_task *task) KILN_NOEXCEPT;

/// Cancels a task, waits for its end and frees it. The last call on the task.
/// Null is allowed.
KILN_API void kiln_task_release(kiln_task *task) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// Query
//===----------------------------------------------------------------------===//

/// The answer of kiln_query.
typedef struct kiln_query_result {
  uint32_t struct_size;
  kiln_state state;
  kiln_source source;
  /// Not 0: a launch into a capture would succeed, given a workspace or an
  /// arena of its stream.
  int32_t capturable;
  kiln_workspace_info workspace; ///< over the whole range of the problem
  double predicted_us;           ///< of the chosen plan; 0: not known
  double measured_us;            ///< 0: not measured
  uint64_t reserved[8];
} kiln_query_result;

/// Tells how far a problem is in \p stream's context; over a range, the least
/// of its states.
/// Waits for nothing and starts no work: microseconds; it may read the cache.
/// \p result belongs to the caller.
/// Errors: KILN_INVALID_ARGUMENT, KILN_UNSUPPORTED, errors of the driver.
KILN_API kiln_status kiln_query(kiln_engine *engine,
                                const kiln_problem *problem, kiln_stream stream,
                                kiln_query_result *result) KILN_NOEXCEPT;

/// Writes the digest of all that was prepared in \p stream's context: 64
/// hexadecimal digits. Two engines with equal digests choose equal kernels at
/// all values of their prepared problems: it covers the problems, the configs,
/// the kernels and the versions of NVRTC that compiled them, the measured times
/// that choices follow from, and the numbers of the device model. The order of
/// calls does not count, nor do problems that were only launched, and plans
/// that were only acquired. Ranks compare it before their first launch, with
/// KILN_DETERMINISM_FROZEN_CHOICE; without that an engine may choose again a
/// moment later.
/// Waits for nothing: microseconds a prepared problem. Writes as
/// kiln_problem_text (text.h) does.
/// Errors: KILN_INVALID_ARGUMENT, errors of the driver.
KILN_API kiln_status kiln_plans_digest(kiln_engine *engine, kiln_stream stream,
                                       char *buffer, size_t capacity,
                                       size_t *length) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_PREPARE_H
