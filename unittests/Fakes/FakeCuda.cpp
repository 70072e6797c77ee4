//===- FakeCuda.cpp - start, errors, devices, contexts --------------------===//
#include "Fakes/FakeCudaState.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

using namespace kiln::fake;

namespace kiln::fake {

Context::Context()
    : Object(Kind::Context), legacy(std::make_unique<WorkQueue>()) {}
Context::~Context() = default;

/// Names of devices, with commas between, for processes that tests start.
static void takeNamedDevices(State &of) {
  const char *names = std::getenv("KILN_FAKE_DEVICES");
  if (!names)
    return;
  std::stringstream list(names);
  of.deviceCount = 0;
  for (std::string name; std::getline(list, name, ',') &&
                         of.deviceCount < int(of.devices.size());)
    of.devices[of.deviceCount++].name = name;
}

static State &makeState() {
  auto *made = new State; // never destroyed: see FakeCudaState.h
  resetDevices(*made);
  takeNamedDevices(*made);
  return *made;
}

State &state = makeState();
thread_local ContextStack contextStack;
thread_local Context *current = nullptr;
thread_local CUstreamCaptureMode threadMode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// Attributes of an H200 SXM as its driver reports them.
static const std::map<int, int> &h200Attributes() {
  static const std::map<int, int> attributes = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6016},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
  };
  return attributes;
}

void resetDevices(State &of) {
  of.deviceCount = 1;
  for (Device &device : of.devices) {
    device = Device{};
    device.name = "NVIDIA H200";
    device.attributes = h200Attributes();
    device.memoryBytes = uint64_t(143771) << 20;
  }
}

