//===- FakeCupti.cpp ------------------------------------------------------===//
#include "Fakes/FakeCupti.h"

#include "profiler/Cupti.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

using namespace kiln::profiler;

namespace {

// Records of the present CUPTI are longer than the helper's declarations.
constexpr size_t kKernelBytes = 208, kCopyBytes = 96, kMemsetBytes = 88,
                 kDeviceBytes = 216;
/// Several buffers even for few records.
constexpr size_t kRecordsOfBuffer = 3;

/// Calls with the ids of CUDA 13.
const std::map<std::pair<uint32_t, uint32_t>, const char *> kCalls = {
    {{kDriverCalls, 1}, "cuInit"},
    {{kDriverCalls, 276}, "cuMemcpyHtoD_v2"},
    {{kDriverCalls, 307}, "cuLaunchKernel"},
    {{kDriverCalls, 308}, "cuProfilerStart"},
    {{kDriverCalls, 309}, "cuProfilerStop"},
    {{kDriverCalls, 514}, "cuGraphLaunch"},
    {{kRuntimeCalls, 51}, "cudaMemset_v3020"},
    {{kRuntimeCalls, 211}, "cudaLaunchKernel_v7000"},
};

struct State {
  std::mutex mutex;
  CuptiCallback callback = nullptr;
  void *user = nullptr;
  std::set<std::pair<uint32_t, uint32_t>> enabledCalls;
  std::set<uint32_t> enabledKinds;
  BufferRequested requested = nullptr;
  BufferCompleted completed = nullptr;
  std::deque<std::string> records;
  uint32_t correlation = 100;
  size_t dropped = 0;
};

State &state() {
  static State *one = new State;
  return *one;
}

size_t bytesOf(uint32_t kind) {
  switch (kind) {
  case kKernelRecord:
    return kKernelBytes;
  case kMemcpyRecord:
    return kCopyBytes;
  case kMemsetRecord:
    return kMemsetBytes;
  default:
    return kDeviceBytes;
  }
}

template <class Record> void enqueue(const Record &record) {
  if (!state().enabledKinds.count(record.kind))
    return;
  std::string bytes(bytesOf(record.kind), '\x55');
  std::memcpy(bytes.data(), &record, sizeof record);
  state().records.push_back(std::move(bytes));
}

/// One call of the API with its callbacks; answers its correlation id.
uint32_t call(uint32_t domain, uint32_t id) {
  State &s = state();
  CallData data{};
  data.correlationId = ++s.correlation;
  const uint32_t correlation = data.correlationId;
  for (int32_t site : {kCallEnter, kCallExit}) {
    data.callbackSite = site;
    if (s.callback && s.enabledCalls.count({domain, id}))
      s.callback(s.user, domain, id, &data);
  }
  return correlation;
}

void enqueueKernel(const char *kernel, uint32_t device, uint64_t startNs,
                   uint64_t ns, uint32_t correlation, uint64_t node) {
  KernelRecord record{};
  record.kind = kKernelRecord;
  record.registersPerThread = 168;
  record.start = startNs;
  record.end = startNs + ns;
  record.deviceId = device;
  record.grid[0] = 132;
  record.block[0] = 384;
  record.grid[1] = record.grid[2] = record.block[1] = record.block[2] = 1;
  record.dynamicSharedMemory = 230544;
  record.correlationId = correlation;
  record.name = kernel;
  record.graphNodeId = node;
  enqueue(record);
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void kilnFakeCuptiLaunch(const char *kernel, uint32_t device, uint64_t startNs,
                         uint64_t ns) {
  enqueueKernel(kernel, device, startNs, ns, call(kDriverCalls, 307), 0);
}

void kilnFakeCuptiCopy(uint64_t bytes, uint64_t startNs, uint64_t ns) {
  MemcpyRecord record{};
  record.kind = kMemcpyRecord;
  record.copyKind = 1;
  record.bytes = bytes;
  record.start = startNs;
  record.end = startNs + ns;
  record.correlationId = call(kDriverCalls, 276);
  enqueue(record);
}

void kilnFakeCuptiMemset(uint64_t bytes, uint64_t startNs, uint64_t ns) {
  MemsetRecord record{};
  record.kind = kMemsetRecord;
  record.bytes = bytes;
  record.start = startNs;
  record.end = startNs + ns;
  record.correlationId = call(kRuntimeCalls, 51);
  enqueue(record);
}

void kilnFakeCuptiNode(uint64_t node, uint64_t original) {
  State &s = state();
  const uint32_t id = original ? kNodeCloned : kNodeCreated;
  GraphData graph{};
  graph.node = reinterpret_cast<void *>(node);
  graph.originalNode = reinterpret_cast<void *>(original);
  const ResourceData resource{nullptr, nullptr, &graph};
  if (s.callback && s.enabledCalls.count({kResourceEvents, id}))
    s.callback(s.user, kResourceEvents, id, &resource);
}

void kilnFakeCuptiGraph(const KilnFakeNode *nodes, size_t count) {
  const uint32_t correlation = call(kDriverCalls, 514);
  for (size_t i = 0; i < count; ++i)
    enqueueKernel(nodes[i].kernel, 0, nodes[i].startNs, nodes[i].ns,
                  correlation, nodes[i].id);
}

void kilnFakeCuptiProfiler(int starts) {
  call(kDriverCalls, starts ? 308 : 309);
}

void kilnFakeCuptiDrop(size_t records) { state().dropped += records; }

//===----------------------------------------------------------------------===//
// CUPTI
//===----------------------------------------------------------------------===//

CuptiResult cuptiGetVersion(uint32_t *version) {
  *version = 130001;
  return kCuptiSuccess;
}

CuptiResult cuptiGetResultString(CuptiResult result, const char **text) {
  *text = result == 39 ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
                       : "CUPTI_ERROR_UNKNOWN";
  return kCuptiSuccess;
}

CuptiResult cuptiSubscribe(CuptiSubscriber *subscriber, CuptiCallback callback,
                           void *user) {
  if (const char *result = std::getenv("KILN_FAKE_CUPTI_RESULT"))
    return std::atoi(result);
  State &s = state();
  s.callback = callback;
  s.user = user;
  *subscriber = &s;
  return kCuptiSuccess;
}

CuptiResult cuptiEnableCallback(uint32_t enable, CuptiSubscriber subscriber,
                                uint32_t domain, uint32_t id) {
  if (subscriber != &state())
    return 1;
  if (enable)
    state().enabledCalls.insert({domain, id});
  else
    state().enabledCalls.erase({domain, id});
  return kCuptiSuccess;
}

CuptiResult cuptiGetCallbackName(uint32_t domain, uint32_t id,
                                 const char **name) {
  auto found = kCalls.find({domain, id});
  if (found == kCalls.end())
    return 1;
  *name = found->second;
  return kCuptiSuccess;
}

CuptiResult cuptiActivityRegisterCallbacks(BufferRequested requested,
                                           BufferCompleted completed) {
  state().requested = requested;
  state().completed = completed;
  return kCuptiSuccess;
}

CuptiResult cuptiActivityEnable(uint32_t kind) {
  State &s = state();
  s.enabledKinds.insert(kind);
  if (kind != kDeviceRecord)
    return kCuptiSuccess;
  for (uint32_t device : {0u, 1u}) {
    DeviceRecord record{};
    record.kind = kDeviceRecord;
    record.id = device;
    record.uuid[0] = 0xa0;
    record.uuid[15] = static_cast<uint8_t>(device);
    record.name = "NVIDIA H200";
    enqueue(record);
  }
  return kCuptiSuccess;
}

CuptiResult cuptiActivityDisable(uint32_t kind) {
  state().enabledKinds.erase(kind);
  return kCuptiSuccess;
}

CuptiResult cuptiActivityFlushAll(uint32_t) {
  State &s = state();
  const char *kernel = std::getenv("KILN_FAKE_CUPTI_KERNEL");
  if (kernel && s.enabledKinds.count(kKernelRecord))
    kilnFakeCuptiLaunch(kernel, 0, 1000, 5000);
  while (!s.records.empty()) {
    uint8_t *buffer = nullptr;
    size_t bytes = 0, most = 0, used = 0;
    s.requested(&buffer, &bytes, &most);
    if (!buffer)
      return 1;
    for (size_t i = 0; i < kRecordsOfBuffer && !s.records.empty(); ++i) {
      std::memcpy(buffer + used, s.records.front().data(),
                  s.records.front().size());
      used += s.records.front().size();
      s.records.pop_front();
    }
    s.completed(nullptr, 0, buffer, bytes, used);
  }
  return kCuptiSuccess;
}

CuptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t validBytes,
                                       ActivityRecord **record) {
  uint8_t *next = buffer;
  if (*record)
    next = reinterpret_cast<uint8_t *>(*record) + bytesOf((*record)->kind);
  if (next >= buffer + validBytes)
    return 12; // CUPTI_ERROR_MAX_LIMIT_REACHED
  *record = reinterpret_cast<ActivityRecord *>(next);
  return kCuptiSuccess;
}

CuptiResult cuptiActivityGetNumDroppedRecords(void *, uint32_t,
                                              size_t *dropped) {
  *dropped = std::exchange(state().dropped, 0);
  return kCuptiSuccess;
}

CuptiResult cuptiGetGraphNodeId(void *node, uint64_t *id) {
  if (!node)
    return 1;
  *id = reinterpret_cast<uintptr_t>(node);
  return kCuptiSuccess;
}

} // extern "C"
