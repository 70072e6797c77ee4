//===- FakeCuda.h - control of the stand-in CUDA driver -------------------===//
//
// libkiln_fake_cuda.so exports every function of lib/Driver/CudaSymbols.def.
// Device pointers are host pointers (malloc, so that sanitizers watch them),
// launches run at once on the calling thread and move a virtual clock, and
// nothing is ever faster or slower than told: the fake proves logic, not speed.
// By default there is one H200; KILN_FAKE_DEVICES names others. All reach each
// other's memory, unless KILN_FAKE_NO_IPC is set, and processes share memory by
// name only: each has bytes of its own. With KILN_FAKE_MISSING_RANK=r all sums
// over ranks fail because of rank r: shared memory begins with 1 + r.
//
// It is at least as strict as a driver: it refuses the calls that a driver
// refuses beside a capture (FakeCudaCapture.cpp has the rules), and handles of
// streams, events and contexts are given out again as soon as they are free.
//
// Tests load it through Environment::kilnDriver, by the very code that loads a
// real driver, and link it for the functions below. All are thread-safe unless
// they say else.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <stddef.h>
#include <stdint.h>

#define KILN_FAKE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

struct CUctx_st;
struct CUstream_st;

/// Restores every default: one H200, no callbacks, no failures, clock and
/// counters at 0. Objects made before become invalid handles, memory is freed.
/// No other thread may be inside the fake.
KILN_FAKE_API void kilnFakeReset(void);

// The machine.
KILN_FAKE_API void kilnFakeSetDriverVersion(int version);
/// At most 8; every device starts as an H200.
KILN_FAKE_API void kilnFakeSetDeviceCount(int count);
KILN_FAKE_API void kilnFakeSetDeviceName(int device, const char *name);
/// \p attribute is a CUdevice_attribute. A negative value makes the query fail.
KILN_FAKE_API void kilnFakeSetDeviceAttribute(int device, int attribute,
                                              int value);
KILN_FAKE_API void kilnFakeSetDeviceMemory(int device, uint64_t bytes);
/// Makes other processes take all memory but \p bytes, which are free now;
/// allocations and frees of this process count from there.
KILN_FAKE_API void kilnFakeSetFreeMemory(int device, uint64_t bytes);
/// Allocations of \p bytes or more are address space: copies and memsets of
/// more than a MiB there do nothing. For devices larger than the host. 0: none.
KILN_FAKE_API void kilnFakeSetHollowMemory(uint64_t bytes);
/// Contexts have \p count SMs, as green ones do; 0: all SMs of their device.
KILN_FAKE_API void kilnFakeLimitSms(int count);

// Contexts beside the primary ones, as an engine would bring them.
KILN_FAKE_API struct CUctx_st *kilnFakeCreateContext(int device);
/// The next kilnFakeCreateContext uses the handle again, as a driver does.
KILN_FAKE_API void kilnFakeDestroyContext(struct CUctx_st *context);
/// Makes every later call in the context current to this thread, or on a handle
/// of it, return \p result, as after a fault of a kernel: see stickyOf().
KILN_FAKE_API void kilnFakeKillContext(int result);

// Kernels.
/// One launch, as its callback sees it.
typedef struct KilnFakeLaunch {
  const char *function;   ///< name
  const char *moduleText; ///< the cubin's bytes behind its ELF header
  const void *params;     ///< the kernel's first parameter
  uint32_t grid[3], block[3], cluster[3];
  uint32_t sharedBytes; ///< dynamic
  int dependentLaunch;  ///< it may begin before the kernel ahead has ended
  int cooperative;      ///< all blocks at once were asked for
  struct CUstream_st *stream;
  double durationNs; ///< in: the default; out: how far the clock moves
  int result;        ///< out: a CUresult that kills the context, 0 for none
} KilnFakeLaunch;
typedef void (*KilnFakeKernel)(KilnFakeLaunch *launch, void *user);
/// Runs \p kernel, on the launching thread, at each launch of a matching
/// function. A function matches if its name is \p pattern, if its module text
/// contains \p pattern, or if its name begins with the text before a '*' that
/// ends \p pattern ("kiln_*"). Where several callbacks match, the one
/// registered last runs. \p paramBytes of the parameter are kept when the
/// launch is captured. With none registered a launch costs some ns.
KILN_FAKE_API void kilnFakeOnLaunch(const char *pattern, KilnFakeKernel kernel,
                                    void *user, size_t paramBytes);
/// Virtual duration of a launch no callback speaks for; 1000 ns by default.
KILN_FAKE_API void kilnFakeSetLaunchNs(double ns);
/// \p attribute is a CUfunction_attribute of every function loaded from now on
/// that has the name \p pattern, or \p pattern in its module text.
KILN_FAKE_API void kilnFakeSetFunctionAttribute(const char *pattern,
                                                int attribute, int value);

