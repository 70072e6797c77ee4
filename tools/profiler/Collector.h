//===- Collector.h - sums of device time, by kernel and range -------------===//
//
// CUPTI's records are summed up as they arrive: a row for each kernel (or kind
// of copy), device and range. A launch is joined with the range in which it was
// called by its correlation id. CUPTI has records for that as well (external
// correlation), but they may come after the kernel's, and need a record of
// every call of the API; here the range is noted before the launch, so a
// kernel's row is known when its record comes, and nothing is kept for later.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "profiler/BusyTime.h"
#include "profiler/Cupti.h"
#include "profiler/Ranges.h"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace kiln::profiler {

/// The ranges of the latest launches, by correlation id. Ids are counted up, so
/// a slot is taken by a later launch only after kSlots calls of launches,
/// copies and memsets. Thread-safe, without a lock.
class LaunchRanges {
public:
  static constexpr uint32_t kSlots = 1u << 20;

  LaunchRanges() : slots(new std::atomic<uint64_t>[kSlots]()) {}
  void note(uint32_t correlation, uint32_t range) {
    slots[correlation % kSlots].store(uint64_t(correlation) << 32 | range,
                                      std::memory_order_release);
  }
  /// 0: none was noted.
  uint32_t of(uint32_t correlation) const {
    uint64_t slot = slots[correlation % kSlots].load(std::memory_order_acquire);
    return slot >> 32 == correlation ? static_cast<uint32_t>(slot) : 0;
  }

private:
  std::unique_ptr<std::atomic<uint64_t>[]> slots;
};

/// The ranges in which nodes of graphs were captured, by CUPTI's id of the
/// node. Thread-safe.
class NodeRanges {
public:
  void created(uint64_t node, uint32_t range);
  /// \p node inherits from \p original.
  void cloned(uint64_t node, uint64_t original);
  void destroyed(uint64_t node);
  uint32_t of(uint64_t node) const;

private:
  mutable std::mutex mutex;
  std::unordered_map<uint64_t, uint32_t> ranges; ///< 0 is kept, too
};

/// One sum.
struct KernelRow {
  uint64_t calls = 0, totalNs = 0, minNs = ~uint64_t(0), maxNs = 0;
  uint64_t bytes = 0; ///< of copies and memsets
  /// The record of the longest call.
  KernelRecord longest{};
};

struct DeviceRow {
  std::string name, uuid;
  uint64_t firstNs = ~uint64_t(0), lastNs = 0;
  BusyTime busy;
};

/// All sums of a process. Thread-safe.
class Collector {
public:
  LaunchRanges launches;
  NodeRanges nodes;

  /// Adds \p record, of any kind.
  void add(const ActivityRecord &record);
  void addDropped(uint64_t records);

  /// One JSON document, which tools/kiln/ProfileData.h reads. \p error: why it
  /// may have nothing; empty: all is well. \p isComplete: the process has
  /// ended.
  std::string toJson(const std::string &error, bool isComplete);

private:
  struct Key {
    std::string kind, name;
    uint32_t device = 0;
    const RangePath *range = nullptr;
    bool operator==(const Key &) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key &key) const {
      size_t hash = std::hash<std::string>()(key.name);
      hash = hash * 31 + std::hash<std::string>()(key.kind);
      hash = hash * 31 + key.device;
      return hash * 31 + (key.range ? key.range->id : 0);
    }
  };
  /// The fields that all records of work on a device have.
  struct Work {
    const char *kind;
    std::string name;
    uint64_t start, end;
    uint32_t device, correlation;
    uint64_t node, bytes;
  };

  KernelRow &addWork(const Work &work);
  const RangePath *rangeOf(const Work &work);
  std::string rowsToJson() const;
  std::string devicesToJson() const;

  std::mutex mutex;
  std::unordered_map<Key, KernelRow, KeyHash> rows;
  std::map<uint32_t, DeviceRow> devices;
  std::map<std::pair<uint32_t, uint32_t>, const RangePath *> joined;
  uint64_t dropped = 0;
};

} // namespace kiln::profiler
