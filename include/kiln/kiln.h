//===- kiln.h - the C interface of Kiln -----------------------------------===//
//
// Kiln computes GEMMs, attention, normalisations and their relatives on NVIDIA
// GPUs with kernels that it compiles at run time, chooses per problem and keeps
// in a cache on disk. This header, with types.h, rows.h and attention.h, is its
// only binary boundary. It is C11 and C++, and includes no header of CUDA.
//
// Rules that hold for every function
//   Status    Every function that can fail returns a kiln_status; none throws,
//             prints, exits or aborts. Out-parameters are written on success,
//             and on failure are set to null where they are handles.
//   Threads   Every function may be called from any thread at any time, also
//             on one engine, plan or task; only the calls that end an object
//             (kiln_engine_destroy, kiln_plan_release, kiln_task_release) must
//             be the last on it.
//   Structs   Each starts with its size and ends with reserved space. Zero the
//             struct, set struct_size to its sizeof (KILN_INIT does both), then
//             set what you need: 0 is the default of every field unless its
//             comment says else. A library newer than the caller takes what the
//             caller's struct lacks as zero; a library older than the caller
//             answers KILN_UNSUPPORTED if a byte that it does not know is not
//             zero. In an array all elements have one struct_size, which is the
//             array's stride. A struct embedded in another by value
//             (kiln_operand, kiln_workspace_info) never changes its size, and
//             its struct_size may stay 0; elsewhere a size less than that of
//             the first version, 0 as well, or above 4096 is
//             KILN_INVALID_ARGUMENT. Into a struct that it fills, the library
//             writes no more than struct_size bytes; it zeroes those that it
//             does not know.
//   Values    Enumerations are int32_t; their values never change and leave
//             gaps for later ones. A value that a library does not know is
//             KILN_UNSUPPORTED.
//   Strings   UTF-8, ended by a null byte, copied where they must outlive the
//             call.
//   Slots     What is marked "slot" is part of the interface so that it need
//             not change later; it answers KILN_UNSUPPORTED until it is built.
//
// Streams and contexts
//   A stream is the caller's CUstream or cudaStream_t. Null is the legacy
//   default stream of the calling thread's current context;
//   CU_STREAM_PER_THREAD is accepted as well. The stream's context decides
//   which device is meant and which loaded kernels apply, and is identified by
//   cuCtxGetId: several contexts and several GPUs, also different ones, work in
//   one process with one engine. In a green context, and under an MPS limit,
//   kernels use only the SMs that they may. Launches are asynchronous and
//   ordered like any other work of the stream; the calling thread's current
//   context is the same before and after each call.
//
// What waits for the device
//   A launch whose plan is there waits for nothing, also where it allocates an
//   arena for its stream. On the legacy stream alone it then waits for a small
//   operation of its own on the device. The first call of a problem and
//   kiln_prepare load modules and, where they tune, run trials on a stream of
//   their own and free memory; kiln_engine_destroy frees memory and unloads.
//   The driver makes loading, unloading and freeing wait for all work of the
//   device that is in flight, on every stream, and lets no other thread launch
//   meanwhile. In the mode background only the first call of a signature loads;
//   the engine's thread loads when no call was made for a millisecond, or after
//   a second of calls. A thread that enqueues one rank's part of a collective
//   and then makes a first call, before the other ranks' parts are enqueued,
//   therefore waits for ever: call kiln_prepare before the first collective, or
//   enqueue all parts first. (In the mode background its launch may wait for a
//   load of the engine's thread: pause that.) Trials capture no stream and use
//   no default stream: they end no capture of another thread and do not mind
//   its synchronisation.
//
// CUDA graphs
//   A launch may go into a stream that is being captured if its plan is loaded
//   and it needs nothing made: after kiln_prepare for that problem with that
//   stream, after an equal call outside of the capture on that stream, or from
//   a plan handle with a workspace of the caller's. (Values of m and its like
//   share plans, so a call may also be taken after others.) That stays so when
//   a plan takes its place that needs more workspace, as the background or
//   another kiln_prepare may find one: where the stream has no room for that, a
//   capture takes the one before. Launch the call once outside of captures, or
//   prepare it with the stream again, to have the better one. Otherwise it
//   returns KILN_NOT_PREPARED, adds nothing to the graph and does not end the
//   capture. What a graph may reach (kernels, arenas) stays loaded until the
//   engine is destroyed. A graph captured with the arena of a stream shares it
//   with other graphs of that stream and with launches on it. None of these may
//   run at the same time, and no thread may launch such a graph into the stream
//   while another one launches there: give the graph a workspace of its own
//   instead. Of a stream in capture the driver tells no more than the handle,
//   which it gives out again when a stream is destroyed. So prepare a stream,
//   or launch on it, before it is captured, also if its handle was prepared
//   before: it would be taken for the earlier stream.
//
// Lifetime
//   An engine outlives its plans, tasks, launches in flight and graphs captured
//   from it: synchronise and destroy graphs before kiln_engine_destroy.
//   When a context is destroyed, no call of Kiln may be in progress in it, nor
//   the background of an engine: see "Background". Its kernels and arenas go
//   with it; Kiln never touches them again, and kiln_plan_release of a plan of
//   such a context frees host memory only. A context made later at the same
//   address is a new one.
//   After fork, the child must not use or destroy its parent's engines. It may
//   create its own if the parent had not initialised CUDA. What ends in the
//   child, a thread or the child itself, waits for nothing of the parent's.
//   A process may end, by return from main or by exit() from any thread, while
//   calls, tasks and the background are in progress, and no engine need be
//   destroyed. From then on nothing is compiled (KILN_CANCELLED), and exit()
//   waits for compilations in progress, a second as a rule and at most 10. The
//   log is told after 3. Hooks are called from then on by the thread that
//   called exit() alone. An interpreter whose functions are hooks destroys its
//   engines before it ends itself (Python: atexit). dlclose leaves the library
//   loaded: threads and exit handlers may be in it.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include "kiln/attention.h"
#include "kiln/prepack.h"
#include "kiln/rows.h"
#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifndef KILN_API
#if defined(__GNUC__) || defined(__clang__)
#define KILN_API __attribute__((visibility("default")))
#else
#define KILN_API
#endif
#endif

