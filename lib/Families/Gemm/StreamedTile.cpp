//===- StreamedTile.cpp ---------------------------------------------------===//
//
// Blocks do not wait for each other: as one ends the next starts, while the
// others of the SM keep loads on the way. So the time is that of all bytes at
// the rate that the resident blocks sustain, not a sum of waves in step; waves
// matter for how many blocks the busiest SM has at the end, and for the starts
// that the other blocks do not cover.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/StreamedTile.h"

#include "Families/Gemm/TileEstimate.h"
#include "Model/Bandwidth.h"
#include "Model/MathUtil.h"
#include "Model/Waves.h"
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

namespace {

/// A wave of blocks, in ns: what each resource takes, and all of them together.
struct StreamWave {
  double blocks = 0, perSm = 0;
  double dramNs = 0, l2Ns = 0, portNs = 0, latencyNs = 0, issueNs = 0;
  double totalNs = 0;
};

/// Everything that the terms are computed from, for one kernel and problem.
struct StreamModel {
  const GemmProblem &problem;
  const StreamedTile &kernel;
  const DeviceModel &device;

  int64_t blocks = 0;
  double elements = 0; ///< of the streamed rows that a block reads
  double streamedBytes = 0, vectorBytes = 0; ///< that a block reads
  double otherBytes = 0; ///< of C, the residual and D, of a block
  double bytesInFlight = 0;
  Occupancy resident;
  Waves grid;

  StreamModel(const GemmProblem &problem, const StreamedTile &kernel,
              const DeviceModel &device);

  StreamWave wave(int64_t count) const;
  LittlesLaw little(int64_t count) const;
  /// What blocks that start behind others cost each wave but the first.
  double restartNs() const;
};

/// Every term of the time, in ns.
struct StreamTerms {
  double stream = 0, restarts = 0, reduction = 0, total = 0;
  StreamWave main; ///< a full wave, or the only one
};

} // namespace

/// Loads of a busy memory take longer than those of an idle one (H200).
static constexpr double kBusyLatencyFactor = 2.5;

static double busyLatencyNs(const DeviceModel &device) {
  return kBusyLatencyFactor * device.dramLatencyNs;
}

StreamModel::StreamModel(const GemmProblem &problem, const StreamedTile &kernel,
                         const DeviceModel &device)
    : problem(problem), kernel(kernel), device(device) {
  int64_t rows = std::max<int64_t>(streamedExtent(problem, kernel.streamsA), 1);
  int64_t vectors =
      std::max<int64_t>(vectorExtent(problem, kernel.streamsA), 1);
  double bytes = bytesOf(problem.dtype);
  double k = double(std::max<int64_t>(problem.k, 1)) / kernel.splitK;
  blocks = ceilDiv(rows, kernel.rows) * ceilDiv(vectors, kernel.vectors) *
           std::max<int64_t>(problem.batch, 1) * kernel.splitK;
  double ownRows = double(std::min<int64_t>(rows, kernel.rows));
  double ownVectors = double(std::min<int64_t>(vectors, kernel.vectors));
  elements = ownRows * k;
  streamedBytes = elements * bytes;
  vectorBytes = ownVectors * k * bytes /
                double(std::max<int64_t>(kernel.blocksPerVectorRead, 1));
  int accesses = 1 + (problem.beta != 0) +
                 problem.pointwise.contains(PointwiseOp::Residual);
  double share =
      double(problem.outCols()) / double(std::max<int64_t>(problem.n, 1));
  otherBytes = accesses * share * ownRows * ownVectors * bytesOf(problem.out) /
               kernel.splitK;
  bytesInFlight = std::min(kernel.bytesInFlight, streamedBytes);
  resident = occupancy(device, kernel.block);
  grid = waves(device, blocks, std::max<int64_t>(resident.blocksPerSm, 1));
}

LittlesLaw StreamModel::little(int64_t count) const {
  return littlesLaw(busyLatencyNs(device), device.dramBytesPerNs(),
                    double(count) * bytesInFlight);
}

