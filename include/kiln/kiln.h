//===- kiln.h - the C interface of Kiln -----------------------------------===//
//
// Kiln computes GEMMs, attention, normalisations and their relatives on NVIDIA
// GPUs with kernels that it compiles at run time, chooses per problem and keeps
// in a cache on disk. This header and the headers that it includes are its only
// binary boundary. They are C11 and C++, and include no header of CUDA.
//
//   types.h       enumerations, operands, problems, arguments, workspaces
//   gemm.h, attention.h, rope.h, rows.h, gather.h, sample.h, moe.h,
//   allreduce.h, prepack.h
//                 the structs of the families
//   engine.h      hooks, options, kiln_engine_create
//   launch.h      kiln_gemm and its like, kiln_run
//   prepare.h     kiln_prepare, kiln_prepare_history, tasks, kiln_query,
//                 kiln_plans_digest
//   model.h       kiln_model_problems
//   plan.h        kiln_plan_acquire, kiln_plan_launch
//   explain.h     kiln_explain, kiln_candidates, kiln_problem_keys
//   profile.h     ranges, traces, the ledger of waits
//   timing.h      kiln_time_calls
//   background.h, statistics.h, text.h, packs.h
//
//===----------------------------------------------------------------------===//
// Rules of every function
//===----------------------------------------------------------------------===//
//
// Status
//   Every function that can fail returns a kiln_status; none throws, prints,
//   exits or aborts. Out-parameters are written on success, and on failure are
//   set to null where they are handles.
//
// Threads
//   Every function may be called from any thread at any time, also on one
//   engine, plan or task. Only the calls that end an object
//   (kiln_engine_destroy, kiln_plan_release, kiln_task_release) must be the
//   last on it.
//
// Structs
//   A struct starts with its size and ends with reserved space. Zero it, set
//   struct_size to its sizeof (KILN_INIT does both), then set what you need: 0
//   is the default of every field unless its comment says otherwise. Use the
//   struct's own initialiser (kiln_gemm_args_init) where there is one.
//   Later versions put new fields into reserved space. The struct of a call
//   (kiln_gemm_args and its like) and a struct that the library fills may also
//   grow at their end; every other struct keeps its size.
//   A library newer than the caller takes fields that the caller's struct lacks
//   as zero. A library older than the caller returns KILN_UNSUPPORTED if a byte
//   that it does not know is not zero, also in a part that the call does not
//   use. A size less than that of the first version (0 as well), or above 4096,
//   is KILN_INVALID_ARGUMENT.
//   In an array all elements have one struct_size, which is the array's stride.
//   The struct_size of a struct embedded in another by value (kiln_operand,
//   kiln_scale, kiln_heads_operand, kiln_workspace_info) may stay 0.
//   Into a struct that it fills, the library writes no more than struct_size
//   bytes; it zeroes the bytes that it does not know.
//
// Values
//   Enumerations are int32_t; their values never change and leave gaps for
//   later ones. A value that a library does not know is KILN_UNSUPPORTED.
//   Reserved fields are zero, and a reserved value or function returns
//   KILN_UNSUPPORTED until it is built.
//
// Strings
//   UTF-8, ended by a null byte, copied where they must outlive the call.
//
//===----------------------------------------------------------------------===//
// Streams, devices and graphs
//===----------------------------------------------------------------------===//
//
// Streams and contexts
//   A stream is the caller's CUstream or cudaStream_t. Null is the legacy
//   default stream of the calling thread's current context;
//   CU_STREAM_PER_THREAD is accepted as well. The stream's context decides
//   which device is meant and which loaded kernels apply. cuCtxGetId identifies
//   it: several contexts and several GPUs, also different ones, work in one
//   process with one engine. In a green context, and under an MPS limit,
//   kernels use only the SMs that they may. Launches are asynchronous and
//   ordered like any other work of the stream; the calling thread's current
//   context is the same before and after each call.
//
// Waiting for the device
//   A launch whose plan is loaded waits for nothing, also where it allocates an
//   arena for its stream. Exception: on the legacy stream such an allocation
//   waits for a small operation of its own on the device.
//   The first call of a problem and kiln_prepare load modules and, where they
//   tune, run trials on a stream of their own and free memory;
//   kiln_engine_destroy frees memory and unloads. The driver makes loading,
//   unloading and freeing wait for all work of the device that is in flight, on
//   every stream, and lets no other thread launch meanwhile. In the mode
//   background only the first call of a signature loads. The engine's thread
//   loads when no call was made for a millisecond, or after a second of calls.
//
// Collectives
//   A first call waits for ever in a thread that enqueued one rank's part of a
//   collective before the other ranks' parts are enqueued. Call kiln_prepare
//   before the first collective, or enqueue all parts first. In the mode
//   background the launch of a collective may wait for a load of the engine's
//   thread: pause the background.
//   Trials capture no stream and use no default stream: they end no capture of
//   another thread, and its synchronisation does not disturb them.
//
// CUDA graphs
//   A launch may go into a stream that is being captured if its plan is loaded
//   and nothing has to be made for it: after kiln_prepare for that problem with
//   that stream, after an equal call outside of the capture on that stream, or
//   from a plan handle with a workspace of the caller's. (Values of m and its
//   like share plans, so a call may also be captured after calls with other
//   values.) Otherwise it returns KILN_NOT_PREPARED, adds nothing to the graph
//   and does not end the capture.
//   That stays so when the background or another kiln_prepare finds a better
//   plan that needs more workspace: where the stream's arena has no room for
//   it, a capture takes the earlier plan. Launch the call once outside of
//   captures, or prepare it with the stream again, to have the better plan.
//   Kernels and arenas that a graph may reach stay loaded until the engine is
//   destroyed. A graph captured with the arena of a stream shares it with other
//   graphs of that stream and with launches on it. None of these may run at the
//   same time, and no thread may launch such a graph into the stream while
//   another one launches there: give the graph a workspace of its own instead.
//   The driver tells only the handle of a stream in capture, and gives a handle
//   out again when a stream is destroyed. So prepare a stream, or launch on it,
//   before it is captured, also if its handle was prepared before: it would be
//   taken for the earlier stream.
//
//===----------------------------------------------------------------------===//
// Lifetime
//===----------------------------------------------------------------------===//
//
// Engines
//   An engine outlives its plans, tasks, launches in flight and graphs captured
//   from it: synchronise and destroy graphs before kiln_engine_destroy.
//
// Contexts
//   When a context is destroyed, no call of Kiln may be in progress in it, nor
//   the background of an engine (background.h). Its kernels and arenas go with
//   it; Kiln never touches them again, and kiln_plan_release of a plan of such
//   a context frees host memory only. A context made later at the same address
//   is a new one.
//
// Fork
//   The child must not use or destroy its parent's engines. It may create its
//   own if the parent had not initialised CUDA. The end of a thread of the
//   child, or of the child itself, waits for nothing of the parent's.
//
// The end of a process
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

