//===- QuietComparison.cpp ------------------------------------------------===//
#include "kiln-bench/QuietComparison.h"

#include "Trial/StreamTimer.h"

#include <llvm/ADT/STLExtras.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace kiln::cli {

/// Several launches of \p call in a row, as a graph: short ones would be timed
/// no faster than the host makes them.
llvm::Expected<Graph> QuietComparison::graphOf(kiln_engine *engine,
                                               const PreparedCall &call) {
  // The first may choose, tune and make arenas, which cannot be captured.
  if (llvm::Error error = statusError(call.launch(engine, stream)))
    return error;
  if (llvm::Error error = stream.synchronize())
    return error;
  if (llvm::Error error = Graph::beginCapture(driver, stream.handle()))
    return error;
  llvm::Error failure = llvm::Error::success();
  for (int i = 0; i < kLaunches && !failure; ++i)
    failure = statusError(call.launch(engine, stream));
  auto graph = Graph::endCapture(driver, stream.handle());
  if (!failure)
    return graph;
  if (!graph)
    llvm::consumeError(graph.takeError());
  return failure;
}

/// Time of the device for one launch of \p graph, in us.
llvm::Expected<double> QuietComparison::timeOf(Graph &graph) {
  auto ns = timeOnce(driver, stream.handle(),
                     [&] { return graph.launch(stream.handle()); });
  if (!ns)
    return ns.takeError();
  return *ns * 1e-3 / kLaunches;
}

llvm::Expected<QuietSpeed> QuietComparison::run(const ProductCall &which) {
  constexpr int kRounds = 7;
  auto call = products.prepare(which);
  if (!call)
    return call.takeError();
  std::optional<Graph> graphs[2];
  std::string configs[2];
  for (auto [i, from] : llvm::enumerate(std::array{engine, other})) {
    auto made = graphOf(from, *call);
    if (!made)
      return made.takeError();
    graphs[i].emplace(std::move(*made));
    auto config = call->config(from, stream);
    if (!config)
      return config.takeError();
    configs[i] = std::move(*config);
  }
  std::vector<double> times[2];
  for (int round = 0; round <= kRounds; ++round)
    for (size_t i = 0; i < std::size(graphs); ++i) {
      auto us = timeOf(*graphs[i]);
      if (!us)
        return us.takeError();
      if (round > 0) // the first launch of a graph uploads it
        times[i].push_back(*us);
    }
  return QuietSpeed{products.name(which), quantile(times[0], 0.5),
                    quantile(times[1], 0.5), std::move(configs[0]),
                    std::move(configs[1])};
}

} // namespace kiln::cli