StreamWave StreamModel::wave(int64_t count) const {
  StreamWave wave;
  if (count == 0)
    return wave;
  wave.blocks = double(count);
  wave.perSm = double(ceilDiv(count, device.smCount));
  double clockGHz = device.sustainedMemoryClockMHz * 1e-3;
  double moved = streamedBytes + otherBytes;
  wave.dramNs =
      wave.blocks * moved / (kernel.dramShare * device.dramBytesPerNs());
  wave.l2Ns = wave.blocks * (moved + vectorBytes) / device.l2BytesPerNs();
  wave.portNs =
      wave.perSm * (moved + vectorBytes) / (kL2BytesPerClockPerSm * clockGHz);
  // Code between loads reaches 0.9 of the issue slots. Tensor cores are busy
  // beside it, by and large.
  constexpr double kIssueEfficiency = 0.9;
  double lanes =
      device.simdFlopsPerClockPerSm(RateType::FP32) / 2 * kIssueEfficiency;
  double clocks = kernel.opsPerElement / lanes;
  if (kernel.tensorFlopsPerClock > 0)
    clocks = std::max(clocks, kernel.tensorFlopsPerElement /
                                  kernel.tensorFlopsPerClock);
  double blockIssueNs = elements * clocks / clockGHz;
  wave.issueNs = wave.perSm * blockIssueNs;
  // Its blocks wait at the same time, each for its own loads. Where a block's
  // instructions come after, its few warps take about twice the clocks that
  // those of all blocks would.
  constexpr double kAlone = 2;
  wave.latencyNs = busyLatencyNs(device) * streamedBytes / bytesInFlight +
                   (kernel.alternates ? kAlone * blockIssueNs : 0);
  // None is reached to the last byte while another is close.
  constexpr double kNorm = 6;
  double sum = 0;
  for (double part :
       {wave.dramNs, wave.l2Ns, wave.portNs, wave.latencyNs, wave.issueNs})
    sum += std::pow(part, kNorm);
  wave.totalNs = std::pow(sum, 1 / kNorm);
  return wave;
}

double StreamModel::restartNs() const {
  // While a block starts and ends, the others of its SM keep loads on the way.
  auto others = double(grid.slots - device.smCount);
  double need = busyLatencyNs(device) * device.dramBytesPerNs();
  double covered = std::min(1.0, others * bytesInFlight / need);
  return (busyLatencyNs(device) + kernel.serialNs) * (1 - covered);
}

/// Splits store their sums, count arrivals, and the last reads them all.
static double reductionNs(const StreamedTile &kernel,
                          const DeviceModel &device) {
  if (kernel.splitK == 1)
    return 0;
  // The sums are read a few at a time.
  return kHandOverNs + kernel.splitK * device.l2LatencyNs / 4;
}

static StreamTerms termsOf(const StreamModel &model) {
  const DeviceModel &device = model.device;
  StreamTerms terms;
  int64_t slots = std::max<int64_t>(model.grid.slots, 1);
  int64_t fullWaves = model.blocks / slots;
  StreamWave full = model.wave(std::min(slots, model.blocks));
  StreamWave last = model.wave(model.blocks % slots);
  terms.main = fullWaves > 0 ? full : last;
  terms.stream = double(fullWaves) * full.totalNs + last.totalNs;
  terms.restarts = double(model.grid.waves - 1) * model.restartNs();
  terms.reduction = reductionNs(model.kernel, device);
  terms.total = device.launchNs + device.rampNs + terms.stream +
                terms.restarts + model.kernel.tailNs + terms.reduction;
  return terms;
}

static llvm::StringRef boundOf(const StreamWave &wave, bool tensor) {
  double most = std::max(
      {wave.dramNs, wave.l2Ns, wave.portNs, wave.latencyNs, wave.issueNs});
  return most == wave.dramNs      ? "dram"
         : most == wave.latencyNs ? "latency"
         : most != wave.issueNs   ? "l2"
         : tensor                 ? "tensor"
                                  : "simd";
}

Estimate estimateTile(const GemmProblem &problem, const StreamedTile &kernel,
                      const DeviceModel &device, Detail detail) {
  StreamModel model(problem, kernel, device);
  StreamTerms terms = termsOf(model);
  Estimate estimate(detail);
  estimate.totalNs = terms.total;
  estimate.bound = boundOf(terms.main, kernel.tensorFlopsPerClock > 0);
  estimate.add("launch", device.launchNs);
  estimate.add("ramp", device.rampNs);
  estimate.add("stream", terms.stream);
  estimate.add("restarts", terms.restarts);
  estimate.add("tail", kernel.tailNs);
  estimate.add("reduction", terms.reduction);
  estimate.add("wave dram", terms.main.dramNs);
  estimate.add("wave l2", terms.main.l2Ns);
  estimate.add("wave port", terms.main.portNs);
  estimate.add("wave latency", terms.main.latencyNs);
  estimate.add("wave issue", terms.main.issueNs);
  estimate.add("blocks per SM", double(model.grid.blocksPerSm), "");
  estimate.add("waves", double(model.blocks) / double(model.grid.slots), "");
  estimate.add("in flight per block", model.bytesInFlight, "B");
  return estimate;
}