#include "kiln/allreduce.h"
#include "kiln/attention.h"
#include "kiln/background.h"
#include "kiln/engine.h"
#include "kiln/explain.h"
#include "kiln/gather.h"
#include "kiln/gemm.h"
#include "kiln/launch.h"
#include "kiln/model.h"
#include "kiln/moe.h"
#include "kiln/packs.h"
#include "kiln/plan.h"
#include "kiln/prepack.h"
#include "kiln/prepare.h"
#include "kiln/profile.h"
#include "kiln/rope.h"
#include "kiln/rows.h"
#include "kiln/sample.h"
#include "kiln/statistics.h"
#include "kiln/text.h"
#include "kiln/timing.h"
#include "kiln/types.h"

#include <stdint.h>

/// Version of this interface. It changes only if a program built against an
/// older header would stop working, which the rules above are there to prevent.
#define KILN_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Errors and versions
//
// These functions wait for nothing and never change the last error.
//===----------------------------------------------------------------------===//

/// The message of this thread's last failed call, without a line end; never
/// null. Valid until this thread's next call of Kiln.
KILN_API const char *kiln_last_error_message(void) KILN_NOEXCEPT;

/// The CUresult or nvrtcResult behind this thread's last failed call; 0: none.
KILN_API int64_t kiln_last_driver_error(void) KILN_NOEXCEPT;

/// A status as messages print it, e.g. "invalid-argument"; "unknown" for other
/// values. Static storage.
KILN_API const char *kiln_status_name(kiln_status status) KILN_NOEXCEPT;

/// A state of kiln_query in words, e.g. "ready", and the source of a choice,
/// e.g. "record"; "unknown" for other values. Static storage.
KILN_API const char *kiln_state_name(kiln_state state) KILN_NOEXCEPT;
KILN_API const char *kiln_source_name(kiln_source source) KILN_NOEXCEPT;

/// KILN_ABI_VERSION of the library. A program works with every library whose
/// number is that of its header.
KILN_API uint32_t kiln_abi_version(void) KILN_NOEXCEPT;

/// The library's version, e.g. "0.1.0". Static storage.
KILN_API const char *kiln_version_string(void) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_KILN_H