#ifdef __cplusplus
#define KILN_NOEXCEPT noexcept
#else
#define KILN_NOEXCEPT
#endif

/// Version of this interface. It changes only if a program built against an
/// older header would stop working, which the rules above are there to prevent.
#define KILN_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Hooks
//
// Called from any thread, also several at once, never with a lock of Kiln's
// held and never on a dispatch hit, except for the allocator where a stream has
// no arena yet or needs a larger one. A hook may call Kiln, but not end the
// object that calls it and not wait for a task. What it launches for the first
// time may get the estimator's choice, KILN_IN_PROGRESS where it is what its
// caller works on, or KILN_NO_CANDIDATE where all that was tried computes wrong
// results. It must not throw or jump out.
//===----------------------------------------------------------------------===//

/// Receives a message without a line end; valid during the call.
typedef void (*kiln_log_fn)(void *user, kiln_log_level level,
                            const char *message);

typedef int32_t kiln_event_kind;
enum kiln_event_kind_value {
  KILN_EVENT_MISS = 10,       ///< a problem had no loaded plan
  KILN_EVENT_COMPILED = 20,   ///< one artifact, or failed to
  KILN_EVENT_LOADED = 30,     ///< a plan's kernels, into one context
  KILN_EVENT_TRIAL = 40,      ///< one config was measured, or rejected
  KILN_EVENT_CHOSEN = 50,     ///< a plan now serves the problem
  KILN_EVENT_PENDING = 55,    ///< the background will look for a better plan
  KILN_EVENT_CACHE_FAULT = 60 ///< an entry was damaged, foreign or not written
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
  const char *key;                  ///< of the artifact or record
  const char *message;              ///< of a failure
  double elapsed_ms;                ///< wall time of the step
  double predicted_us, measured_us; ///< of the kernel; 0: not known
  uint64_t reserved[8];
} kiln_event;

typedef void (*kiln_event_fn)(void *user, const kiln_event *event);

