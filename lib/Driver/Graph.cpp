//===- Graph.cpp ----------------------------------------------------------===//
#include "Driver/Graph.h"

#include "Driver/Context.h"
#include "Driver/LaunchSteps.h"

#include <utility>

namespace kiln {

llvm::Error Graph::beginCapture(const Driver &driver, CudaStream stream) {
  return driver.check(driver.api().cuStreamBeginCapture(
                          stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                      "cuStreamBeginCapture");
}

llvm::Expected<Graph> Graph::endCapture(const Driver &driver,
                                        CudaStream stream) {
  const CudaApi &api = driver.api();
  CUgraph captured = nullptr;
  if (llvm::Error error = driver.check(
          api.cuStreamEndCapture(stream, &captured), "cuStreamEndCapture"))
    return error;
  Graph graph(driver);
  graph.graph = captured;
  if (llvm::Error error =
          driver.check(api.cuGraphGetNodes(captured, nullptr, &graph.nodes),
                       "cuGraphGetNodes"))
    return error;
  if (llvm::Error error = graph.instantiate())
    return error;
  return graph;
}

llvm::Error Graph::instantiate() {
  CUgraphExec made = nullptr;
  if (llvm::Error error = driver->check(
          driver->api().cuGraphInstantiateWithFlags(&made, graph, 0),
          "cuGraphInstantiate"))
    return error;
  executable = made;
  return llvm::Error::success();
}

Graph::Graph(Graph &&other) noexcept
    : driver(other.driver), graph(std::exchange(other.graph, nullptr)),
      executable(std::exchange(other.executable, nullptr)), nodes(other.nodes) {
}

Graph::~Graph() {
  if (executable)
    driver->api().cuGraphExecDestroy(executable);
  if (graph)
    driver->api().cuGraphDestroy(graph);
}

llvm::Error Graph::launch(CudaStream stream) {
  return driver->check(driver->api().cuGraphLaunch(executable, stream),
                       "cuGraphLaunch");
}

llvm::Expected<OpenCapture> openCapture(const Driver &driver,
                                        CudaStream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  CUresult result = driver.api().cuStreamGetCaptureInfo_v3(
      stream, &status, &id, &graph, nullptr, nullptr, nullptr);
  if (llvm::Error error = driver.check(result, "cuStreamGetCaptureInfo"))
    return error;
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return OpenCapture{};
  return OpenCapture{id, graph};
}

llvm::Error callWhenGone(const Driver &driver, CudaGraph graph,
                         void (*released)(void *user), void *user) {
  // An object that no graph takes calls as well when it is released: disarmed.
  struct Call {
    void (*released)(void *user);
    void *user;
    bool isArmed;
  };
  auto run = [](void *given) {
    auto *call = static_cast<Call *>(given);
    if (call->isArmed)
      call->released(call->user);
    delete call;
  };
  const CudaApi &api = driver.api();
  auto *call = new Call{released, user, true};
  CUuserObject object = nullptr;
  if (llvm::Error error = driver.check(
          api.cuUserObjectCreate(&object, call, run, /*initialRefcount=*/1,
                                 CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
          "cuUserObjectCreate")) {
    delete call;
    return error;
  }
  CUresult result =
      api.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result == CUDA_SUCCESS)
    return llvm::Error::success();
  call->isArmed = false;
  api.cuUserObjectRelease(object, 1);
  return driver.check(result, "cuGraphRetainUserObject");
}

//===----------------------------------------------------------------------===//
// Graphs built by hand
//===----------------------------------------------------------------------===//

llvm::Expected<GraphBuilder> GraphBuilder::create(const Driver &driver) {
  auto context = currentContext(driver);
  if (!context)
    return context.takeError();
  CUgraph made = nullptr;
  if (llvm::Error error =
          driver.check(driver.api().cuGraphCreate(&made, 0), "cuGraphCreate"))
    return error;
  Graph graph(driver);
  graph.graph = made;
  return GraphBuilder(std::move(graph), *context);
}

static CUgraphNodeParams kernelNode(const KernelStep &step,
                                    CudaFunction function, void **arguments) {
  CUgraphNodeParams node = {};
  node.type = CU_GRAPH_NODE_TYPE_KERNEL;
  node.kernel.func = function;
  node.kernel.gridDimX = step.grid.x;
  node.kernel.gridDimY = step.grid.y;
  node.kernel.gridDimZ = step.grid.z;
  node.kernel.blockDimX = step.block.x;
  node.kernel.blockDimY = step.block.y;
  node.kernel.blockDimZ = step.block.z;
  node.kernel.sharedMemBytes = step.sharedBytes;
  node.kernel.kernelParams = arguments;
  return node;
}

static CUgraphNodeParams memsetNode(const MemsetStep &step,
                                    CudaContext context) {
  CUgraphNodeParams node = {};
  node.type = CU_GRAPH_NODE_TYPE_MEMSET;
  node.memset.dst = step.address;
  node.memset.value = step.value;
  node.memset.elementSize = 1;
  node.memset.width = step.bytes;
  node.memset.height = 1;
  node.memset.ctx = context;
  return node;
}

/// The edge from the node before. A kernel that may begin before the one ahead
/// of it ends says so by its edge here, where a stream takes an attribute.
static CUgraphEdgeData edgeTo(const LaunchStep &step, bool lastIsKernel) {
  CUgraphEdgeData edge = {};
  if (step.kind == LaunchStep::Kind::Kernel && step.kernel.dependentLaunch &&
      lastIsKernel) {
    edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  return edge;
}

llvm::Error GraphBuilder::add(LaunchSpec &spec,
                              llvm::ArrayRef<CudaFunction> functions) {
  const Driver &driver = *graph.driver;
  const CudaApi &api = driver.api();
  if (llvm::Error error = patchTensorMaps(driver, spec))
    return error;
  for (uint32_t i = 0; i < spec.stepCount; ++i) {
    const LaunchStep &step = spec.steps[i];
    const bool isKernel = step.kind == LaunchStep::Kind::Kernel;
    void *arguments[] = {spec.params + step.kernel.paramOffset};
    CUgraphNodeParams params =
        isKernel ? kernelNode(step.kernel, functions[step.kernel.function],
                              arguments)
                 : memsetNode(step.memset, context);
    const CUgraphEdgeData edge = edgeTo(step, lastIsKernel);
    CUgraphNode node = nullptr;
    CUresult result =
        api.cuGraphAddNode_v2(&node, graph.graph, last ? &last : nullptr,
                              last ? &edge : nullptr, last ? 1 : 0, &params);
    if (result != CUDA_SUCCESS)
      return stepError(driver, result, spec, i, "cuGraphAddNode");
    last = node;
    lastIsKernel = isKernel;
    ++graph.nodes;
    if (!isKernel)
      continue;
    CUlaunchAttribute attributes[kMaxStepAttributes];
    const unsigned count = fillAttributes(step.kernel, attributes);
    for (unsigned j = 0; j < count; ++j) {
      result = api.cuGraphKernelNodeSetAttribute(node, attributes[j].id,
                                                 &attributes[j].value);
      if (result != CUDA_SUCCESS)
        return stepError(driver, result, spec, i,
                         "cuGraphKernelNodeSetAttribute");
    }
  }
  return llvm::Error::success();
}

llvm::Expected<Graph> GraphBuilder::instantiate() {
  if (llvm::Error error = graph.instantiate())
    return error;
  return std::move(graph);
}

} // namespace kiln
