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
#include "Families/LaunchLimits.h"
#include "Model/Rates.h"

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

template <Number N>
StreamModel<N>::StreamModel(const GemmProblem &problem,
                            const StreamedTile &kernel,
                            const DeviceModel &device)
    : problem(problem), kernel(kernel), device(device) {
  computeBlocks();
  clock = named(deviceValue<N>(device, &DeviceModel::sustainedMemoryClockMHz) /
                    N(1000),
                "clock", "GHz");
  // Long streams of one operand reach 4460 GB/s, where a sum, which the
  // device's figure is of, reaches 4290 (H200, 1 x 28672 x 4096).
  constexpr double kStreamShare = 1.04;
  dramRate = longStreamRate<N>(device, kStreamShare);
  if (kernel.lostShare > 0)
    dramRate = named(fitted<N>(1 - kernel.lostShare, "what short runs leave") *
                         dramRate,
                     "DRAM's rate for the runs", "B/ns");
  computePath();
  const int64_t slots = this->slots();
  fullWaves = blocks / slots;
  if (fullWaves > 0) {
    full = wave(slots);
    full.total = named(full.total, "full wave", "ns");
    waves = given<N>(double(fullWaves), "waves") * full.total;
  }
  if (blocks % slots > 0) {
    last = wave(blocks % slots);
    last.total = named(last.total, "last wave", "ns");
    waves = waves + last.total;
  }
  // Less where blocks end before their ring is full.
  const double filled = double(kSteps) / kernel.stepsInFlight;
  const N restarts =
      blocks > slots
          ? named(given<N>(std::min(1.0, filled), "share of a ring") *
                      fitted<N>(kernel.restartNs, "restart", "ns"),
                  "starts behind the first wave", "ns")
          : N(0);
  total = deviceValue<N>(device, &DeviceModel::launchNs) +
          deviceValue<N>(device, &DeviceModel::rampNs) +
          gatherNs<N>(problem, device) + waves + restarts +
          fitted<N>(kernel.tailNs, "last sums and stores", "ns") +
          reductionNs();
}

template <Number N> void StreamModel<N>::computeBlocks() {
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
  resident = occupancy(device, kernel.block);
  // Tiles of a block, on average.
  double tiles = 1;
  if (kernel.turnsPerSm > 0 && blocks > slots()) {
    turns = ceilDiv(blocks, slots());
    tiles = double(blocks) / double(slots());
    blocks = slots();
  }
  double ownRows = double(std::min<int64_t>(rows, kernel.rows));
  double ownVectors = double(std::min<int64_t>(vectors, kernel.vectors));
  kSteps = ceilDiv(ceilDiv(std::max<int64_t>(problem.k, 1), kernel.stepK),
                   kernel.splitK) *
           turns;
  streamedBytes = tiles * ownRows * k * bytes * kernel.streamedShare;
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
  otherBytes = tiles * accesses * share * ownRows * ownVectors *
               bytesOf(problem.out) / kernel.splitK;
  bytesInFlight = std::min(ownRows * kernel.stepK * bytes *
                               kernel.streamedShare * kernel.stepsInFlight,
                           streamedBytes);
}

