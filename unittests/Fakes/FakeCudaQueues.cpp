//===- FakeCudaQueues.cpp - enqueued work: run, held or captured ----------===//
//
// Work is logged, and then recorded into a capture, kept behind held work, or
// run at once on the calling thread.
//
//===----------------------------------------------------------------------===//
#include "Fakes/FakeCudaState.h"

#include <algorithm>
#include <cstring>

using namespace kiln::fake;

namespace kiln::fake {

static constexpr double kPsPerNs = 1000;

static CUresult runKernel(const Node &node) {
  // A graph that reaches unloaded code: a fault of the device.
  if (node.function->kind != Kind::Function) {
    node.context->sticky = CUDA_ERROR_LAUNCH_FAILED;
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
    node.context->sticky = launch.result;
  return CUDA_SUCCESS;
}

CUresult execute(const Node &node) {
  if (stickyOf(node.context) != CUDA_SUCCESS)
    return CUDA_SUCCESS; // as the driver: later calls tell
  switch (node.type) {
  case Node::Type::Kernel:
    return runKernel(node);
  case Node::Type::Memset:
    if (!isHollow(node.to, node.bytes))
      std::memset(node.to, node.value, node.bytes);
    return CUDA_SUCCESS;
  case Node::Type::Copy:
    if (!isHollow(node.to, node.bytes) && !isHollow(node.from, node.bytes))
      std::memmove(node.to, node.from, node.bytes);
    return CUDA_SUCCESS;
  case Node::Type::Event:
    node.event->clockPs = state.clockPs;
    node.event->recorded = true;
    return CUDA_SUCCESS;
  case Node::Type::Wait:
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_UNKNOWN;
}

void keepParams(Node &node) {
  if (node.type != Node::Type::Kernel || !node.launch.params)
    return;
  auto *bytes = static_cast<const std::byte *>(node.launch.params);
  node.params.assign(bytes, bytes + node.callback.paramBytes);
  node.launch.params = nullptr; // the caller's memory ends with the call
}

static KilnFakeStep stepOf(const Node &node, CUstream handle,
                           const Stream *stream, bool isCaptured,
                           bool isFromGraph) {
  KilnFakeStep step = {};
  step.kind = node.type == Node::Type::Kernel   ? KilnFakeStepKernel
              : node.type == Node::Type::Memset ? KilnFakeStepMemset
                                                : KilnFakeStepCopy;
  step.function = node.function ? node.function->name.c_str() : "";
  step.stream = handle;
  step.streamId = stream ? stream->id : 0;
  step.thread = kilnFakeThread();
  step.isCaptured = isCaptured;
  step.isFromGraph = isFromGraph;
  return step;
}

static void logStep(const KilnFakeStep &step) {
  std::lock_guard lock(state.mutex);
  if (!state.isLogging)
    return;
  state.steps.push_back({step, step.function});
  state.steps.back().step.function = state.steps.back().function.c_str();
}

static void callStepHook(const KilnFakeStep &step) {
  KilnFakeStepHook hook = nullptr;
  void *user = nullptr;
  {
    std::lock_guard lock(state.mutex);
    hook = state.stepHook;
    user = state.stepUser;
  }
  if (hook)
    hook(&step, user);
}

static WorkQueue &queueOf(const State::Holding &holding) {
  return holding.stream ? holding.stream->held : *holding.context->legacy;
}

/// Whether work of \p stream, null for the default one, comes behind held work;
/// the mutex is held.
static bool isBehindHeld(const Context *context, const Stream *stream) {
  for (const State::Holding &holding : state.holdings) {
    if (holding.context != context)
      continue;
    if (holding.stream == stream || (!stream && holding.stream->blocking) ||
        (stream && !holding.stream && stream->blocking))
      return true;
  }
  return false;
}

/// Keeps \p node if it stays unfinished, or comes behind work that does.
static bool hold(Node &node, Stream *stream) {
  std::lock_guard lock(state.mutex);
  bool isHeld = node.type == Node::Type::Kernel && !state.heldPattern.empty() &&
                matches(state.heldPattern, node.function->name,
                        node.function->module->text);
  bool isBehind = isBehindHeld(node.context, stream) ||
                  (node.type == Node::Type::Wait && node.event->pending != 0);
  if (!isHeld && !isBehind)
    return false;
  keepParams(node);
  if (node.type == Node::Type::Event)
    ++node.event->pending;
  const State::Holding holding{node.context, stream};
  if (std::find(state.holdings.begin(), state.holdings.end(), holding) ==
      state.holdings.end())
    state.holdings.push_back(holding);
  queueOf(holding).push_back(std::move(node));
  countObservers();
  return true;
}

/// The effect of the attribute of dependent launch, as an H100 with driver 580
/// answered. No combination is refused. It counts behind a kernel, with or
/// without records of events between, and is ignored behind a memset, a copy, a
/// wait for an event or a graph, and first of all. In a stream it is ignored
/// for cooperative kernels, too. In a capture it becomes an edge from the
/// kernel that was recorded last; where the stream waits for an event of
/// another one that is captured as well, a second edge of the kind from the
/// kernel there.
static void settleDependence(Node &node, Stream *stream, bool isCaptured,
                             bool isFromGraph) {
  if (node.type == Node::Type::Event)
    return;
  const bool isKernel = node.type == Node::Type::Kernel;
  std::atomic<bool> &ahead =
      stream ? stream->kernelAhead : node.context->kernelAhead;
  if (isFromGraph) {
    ahead = false;
    return;
  }
  if (isCaptured) {
    std::lock_guard lock(state.mutex);
    const std::vector<Node> &nodes = stream->graph->nodes;
    if (nodes.empty() || nodes.back().type != Node::Type::Kernel)
      node.launch.dependentLaunch = 0;
    return;
  }
  if (isKernel && (!ahead || node.launch.cooperative))
    node.launch.dependentLaunch = 0;
  ahead = isKernel;
}

/// Records \p node into the capture of \p stream, where an event is a mark and
/// no node.
static void capture(Node &&node, Stream &stream) {
  if (node.type == Node::Type::Event || node.type == Node::Type::Wait)
    return;
  keepParams(node);
  std::lock_guard lock(state.mutex);
  stream.graph->nodes.push_back(std::move(node));
}

/// Waits for a load that stalls others, and notes that this thread enqueues.
static void passLoads() {
  if (state.loadUs == 0)
    return;
  std::shared_lock loading(state.loading, std::try_to_lock);
  const bool isStalled = !loading.owns_lock();
  if (isStalled)
    loading.lock();
  std::lock_guard lock(state.mutex);
  state.stalledCalls += isStalled;
  state.lastEnqueued[std::this_thread::get_id()] = State::Clock::now();
}

/// For how long no thread but this one has enqueued anything; the mutex is
/// held.
static uint64_t quietUs() {
  State::Clock::duration quiet = std::chrono::hours(1);
  for (const auto &[thread, last] : state.lastEnqueued)
    if (thread != std::this_thread::get_id())
      quiet = std::min(quiet, State::Clock::now() - last);
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(quiet).count());
}

CUresult awaitDevice() {
  const std::chrono::microseconds time(state.loadUs);
  if (time.count() == 0)
    return awaitHeld(Awaits::Context);
  {
    std::lock_guard lock(state.mutex);
    state.quietUs.push_back(quietUs());
  }
  std::lock_guard loading(state.loading);
  std::this_thread::sleep_for(time);
  return awaitHeld(Awaits::Context);
}

CUresult enqueue(CUstream handle, Node &&node, bool isFromGraph) {
  CUresult result = CUDA_SUCCESS;
  Stream *stream = streamOf(handle, result);
  // A graph's launch has looked, and a node of it may have killed the context.
  if (result != CUDA_SUCCESS)
    return isFromGraph ? CUDA_SUCCESS : result;
  // The nodes of a graph run in the graph's context.
  if (stream && !isFromGraph && stream->context != current)
    return CUDA_ERROR_INVALID_HANDLE;
  if (isLegacyStream(handle))
    result = refuseLegacyWork();
  if (result != CUDA_SUCCESS)
    return result;
  node.context = stream ? stream->context : current;
  const int status =
      stream ? stream->capture.load() : CU_STREAM_CAPTURE_STATUS_NONE;
  if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const bool isCaptured = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (node.type == Node::Type::Event)
    node.event->isCaptured = isCaptured;
  settleDependence(node, stream, isCaptured, isFromGraph);
  const bool isObserved = state.observers.load(std::memory_order_relaxed) != 0;
  if (isObserved)
    passLoads();
  const bool isStep =
      node.type != Node::Type::Event && node.type != Node::Type::Wait;
  KilnFakeStep step = {};
  if (isObserved && isStep)
    logStep(step = stepOf(node, handle, stream, isCaptured, isFromGraph));
  if (isCaptured)
    capture(std::move(node), *stream);
  else if (!isObserved || !hold(node, stream))
    result = execute(node);
  if (isObserved && isStep)
    callStepHook(step);
  return result;
}

void endStream(Stream &stream) {
  stream.kind = Kind::Dead;
  state.captureCount -= static_cast<int>(std::erase(state.captures, &stream));
  if (stream.held.empty())
    state.freeStreams.push_back(&stream);
}

CUresult awaitHeld(Awaits what, Stream *stream) {
  if (state.observers.load(std::memory_order_relaxed) == 0)
    return CUDA_SUCCESS;
  std::unique_lock lock(state.mutex);
  Context *context = stream ? stream->context : current;
  auto isDone = [&] {
    if (what == Awaits::Stream)
      return stream->held.empty();
    if (what == Awaits::Legacy)
      return !isBehindHeld(context, nullptr);
    return std::none_of(
        state.holdings.begin(), state.holdings.end(),
        [&](const auto &holding) { return holding.context == context; });
  };
  if (isDone())
    return CUDA_SUCCESS;
  ++state.blockedCalls;
  // The work that was waited for may have killed the context.
  return state.released.wait_for(lock, state.blockLimit, isDone)
             ? stickyOf(context)
             : CUDA_ERROR_UNKNOWN;
}

void countObservers() {
  state.observers = state.isLogging + (state.stepHook != nullptr) +
                    !state.heldPattern.empty() + (state.loadUs != 0) +
                    static_cast<int>(state.holdings.size());
}

/// Takes the next held node that may run; false without one. A queue counts as
/// held until its last node has run.
static bool takeHeld(Node &node) {
  std::lock_guard lock(state.mutex);
  for (const State::Holding &holding : state.holdings) {
    WorkQueue &queue = queueOf(holding);
    if (queue.empty() || (queue.front().type == Node::Type::Wait &&
                          queue.front().event->pending != 0))
      continue;
    node = std::move(queue.front());
    queue.pop_front();
    return true;
  }
  std::erase_if(state.holdings, [](const State::Holding &holding) {
    return queueOf(holding).empty();
  });
  countObservers();
  state.released.notify_all();
  return false;
}

} // namespace kiln::fake

extern "C" void kilnFakeReleaseWork() {
  {
    std::lock_guard lock(state.mutex);
    state.heldPattern.clear();
  }
  Node node;
  while (takeHeld(node)) {
    execute(node);
    if (node.type != Node::Type::Event)
      continue;
    std::lock_guard lock(state.mutex);
    --node.event->pending;
    state.released.notify_all();
  }
}