/// Device memory for arenas; what trials use for milliseconds is the driver's.
/// The stream's context is current during the call.
typedef struct kiln_allocator {
  uint32_t struct_size;
  uint32_t flags; ///< none yet
  void *user;
  /// Returns memory aligned to `alignment` (a power of two, at most 512) that
  /// is usable on `stream` in stream order, or null if there is none.
  void *(*allocate)(void *user, size_t bytes, size_t alignment,
                    kiln_stream stream);
  /// `stream` is that of `allocate` if memory is given back at once, which no
  /// launch used. In kiln_engine_destroy it is null: no launch uses the memory
  /// any more, and its stream may be gone.
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
  /// once or later. If it returns other than KILN_SUCCESS, work is not called
  /// by it and Kiln runs it on a thread of its own.
  kiln_status (*submit)(void *user, void (*work)(void *argument),
                        void *argument);
  uint64_t reserved[4];
} kiln_executor;

/// How far a kiln_prepare is.
typedef struct kiln_progress {
  uint32_t struct_size;
  /// Of the problem that was finished last: what a launch of it would meet.
  kiln_status problem_status;
  uint64_t problems_done, problems_total;
  uint64_t problem; ///< index of the problem that was finished last
  /// Of KILN_PREPARE_COMPILE_ONLY, and of the range that is prepared now.
  uint64_t compiles_done, compiles_total;
  uint64_t trials_done;
  double elapsed_ms;
  uint64_t reserved[8];
} kiln_progress;

/// Called whenever a count changed; other than 0 cancels the kiln_prepare.
typedef int32_t (*kiln_progress_fn)(void *user, const kiln_progress *progress);

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
  /// candidates and on trials, which are those of its layer: see
  /// KILN_MODE_TUNE. A first kernel is always finished; if it is late, its
  /// trial gets half a second. The first comparison with the reference is
  /// finished, too, if it ends within trial_timeout_ms and within 20 s after
  /// the budget. Waiting for another thread's work on the problem counts. 0:
  /// 2000.
  int64_t tune_budget_ms;
  /// Most device memory that trials hold at a time; 0: a 16th of the device's,
  /// at least 2 GiB. It is never more than half of what is free when the trials
  /// of a problem begin.
  uint64_t scratch_limit_bytes;
  /// Largest workspace that a chosen plan may need; 0: 256 MiB.
  uint64_t workspace_limit_bytes;
  /// Size that the write layer of the cache is kept under: what was loaded
  /// least recently goes, kernels first, measurements last. The limit belongs
  /// to the folder: the largest that an engine or the tool asked for counts,
  /// see `kiln cache ls`. What this engine published or loaded stays, with a
  /// warning where that alone is over the limit. Checked by threads that
  /// compile. 0: 4 GiB; UINT64_MAX: no limit.
  uint64_t cache_limit_bytes;
  /// Write layer; null: KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else
  /// ~/.cache/kiln. Made with mode 0700; used only if it belongs to this user
  /// and no other may write to it.
  const char *cache_dir;
  /// Read layers behind it, first to last; none: those of
  /// KILN_CACHE_READ_DIRS, paths between colons. Each belongs to this user or
  /// root, and no other may write to it.
  const char *const *read_dirs;
  uint32_t read_dir_count;
  kiln_log_level log_level; ///< least level that `log` gets
  /// A name of the device catalog ("h200-sxm") or the path of a JSON file:
  /// replaces what is found out about the GPU, or stands for one where none is.
  const char *device_model;
  const char *nvrtc_path;  ///< null: KILN_NVRTC, else the usual places
  const char *driver_path; ///< null: KILN_DRIVER, else the loader's libcuda
  kiln_log_fn log;         ///< null: messages are dropped
  void *log_user;
  kiln_event_fn event; ///< null: none
  void *event_user;
  const kiln_allocator *allocator; ///< copied; null: the driver's allocation
  const kiln_executor *executor;   ///< copied; null: threads of Kiln's own
  /// How long a launch of a trial may take before the trials of its problem are
  /// given up: it may be waiting for kernels that occupy the device. The call
  /// then launches what the estimator prefers; no trial begins while the late
  /// launch runs. 0: 20000.
  int64_t trial_timeout_ms;
  /// KILN_MODE_BACKGROUND: what trials may take of the GPU's time, in
  /// thousandths of wall time, at most 1000. 0: 50.
  uint32_t background_permille;
  uint32_t reserved1;
  /// Most device memory of a context that kernels take which no launch asked
  /// for yet: those of prepared ranges and of pools, some 43 KiB each. Beyond
  /// it the more valuable ones are loaded, and the log tells. The others are
  /// loaded when a launch asks for one. What is loaded stays. 0: 256 MiB.
  uint64_t pool_limit_bytes;
  uint64_t reserved[13];
} kiln_engine_options;