/// The path of a block along k.
template <Number N> void StreamModel<N>::computePath() {
  const StreamedClocks &step = kernel.step;
  N clocks = fitted<N>(step.loop, "loop", "clk");
  auto add = [&](double count, llvm::StringLiteral name) {
    if (count > 0)
      clocks = clocks + given<N>(count, name, "clk");
  };
  add(step.copies, "copies");
  add(step.fragments, "fragments");
  add(step.decoding, "decoding");
  add(step.sums, "scaling of sums");
  add(step.products, "products");
  if (step.flop > 0)
    clocks = clocks + given<N>(step.flop, "flop of a warp", "flop") *
                          deviceValue<N>(device, &DeviceModel::subCoresPerSm) /
                          deviceValue<N>(device, kernel.tensorRate);
  stepClocks = named(clocks, "instructions of a step", "clk");
  const N waits =
      kernel.waitClocks == 0
          ? stepClocks
          : stepClocks + fitted<N>(kernel.waitClocks, "waits", "clk");
  work = named(waits / clock, "work of a step", "ns");
  const N share = kernel.latencyShare == 1
                      ? N(1)
                      : fitted<N>(kernel.latencyShare, "busy over idle");
  latency = share * deviceValue<N>(device, &DeviceModel::dramLatencyNs);
  turn = named(largest({work, (latency + work) / given<N>(kernel.stepsInFlight,
                                                          "steps in flight")}),
               "step of a warp", "ns");
  partial = problem.k % kernel.stepK == 0 || kernel.partialClocks == 0
                ? N(0)
                : named(given<N>(kernel.partialClocks, "masks", "clk") / clock,
                        "end of k within a step", "ns");
  path = named(fitted<N>(kernel.startNs, "start", "ns") +
                   given<N>(double(kSteps), "steps") * turn + partial,
               "path of a block", "ns");
}

template <Number N> StreamedWave<N> StreamModel<N>::wave(int64_t count) const {
  StreamedWave<N> wave;
  wave.blocks = count;
  wave.perSm = ceilDiv(count, device.smCount);
  const N all = given<N>(double(count), "blocks");
  const N each = given<N>(double(wave.perSm), "blocks an SM");
  const N moved = given<N>(streamedBytes, "streamed", "B") +
                  given<N>(otherBytes, "C and D", "B");
  const N loaded = moved + given<N>(vectorBytes, "vectors", "B");
  const N spilled = spilledBytes == 0
                        ? N(0)
                        : given<N>(spilledBytes, "vectors beyond L2", "B");
  wave.dram = named(all * (moved + spilled) / dramRate, "DRAM", "ns");
  const N hits =
      kernel.l2Share == 1 ? N(1) : fitted<N>(kernel.l2Share, "half lines");
  wave.l2 =
      named(all * loaded / (hits * deviceValue<N>(device, &DeviceModel::l2GBs)),
            "L2", "ns");
  wave.port = named(each * loaded / portBytesPerNs<N>(device),
                    "ports of the SMs", "ns");
  const double warps = double(ceilDiv(kernel.block.threads, kWarpThreads));
  wave.issue = named(
      each * given<N>(warps, "warps") /
          deviceValue<N>(device, &DeviceModel::subCoresPerSm) *
          (given<N>(double(kSteps), "steps") * stepClocks / clock + partial),
      "issue", "ns");
  wave.total = rootNorm<kStreamedNorm>(
      {wave.dram, wave.l2, wave.port, path, wave.issue});
  return wave;
}

/// Splits store their sums, count arrivals, and the last reads them all. That
/// costs less than with larger tiles.
template <Number N> N StreamModel<N>::reductionNs() const {
  constexpr double kArrivalNs = 2000;
  return kernel.splitK == 1
             ? N(0)
             : named(fitted<N>(kArrivalNs, "arrival", "ns") +
                         given<N>(kernel.splitK, "splits") *
                             deviceValue<N>(device, &DeviceModel::l2LatencyNs),
                     "reduction of splits", "ns");
}

template <Number N> llvm::StringRef StreamModel<N>::bound() const {
  const StreamedWave<N> &wave = main();
  const N most = largest({wave.dram, wave.l2, wave.port, path, wave.issue});
  return most == wave.dram       ? "dram"
         : most == path          ? "latency"
         : !(most == wave.issue) ? "l2"
         : kernel.tensorRate     ? "tensor"
                                 : "simd";
}

template struct StreamModel<double>;
template struct StreamModel<Figure>;

Estimate estimateTile(const GemmProblem &problem, const StreamedTile &kernel,
                      const DeviceModel &device) {
  const StreamModel<double> model(problem, kernel, device);
  return {model.total, model.bound()};
}

} // namespace kiln
