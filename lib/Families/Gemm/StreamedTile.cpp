//===- StreamedTile.cpp ---------------------------------------------------===//
//
// Blocks do not wait for each other: as one ends the next starts, while the
// others of the SM keep loads in flight. So the time is that of all bytes at
// the rate that the resident blocks sustain, not a sum of waves in step. Waves
// matter for how many blocks the busiest SM has, and because the blocks of the
// first one end together.
//
// A block's own time consists of the waits of its warps: a step takes the
// latency of its loads and its instructions, over the steps that are in flight,
// but no less than its instructions. Constants without another source were
// fitted to exhaustive sweeps of 30 problems of 1 to 56 rows (H200). Fitted to
// half of them, the first choice in the other half reaches 0.990 of the best.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/StreamedTile.h"

#include "Families/Gemm/GatherStep.h"
#include "Families/Gemm/StreamedModel.h"
#include "Families/Gemm/TileEstimate.h"
#include "Families/LaunchLimits.h"

#include <algorithm>
#include <cmath>

namespace kiln {

int64_t streamedExtent(const GemmProblem &problem, bool streamsA) {
  return streamsA ? problem.m : problem.n;
}

int64_t vectorExtent(const GemmProblem &problem, bool streamsA) {
  return streamsA ? problem.n : problem.m;
}

int paddedVectors(int64_t vectors) {
  for (int padded : kStreamedVectors)
    if (padded >= vectors)
      return padded;
  return 0;
}

int streamedBlocksPerSm(BlockResources block, const DeviceModel &device) {
  constexpr int64_t kMostRegisters = 255, kUnit = 8;
  block.registersPerThread =
      roundUp(std::min(block.registersPerThread, kMostRegisters), kUnit);
  const Occupancy resident = occupancy(device, block);
  return static_cast<int>(std::max<int64_t>(resident.blocksPerSm, 1));
}

bool fillsIdleSms(int64_t tiles, int64_t steps, int splitK,
                  const DeviceModel &device) {
  constexpr int64_t kLeastSteps = 2;
  return tiles < device.smCount && tiles * splitK <= 2 * device.smCount &&
         steps >= kLeastSteps * splitK;
}

std::optional<Rejection> checkStreamed(const GemmProblem &problem,
                                       const GemmSignature &signature,
                                       bool streamsA, int vectors,
                                       const DeviceModel &device) {
  if (auto rejection = checkAmpere(device))
    return rejection;
  // Rows along k are what a warp reads at once and what mma.sync takes.
  if (signature.layout != Layout::NT)
    return Rejection{PruneReason::InstructionShape};
  constexpr int kVectorBytes = 16;
  if (auto rejection = checkAlign(std::min(signature.alignA, signature.alignB),
                                  kVectorBytes))
    return rejection;
  // More would stream the rows again for every so many vectors.
  int64_t extent = vectorExtent(problem, streamsA);
  if (extent > vectors)
    return Rejection{PruneReason::Dominated, double(extent), double(vectors),
                     "vectors"};
  return std::nullopt;
}

/// Long streams of one operand reach 4460 GB/s, where a sum, which the device's
/// figure is of, reaches 4290 (H200, 1 x 28672 x 4096).
static constexpr double kStreamShare = 1.04;

StreamModel::StreamModel(const GemmProblem &problem, const StreamedTile &kernel,
                         const DeviceModel &device)
    : problem(problem), kernel(kernel), device(device) {
  int64_t rows = std::max<int64_t>(streamedExtent(problem, kernel.streamsA), 1);
  int64_t vectors =
      std::max<int64_t>(vectorExtent(problem, kernel.streamsA), 1);
  double bytes = bytesOf(problem.dtype);
  double k = double(std::max<int64_t>(problem.k, 1)) / kernel.splitK;
  // Groups have sizes of their own; their rows are vectors.
  const double across = problem.meanRows > 0
                            ? tilesAlongM(problem, kernel.vectors)
                            : double(ceilDiv(vectors, kernel.vectors));
  blocks = std::llround(double(ceilDiv(rows, kernel.rows)) * across *
                        double(std::max<int64_t>(problem.batch, 1))) *
           kernel.splitK;
  double ownRows = double(std::min<int64_t>(rows, kernel.rows));
  double ownVectors = double(std::min<int64_t>(vectors, kernel.vectors));
  steps = ceilDiv(ceilDiv(std::max<int64_t>(problem.k, 1), kernel.stepK),
                  kernel.splitK);
  streamedBytes = ownRows * k * bytes * kernel.streamedShare;
  vectorBytes = ownVectors * k * bytes * kernel.vectorShare;
  // A few vectors lie in L2, and all blocks read them there.
  const double allVectors =
      (problem.meanRows > 0 ? problem.meanRows : double(vectors)) *
      double(std::max<int64_t>(problem.batch, 1)) * double(problem.k) * bytes;
  spilledBytes = std::max(allVectors - double(device.l2Bytes), 0.0) /
                 double(std::max<int64_t>(blocks, 1));
  int accesses = 1 + (problem.beta != 0) +
                 problem.pointwise.contains(PointwiseOp::Residual);
  double share =
      double(problem.outCols()) / double(std::max<int64_t>(problem.n, 1));
  otherBytes = accesses * share * ownRows * ownVectors * bytesOf(problem.out) /
               kernel.splitK;
  bytesInFlight = std::min(ownRows * kernel.stepK * bytes *
                               kernel.streamedShare * kernel.stepsInFlight,
                           streamedBytes);
  resident = occupancy(device, kernel.block);
  grid = waves(device, blocks, std::max<int64_t>(resident.blocksPerSm, 1));
}

LittlesLaw StreamModel::little(int64_t count) const {
  return littlesLaw(busyDramLatencyNs(device), device.dramBytesPerNs(),
                    double(count) * bytesInFlight);
}

StreamedWave StreamModel::wave(int64_t count) const {
  StreamedWave wave;
  if (count == 0)
    return wave;
  wave.blocks = double(count);
  wave.perSm = double(ceilDiv(count, device.smCount));
  double moved = streamedBytes + otherBytes;
  double loaded = moved + vectorBytes;
  wave.dramNs = wave.blocks * (moved + spilledBytes) /
                (kStreamShare * device.dramBytesPerNs());
  wave.l2Ns = wave.blocks * loaded / (kernel.l2Share * device.l2BytesPerNs());
  wave.portNs = wave.perSm * loaded / (kL2BytesPerClockPerSm * clockGHz());
  double warps =
      wave.perSm * double(ceilDiv(kernel.block.threads, kWarpThreads));
  wave.issueNs = warps / double(device.subCoresPerSm) *
                 (double(steps) * kernel.stepClocks / clockGHz() + partialNs());
  wave.pathNs = pathNs();
  double sum = 0;
  for (double part :
       {wave.dramNs, wave.l2Ns, wave.portNs, wave.pathNs, wave.issueNs})
    sum += part * part * part * part;
  static_assert(kStreamedNorm == 4,
                "written out: pow would take most of the estimate");
  wave.totalNs = std::sqrt(std::sqrt(sum));
  return wave;
}

/// Splits store their sums, count arrivals, and the last reads them all. That
/// costs less than with larger tiles.
static double reductionNs(const StreamedTile &kernel,
                          const DeviceModel &device) {
  constexpr double kArrivalNs = 2000;
  return kernel.splitK == 1 ? 0
                            : kArrivalNs + kernel.splitK * device.l2LatencyNs;
}

StreamTerms termsOf(const StreamModel &model) {
  const DeviceModel &device = model.device;
  StreamTerms terms;
  int64_t slots = std::max<int64_t>(model.grid.slots, 1);
  terms.fullWaves = model.blocks / slots;
  if (terms.fullWaves > 0)
    terms.full = model.wave(slots);
  terms.last = model.wave(model.blocks % slots);
  terms.stream =
      double(terms.fullWaves) * terms.full.totalNs + terms.last.totalNs;
  terms.restarts = model.restartNs();
  terms.reduction = reductionNs(model.kernel, device);
  terms.gather = gatherNs(model.problem, device);
  terms.total = device.launchNs + device.rampNs + terms.gather + terms.stream +
                terms.restarts + model.kernel.tailNs + terms.reduction;
  return terms;
}

llvm::StringRef boundOf(const StreamedWave &wave, bool tensor) {
  double most = std::max(
      {wave.dramNs, wave.l2Ns, wave.portNs, wave.pathNs, wave.issueNs});
  return most == wave.dramNs    ? "dram"
         : most == wave.pathNs  ? "latency"
         : most != wave.issueNs ? "l2"
         : tensor               ? "tensor"
                                : "simd";
}

Estimate estimateTile(const GemmProblem &problem, const StreamedTile &kernel,
                      const DeviceModel &device, Detail detail) {
  StreamModel model(problem, kernel, device);
  StreamTerms terms = termsOf(model);
  Estimate estimate(detail);
  estimate.totalNs = terms.total;
  estimate.bound = boundOf(terms.main(), kernel.tensor);
  estimate.add("launch", device.launchNs);
  estimate.add("ramp", device.rampNs);
  estimate.add("gather", terms.gather);
  estimate.add("stream", terms.stream);
  estimate.add("restarts", terms.restarts);
  estimate.add("tail", kernel.tailNs);
  estimate.add("reduction", terms.reduction);
  estimate.note("wave dram", terms.main().dramNs);
  estimate.note("wave l2", terms.main().l2Ns);
  estimate.note("wave port", terms.main().portNs);
  estimate.note("wave path", terms.main().pathNs);
  estimate.note("wave issue", terms.main().issueNs);
  estimate.note("blocks per SM", double(model.grid.blocksPerSm), "");
  estimate.note("waves", double(model.blocks) / double(model.grid.slots), "");
  estimate.note("in flight per block", model.bytesInFlight, "B");
  return estimate;
}

} // namespace kiln