/// Makes an engine; null options are the defaults. Opens no driver, compiler or
/// file yet: that happens when first needed, so it works without a GPU. Costs
/// microseconds. Errors: KILN_INVALID_ARGUMENT, KILN_UNSUPPORTED,
/// KILN_OUT_OF_MEMORY.
KILN_API kiln_status kiln_engine_create(const kiln_engine_options *options,
                                        kiln_engine **engine) KILN_NOEXCEPT;

/// Cancels and awaits what the engine still does, unloads its kernels and frees
/// its arenas. A compilation that hangs is given up after 2 s, its thread
/// stays. Null is allowed. See "Lifetime" above.
KILN_API void kiln_engine_destroy(kiln_engine *engine) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

/// Enqueues one GEMM on \p stream. \p workspace may be null (see
/// kiln_workspace). The first call of a problem in a context may compile and
/// tune, as the engine's mode says: seconds. In a range that was prepared it
/// only chooses, in some 10 us, also during a capture. A later one allocates
/// nothing and takes no lock: well under a microsecond above the driver's
/// launch. Only where its plan has a workspace does it wait while another
/// thread enqueues such a plan on the same stream, so that their kernels do not
/// mix. Errors: see kiln_status. Nothing was enqueued if it fails, except that
/// after KILN_DRIVER_ERROR and KILN_CONTEXT_DEAD a part of the plan's steps may
/// be.
KILN_API kiln_status kiln_gemm(kiln_engine *engine, const kiln_gemm_args *args,
                               const kiln_workspace *workspace,
                               kiln_stream stream) KILN_NOEXCEPT;

// The same for what attention.h describes: see kiln_gemm.
KILN_API kiln_status kiln_attention(kiln_engine *engine,
                                    const kiln_attention_args *args,
                                    const kiln_workspace *workspace,
                                    kiln_stream stream) KILN_NOEXCEPT;

KILN_API kiln_status kiln_attention_merge(kiln_engine *engine,
                                          const kiln_attention_merge_args *args,
                                          const kiln_workspace *workspace,
                                          kiln_stream stream) KILN_NOEXCEPT;

// The same for what rows.h describes: see kiln_gemm.
KILN_API kiln_status kiln_elementwise(kiln_engine *engine,
                                      const kiln_elementwise_args *args,
                                      const kiln_workspace *workspace,
                                      kiln_stream stream) KILN_NOEXCEPT;
KILN_API kiln_status kiln_reduce(kiln_engine *engine,
                                 const kiln_reduce_args *args,
                                 const kiln_workspace *workspace,
                                 kiln_stream stream) KILN_NOEXCEPT;
KILN_API kiln_status kiln_softmax(kiln_engine *engine,
                                  const kiln_softmax_args *args,
                                  const kiln_workspace *workspace,
                                  kiln_stream stream) KILN_NOEXCEPT;
KILN_API kiln_status kiln_rms_norm(kiln_engine *engine,
                                   const kiln_norm_args *args,
                                   const kiln_workspace *workspace,
                                   kiln_stream stream) KILN_NOEXCEPT;
KILN_API kiln_status kiln_layer_norm(kiln_engine *engine,
                                     const kiln_norm_args *args,
                                     const kiln_workspace *workspace,
                                     kiln_stream stream) KILN_NOEXCEPT;
KILN_API kiln_status kiln_quantize(kiln_engine *engine,
                                   const kiln_quantize_args *args,
                                   const kiln_workspace *workspace,
                                   kiln_stream stream) KILN_NOEXCEPT;