// Steps: the enqueued work, its thread, its order.
typedef enum KilnFakeStepKind {
  KilnFakeStepKernel,
  KilnFakeStepMemset,
  KilnFakeStepCopy
} KilnFakeStepKind;
typedef struct KilnFakeStep {
  KilnFakeStepKind kind;
  const char *function; ///< of a kernel, else ""
  struct CUstream_st *stream;
  uint64_t streamId; ///< 0: a default stream
  uint64_t thread;   ///< kilnFakeThread() of the enqueuing thread
  int isCaptured;    ///< recorded, not run
  int isFromGraph;
} KilnFakeStep;
/// A number of the calling thread that no other has.
KILN_FAKE_API uint64_t kilnFakeThread(void);
/// Keeps every step from now on; or stops that and forgets the kept ones.
KILN_FAKE_API void kilnFakeLogSteps(int on);
KILN_FAKE_API size_t kilnFakeStepCount(void);
/// Step \p index in the order of enqueuing; valid until the log is turned off.
KILN_FAKE_API KilnFakeStep kilnFakeStepAt(size_t index);
/// Calls \p hook behind every step, on the thread that enqueued it and without
/// a lock: it may yield, wait for others or call the driver, and so widen the
/// gap between two steps of a plan. Null: none.
typedef void (*KilnFakeStepHook)(const KilnFakeStep *step, void *user);
KILN_FAKE_API void kilnFakeOnStep(KilnFakeStepHook hook, void *user);

// Work that does not end.
/// A launch of a function with the name \p pattern, or with \p pattern in its
/// module text, stays unfinished from now on, and so does work that is enqueued
/// behind it: on its stream, on the default stream if its stream is a blocking
/// one, and on blocking streams if it is the default one. Events behind it are
/// not ready; cuStreamSynchronize and synchronous copies behind it,
/// cuCtxSynchronize, cuMemFree, cuModuleLoadData and cuModuleUnload block.
KILN_FAKE_API void kilnFakeHoldWork(const char *pattern);
/// Runs all that is held, on the calling thread, and holds nothing any more.
KILN_FAKE_API void kilnFakeReleaseWork(void);
/// Calls that had to wait for held work. Each waits for \p ms at most (1000 by
/// default) and then fails with CUDA_ERROR_UNKNOWN without doing anything,
/// where a driver would wait for ever.
KILN_FAKE_API uint64_t kilnFakeBlockedCalls(void);
KILN_FAKE_API void kilnFakeSetBlockLimit(int ms);

/// The contents that cuTensorMapEncode* writes into the 128 opaque bytes.
typedef struct KilnFakeTensorMap {
  uint64_t address;
  uint64_t dims[5];
  uint64_t strides[4];
  uint32_t box[5]; ///< im2col: channels a pixel, pixels a column, 0...
  uint8_t rank, dataType, swizzle, im2col;
  uint8_t elementStrides[5];
  uint8_t l2Promotion;
} KilnFakeTensorMap;

// Time, in virtual ns.
KILN_FAKE_API double kilnFakeClockNs(void);
KILN_FAKE_API void kilnFakeAdvanceClock(double ns);

// Failures.
typedef enum KilnFakeFailure {
  KilnFakeOnce = 0,        ///< that one call
  KilnFakeAlways = 1,      ///< that call and each later one of the function
  KilnFakeKillsContext = 2 ///< that call, and its context is dead afterwards
} KilnFakeFailure;
/// Makes the \p nth call from now (1: the next) of \p symbol return \p result
/// and do nothing. Names as in CudaSymbols.def, e.g. "cuMemAlloc". One failure
/// a symbol is armed at a time; a result of 0 disarms.
KILN_FAKE_API void kilnFakeFailCall(const char *symbol, uint64_t nth,
                                    int result, KilnFakeFailure kind);

// Books.
/// Calls of \p symbol since the last reset, failed ones included.
KILN_FAKE_API uint64_t kilnFakeCallCount(const char *symbol);
/// Calls of all symbols since the last reset.
KILN_FAKE_API uint64_t kilnFakeTotalCalls(void);
/// Bytes of device memory in use on all devices.
KILN_FAKE_API uint64_t kilnFakeBytesInUse(void);
/// The most of them at one time since the last reset.
KILN_FAKE_API uint64_t kilnFakePeakBytes(void);
/// Modules that are loaded.
KILN_FAKE_API uint64_t kilnFakeModulesLoaded(void);

#ifdef __cplusplus
} // extern "C"
#endif
