//===- BenchPeer.cpp ------------------------------------------------------===//
#include "kiln/bench/BenchPeer.h"

#include "Driver/Stream.h"

#include <llvm/ADT/STLExtras.h>

#include <cmath>

namespace kiln::cli {

/// More algorithms than its heuristic has ever answered.
static constexpr int kManyAlgorithms = 100;

llvm::Expected<std::shared_ptr<const CublasLt>>
loadPeerLibrary(const ParsedOptions &options, const Environment &environment) {
  auto library = CublasLt::load(environment,
                                nvrtcSearch(options, environment).extraFolders);
  if (!library)
    return addContext(library.takeError(),
                      "nothing to compare with (--no-peer measures Kiln "
                      "alone)");
  return library;
}

llvm::Expected<std::unique_ptr<BenchPeer>>
BenchPeer::create(std::shared_ptr<const CublasLt> library,
                  const MatrixProduct &product, const Operands &operands,
                  bool allAlgorithms) {
  std::unique_ptr<BenchPeer> peer(new BenchPeer);
  auto matmul = CublasLtMatmul::create(std::move(library), product,
                                       operands.table, kPeerWorkspaceBytes);
  if (!matmul)
    return matmul.takeError();
  peer->matmul = std::move(*matmul);
  auto algorithms =
      peer->matmul->algorithms(allAlgorithms ? kManyAlgorithms : 1);
  if (!algorithms)
    return algorithms.takeError();
  peer->algorithms = std::move(*algorithms);
  for (const CublasLtAlgorithm &algorithm : peer->algorithms)
    peer->launches.push_back(
        [matmul = peer->matmul.get(), &algorithm,
         arguments = operands.arguments,
         workspace = operands.workspace](unsigned copy, CudaStream stream) {
          return matmul->launch(algorithm, arguments[copy], workspace, stream);
        });
  return peer;
}

llvm::Error BenchPeer::loadAll(const Driver &driver, CudaStream stream) const {
  for (const TimedLaunch &launch : launches)
    if (llvm::Error error = launch(0, stream)) {
      ErrorSummary summary = summarize(std::move(error));
      if (endsAll(summary.code))
        return errorOf(summary);
    }
  return synchronize(driver, stream);
}

llvm::Error BenchPeer::pickBest(const Driver &driver, CudaStream stream,
                                SamplingOptions sampling) {
  sampling.minSamples = 3;
  sampling.maxSamples = 5;
  auto times = measureInterleaved(driver, stream, launches, sampling);
  if (!times)
    return times.takeError();
  double bestNs = INFINITY;
  for (auto [i, time] : llvm::enumerate(*times)) {
    if (time.error.code != ErrorCode::Success || time.ns.count == 0 ||
        time.ns.median >= bestNs)
      continue;
    bestNs = time.ns.median;
    fastest = i;
  }
  return llvm::Error::success();
}

} // namespace kiln::cli