KILN_API kiln_status kiln_transpose(kiln_engine *engine,
                                    const kiln_transpose_args *args,
                                    const kiln_workspace *workspace,
                                    kiln_stream stream) KILN_NOEXCEPT;

// The same for what prepack.h describes: see kiln_gemm.
KILN_API kiln_status kiln_prepack(kiln_engine *engine,
                                  const kiln_prepack_args *args,
                                  const kiln_workspace *workspace,
                                  kiln_stream stream) KILN_NOEXCEPT;

/// What the results of \p args need. Its addresses are ignored. Errors:
/// KILN_INVALID_ARGUMENT, without a message.
KILN_API kiln_status kiln_prepack_query(
    const kiln_prepack_args *args, kiln_prepack_layout *layout) KILN_NOEXCEPT;

/// kiln_prepack for operands in host memory, on the caller's thread, without an
/// engine; the same bits. Some nanoseconds an element. Errors:
/// KILN_INVALID_ARGUMENT, without a message.
KILN_API kiln_status kiln_prepack_host(const kiln_prepack_args *args)
    KILN_NOEXCEPT;

/// The same for a problem of any family. A problem given as text is parsed by
/// each call: use a plan in a loop.
KILN_API kiln_status kiln_run(kiln_engine *engine, const kiln_problem *problem,
                              const kiln_arguments *arguments,
                              const kiln_workspace *workspace,
                              kiln_stream stream) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

enum kiln_prepare_flag {
  /// Only put artifacts and the estimator's choices into the cache: no trials
  /// and no loading, so with a device_model it needs neither GPU nor driver. A
  /// problem of which something is not on disk at the end has failed with
  /// KILN_IO, unless the engine writes no cache.
  KILN_PREPARE_COMPILE_ONLY = 1,
  /// Measure again although there are measurements in the cache. Where that is
  /// cut short, what was measured before stays. (The mode background measures
  /// again, and replaces, part by part.)
  KILN_PREPARE_RETUNE = 2,
  /// Put the pool of each problem's signature into the cache: the kernels that
  /// serve all sizes, of models that are not known yet. Sizes and leading
  /// dimensions of a struct are ignored; a text has none: "gemm dtype=bf16
  /// layout=NT". Needs what KILN_PREPARE_COMPILE_ONLY needs, and CPU time: for
  /// a GEMM some minutes to choose and compile 800 kernels. Where that flag is
  /// not set, and streams are given or no device_model is, it loads the kernels
  /// as well, the most valuable first, as far as pool_limit_bytes allows.
  /// An engine in the mode strict then serves every problem of the signature
  /// whose addresses and rows are multiples of 16 bytes; the modes that compile
  /// find a kernel of the pool where it is close to the best.
  KILN_PREPARE_POOL = 4
};

typedef struct kiln_prepare_options {
  uint32_t struct_size;
  uint32_t flags; ///< kiln_prepare_flag
  /// Wall time for all problems together; 0: tune_budget_ms for each, and six
  /// times that for one with ranges. Problems not reached by then get the
  /// estimator's choice.
  int64_t budget_ms;
  /// Streams that will be used: their contexts get the kernels loaded, and each
  /// stream its arena. None: the calling thread's current context, no arenas.
  /// CU_STREAM_PER_THREAD is the calling thread's, so a task does not take it:
  /// KILN_INVALID_ARGUMENT.
  const kiln_stream *streams;
  uint32_t stream_count;
  uint32_t reserved0;
  kiln_progress_fn progress; ///< null: none
  void *progress_user;
  uint64_t reserved[8];
} kiln_prepare_options;

/// Makes problems ready: chooses, compiles, loads and sizes arenas, so that
/// later launches hit, also under capture, whatever else is launched; of
/// problems without ranges that holds for the first 65,536. In the mode tune it
/// chooses with trials: for ranges at some of their values, for a problem
/// without ranges at its own. Null options are the defaults. With a null
/// \p task it blocks until it is done; otherwise it copies its arguments and
/// returns at once with a task to poll and release (null on failure). In the
/// mode background it takes the estimator's choices, and leaves trials to the
/// engine's thread. In strict mode it loads what the cache has.
///
/// A problem that fails does not stop the others. Errors: the first failed
/// problem's status; its index is in the message and in the progress calls.
KILN_API kiln_status kiln_prepare(kiln_engine *engine,
                                  const kiln_problem *problems, size_t count,
                                  const kiln_prepare_options *options,
                                  kiln_task **task) KILN_NOEXCEPT;

