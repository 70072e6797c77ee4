//===- FakeCudaGraphs.cpp - graphs: built by hand, instantiated, run ------===//
#include "Fakes/FakeCudaState.h"

using namespace kiln::fake;

namespace kiln::fake {

/// A kernel's node; its parameters are copied, as the driver does.
static CUresult makeKernel(const CUDA_KERNEL_NODE_PARAMS_v3 &params,
                           Node &node) {
  CUresult result = CUDA_SUCCESS;
  auto *function = objectOf<Function>(params.func, Kind::Function, result);
  if (!function)
    return result;
  if (function->context != current)
    return CUDA_ERROR_INVALID_HANDLE;
  CUlaunchConfig config = {};
  config.gridDimX = params.gridDimX;
  config.gridDimY = params.gridDimY;
  config.gridDimZ = params.gridDimZ;
  config.blockDimX = params.blockDimX;
  config.blockDimY = params.blockDimY;
  config.blockDimZ = params.blockDimZ;
  config.sharedMemBytes = params.sharedMemBytes;
  if (result = checkGeometry(config, *function); result != CUDA_SUCCESS)
    return result;
  if (result = describe(config, *function, params.kernelParams, node);
      result != CUDA_SUCCESS)
    return result;
  node.callback = callbackOf(*function);
  keepParams(node);
  return CUDA_SUCCESS;
}

static CUresult makeMemset(const CUDA_MEMSET_NODE_PARAMS_v2 &params,
                           Node &node) {
  const Context *context = objectOf<Context>(params.ctx, Kind::Context);
  if (params.elementSize != 1 || params.height != 1 || params.value > 0xff ||
      !context)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = stickyOf(context);
  if (result == CUDA_SUCCESS)
    result = checkMemory(params.dst, params.width);
  if (result != CUDA_SUCCESS)
    return result;
  node.type = Node::Type::Memset;
  node.to = reinterpret_cast<void *>(params.dst);
  node.value = static_cast<uint8_t>(params.value);
  node.bytes = params.width;
  return CUDA_SUCCESS;
}

/// Only chains are served: \p from is the node before.
static CUresult checkEdge(const Graph &graph, CUgraphNode from,
                          const CUgraphEdgeData *edge, Node &node) {
  auto *before = objectOf<GraphNode>(from, Kind::GraphNode);
  if (!before || before->graph != &graph)
    return CUDA_ERROR_INVALID_VALUE;
  if (before->index + 1 != graph.nodes.size())
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!edge || edge->type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT)
    return CUDA_SUCCESS;
  if (edge->type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC ||
      edge->from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
      edge->to_port != 0 || node.type != Node::Type::Kernel ||
      graph.nodes.back().type != Node::Type::Kernel)
    return CUDA_ERROR_INVALID_VALUE;
  node.launch.dependentLaunch = 1;
  return CUDA_SUCCESS;
}

} // namespace kiln::fake

#pragma GCC visibility push(default)
extern "C" {

CUresult cuGraphCreate(CUgraph *handle, unsigned flags) {
  KILN_FAKE_ENTER(cuGraphCreate, Needs::Init);
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state.mutex);
  *handle = handleOf<CUgraph>(state.make<Graph>());
  return CUDA_SUCCESS;
}

