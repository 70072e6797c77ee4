//===- StreamLock.cpp - serialises enqueueing on a stream -----------------===//
#include "Workspace/StreamLock.h"

#include "Driver/Stream.h"
#include "Observe/Span.h"
#include "Workspace/PublishedTable.h"

namespace kiln {

namespace {
/// The lock of one stream handle. A handle that the driver reuses keeps it, so
/// there are as many locks as streams that existed at one time.
struct StreamEntry {
  uint64_t hash = 0;
  uint64_t contextId = 0;
  CudaStream stream = nullptr;
  mutable std::mutex mutex;
};

/// The locks of all streams of the process.
class StreamLocks {
public:
  std::mutex &of(uint64_t contextId, CudaStream stream) {
    uint64_t hash = contextId * 0x9e3779b97f4a7c15u;
    hash = (hash ^ reinterpret_cast<uintptr_t>(stream)) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
    auto matches = [&](const StreamEntry &entry) {
      return entry.contextId == contextId && entry.stream == stream;
    };
    if (const StreamEntry *entry = table.find(hash, matches)) [[likely]]
      return entry->mutex;
    std::lock_guard<std::mutex> lock(adding);
    // Another thread may have added it, and a stream has one lock for ever.
    if (const StreamEntry *entry = table.find(hash, matches))
      return entry->mutex;
    auto entry = std::make_unique<StreamEntry>();
    entry->hash = hash;
    entry->contextId = contextId;
    entry->stream = stream;
    return table.publish(std::move(entry), matches)->mutex;
  }

private:
  PublishedTable<StreamEntry> table;
  std::mutex adding;
};
} // namespace

static StreamLocks &streamLocks() {
  // Never destroyed: threads may launch while the process exits.
  static StreamLocks &locks = *new StreamLocks;
  return locks;
}

std::unique_lock<std::mutex> lockStream(uint64_t contextId, CudaStream stream) {
  if (isPerThreadStream(stream))
    return {};
  std::mutex &mutex =
      streamLocks().of(contextId, isLegacyStream(stream) ? nullptr : stream);
  // A plan is enqueued in microseconds: sleeping at once would cost more.
  constexpr int kAttempts = 200;
  for (int i = 0; i < kAttempts; ++i)
    if (mutex.try_lock())
      return {mutex, std::adopt_lock};
  const observe::Span span(observe::Phase::Wait,
                           "another thread enqueues on the stream");
  return std::unique_lock<std::mutex>(mutex);
}

} // namespace kiln