/// KILN_IN_PROGRESS, or what kiln_prepare would have returned. \p progress may
/// be null and is filled in either case. Never blocks.
KILN_API kiln_status kiln_task_poll(kiln_task *task,
                                    kiln_progress *progress) KILN_NOEXCEPT;

/// The same after waiting for the end, for at most \p timeout_ms; a negative
/// one waits for ever.
KILN_API kiln_status kiln_task_wait(kiln_task *task,
                                    int64_t timeout_ms) KILN_NOEXCEPT;

/// Asks a task to end soon (a trial in progress is finished, a compilation is
/// waited for, but not longer than 2 s); it then polls as KILN_CANCELLED. Never
/// blocks.
KILN_API kiln_status kiln_task_cancel(kiln_task *task) KILN_NOEXCEPT;

/// Cancels, awaits and frees a task. Null is allowed.
KILN_API void kiln_task_release(kiln_task *task) KILN_NOEXCEPT;

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

/// Tells how far a problem is in \p stream's context, without starting work;
/// over a range, the least of its states. Costs microseconds; may read the
/// cache.
KILN_API kiln_status kiln_query(kiln_engine *engine,
                                const kiln_problem *problem, kiln_stream stream,
                                kiln_query_result *result) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Chooses and loads a plan for \p problem in \p stream's context; blocks like
/// the first call of it would; in the mode background it waits for the
/// estimator's choice where a call takes what is loaded. The plan stays the
/// same until it is released, whatever tuning finds later: if that is wrong
/// results of its kernel, its next launch warns on the log, once. Errors: as of
/// kiln_gemm.
KILN_API kiln_status kiln_plan_acquire(kiln_engine *engine,
                                       const kiln_problem *problem,
                                       kiln_stream stream,
                                       kiln_plan **plan) KILN_NOEXCEPT;

/// The workspace that each launch of the plan needs.
KILN_API kiln_status kiln_plan_workspace(
    const kiln_plan *plan, kiln_workspace_info *info) KILN_NOEXCEPT;

/// Enqueues the plan on \p stream, which must be of the plan's context. The
/// operands are as in the problem it was acquired for, except for what
/// \p arguments gives. The cheapest way to launch: no look-up.
KILN_API kiln_status kiln_plan_launch(const kiln_plan *plan,
                                      const kiln_arguments *arguments,
                                      const kiln_workspace *workspace,
                                      kiln_stream stream) KILN_NOEXCEPT;

/// The same with what \p args, the struct of \p family, says: addresses,
/// scalars, strides and, for a plan of a problem with ranges, the dynamic
/// extents. KILN_INVALID_ARGUMENT if it is not a call of the plan's problem:
/// another size, type, leading dimension or chain, an extent outside of its
/// range, or less alignment.
KILN_API kiln_status kiln_plan_launch_call(const kiln_plan *plan,
                                           kiln_family family, const void *args,
                                           const kiln_workspace *workspace,
                                           kiln_stream stream) KILN_NOEXCEPT;

typedef int32_t kiln_role;
enum kiln_role_value {
  KILN_ROLE_INPUT = 0,
  KILN_ROLE_OUTPUT = 10,
  KILN_ROLE_IN_OUT = 20,
  KILN_ROLE_CONSTANT = 30
};

/// One operand of a plan.
typedef struct kiln_operand_info {
  uint32_t struct_size;
  uint32_t slot; ///< its index in kiln_arguments.operands
  kiln_dtype type;
  kiln_role role;
  const char *name;   ///< valid until the plan is released
  uint64_t bytes;     ///< from the first to the last byte used
  uint32_t alignment; ///< in bytes, that launches must keep
  uint32_t reserved0;
  uint64_t reserved[4];
} kiln_operand_info;

