//===- Injection.cpp - entry points, CUPTI, the file at the end -----------===//
//
// The driver loads the library that CUDA_INJECTION64_PATH names in cuInit and
// calls InitializeInjection(); NVTX does likewise, at any time. CUPTI is opened
// here and never closed. The sums are written at exit, at cuProfilerStop, and
// now and then, so that a process that is killed leaves most of them. A process
// that forks without exec keeps its file: the child writes none of its own
// unless it initialises CUDA itself.
//
//===----------------------------------------------------------------------===//
#include "profiler/Injection.h"

#include "profiler/Collector.h"
#include "profiler/CuptiLibrary.h"
#include "profiler/Nvtx.h"
#include "profiler/OutputFile.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#define KILN_PROFILER_API extern "C" __attribute__((visibility("default")))

namespace kiln::profiler {

namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr auto kBetweenWrites = std::chrono::seconds(2);
constexpr uint32_t kCollected[] = {kKernelRecord, kMemcpyRecord, kMemsetRecord};

/// The kinds of calls of the API.
enum class Call : uint8_t { Other, Launch, Start, Stop };

/// The state of a process that has initialised CUDA. Lives for ever: CUPTI's
/// threads may call until the end.
struct Injection {
  CuptiLibrary cupti;
  Collector collector;
  OutputFile file;
  CuptiSubscriber subscriber = nullptr;
  std::vector<Call> calls[2]; ///< of the driver and the runtime, by id
  pid_t owner = 0;
  std::string error; ///< guarded by `writing` once threads are there
  std::once_flag watched;
  std::mutex collecting, writing;
  bool isCollecting = false;
  std::chrono::steady_clock::time_point written;

  void start();
  void stop();
  void write(bool isComplete);
  void writeSometimes();
  void nameCalls();
  void enableCalls(Call wanted);
  CuptiResult open();
};

std::atomic<Injection *> injection{nullptr};

/// Begins to collect; does nothing if it has begun.
void Injection::start() {
  std::lock_guard lock(collecting);
  if (std::exchange(isCollecting, true))
    return;
  for (uint32_t kind : kCollected) {
    const CuptiResult result = cupti.cuptiActivityEnable(kind);
    if (result != kCuptiSuccess && kind == kKernelRecord) {
      std::lock_guard told(writing);
      error = "CUPTI records no kernels: " + cupti.nameOf(result);
    }
  }
}

void Injection::stop() {
  {
    std::lock_guard lock(collecting);
    if (!std::exchange(isCollecting, false))
      return;
    (void)cupti.cuptiActivityFlushAll(kFlushForced);
    for (uint32_t kind : kCollected)
      (void)cupti.cuptiActivityDisable(kind);
  }
  write(/*isComplete=*/false);
}

void Injection::write(bool isComplete) {
  std::lock_guard lock(writing);
  file.replace(collector.toJson(error, isComplete));
  written = std::chrono::steady_clock::now();
}

void Injection::writeSometimes() {
  {
    std::lock_guard lock(writing);
    if (std::chrono::steady_clock::now() - written < kBetweenWrites)
      return;
  }
  write(/*isComplete=*/false);
}

//===----------------------------------------------------------------------===//
// Callbacks
//===----------------------------------------------------------------------===//

void onBufferRequested(uint8_t **buffer, size_t *bytes, size_t *maxRecords) {
  *buffer = static_cast<uint8_t *>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0;
  *maxRecords = 0;
}

void onBufferCompleted(void *context, uint32_t stream, uint8_t *buffer, size_t,
                       size_t validBytes) {
  Injection &self = *injection.load();
  ActivityRecord *record = nullptr;
  while (validBytes > 0 && self.cupti.cuptiActivityGetNextRecord(
                               buffer, validBytes, &record) == kCuptiSuccess)
    self.collector.add(*record);
  size_t dropped = 0;
  if (self.cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) ==
          kCuptiSuccess &&
      dropped > 0)
    self.collector.addDropped(dropped);
  std::free(buffer);
  self.writeSometimes();
}

void onCall(Injection &self, uint32_t domain, uint32_t id,
            const CallData &data) {
  const std::vector<Call> &calls = self.calls[domain == kRuntimeCalls];
  const Call call = id < calls.size() ? calls[id] : Call::Other;
  const bool enters = data.callbackSite == kCallEnter;
  if (call == Call::Launch && enters) {
    if (uint32_t range = currentRange())
      self.collector.launches.note(data.correlationId, range);
  } else if (call == Call::Start && !enters) {
    self.start();
  } else if (call == Call::Stop && enters) {
    self.stop();
  }
}

void onNode(Injection &self, uint32_t id, const GraphData &graph) {
  uint64_t node = 0, original = 0;
  if (self.cupti.cuptiGetGraphNodeId(graph.node, &node) != kCuptiSuccess)
    return;
  NodeRanges &nodes = self.collector.nodes;
  if (id == kNodeCreated)
    nodes.created(node, currentRange());
  else if (id == kNodeDestroyed)
    nodes.destroyed(node);
  else if (self.cupti.cuptiGetGraphNodeId(graph.originalNode, &original) ==
           kCuptiSuccess)
    nodes.cloned(node, original);
}

