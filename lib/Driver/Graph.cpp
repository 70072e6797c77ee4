//===- Graph.cpp ----------------------------------------------------------===//
#include "Driver/Graph.h"

#include "Driver/CudaApi.h"

#include <utility>

namespace kiln {

llvm::Error Graph::beginCapture(const Driver &driver, CudaStream stream) {
  return driver.check(
      driver.api().cuStreamBeginCapture(static_cast<CUstream>(stream),
                                        CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      "cuStreamBeginCapture");
}

llvm::Expected<Graph> Graph::endCapture(const Driver &driver,
                                        CudaStream stream) {
  const CudaApi &api = driver.api();
  CUgraph captured = nullptr;
  if (llvm::Error error = driver.check(
          api.cuStreamEndCapture(static_cast<CUstream>(stream), &captured),
          "cuStreamEndCapture"))
    return error;
  Graph graph(driver);
  graph.graph = captured;
  if (llvm::Error error =
          driver.check(api.cuGraphGetNodes(captured, nullptr, &graph.nodes),
                       "cuGraphGetNodes"))
    return error;
  CUgraphExec executable = nullptr;
  if (llvm::Error error = driver.check(
          api.cuGraphInstantiateWithFlags(&executable, captured, 0),
          "cuGraphInstantiate"))
    return error;
  graph.executable = executable;
  return graph;
}

Graph::Graph(Graph &&other) noexcept
    : driver(other.driver), graph(std::exchange(other.graph, nullptr)),
      executable(std::exchange(other.executable, nullptr)), nodes(other.nodes) {
}

Graph::~Graph() {
  if (executable)
    driver->api().cuGraphExecDestroy(static_cast<CUgraphExec>(executable));
  if (graph)
    driver->api().cuGraphDestroy(static_cast<CUgraph>(graph));
}

llvm::Error Graph::launch(CudaStream stream) {
  return driver->check(
      driver->api().cuGraphLaunch(static_cast<CUgraphExec>(executable),
                                  static_cast<CUstream>(stream)),
      "cuGraphLaunch");
}

llvm::Expected<OpenCapture> openCapture(const Driver &driver,
                                        CudaStream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  CUresult result = driver.api().cuStreamGetCaptureInfo_v3(
      static_cast<CUstream>(stream), &status, &id, &graph, nullptr, nullptr,
      nullptr);
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
  CUresult result = api.cuGraphRetainUserObject(
      static_cast<CUgraph>(graph), object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result == CUDA_SUCCESS)
    return llvm::Error::success();
  call->isArmed = false;
  api.cuUserObjectRelease(object, 1);
  return driver.check(result, "cuGraphRetainUserObject");
}

} // namespace kiln
