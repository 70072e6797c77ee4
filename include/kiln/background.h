//===- background.h - the background of an engine -------------------------===//
//
// Pauses and waits for an engine of KILN_MODE_BACKGROUND. Included by kiln.h,
// whose head states the rules that all of it follows.
//
// Work
//   The engine has a thread that looks for better plans: for the layers of
//   calls that found no plan, and for problems that kiln_prepare was given. It
//   compiles, on threads of a lower priority, and measures, on a stream of its
//   own, with background_permille of the GPU's time. Plans that it finds serve
//   later calls, one value after another. A kiln_plan keeps its plan, and so
//   does a graph. KILN_EVENT_PENDING and kiln_statistics tell what is to be
//   done.
//
// Captures
//   Nothing is measured within 250 ms after a call into a capture had to look
//   for a plan or an arena, however often that happens; background_held_ns
//   tells how long that was. Calls that hit do not tell of a capture: pause the
//   background for one.
//
// Workspaces
//   A plan that it finds may need more workspace than kiln_query told before,
//   up to workspace_limit_bytes. A call whose workspace is too small for it
//   keeps the plan that kiln_query told of.
//
// Contexts
//   Before a context is destroyed, pause and wait: the thread then works in no
//   context, and later it asks each for its id first. Without that the
//   behaviour is undefined, as with calls in progress.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_BACKGROUND_H
#define KILN_BACKGROUND_H

#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Keeps the background from beginning anything, until kiln_background_resume
/// was called as often. Calls still launch the kernels that are there.
/// Waits for nothing. Trials in progress end within some milliseconds. A
/// compilation may take a second, and so may the choice of a layer's kernels,
/// which kiln_engine_destroy alone cuts short.
/// Errors: KILN_UNSUPPORTED in other modes.
KILN_API kiln_status kiln_background_pause(kiln_engine *engine) KILN_NOEXCEPT;

/// Ends a pause. Waits for nothing.
/// Errors: KILN_INVALID_ARGUMENT without a pause; KILN_UNSUPPORTED in other
/// modes.
KILN_API kiln_status kiln_background_resume(kiln_engine *engine) KILN_NOEXCEPT;

/// Waits until nothing is left to be done, or, during a pause, until nothing is
/// in progress; for at most \p timeout_ms, for ever if it is negative.
/// Errors: KILN_IN_PROGRESS after the time-out, and always in a hook that the
/// background calls; KILN_UNSUPPORTED in other modes.
KILN_API kiln_status kiln_background_wait(kiln_engine *engine,
                                          int64_t timeout_ms) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_BACKGROUND_H