void onEvent(void *user, uint32_t domain, uint32_t id, const void *data) {
  auto &self = *static_cast<Injection *>(user);
  if (domain != kResourceEvents)
    return onCall(self, domain, id, *static_cast<const CallData *>(data));
  const auto *resource = static_cast<const ResourceData *>(data);
  if (resource->descriptor)
    onNode(self, id, *static_cast<const GraphData *>(resource->descriptor));
}

//===----------------------------------------------------------------------===//
// Start and end
//===----------------------------------------------------------------------===//

Call callNamed(const char *name) {
  auto begins = [&](const char *prefix) {
    return std::strncmp(name, prefix, std::strlen(prefix)) == 0;
  };
  for (const char *prefix :
       {"cuLaunch", "cudaLaunch", "__cudaLaunch", "cuGraphLaunch",
        "cudaGraphLaunch", "cuMemcpy", "cudaMemcpy", "cuMemset", "cudaMemset"})
    if (begins(prefix))
      return Call::Launch;
  if (begins("cuProfilerStart") || begins("cudaProfilerStart"))
    return Call::Start;
  if (begins("cuProfilerStop") || begins("cudaProfilerStop"))
    return Call::Stop;
  return Call::Other;
}

/// Finds the ids of calls by their names, which every version of CUDA keeps.
void Injection::nameCalls() {
  // More than a version has; CUDA 13 has some 800 of the driver.
  constexpr uint32_t kMostIds = 2048;
  for (uint32_t domain : {kDriverCalls, kRuntimeCalls}) {
    std::vector<Call> &named = calls[domain == kRuntimeCalls];
    named.assign(kMostIds, Call::Other);
    for (uint32_t id = 1; id < kMostIds; ++id) {
      const char *name = nullptr;
      if (cupti.cuptiGetCallbackName(domain, id, &name) == kCuptiSuccess &&
          name)
        named[id] = callNamed(name);
    }
  }
}

void Injection::enableCalls(Call wanted) {
  for (uint32_t domain : {kDriverCalls, kRuntimeCalls}) {
    const std::vector<Call> &named = calls[domain == kRuntimeCalls];
    for (uint32_t id = 0; id < named.size(); ++id)
      if (named[id] == wanted)
        (void)cupti.cuptiEnableCallback(1, subscriber, domain, id);
  }
}

CuptiResult Injection::open() {
  CuptiResult result = cupti.cuptiSubscribe(&subscriber, onEvent, this);
  if (result != kCuptiSuccess)
    return result;
  result = cupti.cuptiActivityRegisterCallbacks(onBufferRequested,
                                                onBufferCompleted);
  if (result != kCuptiSuccess)
    return result;
  // Devices are told once, before a part that is recorded may begin.
  (void)cupti.cuptiActivityEnable(kDeviceRecord);
  nameCalls();
  enableCalls(Call::Start);
  enableCalls(Call::Stop);
  return kCuptiSuccess;
}

void writeAtExit() {
  Injection *self = injection.load();
  // A child of fork has its parent's handlers.
  if (!self || self->owner != ::getpid())
    return;
  if (self->subscriber)
    (void)self->cupti.cuptiActivityFlushAll(kFlushForced);
  self->write(/*isComplete=*/true);
}

void initialise() {
  const Environment environment = Environment::fromProcess();
  if (environment.out.empty())
    return;
  auto *self = new Injection;
  self->owner = ::getpid();
  self->file.choose(environment.out);
  injection.store(self);
  self->error = self->cupti.open(environment);
  if (self->error.empty()) {
    const CuptiResult result = self->open();
    if (result != kCuptiSuccess) {
      self->subscriber = nullptr;
      const std::string name = self->cupti.nameOf(result);
      self->error = self->cupti.path + " cannot be used: " + name;
      if (name.find("MULTIPLE_SUBSCRIBERS") != std::string::npos)
        self->error += ": another profiler uses it";
    } else if (environment.fromStart) {
      self->start();
    }
  }
  std::atexit(writeAtExit);
  // Told even if the process is killed.
  self->write(/*isComplete=*/false);
  if (currentRange())
    watchRanges();
}

} // namespace

void watchRanges() {
  Injection *self = injection.load(std::memory_order_acquire);
  if (!self || !self->subscriber)
    return;
  std::call_once(self->watched, [&] {
    self->enableCalls(Call::Launch);
    for (uint32_t id : {kNodeCreated, kNodeCloned, kNodeDestroyed})
      (void)self->cupti.cuptiEnableCallback(1, self->subscriber,
                                            kResourceEvents, id);
  });
}

} // namespace kiln::profiler

KILN_PROFILER_API int InitializeInjection() {
  using namespace kiln::profiler;
  Injection *self = injection.load();
  // A child of fork that initialises CUDA is a process of its own.
  if (!self || self->owner != ::getpid())
    initialise();
  return 1;
}

KILN_PROFILER_API int
InitializeInjectionNvtx2(kiln::profiler::NvtxGetExportTable getExportTable) {
  return getExportTable && kiln::profiler::attachToNvtx(getExportTable);
}