CUresult cuGraphAddNode_v2(CUgraphNode *handle, CUgraph graphHandle,
                           const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t count,
                           CUgraphNodeParams *params) {
  KILN_FAKE_ENTER(cuGraphAddNode_v2, Needs::Context);
  Graph *graph = objectOf<Graph>(graphHandle, Kind::Graph);
  if (!graph)
    return CUDA_ERROR_INVALID_HANDLE;
  Node node;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  if (params->type == CU_GRAPH_NODE_TYPE_KERNEL)
    result = makeKernel(params->kernel, node);
  else if (params->type == CU_GRAPH_NODE_TYPE_MEMSET)
    result = makeMemset(params->memset, node);
  if (result == CUDA_SUCCESS && count != (graph->nodes.empty() ? 0 : 1))
    result = CUDA_ERROR_NOT_SUPPORTED;
  if (result == CUDA_SUCCESS && count == 1)
    result = checkEdge(*graph, *dependencies, edges, node);
  if (result != CUDA_SUCCESS)
    return result;
  std::lock_guard lock(state.mutex);
  auto *made = state.make<GraphNode>();
  made->graph = graph;
  made->index = graph->nodes.size();
  graph->nodes.push_back(std::move(node));
  *handle = handleOf<CUgraphNode>(made);
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode handle,
                                       CUkernelNodeAttrID id,
                                       const CUkernelNodeAttrValue *value) {
  KILN_FAKE_ENTER(cuGraphKernelNodeSetAttribute, Needs::Context);
  auto *named = objectOf<GraphNode>(handle, Kind::GraphNode);
  if (!named)
    return CUDA_ERROR_INVALID_HANDLE;
  Node &node = named->graph->nodes.at(named->index);
  // A property that a graph has by its edges is not an attribute of a node.
  if (node.type != Node::Type::Kernel ||
      id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
    return CUDA_ERROR_INVALID_VALUE;
  CUlaunchAttribute attribute = {};
  attribute.id = id;
  attribute.value = *value;
  return describeAttribute(attribute, *node.function, node.launch);
}

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
  for (const Node &node : graph->nodes)
    if (node.type == Node::Type::Kernel)
      if (CUresult result = checkResidency(node.launch, *node.function);
          result != CUDA_SUCCESS)
        return result;
  std::lock_guard lock(state.mutex);
  GraphExec *executable = state.make<GraphExec>();
  executable->context = current;
  executable->nodes = graph->nodes;
  executable->kept = graph->kept;
  *handle = handleOf<CUgraphExec>(executable);
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  KILN_FAKE_ENTER(cuGraphLaunch, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  GraphExec *executable = objectOf<GraphExec>(handle, Kind::GraphExec, result);
  if (executable)
    streamOf(stream, result);
  if (result != CUDA_SUCCESS)
    return result;
  for (const Node &node : executable->nodes)
    if (result = enqueue(stream, Node(node), true); result != CUDA_SUCCESS)
      return result;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  KILN_FAKE_ENTER(cuGraphExecDestroy, Needs::Init);
  CUresult result = CUDA_SUCCESS;
  GraphExec *executable = objectOf<GraphExec>(handle, Kind::GraphExec, result);
  if (!executable)
    return result;
  executable->kind = Kind::Dead;
  executable->nodes = {}; // tests of many trials make millions
  // The last reference calls, so no lock is held.
  KeptObjects released = std::move(executable->kept);
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
  KILN_FAKE_ENTER(cuGraphDestroy, Needs::Init);
  Graph *graph = objectOf<Graph>(handle, Kind::Graph);
  if (!graph)
    return CUDA_ERROR_INVALID_HANDLE;
  graph->kind = Kind::Dead;
  graph->nodes = {};
  KeptObjects released = std::move(graph->kept);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectCreate(CUuserObject *handle, void *data, CUhostFn destroy,
                            unsigned references, unsigned flags) {
  KILN_FAKE_ENTER(cuUserObjectCreate, Needs::Init);
  if (references != 1 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard lock(state.mutex);
  auto *object = state.make<UserObject>();
  object->reference = std::shared_ptr<void>(data, destroy);
  *handle = handleOf<CUuserObject>(object);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned count) {
  KILN_FAKE_ENTER(cuUserObjectRelease, Needs::Init);
  auto *object = objectOf<UserObject>(handle, Kind::UserObject);
  if (!object || count != 1)
    return CUDA_ERROR_INVALID_VALUE;
  object->kind = Kind::Dead;
  std::shared_ptr<void> released = std::move(object->reference);
  return CUDA_SUCCESS;
}

/// Serves references that move from their creator to a graph.
CUresult cuGraphRetainUserObject(CUgraph graphHandle, CUuserObject handle,
                                 unsigned count, unsigned flags) {
  KILN_FAKE_ENTER(cuGraphRetainUserObject, Needs::Init);
  Graph *graph = objectOf<Graph>(graphHandle, Kind::Graph);
  auto *object = objectOf<UserObject>(handle, Kind::UserObject);
  if (!graph || !object || count != 1 || flags != CU_GRAPH_USER_OBJECT_MOVE)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state.mutex);
  graph->kept.push_back(std::move(object->reference));
  object->kind = Kind::Dead;
  return CUDA_SUCCESS;
}

} // extern "C"
#pragma GCC visibility pop
