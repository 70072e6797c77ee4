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

} // namespace kiln
