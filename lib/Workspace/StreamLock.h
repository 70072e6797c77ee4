//===- StreamLock.h - serialises enqueueing on a stream -------------------===//
//
// The steps of a plan pass data through its workspace, and launches of one
// stream may share a workspace. A step that another thread enqueues between two
// of them would overwrite the data that the second one reads. So launches with
// a workspace are enqueued by one thread at a time on each stream, in all
// engines of the process: several engines may share a caller's workspace.
//
// Each stream has a lock of its own. A few locks for all streams could
// deadlock: the driver makes a launch wait while its queue is full, and only a
// launch of another thread on another stream may empty the queue.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Handles.h"

#include <cstdint>
#include <mutex>

namespace kiln {

/// Waits until no other thread holds the lock of \p stream of a context, and
/// takes it: some 30 ns if the lock is free. Locks nothing for
/// CU_STREAM_PER_THREAD, which is a stream of this thread alone. No hook is
/// called while it is held. Allocates when it meets a stream for the first
/// time.
std::unique_lock<std::mutex> lockStream(uint64_t contextId, CudaStream stream);

} // namespace kiln
