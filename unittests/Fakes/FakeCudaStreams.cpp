//===- FakeCudaStreams.cpp - launches, streams, events, capture, graphs ---===//
#include "Fakes/FakeCudaState.h"

#include <algorithm>
#include <cstring>

using namespace kiln::fake;

namespace kiln::fake {

static constexpr double kPsPerNs = 1000;

/// The stream object behind \p handle; null with *valid for the default ones.
static Stream *streamOf(CUstream handle, bool *valid) {
  *valid = true;
  if (isDefaultStream(handle))
    return nullptr;
  Stream *stream = objectOf<Stream>(handle, Kind::Stream);
  *valid = stream != nullptr;
  return stream;
}

/// Whether work on the default stream would wait for a capturing stream.
static bool isDefaultStreamCaptured() {
  if (state.captureCount == 0)
    return false;
  std::lock_guard lock(state.mutex);
  return std::any_of(state.captures.begin(), state.captures.end(),
                     [](const Stream *stream) {
                       return stream->context == current && stream->blocking;
                     });
}

/// The rule of cuThreadExchangeStreamCaptureMode: a call that a capture cannot
/// record is refused, and ruins the captures that refuse it.
CUresult refuseInCapture() {
  if (threadMode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  std::lock_guard lock(state.mutex);
  CUresult result = CUDA_SUCCESS;
  for (Stream *stream : state.captures) {
    bool own = stream->capturer == std::this_thread::get_id();
    bool refuses = own ? stream->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                       : stream->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                             threadMode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!refuses)
      continue;
    stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

static CUresult runKernel(const Node &node) {
  // A graph that reaches unloaded code: a fault of the device.
  if (node.function->kind != Kind::Function) {
    current->sticky = CUDA_ERROR_LAUNCH_FAILED;
    return CUDA_ERROR_LAUNCH_FAILED;
  }
  KilnFakeLaunch launch = node.launch;
  if (!node.params.empty())
    launch.params = node.params.data();
  launch.durationNs = state.launchPs / kPsPerNs;
  if (node.callback.kernel)
    node.callback.kernel(&launch, node.callback.user);
  state.clockPs.fetch_add(
      static_cast<uint64_t>(std::max(launch.durationNs, 0.0) * kPsPerNs),
      std::memory_order_relaxed);
  // Like a real fault, it shows in the calls that follow.
  if (launch.result != 0)
    current->sticky = launch.result;
  return CUDA_SUCCESS;
}

CUresult execute(const Node &node) {
  switch (node.type) {
  case Node::Type::Kernel:
    return runKernel(node);
  case Node::Type::Memset:
    std::memset(node.to, node.value, node.bytes);
    return CUDA_SUCCESS;
  case Node::Type::Copy:
    std::memmove(node.to, node.from, node.bytes);
    return CUDA_SUCCESS;
  case Node::Type::Event:
    node.event->clockPs = state.clockPs;
    node.event->recorded = true;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult enqueue(CUstream handle, Node &&node) {
  bool valid = false;
  Stream *stream = streamOf(handle, &valid);
  if (!valid)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!stream && isDefaultStreamCaptured())
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  int capture = stream ? stream->capture.load() : CU_STREAM_CAPTURE_STATUS_NONE;
  if (capture == CU_STREAM_CAPTURE_STATUS_NONE)
    return execute(node);
  if (capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (node.type == Node::Type::Kernel && node.launch.params) {
    auto *bytes = static_cast<const std::byte *>(node.launch.params);
    node.params.assign(bytes, bytes + node.callback.paramBytes);
    node.launch.params = nullptr; // the caller's memory ends with the call
  }
  std::lock_guard lock(state.mutex);
  stream->graph->nodes.push_back(std::move(node));
  return CUDA_SUCCESS;
}

/// What a real driver refuses in a geometry.
static CUresult checkGeometry(const CUlaunchConfig &config,
                              const Function &function) {
  uint64_t threads =
      uint64_t(config.blockDimX) * config.blockDimY * config.blockDimZ;
  if (config.gridDimX == 0 || config.gridDimY == 0 || config.gridDimZ == 0 ||
      config.gridDimY > 65535 || config.gridDimZ > 65535 || threads == 0 ||
      threads > 1024 || config.sharedMemBytes > function.maxDynamicShared)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static Callback callbackOf(const Function &function) {
  std::lock_guard lock(state.mutex);
  for (auto it = state.callbacks.rbegin(); it != state.callbacks.rend(); ++it)
    if (matches(it->pattern, function.name, function.module->text))
      return *it;
  return {};
}

/// The launch as data; returns a CUresult for attributes that do not fit.
static CUresult describe(const CUlaunchConfig &config, Function &function,
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
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute &attribute = config.attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto &dim = attribute.value.clusterDim;
      if (dim.x * dim.y * dim.z == 0 || dim.x * dim.y * dim.z > 16)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
      if (grid[0] % dim.x || grid[1] % dim.y || grid[2] % dim.z)
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
  }
  uint64_t blocks = uint64_t(grid[0]) * grid[1] * grid[2];
  if (launch.cooperative && blocks > residentBlocks(config, function))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return CUDA_SUCCESS;
}

} // namespace kiln::fake

#pragma GCC visibility push(default)
extern "C" {

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction handle,
                          void **params, void **) {
  KILN_FAKE_ENTER(cuLaunchKernelEx, Needs::Context);
  auto *function = objectOf<Function>(handle, Kind::Function);
  if (!function ||
      function->contextId != current->id.load(std::memory_order_relaxed))
    return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult result = checkGeometry(*config, *function);
      result != CUDA_SUCCESS)
    return result;
  bool isWatched = state.callbackCount.load(std::memory_order_relaxed) != 0;
  if (!isWatched && state.captureCount.load(std::memory_order_relaxed) == 0 &&
      config->numAttrs == 0) {
    // Nobody looks: the path that dispatch is measured on.
    if (!isDefaultStream(config->hStream) &&
        !objectOf<Stream>(config->hStream, Kind::Stream))
      return CUDA_ERROR_INVALID_HANDLE;
    state.clockPs.fetch_add(state.launchPs.load(std::memory_order_relaxed),
                            std::memory_order_relaxed);
    return CUDA_SUCCESS;
  }
  Node node;
  if (CUresult result = describe(*config, *function, params, node);
      result != CUDA_SUCCESS)
    return result;
  if (isWatched)
    node.callback = callbackOf(*function);
  return enqueue(config->hStream, std::move(node));
}

// Streams.

CUresult cuStreamCreate(CUstream *handle, unsigned flags) {
  KILN_FAKE_ENTER(cuStreamCreate, Needs::Context);
  std::lock_guard lock(state.mutex);
  Stream *stream = state.make<Stream>();
  stream->context = current;
  stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  *handle = handleOf<CUstream>(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream handle) {
  KILN_FAKE_ENTER(cuStreamDestroy, Needs::Init);
  Stream *stream = objectOf<Stream>(handle, Kind::Stream);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  stream->kind = Kind::Dead;
  std::lock_guard lock(state.mutex);
  state.captureCount -= static_cast<int>(std::erase(state.captures, stream));
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  KILN_FAKE_ENTER(cuStreamSynchronize, Needs::Quiet);
  bool valid = false;
  Stream *stream = streamOf(handle, &valid);
  if (!valid)
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream && stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
    stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context) {
  KILN_FAKE_ENTER(cuStreamGetCtx, Needs::Init);
  bool valid = false;
  Stream *stream = streamOf(handle, &valid);
  if (!valid)
    return CUDA_ERROR_INVALID_HANDLE;
  Context *owner = stream ? stream->context : current;
  if (!owner)
    return CUDA_ERROR_INVALID_CONTEXT;
  *context = handleOf<CUcontext>(owner);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent eventHandle, unsigned) {
  KILN_FAKE_ENTER(cuStreamWaitEvent, Needs::Context);
  bool valid = false;
  streamOf(handle, &valid);
  if (!valid || !objectOf<Event>(eventHandle, Kind::Event))
    return CUDA_ERROR_INVALID_HANDLE;
  return CUDA_SUCCESS;
}

// Capture.

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  KILN_FAKE_ENTER(cuStreamIsCapturing, Needs::Context);
  bool valid = false;
  Stream *stream = streamOf(handle, &valid);
  if (!valid)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!stream && isDefaultStreamCaptured())
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = stream ? static_cast<CUstreamCaptureStatus>(stream->capture.load())
                   : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  KILN_FAKE_ENTER(cuStreamBeginCapture, Needs::Context);
  if (isDefaultStream(handle))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Stream *stream = objectOf<Stream>(handle, Kind::Stream);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(state.mutex);
  if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_ERROR_ILLEGAL_STATE;
  stream->graph = state.make<Graph>();
  stream->mode = mode;
  stream->capturer = std::this_thread::get_id();
  stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  state.captures.push_back(stream);
  ++state.captureCount;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  KILN_FAKE_ENTER(cuStreamEndCapture, Needs::Context);
  Stream *stream = objectOf<Stream>(handle, Kind::Stream);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(state.mutex);
  int status = stream->capture;
  if (status == CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_ERROR_ILLEGAL_STATE;
  state.captureCount -= static_cast<int>(std::erase(state.captures, stream));
  stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
  bool failed = status == CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  *graph = failed ? nullptr : handleOf<CUgraph>(stream->graph);
  return failed ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  KILN_FAKE_ENTER(cuThreadExchangeStreamCaptureMode, Needs::Nothing);
  std::swap(*mode, threadMode);
  return CUDA_SUCCESS;
}

// Events.

CUresult cuEventCreate(CUevent *handle, unsigned flags) {
  KILN_FAKE_ENTER(cuEventCreate, Needs::Context);
  std::lock_guard lock(state.mutex);
  Event *event = state.make<Event>();
  event->timing = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  *handle = handleOf<CUevent>(event);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent handle) {
  KILN_FAKE_ENTER(cuEventDestroy, Needs::Init);
  Event *event = objectOf<Event>(handle, Kind::Event);
  if (!event)
    return CUDA_ERROR_INVALID_HANDLE;
  event->kind = Kind::Dead;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
  KILN_FAKE_ENTER(cuEventRecord, Needs::Context);
  Node node;
  node.type = Node::Type::Event;
  node.event = objectOf<Event>(handle, Kind::Event);
  if (!node.event)
    return CUDA_ERROR_INVALID_HANDLE;
  return enqueue(stream, std::move(node));
}

CUresult cuEventQuery(CUevent handle) {
  KILN_FAKE_ENTER(cuEventQuery, Needs::Quiet);
  return objectOf<Event>(handle, Kind::Event) ? CUDA_SUCCESS
                                              : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventSynchronize(CUevent handle) {
  KILN_FAKE_ENTER(cuEventSynchronize, Needs::Quiet);
  return objectOf<Event>(handle, Kind::Event) ? CUDA_SUCCESS
                                              : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop) {
  KILN_FAKE_ENTER(cuEventElapsedTime, Needs::Context);
  Event *from = objectOf<Event>(start, Kind::Event);
  Event *to = objectOf<Event>(stop, Kind::Event);
  if (!from || !to || !from->recorded || !to->recorded || !from->timing ||
      !to->timing)
    return CUDA_ERROR_INVALID_HANDLE;
  constexpr double kMsPerPs = 1e-9;
  *milliseconds = static_cast<float>(
      static_cast<double>(to->clockPs - from->clockPs) * kMsPerPs);
  return CUDA_SUCCESS;
}

// Graphs.

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count) {
  KILN_FAKE_ENTER(cuGraphGetNodes, Needs::Init);
  Graph *graph = objectOf<Graph>(handle, Kind::Graph);
  if (!graph)
    return CUDA_ERROR_INVALID_HANDLE;
  if (nodes) // only the number of nodes is served
    return CUDA_ERROR_NOT_SUPPORTED;
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *handle, CUgraph graphHandle,
                                     unsigned long long) {
  KILN_FAKE_ENTER(cuGraphInstantiateWithFlags, Needs::Context);
  Graph *graph = objectOf<Graph>(graphHandle, Kind::Graph);
  if (!graph)
    return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(state.mutex);
  GraphExec *executable = state.make<GraphExec>();
  executable->nodes = graph->nodes;
  *handle = handleOf<CUgraphExec>(executable);
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  KILN_FAKE_ENTER(cuGraphLaunch, Needs::Context);
  GraphExec *executable = objectOf<GraphExec>(handle, Kind::GraphExec);
  if (!executable)
    return CUDA_ERROR_INVALID_HANDLE;
  for (const Node &node : executable->nodes)
    if (CUresult result = enqueue(stream, Node(node)); result != CUDA_SUCCESS)
      return result;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  KILN_FAKE_ENTER(cuGraphExecDestroy, Needs::Init);
  GraphExec *executable = objectOf<GraphExec>(handle, Kind::GraphExec);
  if (!executable)
    return CUDA_ERROR_INVALID_HANDLE;
  executable->kind = Kind::Dead;
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
  KILN_FAKE_ENTER(cuGraphDestroy, Needs::Init);
  Graph *graph = objectOf<Graph>(handle, Kind::Graph);
  if (!graph)
    return CUDA_ERROR_INVALID_HANDLE;
  graph->kind = Kind::Dead;
  return CUDA_SUCCESS;
}

} // extern "C"
#pragma GCC visibility pop