//===----------------------------------------------------------------------===//
// Explanation
//===----------------------------------------------------------------------===//

static DerivationStep explainRows(const StreamModel &model) {
  const StreamedTile &kernel = model.kernel;
  const char *streamed = kernel.streamsA ? "A" : "B";
  const char *other = kernel.streamsA ? "B" : "A";
  return {"streamed rows",
          fmt::format("{} rows of {} past {} of {}, {} x {} a block, k in {}",
                      streamedExtent(model.problem, kernel.streamsA), streamed,
                      vectorExtent(model.problem, kernel.streamsA), other,
                      kernel.rows, kernel.vectors, kernel.splitK),
          fmt::format("{} blocks; each reads {:.0f} B of {} once, and {:.0f} B "
                      "of {} from L2",
                      model.blocks, model.streamedBytes, streamed,
                      model.vectorBytes, other),
          llvm::json::Object{{"blocks", model.blocks},
                             {"streamed_bytes", model.streamedBytes},
                             {"vector_bytes", model.vectorBytes}}};
}

static DerivationStep explainOccupancy(const StreamModel &model) {
  const Occupancy &o = model.resident;
  return {
      "occupancy",
      fmt::format("blocks an SM by warps {}, blocks {}, registers {}, "
                  "shared memory {}",
                  o.blocksByWarps, o.blocksByBlocks, o.blocksByRegisters,
                  o.blocksByShared),
      fmt::format("{} blocks, limited by {}", o.blocksPerSm, nameOf(o.limit)),
      llvm::json::Object{{"blocks_per_sm", o.blocksPerSm}}};
}

static DerivationStep explainLittle(const StreamModel &model) {
  LittlesLaw law =
      model.little(std::min<int64_t>(model.blocks, model.grid.slots));
  return {"Little's law",
          fmt::format("{:.0f} KB of loads on the way; {:.0f} ns * {:.0f} GB/s "
                      "ask for {:.0f} KB",
                      law.bytesInFlight / 1024, law.latencyNs,
                      law.fullBytesPerNs, law.bytesNeeded / 1024),
          law.bytesInFlight < law.bytesNeeded ? "too few: latency shows"
                                              : "enough",
          llvm::json::Object{{"bytes_in_flight", law.bytesInFlight},
                             {"bytes_needed", law.bytesNeeded}}};
}

static DerivationStep explainWaves(const StreamModel &model,
                                   const StreamTerms &terms) {
  const StreamWave &wave = terms.main;
  return {"waves",
          fmt::format("{:.0f} blocks: dram {:.2f}, l2 {:.2f}, port {:.2f}, "
                      "latency {:.2f}, issue {:.2f} us -> {:.2f} us",
                      wave.blocks, wave.dramNs * 1e-3, wave.l2Ns * 1e-3,
                      wave.portNs * 1e-3, wave.latencyNs * 1e-3,
                      wave.issueNs * 1e-3, wave.totalNs * 1e-3),
          fmt::format("{} waves: {:.2f} us, and {:.2f} us for blocks that "
                      "start behind others",
                      model.grid.waves, terms.stream * 1e-3,
                      terms.restarts * 1e-3),
          llvm::json::Object{{"waves", model.grid.waves},
                             {"stream_ns", terms.stream},
                             {"restarts_ns", terms.restarts}}};
}

static DerivationStep explainTail(const StreamModel &model,
                                  const StreamTerms &terms) {
  double before = model.device.launchNs + model.device.rampNs;
  double tail = model.kernel.tailNs;
  return {"ends",
          fmt::format("{:.0f} ns of launch and ramp; {:.0f} ns "
                      "for the last sums and stores, {:.0f} ns for splits",
                      before, tail, terms.reduction),
          fmt::format("{:.2f} us in all", terms.total * 1e-3),
          llvm::json::Object{{"before_ns", before},
                             {"tail_ns", tail},
                             {"reduction_ns", terms.reduction},
                             {"total_ns", terms.total}}};
}

Derivation explainTile(const GemmProblem &problem, const StreamedTile &kernel,
                       const DeviceModel &device) {
  StreamModel model(problem, kernel, device);
  StreamTerms terms = termsOf(model);
  Derivation steps;
  steps.push_back(explainRows(model));
  steps.push_back(explainOccupancy(model));
  steps.push_back(explainLittle(model));
  steps.push_back(explainWaves(model, terms));
  steps.push_back(explainTail(model, terms));
  return steps;
}

} // namespace kiln