int visibleSms(int device) {
  std::lock_guard lock(state.mutex);
  const int all = state.devices[device].attributes.at(
      CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  const int limit = state.greenSms;
  return limit > 0 && limit < all ? limit : all;
}

/// A failure armed for this call, and what it does beyond its result.
CUresult enterSlow(Symbol symbol, uint64_t call) {
  std::lock_guard lock(state.mutex);
  Failure &failure = state.failures[symbol];
  if (failure.result == 0 || call < failure.atCall)
    return CUDA_SUCCESS;
  auto result = static_cast<CUresult>(failure.result);
  if (failure.kind == KilnFakeAlways)
    return result;
  if (call != failure.atCall)
    return CUDA_SUCCESS;
  if (failure.kind == KilnFakeKillsContext && current)
    current->sticky = failure.result;
  failure = Failure{};
  --state.armedFailures;
  return result;
}

Context *makeContext(int device) {
  Context *context = nullptr;
  if (state.freeContexts.empty()) {
    context = state.make<Context>();
  } else {
    context = state.freeContexts.back();
    state.freeContexts.pop_back();
  }
  context->kind = Kind::Context;
  context->id = state.nextContextId++;
  context->sticky = 0;
  context->device = device;
  context->references = 0;
  return context;
}

/// Forgets that \p object was made in \p context, which has gone.
template <class T>
static void leave(Object &object, Kind kind, const Context &context) {
  if (object.kind != kind)
    return;
  auto &made = static_cast<T &>(object);
  if (made.context == &context)
    made.context = nullptr;
}

/// Memory and handles of a context go with it. Pools and graphs stay.
void endContext(Context &context) {
  for (auto it = state.allocations.begin(); it != state.allocations.end();) {
    if (it->second.context != &context) {
      ++it;
      continue;
    }
    freeAllocation(it->first, it->second);
    it = state.allocations.erase(it);
  }
  for (const auto &object : state.objects) {
    if (object->kind == Kind::Module &&
        static_cast<Module &>(*object).context == &context) {
      object->kind = Kind::Dead;
      --state.modulesLoaded;
    }
    if (object->kind == Kind::Function &&
        static_cast<Function &>(*object).context == &context)
      object->kind = Kind::Dead;
    if (object->kind == Kind::Stream &&
        static_cast<Stream &>(*object).context == &context)
      endStream(static_cast<Stream &>(*object));
    if (object->kind == Kind::Event &&
        static_cast<Event &>(*object).context == &context)
      object->kind = Kind::Dead;
    leave<GraphExec>(*object, Kind::GraphExec, context);
    leave<MemoryPool>(*object, Kind::MemoryPool, context);
  }
  context.legacy->clear();
  std::erase_if(state.holdings, [&](const State::Holding &holding) {
    return holding.context == &context;
  });
  context.sticky = CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

Context *liveContext(CUcontext handle, CUresult &result) {
  Context *context = objectOf<Context>(handle, Kind::Context);
  result = CUDA_ERROR_INVALID_CONTEXT;
  if (!context || context->sticky != CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return context;
  result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  ++state.misuses;
  if (state.countsMisuse)
    return nullptr;
  std::fprintf(stderr, "libkiln_fake_cuda: a destroyed context is used\n");
  std::abort();
}

/// The device of \p ordinal, or null.
static Device *deviceAt(int ordinal) {
  if (ordinal < 0 || ordinal >= state.deviceCount)
    return nullptr;
  return &state.devices[ordinal];
}

} // namespace kiln::fake

#pragma GCC visibility push(default)
extern "C" {

CUresult cuInit(unsigned) {
  KILN_FAKE_ENTER(cuInit, Needs::Nothing);
  loadInjection();
  std::lock_guard lock(state.mutex);
  if (state.deviceCount == 0)
    return CUDA_ERROR_NO_DEVICE;
  state.initialised = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  KILN_FAKE_ENTER(cuDriverGetVersion, Needs::Nothing);
  *version = state.driverVersion;
  return CUDA_SUCCESS;
}

#define KILN_FAKE_ERRORS(X)                                                    \
  X(CUDA_SUCCESS, "no error")                                                  \
  X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                              \
  X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                 \
  X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                        \
  X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                \
  X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                       \
  X(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                \
  X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                      \
  X(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available")              \
  X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "unsupported toolchain")               \
  X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                      \
  X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                            \
  X(CUDA_ERROR_NOT_READY, "device not ready")                                  \
  X(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")    \
  X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested")        \
  X(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated")      \
  X(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                   \
  X(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address")                       \
  X(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                    \
  X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                       \
  X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported driver")        \
  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted when capturing")     \
  X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "capture failed earlier")           \
  X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "depends on a capturing stream")       \
  X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "captured by another thread")      \
  X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "depends on uncaptured work")         \
  X(CUDA_ERROR_CAPTURED_EVENT, "recorded in a capturing stream")               \
  X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks at once")        \
  X(CUDA_ERROR_ILLEGAL_STATE, "not in a state for this operation")             \
  X(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size")                   \
  X(CUDA_ERROR_UNKNOWN, "unknown error")

CUresult cuGetErrorName(CUresult error, const char **text) {
  KILN_FAKE_ENTER(cuGetErrorName, Needs::Nothing);
  switch (error) {
#define KILN_FAKE_CASE(code, description)                                      \
  case code:                                                                   \
    *text = #code;                                                             \
    return CUDA_SUCCESS;
    KILN_FAKE_ERRORS(KILN_FAKE_CASE)
#undef KILN_FAKE_CASE
  default:
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  KILN_FAKE_ENTER(cuGetErrorString, Needs::Nothing);
  switch (error) {
#define KILN_FAKE_CASE(code, description)                                      \
  case code:                                                                   \
    *text = description;                                                       \
    return CUDA_SUCCESS;
    KILN_FAKE_ERRORS(KILN_FAKE_CASE)
#undef KILN_FAKE_CASE
  default:
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
  }
}

// Devices.

CUresult cuDeviceGetCount(int *count) {
  KILN_FAKE_ENTER(cuDeviceGetCount, Needs::Init);
  std::lock_guard lock(state.mutex);
  *count = state.deviceCount;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  KILN_FAKE_ENTER(cuDeviceGet, Needs::Init);
  std::lock_guard lock(state.mutex);
  if (!deviceAt(ordinal))
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice ordinal) {
  KILN_FAKE_ENTER(cuDeviceGetName, Needs::Init);
  std::lock_guard lock(state.mutex);
  Device *device = deviceAt(ordinal);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, bytes, "%s", device->name.c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice ordinal) {
  KILN_FAKE_ENTER(cuDeviceGetUuid, Needs::Init);
  std::lock_guard lock(state.mutex);
  if (!deviceAt(ordinal))
    return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid->bytes, 0, sizeof(uuid->bytes));
  uuid->bytes[0] = 0x4b;
  uuid->bytes[15] = static_cast<char>(ordinal);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice ordinal) {
  KILN_FAKE_ENTER(cuDeviceGetPCIBusId, Needs::Init);
  std::lock_guard lock(state.mutex);
  if (!deviceAt(ordinal))
    return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(id, bytes, "0000:%02X:00.0", 0x10 + ordinal);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice ordinal) {
  KILN_FAKE_ENTER(cuDeviceGetAttribute, Needs::Init);
  std::lock_guard lock(state.mutex);
  Device *device = deviceAt(ordinal);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  auto found = device->attributes.find(attribute);
  if (found == device->attributes.end() || found->second < 0)
    return CUDA_ERROR_INVALID_VALUE;
  *value = found->second;
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice ordinal) {
  KILN_FAKE_ENTER(cuDeviceTotalMem, Needs::Init);
  std::lock_guard lock(state.mutex);
  Device *device = deviceAt(ordinal);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  *bytes = device->memoryBytes;
  return CUDA_SUCCESS;
}

// Contexts.

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal) {
  KILN_FAKE_ENTER(cuDevicePrimaryCtxRetain, Needs::Init);
  std::lock_guard lock(state.mutex);
  Device *device = deviceAt(ordinal);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  if (CUresult result = stickyOf(device->primary); result != CUDA_SUCCESS)
    return result;
  if (!device->primary)
    device->primary = makeContext(ordinal);
  ++device->primary->references;
  *context = handleOf<CUcontext>(device->primary);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  KILN_FAKE_ENTER(cuDevicePrimaryCtxRelease, Needs::Init);
  std::lock_guard lock(state.mutex);
  Device *device = deviceAt(ordinal);
  if (!device || !device->primary)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (CUresult result = stickyOf(device->primary); result != CUDA_SUCCESS)
    return result;
  if (--device->primary->references > 0)
    return CUDA_SUCCESS;
  endContext(*device->primary);
  state.freeContexts.push_back(device->primary);
  device->primary = nullptr;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  KILN_FAKE_ENTER(cuCtxGetCurrent, Needs::Init);
  *context = handleOf<CUcontext>(current);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  KILN_FAKE_ENTER(cuCtxGetDevice, Needs::Init);
  if (!current)
    return CUDA_ERROR_INVALID_CONTEXT;
  *device = current->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id) {
  KILN_FAKE_ENTER(cuCtxGetId, Needs::Init);
  Context *context =
      handle ? objectOf<Context>(handle, Kind::Context) : current;
  if (!context)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (context->sticky.load(std::memory_order_relaxed) ==
      CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = context->id.load(std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource *resource,
                             CUdevResourceType type) {
  KILN_FAKE_ENTER(cuCtxGetDevResource, Needs::Init);
  CUresult result = CUDA_ERROR_INVALID_CONTEXT;
  Context *context = handle ? liveContext(handle, result) : current;
  if (!context)
    return result;
  if (type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = {};
  resource->type = type;
  resource->sm.smCount = static_cast<unsigned>(visibleSms(context->device));
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext handle) {
  KILN_FAKE_ENTER(cuCtxPushCurrent, Needs::Init);
  CUresult result = CUDA_SUCCESS;
  Context *context = liveContext(handle, result);
  if (!context)
    return result;
  contextStack.push_back(context);
  current = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *popped) {
  KILN_FAKE_ENTER(cuCtxPopCurrent, Needs::Init);
  if (contextStack.empty())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (popped)
    *popped = handleOf<CUcontext>(contextStack.back());
  contextStack.pop_back();
  current = contextStack.empty() ? nullptr : contextStack.back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  KILN_FAKE_ENTER(cuCtxSynchronize, Needs::Quiet);
  return awaitHeld(Awaits::Context);
}

} // extern "C"
#pragma GCC visibility pop
