//===- Gpu.cpp ------------------------------------------------------------===//
#include "Gpu.h"

#include "Bytes.h"
#include "Error.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <iterator>
#include <utility>

namespace llama {

namespace {

constexpr int kOutOfMemory = 2, kNotReady = 600;
/// CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL and
/// CU_MEMORYTYPE_HOST and _DEVICE.
constexpr unsigned kNonBlocking = 1;
constexpr int kThreadLocal = 1;
constexpr unsigned kHostMemory = 1, kDeviceMemory = 2;
/// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.
constexpr unsigned kLazyPeerAccess = 1;
/// CUDA_ERROR_DEINITIALIZED, _ECC_UNCORRECTABLE, _NVLINK_UNCORRECTABLE and
/// _CONTAINED, _ILLEGAL_ADDRESS, _LAUNCH_TIMEOUT, _CONTEXT_IS_DESTROYED,
/// _ASSERT, _HARDWARE_STACK_ERROR, _ILLEGAL_INSTRUCTION, _MISALIGNED_ADDRESS,
/// _INVALID_ADDRESS_SPACE, _INVALID_PC, _LAUNCH_FAILED, _TENSOR_MEMORY_LEAK,
/// _MPS_CLIENT_TERMINATED and _EXTERNAL_DEVICE.
constexpr int kFatal[] = {4,   214, 220, 226, 700, 702, 709, 710, 714,
                          715, 716, 717, 718, 719, 721, 810, 911};

/// CUDA_MEMCPY2D.
struct Copy2d {
  size_t sourceX = 0, sourceY = 0;
  unsigned sourceType = 0;
  const void *sourceHost = nullptr;
  DeviceAddress sourceDevice = 0;
  void *sourceArray = nullptr;
  size_t sourcePitch = 0;
  size_t targetX = 0, targetY = 0;
  unsigned targetType = 0;
  void *targetHost = nullptr;
  DeviceAddress targetDevice = 0;
  void *targetArray = nullptr;
  size_t targetPitch = 0;
  size_t width = 0, height = 0;
};

} // namespace

// Name in the driver, member, parameters.
#define LLAMA_CUDA_FUNCTIONS(X)                                                \
  X("cuInit", init, (unsigned))                                                \
  X("cuDeviceGet", deviceGet, (int *, int))                                    \
  X("cuDeviceGetName", deviceGetName, (char *, int, int))                      \
  X("cuDeviceCanAccessPeer", canAccessPeer, (int *, int, int))                 \
  X("cuDevicePrimaryCtxRetain", contextRetain, (void **, int))                 \
  X("cuDevicePrimaryCtxRelease_v2", contextRelease, (int))                     \
  X("cuCtxPushCurrent_v2", contextPush, (void *))                              \
  X("cuGetErrorString", errorString, (int, const char **))                     \
  X("cuMemGetInfo_v2", memoryInfo, (size_t *, size_t *))                       \
  X("cuMemAlloc_v2", allocate, (DeviceAddress *, size_t))                      \
  X("cuMemFree_v2", release, (DeviceAddress))                                  \
  X("cuIpcGetMemHandle", nameMemory, (MemoryName *, DeviceAddress))            \
  X("cuIpcOpenMemHandle_v2", mapMemory,                                        \
    (DeviceAddress *, MemoryName, unsigned))                                   \
  X("cuIpcCloseMemHandle", unmapMemory, (DeviceAddress))                       \
  X("cuMemHostAlloc", allocatePinned, (void **, size_t, unsigned))             \
  X("cuMemFreeHost", releasePinned, (void *))                                  \
  X("cuMemcpyHtoDAsync_v2", uploadAsync,                                       \
    (DeviceAddress, const void *, size_t, CudaStreamHandle))                   \
  X("cuMemcpyDtoHAsync_v2", downloadAsync,                                     \
    (void *, DeviceAddress, size_t, CudaStreamHandle))                         \
  X("cuMemcpy2DAsync_v2", copy2dAsync, (const Copy2d *, CudaStreamHandle))     \
  X("cuMemsetD8Async", fill,                                                   \
    (DeviceAddress, unsigned char, size_t, CudaStreamHandle))                  \
  X("cuStreamCreate", streamCreate, (CudaStreamHandle *, unsigned))            \
  X("cuStreamDestroy_v2", streamDestroy, (CudaStreamHandle))                   \
  X("cuStreamSynchronize", streamSynchronize, (CudaStreamHandle))              \
  X("cuStreamBeginCapture_v2", captureBegin, (CudaStreamHandle, int))          \
  X("cuStreamEndCapture", captureEnd, (CudaStreamHandle, void **))             \
  X("cuGraphInstantiateWithFlags", instantiate,                                \
    (void **, void *, unsigned long long))                                     \
  X("cuGraphLaunch", graphLaunch, (void *, CudaStreamHandle))                  \
  X("cuGraphExecDestroy", executableDestroy, (void *))                         \
  X("cuGraphDestroy", graphDestroy, (void *))                                  \
  X("cuEventCreate", eventCreate, (void **, unsigned))                         \
  X("cuEventDestroy_v2", eventDestroy, (void *))                               \
  X("cuEventRecord", eventRecord, (void *, CudaStreamHandle))                  \
  X("cuEventSynchronize", eventSynchronize, (void *))                          \
  X("cuEventQuery", eventQuery, (void *))                                      \
  X("cuEventElapsedTime_v2", eventElapsed, (float *, void *, void *))          \
  X("cuModuleLoadData", moduleLoad, (void **, const void *))                   \
  X("cuModuleUnload", moduleUnload, (void *))                                  \
  X("cuModuleGetFunction", moduleFunction, (void **, void *, const char *))    \
  X("cuLaunchKernel", launchKernel,                                            \
    (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,       \
     unsigned, CudaStreamHandle, void **, void **))

struct CudaFunctions {
#define LLAMA_MEMBER(symbol, member, parameters) int(*member) parameters;
  LLAMA_CUDA_FUNCTIONS(LLAMA_MEMBER)
#undef LLAMA_MEMBER
};

const char *nameOf(MemoryUse use) {
  static constexpr const char *kNames[] = {"weights", "KV cache", "activations",
                                           "inputs", "scratch"};
  return kNames[static_cast<size_t>(use)];
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

Gpu::Gpu(int64_t ordinal) : functions(std::make_unique<CudaFunctions>()) {
  const char *given = std::getenv("KILN_DRIVER");
  void *library = dlopen(given ? given : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw NoGpu("no NVIDIA driver: libcuda.so.1 cannot be opened");
  auto find = [&](const char *symbol) {
    void *address = dlsym(library, symbol);
    if (!address)
      throw NoGpu(std::string("the NVIDIA driver is too old: it has no ") +
                  symbol);
    return address;
  };
#define LLAMA_FIND(symbol, member, parameters)                                 \
  functions->member =                                                          \
      reinterpret_cast<decltype(functions->member)>(find(symbol));
  LLAMA_CUDA_FUNCTIONS(LLAMA_FIND)
#undef LLAMA_FIND
  if (functions->init(0) ||
      functions->deviceGet(&device, static_cast<int>(ordinal)))
    throw NoGpu(ordinal == 0 ? "there is no GPU"
                             : "there is no GPU " + std::to_string(ordinal));
  void *context = nullptr;
  check(functions->contextRetain(&context, device), "making a context");
  check(functions->contextPush(context), "making the context current");
  check(functions->streamCreate(&created, kNonBlocking), "making a stream");
  char text[256] = "";
  check(functions->deviceGetName(text, sizeof(text), device),
        "asking for the device's name");
  deviceName = text;
}

Gpu::~Gpu() {
  if (created)
    functions->streamDestroy(created);
  functions->contextRelease(device);
}

bool isFatal(int cudaError) {
  return std::find(std::begin(kFatal), std::end(kFatal), cudaError) !=
         std::end(kFatal);
}

void Gpu::check(int result, const char *doing) const {
  if (result == 0)
    return;
  const char *text = nullptr;
  functions->errorString(result, &text);
  std::string message = std::string(doing) +
                        " failed: " + (text ? text : "unknown error") +
                        " (CUDA error " + std::to_string(result) + ")";
  if (isFatal(result))
    throw DeviceLost(message);
  throw Error(message);
}

uint64_t Gpu::freeBytes() const {
  size_t free = 0, total = 0;
  check(functions->memoryInfo(&free, &total), "asking for free memory");
  return free;
}
uint64_t Gpu::totalBytes() const {
  size_t free = 0, total = 0;
  check(functions->memoryInfo(&free, &total), "asking for free memory");
  return total;
}
bool Gpu::reaches(int64_t ordinal) const {
  int other = 0, can = 0;
  check(functions->deviceGet(&other, static_cast<int>(ordinal)),
        "looking for another GPU");
  if (other == device)
    return true;
  check(functions->canAccessPeer(&can, device, other),
        "asking for access to another GPU");
  return can != 0;
}
void Gpu::synchronize() const {
  check(functions->streamSynchronize(created), "waiting for the stream");
}
void Gpu::drain() const noexcept { functions->streamSynchronize(created); }

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

DeviceMemory::DeviceMemory(const Gpu &from, uint64_t bytes, MemoryUse why)
    : gpu(&from), size(bytes), use(why) {
  if (bytes == 0)
    return;
  const int result = from.functions->allocate(&start, bytes);
  if (result == kOutOfMemory)
    throw Error(bytesText(bytes) + " for " + nameOf(why) +
                " do not fit: the device has " + bytesText(from.freeBytes()) +
                " free of " + bytesText(from.totalBytes()));
  from.check(result, "allocating device memory");
  from.ledger[static_cast<size_t>(use)] += size;
}

DeviceMemory::~DeviceMemory() {
  if (start == 0)
    return;
  gpu->functions->release(start);
  gpu->ledger[static_cast<size_t>(use)] -= size;
}

void DeviceMemory::swap(DeviceMemory &other) noexcept {
  std::swap(gpu, other.gpu);
  std::swap(start, other.start);
  std::swap(size, other.size);
  std::swap(use, other.use);
}

void DeviceMemory::zero() const {
  if (size != 0)
    gpu->check(gpu->functions->fill(start, 0, size, gpu->stream()),
               "clearing device memory");
}
void DeviceMemory::upload(const void *source, uint64_t count,
                          uint64_t offset) const {
  copyToDevice(*gpu, start + offset, source, count);
  gpu->synchronize();
}

MemoryName DeviceMemory::name() const {
  MemoryName made;
  gpu->check(gpu->functions->nameMemory(&made, start),
             "naming memory for other processes");
  return made;
}

PeerMemory::PeerMemory(const Gpu &gpu, const MemoryName &name) : gpu(gpu) {
  gpu.check(gpu.cuda().mapMemory(&start, name, kLazyPeerAccess),
            "mapping memory of another process");
}
PeerMemory::~PeerMemory() { gpu.cuda().unmapMemory(start); }

PinnedMemory::PinnedMemory(const Gpu &gpu, uint64_t bytes)
    : gpu(gpu), size(bytes) {
  gpu.check(gpu.cuda().allocatePinned(&start, bytes, 0),
            "allocating pinned host memory");
}
PinnedMemory::~PinnedMemory() {
  gpu.drain();
  gpu.cuda().releasePinned(start);
}

void copyToDevice(const Gpu &gpu, DeviceAddress target, const void *source,
                  uint64_t bytes) {
  if (bytes != 0)
    gpu.check(gpu.cuda().uploadAsync(target, source, bytes, gpu.stream()),
              "copying to the device");
}
void copyToHost(const Gpu &gpu, void *target, DeviceAddress source,
                uint64_t bytes) {
  if (bytes != 0)
    gpu.check(gpu.cuda().downloadAsync(target, source, bytes, gpu.stream()),
              "copying from the device");
}

static Copy2d copyOf(DeviceAddress target, const Rows &rows) {
  Copy2d copy;
  copy.targetType = kDeviceMemory;
  copy.targetDevice = target;
  copy.targetPitch = rows.targetPitch;
  copy.sourcePitch = rows.sourcePitch;
  copy.width = rows.rowBytes;
  copy.height = rows.rows;
  return copy;
}

void copyRows(const Gpu &gpu, DeviceAddress target, DeviceAddress source,
              const Rows &rows) {
  Copy2d copy = copyOf(target, rows);
  copy.sourceType = kDeviceMemory;
  copy.sourceDevice = source;
  gpu.check(gpu.cuda().copy2dAsync(&copy, gpu.stream()),
            "copying rows on the device");
}
void uploadRows(const Gpu &gpu, DeviceAddress target, const void *source,
                const Rows &rows) {
  Copy2d copy = copyOf(target, rows);
  copy.sourceType = kHostMemory;
  copy.sourceHost = source;
  gpu.check(gpu.cuda().copy2dAsync(&copy, gpu.stream()),
            "copying rows to the device");
  gpu.synchronize();
}

//===----------------------------------------------------------------------===//
// Events, graphs, kernels
//===----------------------------------------------------------------------===//

Event::Event(const Gpu &gpu) : gpu(gpu) {
  gpu.check(gpu.cuda().eventCreate(&handle, 0), "making an event");
}
Event::~Event() { gpu.cuda().eventDestroy(handle); }
void Event::record() const {
  gpu.check(gpu.cuda().eventRecord(handle, gpu.stream()), "recording an event");
}
void Event::wait() const {
  gpu.check(gpu.cuda().eventSynchronize(handle), "waiting for a step");
}
bool Event::isDone() const {
  const int result = gpu.cuda().eventQuery(handle);
  if (result == kNotReady)
    return false;
  gpu.check(result, "asking for a step");
  return true;
}
double Event::millisecondsBetween(const Event &first, const Event &second) {
  float elapsed = 0;
  first.gpu.check(
      first.gpu.cuda().eventElapsed(&elapsed, first.handle, second.handle),
      "reading a time");
  return elapsed;
}

Graph::Graph(const Gpu &gpu, const std::function<void()> &enqueue) : gpu(gpu) {
  void *graph = nullptr;
  gpu.check(gpu.cuda().captureBegin(gpu.stream(), kThreadLocal),
            "beginning a capture");
  try {
    enqueue();
  } catch (...) {
    if (gpu.cuda().captureEnd(gpu.stream(), &graph) == 0 && graph)
      gpu.cuda().graphDestroy(graph);
    throw;
  }
  gpu.check(gpu.cuda().captureEnd(gpu.stream(), &graph), "ending a capture");
  const int result = gpu.cuda().instantiate(&executable, graph, 0);
  gpu.cuda().graphDestroy(graph);
  gpu.check(result, "instantiating a graph");
}
Graph::~Graph() {
  if (executable)
    gpu.cuda().executableDestroy(executable);
}
void Graph::launch() const {
  gpu.check(gpu.cuda().graphLaunch(executable, gpu.stream()),
            "launching a graph");
}

PtxKernel::PtxKernel(const Gpu &gpu, const char *ptx, const char *entry)
    : gpu(gpu) {
  gpu.check(gpu.cuda().moduleLoad(&module, ptx), "loading a PTX module");
  gpu.check(gpu.cuda().moduleFunction(&function, module, entry),
            "finding a kernel");
}
PtxKernel::~PtxKernel() {
  if (!module)
    return;
  gpu.drain();
  gpu.cuda().moduleUnload(module);
}
void PtxKernel::launch(unsigned blocks, unsigned threads,
                       void **parameters) const {
  gpu.check(gpu.cuda().launchKernel(function, blocks, 1, 1, threads, 1, 1, 0,
                                    gpu.stream(), parameters, nullptr),
            "launching a kernel");
}

} // namespace llama