/// Tells the plan's \p index-th operand, from 0; past the last one
/// KILN_INVALID_ARGUMENT.
KILN_API kiln_status kiln_plan_operand(const kiln_plan *plan, uint32_t index,
                                       kiln_operand_info *info) KILN_NOEXCEPT;

/// Writes one line on the plan: problem, config, source and times, as
/// kiln_problem_text writes.
KILN_API kiln_status kiln_plan_describe(const kiln_plan *plan, char *buffer,
                                        size_t capacity,
                                        size_t *length) KILN_NOEXCEPT;

/// Gives a plan back; its kernels stay loaded. Null is allowed.
KILN_API void kiln_plan_release(kiln_plan *plan) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// Background
//
// An engine of KILN_MODE_BACKGROUND has a thread that looks for better plans:
// of the layers of calls that found none, and of what kiln_prepare was asked
// for. It compiles, on threads of a lower priority, and measures, on a stream
// of its own, with background_permille of the GPU's time. What it finds serves
// later calls, one value after another. A kiln_plan keeps its plan, and so does
// a graph. While a call into a capture had to look for a plan or an arena less
// than 250 ms ago, nothing is measured, however often: background_held_ns tells
// how long that was. A plan that it finds may need more workspace than
// kiln_query told before, up to workspace_limit_bytes: a call that is given no
// more than that keeps the plan it was told of. KILN_EVENT_PENDING and
// kiln_statistics tell what is to be done. Calls that hit do not tell of a
// capture: pause then.
//
// Before a context is destroyed, pause and wait: the thread then works in none,
// and first asks each for its id later. Else that is undefined, as with calls.
//
// In engines of other modes these functions answer KILN_UNSUPPORTED.
//===----------------------------------------------------------------------===//

/// Lets the background begin nothing more, until as many calls of
/// kiln_background_resume. Does not wait: trials in progress end within some
/// milliseconds; a compilation may take a second, and so may the choice of a
/// layer's kernels, which kiln_engine_destroy alone cuts short. Calls still
/// launch what is there.
KILN_API kiln_status kiln_background_pause(kiln_engine *engine) KILN_NOEXCEPT;
/// Ends a pause. KILN_INVALID_ARGUMENT: there is none.
KILN_API kiln_status kiln_background_resume(kiln_engine *engine) KILN_NOEXCEPT;
/// Waits until nothing is left to be done, or, during a pause, until nothing is
/// in progress; for at most \p timeout_ms, for ever if it is negative. Else
/// KILN_IN_PROGRESS, as always in a hook that the background calls.
KILN_API kiln_status kiln_background_wait(kiln_engine *engine,
                                          int64_t timeout_ms) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Writes a problem's canonical text, defaults omitted. Like every function
/// here that writes text, it writes at most \p capacity bytes with the ending
/// null, cutting the text short if needed, and sets \p length (may be null) to
/// the whole text's length without the null; a null buffer with capacity 0 asks
/// for the length only.
KILN_API kiln_status kiln_problem_text(const kiln_problem *problem,
                                       char *buffer, size_t capacity,
                                       size_t *length) KILN_NOEXCEPT;

/// Tells which kernel has the name \p name, as Nsight Systems, Nsight Compute
/// and other profilers show it:
/// "kiln_gemm_sm90_bm128_bn256_bk64_st4_wg2_cm1_cn1_sig1f55". Writes the
/// family's name and, with a blank before it, the config: "gemm
/// sm90.bm128.bn256.bk64.st4.wg2.cm1.cn1"; of other kernels what they are:
/// "gemm step gather", "softmax reference". It writes as kiln_problem_text
/// does. Sets \p family (may be null) to the family of the struct that
/// describes such problems, or to KILN_FAMILY_FROM_TEXT where there is none.
/// The name ends with a tag that equal types, layouts and the like share; knobs
/// that cost no compilation are not in it. Thread-safe; needs no engine, driver
/// or GPU. KILN_INVALID_ARGUMENT, and \p family and \p buffer are as they were:
/// \p name is null or not that of a kernel of this version, or \p buffer is
/// null with a capacity.
KILN_API kiln_status kiln_kernel_name_parse(const char *name,
                                            kiln_family *family, char *buffer,
                                            size_t capacity,
                                            size_t *length) KILN_NOEXCEPT;

