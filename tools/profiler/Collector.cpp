//===- Collector.cpp ------------------------------------------------------===//
#include "profiler/Collector.h"

#include "profiler/JsonText.h"

#include <unistd.h>

namespace kiln::profiler {

void NodeRanges::created(uint64_t node, uint32_t range) {
  std::lock_guard lock(mutex);
  // A clone may be announced before its creation.
  ranges.emplace(node, range);
}

void NodeRanges::cloned(uint64_t node, uint64_t original) {
  std::lock_guard lock(mutex);
  auto found = ranges.find(original);
  const uint32_t range = found == ranges.end() ? 0 : found->second;
  ranges[node] = range;
}

void NodeRanges::destroyed(uint64_t node) {
  std::lock_guard lock(mutex);
  ranges.erase(node);
}

uint32_t NodeRanges::of(uint64_t node) const {
  std::lock_guard lock(mutex);
  auto found = ranges.find(node);
  return found == ranges.end() ? 0 : found->second;
}

//===----------------------------------------------------------------------===//
// Adding
//===----------------------------------------------------------------------===//

static const char *copyName(uint8_t kind) {
  // CUpti_ActivityMemcpyKind.
  static constexpr const char *kNames[] = {"unknown", "HtoD", "DtoH", "HtoA",
                                           "AtoH",    "AtoA", "AtoD", "DtoA",
                                           "DtoD",    "HtoH", "PtoP"};
  return kind < std::size(kNames) ? kNames[kind] : kNames[0];
}

const RangePath *Collector::rangeOf(const Work &work) {
  const uint32_t launched = launches.of(work.correlation);
  const uint32_t captured = work.node ? nodes.of(work.node) : 0;
  if (!captured)
    return rangeTree().at(launched);
  // Found again where it is needed.
  if (joined.size() >= RangeTree::kMostPaths)
    joined.clear();
  auto [place, isNew] = joined.try_emplace({launched, captured});
  if (isNew)
    place->second =
        rangeTree().join(rangeTree().at(launched), rangeTree().at(captured));
  return place->second;
}

KernelRow &Collector::addWork(const Work &work) {
  DeviceRow &device = devices[work.device];
  device.firstNs = std::min(device.firstNs, work.start);
  device.lastNs = std::max(device.lastNs, work.end);
  device.busy.add(work.start, work.end);
  KernelRow &row = rows[{work.kind, work.name, work.device, rangeOf(work)}];
  const uint64_t ns = work.end > work.start ? work.end - work.start : 0;
  ++row.calls;
  row.totalNs += ns;
  row.bytes += work.bytes;
  row.minNs = std::min(row.minNs, ns);
  row.maxNs = std::max(row.maxNs, ns);
  return row;
}

static std::string hexOf(const uint8_t (&bytes)[16]) {
  std::string text;
  for (uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

void Collector::add(const ActivityRecord &record) {
  std::lock_guard lock(mutex);
  if (record.kind == kKernelRecord) {
    const auto &r = reinterpret_cast<const KernelRecord &>(record);
    // A record of work that had not ended when records were asked for.
    if (r.end == 0)
      return;
    KernelRow &row = addWork({"kernel", r.name ? r.name : "", r.start, r.end,
                              r.deviceId, r.correlationId, r.graphNodeId, 0});
    if (row.calls == 1 || r.end - r.start > row.longest.end - row.longest.start)
      row.longest = r;
  } else if (record.kind == kMemcpyRecord) {
    const auto &r = reinterpret_cast<const MemcpyRecord &>(record);
    if (r.end != 0)
      addWork({"memcpy", copyName(r.copyKind), r.start, r.end, r.deviceId,
               r.correlationId, r.graphNodeId, r.bytes});
  } else if (record.kind == kMemsetRecord) {
    const auto &r = reinterpret_cast<const MemsetRecord &>(record);
    if (r.end != 0)
      addWork({"memset", "memset", r.start, r.end, r.deviceId, r.correlationId,
               r.graphNodeId, r.bytes});
  } else if (record.kind == kDeviceRecord) {
    const auto &r = reinterpret_cast<const DeviceRecord &>(record);
    devices[r.id].name = r.name ? r.name : "";
    devices[r.id].uuid = hexOf(r.uuid);
  }
}

void Collector::addDropped(uint64_t records) {
  std::lock_guard lock(mutex);
  dropped += records;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static std::string rangeToJson(const RangePath *range) {
  JsonList list;
  for (; range; range = range->parent) {
    JsonObject object;
    object.add("name", range->name);
    if (!range->category.empty())
      object.add("category", range->category);
    if (range->domain && !range->domain->name.empty())
      object.add("domain", range->domain->name);
    list.addFirst(object.text());
  }
  return list.text();
}

static std::string tripleToJson(const int32_t (&values)[3]) {
  JsonList list;
  for (int32_t value : values)
    list.add(std::to_string(value));
  return list.text();
}

std::string Collector::rowsToJson() const {
  JsonList list;
  for (const auto &[key, row] : rows) {
    JsonObject object;
    object.add("kind", key.kind);
    object.add("name", key.name);
    object.add("device", uint64_t(key.device));
    object.add("calls", row.calls);
    object.add("totalNs", row.totalNs);
    object.add("minNs", row.minNs);
    object.add("maxNs", row.maxNs);
    if (key.range)
      object.addRaw("range", rangeToJson(key.range));
    if (key.kind != "kernel") {
      object.add("bytes", row.bytes);
    } else {
      const KernelRecord &r = row.longest;
      object.add("registers", uint64_t(r.registersPerThread));
      object.add("staticShared", uint64_t(r.staticSharedMemory));
      object.add("dynamicShared", uint64_t(r.dynamicSharedMemory));
      object.add("localBytes", uint64_t(r.localMemoryPerThread));
      object.addRaw("grid", tripleToJson(r.grid));
      object.addRaw("block", tripleToJson(r.block));
    }
    list.add(object.text());
  }
  return list.text();
}

std::string Collector::devicesToJson() const {
  JsonList list;
  for (const auto &[id, device] : devices) {
    JsonObject object;
    object.add("id", uint64_t(id));
    object.add("name", device.name);
    object.add("uuid", device.uuid);
    if (device.lastNs != 0) {
      object.add("firstNs", device.firstNs);
      object.add("lastNs", device.lastNs);
      object.add("busyNs", device.busy.total());
    }
    list.add(object.text());
  }
  return list.text();
}

std::string Collector::toJson(const std::string &error, bool isComplete) {
  std::lock_guard lock(mutex);
  JsonObject object;
  object.add("kilnProfile", uint64_t(1));
  object.add("pid", uint64_t(::getpid()));
  if (!error.empty())
    object.add("error", error);
  object.addRaw("complete", isComplete ? "true" : "false");
  object.addRaw("tooManyRanges", rangeTree().isFull() ? "true" : "false");
  object.add("dropped", dropped);
  object.addRaw("devices", devicesToJson());
  object.addRaw("rows", rowsToJson());
  return object.text() + "\n";
}

} // namespace kiln::profiler
