//===- FakeCudaStreams.cpp - launches, streams, events --------------------===//
#include "Fakes/FakeCudaState.h"

#include <algorithm>
#include <cstring>

using namespace kiln::fake;

namespace kiln::fake {

Stream *streamOf(CUstream handle, CUresult &result) {
  if (!isDefaultStream(handle))
    return objectOf<Stream>(handle, Kind::Stream, result);
  result = stickyOf(current);
  return nullptr;
}

CUresult checkGeometry(const CUlaunchConfig &config, const Function &function) {
  uint64_t threads =
      uint64_t(config.blockDimX) * config.blockDimY * config.blockDimZ;
  if (config.gridDimX == 0 || config.gridDimY == 0 || config.gridDimZ == 0 ||
      config.gridDimY > 65535 || config.gridDimZ > 65535 || threads == 0 ||
      threads > 1024 || config.sharedMemBytes > function.maxDynamicShared)
    return CUDA_ERROR_INVALID_VALUE;
  return threads > function.maxThreads ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
                                       : CUDA_SUCCESS;
}

Callback callbackOf(const Function &function) {
  std::lock_guard lock(state.mutex);
  for (auto it = state.callbacks.rbegin(); it != state.callbacks.rend(); ++it)
    if (matches(it->pattern, function.name, function.module->text))
      return *it;
  return {};
}

CUresult describeAttribute(const CUlaunchAttribute &attribute,
                           const Function &function, KilnFakeLaunch &launch) {
  if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    const auto &dim = attribute.value.clusterDim;
    const unsigned most = function.takesLargeClusters ? 16 : 8;
    if (dim.x * dim.y * dim.z == 0 || dim.x * dim.y * dim.z > most)
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if (launch.grid[0] % dim.x || launch.grid[1] % dim.y ||
        launch.grid[2] % dim.z)
      return CUDA_ERROR_INVALID_VALUE;
    launch.cluster[0] = dim.x;
    launch.cluster[1] = dim.y;
    launch.cluster[2] = dim.z;
  } else if (attribute.id ==
             CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
    launch.dependentLaunch =
        attribute.value.programmaticStreamSerializationAllowed;
  } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
    launch.cooperative = attribute.value.cooperative;
  }
  return CUDA_SUCCESS;
}

CUresult checkResidency(const KilnFakeLaunch &launch,
                        const Function &function) {
  uint64_t blocks = uint64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  auto threads =
      static_cast<int>(launch.block[0] * launch.block[1] * launch.block[2]);
  if (launch.cooperative &&
      blocks > residentBlocks(threads, launch.sharedBytes, function))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return CUDA_SUCCESS;
}

CUresult describe(const CUlaunchConfig &config, Function &function,
                  void **params, Node &node) {
  node.function = &function;
  KilnFakeLaunch &launch = node.launch;
  launch.function = function.name.c_str();
  launch.moduleText = function.module->text.c_str();
  launch.params = params ? params[0] : nullptr;
  launch.sharedBytes = config.sharedMemBytes;
  launch.stream = config.hStream;
  const unsigned grid[] = {config.gridDimX, config.gridDimY, config.gridDimZ};
  const unsigned block[] = {config.blockDimX, config.blockDimY,
                            config.blockDimZ};
  for (int i = 0; i < 3; ++i) {
    launch.grid[i] = grid[i];
    launch.block[i] = block[i];
    launch.cluster[i] = 1;
  }
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (CUresult result = describeAttribute(config.attrs[i], function, launch);
        result != CUDA_SUCCESS)
      return result;
  return checkResidency(launch, function);
}

} // namespace kiln::fake