/// Writes the record key of a problem on the device of \p stream (or of the
/// engine's device_model): what a warm-up or pack must hold for it.
KILN_API kiln_status kiln_problem_key(kiln_engine *engine,
                                      const kiln_problem *problem,
                                      kiln_stream stream, char *buffer,
                                      size_t capacity,
                                      size_t *length) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// Statistics
//===----------------------------------------------------------------------===//

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
  uint64_t trials;         ///< so far, also of what is in progress
  uint64_t trial_failures; ///< wrong, crashed or timed-out configs
  uint64_t compile_ns;     ///< summed over threads
  uint64_t tune_ns;
  uint64_t load_ns;
  uint64_t arena_bytes;   ///< device memory of arenas now
  uint64_t scratch_bytes; ///< for device memory of trials; 0 so far
  // Of the mode background; 0 in others.
  uint64_t background_pending; ///< layers, ranges and problems to be looked at
  uint64_t background_done;    ///< of these, looked at
  uint64_t background_swaps;   ///< values that got a better plan
  uint64_t background_gpu_ns;  ///< that trials took of the GPU, at most
  uint64_t background_paused;  ///< not 0: it is
  uint64_t background_held_ns; ///< that captures kept trials waiting
  /// Entries that this engine removed to keep the cache under its limit.
  uint64_t cache_evictions;
  uint64_t reserved[9];
} kiln_statistics;

KILN_API kiln_status kiln_get_statistics(
    kiln_engine *engine, kiln_statistics *statistics) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// Packs and templates: slots
//===----------------------------------------------------------------------===//

typedef struct kiln_pack_options {
  uint32_t struct_size;
  uint32_t flags; ///< none yet
  /// Key of the code that vouches for a pack from elsewhere; null: the file
  /// must belong to this user or root.
  const uint8_t *mac_key;
  size_t mac_key_bytes;
  uint64_t reserved[8];
} kiln_pack_options;

/// Verifies a pack and adds it as a read layer of the engine. Slot.
KILN_API kiln_status kiln_pack_import(kiln_engine *engine, const char *path,
                                      const kiln_pack_options *options)
    KILN_NOEXCEPT;

/// Writes what \p problems need on this device into one file; with count 0
/// everything that the cache holds. Slot.
KILN_API kiln_status kiln_pack_export(
    kiln_engine *engine, const char *path, const kiln_problem *problems,
    size_t count, const kiln_pack_options *options) KILN_NOEXCEPT;

/// A kernel source of the caller's with its configs.
typedef struct kiln_template {
  uint32_t struct_size;
  uint32_t source_count;
  const char *name;     ///< unique in the engine
  const char *manifest; ///< JSON: family, knobs, constraints, operands
  const char *const *source_names; ///< as the sources include each other
  const char *const *sources;
  uint32_t flags; ///< none yet
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_template;

/// Adds a template to the engine: it competes with Kiln's own. Slot.
KILN_API kiln_status kiln_register_template(
    kiln_engine *engine, const kiln_template *user_template) KILN_NOEXCEPT;

//===----------------------------------------------------------------------===//
// Errors and versions
//
// These functions never change the last error.
//===----------------------------------------------------------------------===//

/// What the last failed call of this thread says, without a line end; never
/// null. Valid until this thread's next call of Kiln.
KILN_API const char *kiln_last_error_message(void) KILN_NOEXCEPT;

/// The CUresult or nvrtcResult behind the last failed call of this thread; 0 if
/// none was.
KILN_API int64_t kiln_last_driver_error(void) KILN_NOEXCEPT;

/// A status as messages print it, e.g. "invalid-argument"; "unknown" for other
/// values. Static storage.
KILN_API const char *kiln_status_name(kiln_status status) KILN_NOEXCEPT;

/// KILN_ABI_VERSION of the library. A program works with every library whose
/// number is that of its header.
KILN_API uint32_t kiln_abi_version(void) KILN_NOEXCEPT;

/// The library's version, e.g. "0.1.0". Static storage.
KILN_API const char *kiln_version_string(void) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#include "kiln/explain.h" // needs the above

#endif // KILN_KILN_H
