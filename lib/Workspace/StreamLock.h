//===- StreamLock.h - who enqueues on a stream ----------------------------===//
//
// The steps of a plan hand each other what they wrote to its workspace, and
// launches of one stream may share a workspace. A step that another thread
// enqueues between two of them would overwrite what the second one reads. So
// whatever uses a workspace is enqueued by one thread at a time on each stream,
// in all engines of the process: a caller's workspace may be shared by several.
//
// Each stream has a lock of its own. A few locks for all streams would not do:
// the driver makes a launch wait while its queue is full, and what empties the
// queue may be a launch of another thread on another stream.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Handles.h"

#include <cstdint>
#include <mutex>

namespace kiln {

/// Waits until no other thread holds the lock of \p stream of a context and
/// takes it: some 30 ns if nobody does. Locks nothing for CU_STREAM_PER_THREAD,
/// which no other thread has. No hook is called while it is held. Allocates
/// when it meets a stream for the first time.
std::unique_lock<std::mutex> lockStream(uint64_t contextId, CudaStream stream);

} // namespace kiln