#pragma GCC visibility push(default)
extern "C" {

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction handle,
                          void **params, void **) {
  KILN_FAKE_ENTER(cuLaunchKernelEx, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  auto *function = objectOf<Function>(handle, Kind::Function, result);
  if (!function)
    return result;
  if (function->context != current)
    return CUDA_ERROR_INVALID_HANDLE;
  if (result = checkGeometry(*config, *function); result != CUDA_SUCCESS)
    return result;
  bool isWatched = state.callbackCount.load(std::memory_order_relaxed) != 0;
  if (!isWatched && state.observers.load(std::memory_order_relaxed) == 0 &&
      state.captureCount.load(std::memory_order_relaxed) == 0 &&
      config->numAttrs == 0) {
    // Without observers: the path that dispatch is measured on.
    Stream *stream = streamOf(config->hStream, result);
    if (result != CUDA_SUCCESS)
      return result;
    if (stream && stream->context != current)
      return CUDA_ERROR_INVALID_HANDLE;
    (stream ? stream->kernelAhead : current->kernelAhead)
        .store(true, std::memory_order_relaxed);
    state.clockPs.fetch_add(state.launchPs.load(std::memory_order_relaxed),
                            std::memory_order_relaxed);
    return CUDA_SUCCESS;
  }
  Node node;
  if (result = describe(*config, *function, params, node);
      result != CUDA_SUCCESS)
    return result;
  if (isWatched)
    node.callback = callbackOf(*function);
  return enqueue(config->hStream, std::move(node));
}

// Streams.

/// As of an H200.
static constexpr int kLeastPriority = 0, kGreatestPriority = -5;

static CUresult createStream(CUstream *handle, unsigned flags, int priority) {
  std::lock_guard lock(state.mutex);
  Stream *stream = nullptr;
  if (state.freeStreams.empty()) {
    stream = state.make<Stream>();
  } else {
    stream = state.freeStreams.back();
    state.freeStreams.pop_back();
  }
  stream->context = current;
  stream->id = state.nextStreamId++;
  stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  stream->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
  stream->kernelAhead = false;
  stream->kind = Kind::Stream;
  *handle = handleOf<CUstream>(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *handle, unsigned flags) {
  KILN_FAKE_ENTER(cuStreamCreate, Needs::Context);
  return createStream(handle, flags, kLeastPriority);
}

CUresult cuStreamCreateWithPriority(CUstream *handle, unsigned flags,
                                    int priority) {
  KILN_FAKE_ENTER(cuStreamCreateWithPriority, Needs::Context);
  return createStream(handle, flags, priority);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  KILN_FAKE_ENTER(cuCtxGetStreamPriorityRange, Needs::Context);
  *least = kLeastPriority;
  *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

/// As the driver says: it returns at once, and what is held runs to its end.
CUresult cuStreamDestroy(CUstream handle) {
  KILN_FAKE_ENTER(cuStreamDestroy, Needs::Init);
  CUresult result = CUDA_SUCCESS;
  Stream *stream = objectOf<Stream>(handle, Kind::Stream, result);
  if (!stream)
    return result;
  std::lock_guard lock(state.mutex);
  endStream(*stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id) {
  KILN_FAKE_ENTER(cuStreamGetId, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  Stream *stream = streamOf(handle, result);
  if (result != CUDA_SUCCESS)
    return result;
  if (stream && stream->capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return ruinCapture(*stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  constexpr uint64_t kLegacyId = 7, kPerThread = uint64_t(1) << 32;
  *id = stream                   ? stream->id
        : isLegacyStream(handle) ? kLegacyId
                                 : kPerThread + kilnFakeThread();
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  KILN_FAKE_ENTER(cuStreamSynchronize, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  Stream *stream = streamOf(handle, result);
  if (result != CUDA_SUCCESS)
    return result;
  if (stream && stream->capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return ruinCapture(*stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (isLegacyStream(handle))
    result = refuseLegacyWork();
  if (result == CUDA_SUCCESS &&
      state.captureCount.load(std::memory_order_relaxed) != 0)
    result = refuseBesideCapture(kSymbol_cuStreamSynchronize);
  if (result != CUDA_SUCCESS)
    return result;
  return stream ? awaitHeld(Awaits::Stream, stream) : awaitHeld(Awaits::Legacy);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context) {
  KILN_FAKE_ENTER(cuStreamGetCtx, Needs::Init);
  CUresult result = CUDA_SUCCESS;
  Stream *stream = streamOf(handle, result);
  if (result != CUDA_SUCCESS)
    return result;
  Context *owner = stream ? stream->context : current;
  if (!owner)
    return CUDA_ERROR_INVALID_CONTEXT;
  *context = handleOf<CUcontext>(owner);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent eventHandle, unsigned) {
  KILN_FAKE_ENTER(cuStreamWaitEvent, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  Node node;
  node.type = Node::Type::Wait;
  node.event = objectOf<Event>(eventHandle, Kind::Event, result);
  if (!node.event)
    return result;
  Stream *stream = streamOf(handle, result);
  if (stream && stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
      !node.event->isCaptured)
    return ruinCapture(*stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  return enqueue(handle, std::move(node));
}

// Events.

CUresult cuEventCreate(CUevent *handle, unsigned flags) {
  KILN_FAKE_ENTER(cuEventCreate, Needs::Context);
  std::lock_guard lock(state.mutex);
  Event *event = nullptr;
  if (state.freeEvents.empty()) {
    event = state.make<Event>();
  } else {
    event = state.freeEvents.back();
    state.freeEvents.pop_back();
  }
  event->kind = Kind::Event;
  event->context = current;
  event->recorded = event->isCaptured = false;
  event->timing = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  *handle = handleOf<CUevent>(event);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent handle) {
  KILN_FAKE_ENTER(cuEventDestroy, Needs::Init);
  CUresult result = CUDA_SUCCESS;
  Event *event = objectOf<Event>(handle, Kind::Event, result);
  if (!event)
    return result;
  std::lock_guard lock(state.mutex);
  event->kind = Kind::Dead;
  if (event->pending == 0)
    state.freeEvents.push_back(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
  KILN_FAKE_ENTER(cuEventRecord, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  Node node;
  node.type = Node::Type::Event;
  node.event = objectOf<Event>(handle, Kind::Event, result);
  if (!node.event)
    return result;
  return enqueue(stream, std::move(node));
}

/// How often \p event was recorded and is yet to be reached; -1: it cannot be
/// asked, because a capture recorded it.
static int pendingOf(const Event &event) {
  std::lock_guard lock(state.mutex);
  return event.isCaptured ? -1 : event.pending;
}

CUresult cuEventQuery(CUevent handle) {
  KILN_FAKE_ENTER(cuEventQuery, Needs::Quiet);
  CUresult result = CUDA_SUCCESS;
  Event *event = objectOf<Event>(handle, Kind::Event, result);
  if (!event)
    return result;
  int pending = pendingOf(*event);
  return pending < 0    ? CUDA_ERROR_CAPTURED_EVENT
         : pending == 0 ? CUDA_SUCCESS
                        : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop) {
  KILN_FAKE_ENTER(cuEventElapsedTime, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  Event *from = objectOf<Event>(start, Kind::Event, result);
  Event *to = from ? objectOf<Event>(stop, Kind::Event, result) : nullptr;
  if (!to)
    return result;
  if (!from->recorded || !to->recorded || !from->timing || !to->timing)
    return CUDA_ERROR_INVALID_HANDLE;
  if (pendingOf(*from) > 0 || pendingOf(*to) > 0)
    return CUDA_ERROR_NOT_READY;
  constexpr double kMsPerPs = 1e-9;
  *milliseconds = static_cast<float>(
      static_cast<double>(to->clockPs - from->clockPs) * kMsPerPs);
  return CUDA_SUCCESS;
}

} // extern "C"
#pragma GCC visibility pop
