//===- FakeCudaHazards.h - stalls, and misuse of handles ------------------===//
//
// Where the stand-in driver has to be as strict as a real one: loads that keep
// others from launching, and handles that must not be used any more.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Fakes/FakeCuda.h"

#ifdef __cplusplus
extern "C" {
#endif

// Loads that stall.
/// From now on cuModuleLoadData, cuModuleUnload and cuMemFree take \p us, and
/// as long as one of them runs no thread can enqueue anything: so does a
/// driver, in which they wait for all work of the device. 0: no time, as by
/// default.
KILN_FAKE_API void kilnFakeSetLoadTime(int us);
/// Calls that enqueue and had to wait for one of these.
KILN_FAKE_API uint64_t kilnFakeStalledCalls(void);
/// Such loads, and how long, in us, no other thread had enqueued anything when
/// load \p index began; a great number where none ever had.
KILN_FAKE_API size_t kilnFakeStallingLoads(void);
KILN_FAKE_API uint64_t kilnFakeQuietUsBefore(size_t index);

// Misuse.
/// A call that is given a destroyed context, which a driver takes and which
/// breaks the heap: cuCtxPushCurrent and its like (an H200 with driver 580
/// did). It ends the process with a line on stderr. With \p on it is counted
/// instead, and answers CUDA_ERROR_CONTEXT_IS_DESTROYED. cuCtxGetId may be
/// asked.
KILN_FAKE_API void kilnFakeCountMisuse(int on);
KILN_FAKE_API uint64_t kilnFakeMisuses(void);

#ifdef __cplusplus
} // extern "C"
#endif
