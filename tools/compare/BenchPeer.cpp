//===- BenchPeer.cpp ------------------------------------------------------===//
#include "compare/BenchPeer.h"

#include "Driver/Stream.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/MathExtras.h>

#include <cmath>

namespace kiln::cli {

/// More algorithms than its heuristic has ever answered.
static constexpr int kManyAlgorithms = 100;
static constexpr uint64_t kResultAlignment = 256;

/// Makes \p product the sums that cuBLASLt has, without scales, and the result
/// a matrix of its own for each copy, so that writes are as cold as Kiln's.
llvm::Error BenchPeer::takeSums(const Driver &driver, MatrixProduct &product) {
  MatrixProduct sums;
  sums.type = sums.typeB = DType::INT8;
  sums.out = DType::INT32;
  sums.m = product.m;
  sums.n = product.n;
  sums.k = product.k;
  sums.batch = product.batch;
  sums.layout = product.layout;
  sums.a = product.a;
  sums.b = product.b;
  sums.d = product.d;
  product = sums;
  OperandSpec &d = table.operands[static_cast<size_t>(product.d)];
  d.type = DType::INT32;
  d.rows = product.m;
  d.cols = d.leadingDimension = product.n;
  d.batchStride = product.m * product.n;
  d.misalignment = 0;
  const uint64_t bytes =
      llvm::alignTo(static_cast<uint64_t>(d.bytes()), kResultAlignment);
  auto memory = DeviceMemory::allocate(driver, bytes * arguments.size());
  if (!memory)
    return memory.takeError();
  results = std::move(*memory);
  for (size_t copy = 0; copy < arguments.size(); ++copy)
    arguments[copy].operands[product.d].address =
        results.address() + copy * bytes;
  kind = "int32 sums without scales, pointwise or C, into memory of its own";
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<BenchPeer>>
BenchPeer::create(const Driver &driver, std::shared_ptr<const CublasLt> library,
                  const MatrixProduct &product, const Operands &operands,
                  bool allAlgorithms) {
  std::unique_ptr<BenchPeer> peer(new BenchPeer);
  peer->table = operands.table;
  peer->arguments = operands.arguments.vec();
  MatrixProduct asked = product;
  if (product.type == DType::INT8)
    if (llvm::Error error = peer->takeSums(driver, asked))
      return error;
  auto matmul = CublasLtMatmul::create(std::move(library), asked, peer->table,
                                       kPeerWorkspaceBytes);
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
         arguments = llvm::ArrayRef(peer->arguments),
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
