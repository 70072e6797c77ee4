//===- StreamedTile.cpp ---------------------------------------------------===//
#include "Families/Gemm/StreamedTile.h"

#include "Families/Stream/StreamEstimate.h"
#include "Model/MathUtil.h"
#include "Support/Format.h"

#include <algorithm>
#include <cmath>

namespace kiln {

int64_t streamedExtent(const GemmProblem &problem, bool streamsA) {
  return streamsA ? problem.m : problem.n;
}

int64_t vectorExtent(const GemmProblem &problem, bool streamsA) {
  return streamsA ? problem.n : problem.m;
}

std::optional<Rejection> checkStreamed(const GemmProblem &problem,
                                       const GemmSignature &signature,
                                       bool streamsA, int vectors,
                                       const DeviceModel &device) {
  constexpr int kFirstCapability = 80; // cp.async, cache policies
  if (device.computeCapability() < kFirstCapability)
    return Rejection{PruneReason::Architecture,
                     double(device.computeCapability()), kFirstCapability};
  if (bytesOf(signature.in) != 2)
    return Rejection{PruneReason::Type};
  // Rows along k are what a warp reads at once and what mma.sync takes.
  if (signature.layout != Layout::NT)
    return Rejection{PruneReason::InstructionShape};
  constexpr int kVectorBytes = 16;
  int align = std::min(signature.alignA, signature.alignB);
  if (align < kVectorBytes)
    return Rejection{PruneReason::Alignment, double(align), kVectorBytes, "B"};
  // More would stream the rows again for every so many vectors.
  int64_t extent = vectorExtent(problem, streamsA);
  if (extent > vectors)
    return Rejection{PruneReason::Dominated, double(extent), double(vectors),
                     "vectors"};
  return std::nullopt;
}

/// Blocks that work on the same vectors and the same range of k count once.
static StreamKernel streamOf(const GemmProblem &problem,
                             const StreamedTile &kernel,
                             const DeviceModel &device) {
  int64_t rows = std::max<int64_t>(streamedExtent(problem, kernel.streamsA), 1);
  int64_t vectors =
      std::max<int64_t>(vectorExtent(problem, kernel.streamsA), 1);
  double batch = double(std::max<int64_t>(problem.batch, 1));
  double k = double(std::max<int64_t>(problem.k, 1));
  double bytes = bytesOf(problem.dtype), outBytes = bytesOf(problem.out);
  StreamKernel stream;
  stream.tasks = ceilDiv(rows, kernel.rows) * ceilDiv(vectors, kernel.vectors) *
                 std::max<int64_t>(problem.batch, 1) * kernel.splitK;
  stream.block = kernel.block;
  double elements = batch * double(rows) * k;
  double results = batch * double(rows) * double(vectors);
  int reads =
      (problem.beta != 0) + problem.pointwise.contains(PointwiseOp::Residual);
  stream.readBytes = (elements + batch * double(vectors) * k) * bytes +
                     reads * results * outBytes;
  stream.writeBytes = results * outBytes;
  double kOfBlock = k / kernel.splitK;
  stream.sharedBytesPerTask =
      double(std::min<int64_t>(vectors, kernel.vectors)) * kOfBlock * bytes /
      double(kernel.blocksPerVectorRead);
  double ofBlock = kernel.rows * kOfBlock * bytes;
  stream.loadRounds = std::max<int64_t>(
      1, int64_t(std::ceil(ofBlock / std::max(kernel.bytesInFlight, 1.0))));
  stream.serialNs = kernel.serialNs;
  stream.simdOps = elements * kernel.opsPerElement;
  // Tensor cores keep their issue slots busy for as long as ordinary
  // instructions would: both are counted in lanes.
  if (kernel.tensorFlopsPerClock > 0)
    stream.simdOps += elements * kernel.tensorFlopsPerElement /
                      kernel.tensorFlopsPerClock *
                      device.simdFlopsPerClockPerSm(RateType::FP32) / 2;
  return stream;
}

/// Splits store their sums, count arrivals, and the last reads them all.
static double reductionNs(const StreamedTile &kernel,
                          const DeviceModel &device) {
  if (kernel.splitK == 1)
    return 0;
  // H200: a counter's round trip through L2 takes about 0.65 us, the fence
  // before it another; the sums are read one after the other.
  constexpr double kHopNs = 650;
  return 2 * kHopNs + kernel.splitK * device.l2LatencyNs / 4;
}

Estimate estimateTile(const GemmProblem &problem, const StreamedTile &kernel,
                      const DeviceModel &device) {
  Estimate estimate = estimateStream(streamOf(problem, kernel, device), device);
  double reduction = reductionNs(kernel, device);
  estimate.totalNs += kernel.tailNs + reduction;
  estimate.add("tail", kernel.tailNs);
  estimate.add("reduction", reduction);
  return estimate;
}

Derivation explainTile(const GemmProblem &problem, const StreamedTile &kernel,
                       const DeviceModel &device) {
  StreamKernel stream = streamOf(problem, kernel, device);
  Derivation steps;
  steps.push_back(
      {"streamed rows",
       fmt::format("{} rows of {} past {} of {}, {} x {} a block, k in {}",
                   streamedExtent(problem, kernel.streamsA),
                   kernel.streamsA ? "A" : "B",
                   vectorExtent(problem, kernel.streamsA),
                   kernel.streamsA ? "B" : "A", kernel.rows, kernel.vectors,
                   kernel.splitK),
       fmt::format("{} blocks, each with {:.0f} B of the rows on the way: {} "
                   "rounds of loads",
                   stream.tasks, kernel.bytesInFlight, stream.loadRounds),
       llvm::json::Object{{"rows", kernel.rows},
                          {"vectors", kernel.vectors},
                          {"split_k", kernel.splitK},
                          {"blocks", stream.tasks},
                          {"load_rounds", stream.loadRounds}}});
  for (DerivationStep &step : explainStream(stream, device))
    steps.push_back(std::move(step));
  double reduction = reductionNs(kernel, device);
  steps.push_back(
      {"tail",
       fmt::format("{:.0f} ns for the last block's sums and stores, {:.0f} ns "
                   "for {} splits",
                   kernel.tailNs, reduction, kernel.splitK),
       fmt::format("{:.2f} us in all",
                   estimateTile(problem, kernel, device).totalNs * 1e-3),
       llvm::json::Object{{"tail_ns", kernel.tailNs},
                          {"reduction_ns", reduction}}});
  return steps;
}

} // namespace kiln
