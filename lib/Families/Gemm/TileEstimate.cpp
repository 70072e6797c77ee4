//===- TileEstimate.cpp ---------------------------------------------------===//
//
// A tiled GEMM is a loop over k whose step takes as long as the slowest of four
// streams (arithmetic, shared memory, L2, DRAM), unless too few loads are in
// flight to hide latency. Blocks run in waves; the cost of a step depends on
// how many blocks share an SM in that wave, so the last, partial wave is costed
// on its own. The estimate is a sum of a dozen products: it explains itself,
// and it is wrong only where one of its facts is.
//
// Rejected: fitting coefficients to rank measured configs. It helps on the
// shapes that were fitted and hurts on others. Three facts of splits and of a
// ring's latency (TileEstimate.h) were fitted, on 30 problems of 1 to 56 rows.
// (Fitted to half of them, they reach 0.981 in the other half.)
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/TileEstimate.h"

#include "Families/Gemm/GatherStep.h"
#include "Families/Gemm/TileModel.h"
#include "Model/Bandwidth.h"
#include "Model/MathUtil.h"

#include <algorithm>

namespace kiln {

/// The barrier of a step of k, and the first fragments behind it.
static constexpr double kStepBarrierClocks = 60;

/// From the issue of a stage's copies to their last bytes, where \p missShare
/// of them go to DRAM.
template <Number N>
static N ringLatencyNs(const DeviceModel &device, const N &missShare) {
  const N dram = fitted<N>(kRingLatencyFactor, "busy over idle") *
                 deviceValue<N>(device, &DeviceModel::dramLatencyNs);
  if (missShare > N(0.5))
    return named(dram, "latency of copies", "ns");
  return named(deviceValue<N>(device, &DeviceModel::l2LatencyNs) +
                   missShare * dram,
               "latency of copies", "ns");
}

template <Number N>
TileModel<N>::TileModel(const GemmProblem &problem, const TileKernel &kernel,
                        const DeviceModel &device)
    : problem(problem), kernel(kernel), device(device) {
  computeGrid();
  clock =
      named(deviceValue<N>(device, kernel.tensor
                                       ? &DeviceModel::sustainedTensorClockMHz
                                       : &DeviceModel::smClockMHz) /
                N(1000),
            "clock", "GHz");
  stepFlops = named(N(2) * given<N>(kernel.blockM, "blockM") *
                        given<N>(kernel.blockN, "blockN") *
                        given<N>(kernel.blockK, "blockK"),
                    "flop of a step", "flop");
  // Rows and columns outside of the problem are filled with zeros.
  loadedBytes = named(
      (given<N>(double(bytes.input.m) / double(tilesM), "rows of a tile") +
       given<N>(double(bytes.input.n) / double(tilesN), "columns")) *
          given<N>(kernel.blockK, "blockK") *
          given<N>(bytesOf(problem.dtype), "of an element", "B"),
      "loads of a step", "B");
  const N fromDram = dramReadBytes<N>(bytes);
  missShare = kiln::missShare<N>(bytes, fromDram);
  ringLatency = ringLatencyNs<N>(device, missShare);
  // Blocks that come and go leave so much of the rate of long reads (first
  // choices that DRAM bounds took 1.03 to 1.08 of the time without it, H200).
  constexpr double kShare = 0.97;
  dramRate = named(fitted<N>(kShare, "share that grids reach") *
                       deviceValue<N>(device, &DeviceModel::dramGBs),
                   "DRAM's rate", "B/ns");

  const int64_t perSm = blocksPerSm();
  wholeWaves = ceilDiv(wholeTiles, slots());
  fullWaves = (blocks - 1) / slots();
  lastBlocks = blocks - fullWaves * slots();
  auto times = [](int64_t count, const N &ns) {
    return given<N>(double(count), "waves") * ns;
  };
  if (wholeWaves > 0) {
    whole = wave(perSm, slots(), 1, false);
    whole.total = named(whole.total, "wave of whole tiles", "ns");
    waves = waves + times(wholeWaves, whole.total);
  }
  if (fullWaves > 0) {
    full = wave(perSm, slots(), splits, false);
    full.total = named(full.total, "full wave", "ns");
    waves = waves + times(fullWaves, full.total);
  }
  last = wave(ceilDiv(lastBlocks, device.smCount), lastBlocks, splits, true);
  last.total = named(last.total, "last wave", "ns");
  waves = waves + last.total;
  reduction = reductionNs();
  gather = gatherNs<N>(problem, device);
  // No kernel ends before its compulsory bytes have moved.
  floor = named(fromDram / dramRate +
                    writeBytes() /
                        deviceValue<N>(device, &DeviceModel::dramWriteGBs),
                "floor of the bytes", "ns");
  beyond = named(excess(floor, waves), "bytes beyond the waves", "ns");
  total = deviceValue<N>(device, &DeviceModel::launchNs) +
          deviceValue<N>(device, &DeviceModel::rampNs) + gather + waves +
          reduction + beyond;
}

template <Number N> void TileModel<N>::computeGrid() {
  tilesM = ceilDiv(std::max<int64_t>(problem.m, 1), kernel.blockM);
  tilesN = ceilDiv(std::max<int64_t>(problem.n, 1), kernel.blockN);
  int64_t batch = std::max<int64_t>(problem.batch, 1);
  int64_t tiles = problem.meanRows > 0
                      ? std::llround(tilesAlongM(problem, kernel.blockM) *
                                     double(tilesN * batch))
                      : tilesM * tilesN * batch;
  wholeTiles = kernel.waveBlocks > 0 && kernel.splitK > 1
                   ? tiles / kernel.waveBlocks * kernel.waveBlocks
                   : 0;
  splits = kernel.splitK;
  if (wholeTiles == tiles) { // nothing is left to split
    wholeTiles = 0;
    splits = 1;
  }
  blocks = (tiles - wholeTiles) * splits;
  int64_t k = std::max<int64_t>(problem.k, 1);
  resident = occupancy(
      device, {kernel.threads, kernel.registersPerThread, kernel.sharedBytes});
  TrafficInput input;
  input.m = std::max<int64_t>(problem.m, 1);
  input.n = std::max<int64_t>(problem.n, 1);
  input.k = k;
  input.batch = batch;
  input.bitsA = bitsOf(problem.dtype);
  input.bitsB = bitsOf(problem.typeB);
  input.bitsD = bitsOf(problem.out);
  input.blockM = kernel.blockM;
  input.blockN = kernel.blockN;
  input.splitK = wholeTiles > 0 ? 1 : splits;
  input.groupTiles = kernel.rasterGroup;
  input.slots = slots();
  bytes = traffic(device, input);
  if (wholeTiles > 0) {
    bytes.reduceReadBytes =
        4.0 * kernel.blockM * kernel.blockN * double(blocks);
    bytes.storeBytes += bytes.reduceReadBytes;
  }
}

IssueShare ffmaShare(double ffmas, double slots, double others,
                     const DeviceModel &device) {
  constexpr double kWarpFlops = 2 * 32, kBeside = 0.3;
  double perSubCore =
      device.simdFp32FlopsPerClock / double(device.subCoresPerSm);
  return perSubCore >= kWarpFlops ? IssueShare{ffmas, slots, others}
                                  : IssueShare{ffmas, 1, kBeside * others};
}

/// The rate of the arithmetic in a clock of an SM, in flop.
template <Number N>
static N sustainedRate(const TileKernel &kernel, const DeviceModel &device) {
  const auto &[ffmas, slots, others, share] = kernel.issue;
  N rate = deviceValue<N>(device, kernel.rate);
  if (others > 0) {
    const N issued = given<N>(ffmas, "FFMAs");
    rate = rate * issued /
           (given<N>(slots, "slots of each") * issued +
            given<N>(others, "slots of other instructions"));
  }
  return share == 1 ? rate : fitted<N>(share, "share reached") * rate;
}

template <Number N> N TileModel<N>::mathRate() const {
  return named(sustainedRate<N>(kernel, device) * clock, "rate of an SM",
               "flop/ns");
}

template <Number N> N TileModel<N>::writeBytes() const {
  double written = wholeTiles > 0
                       ? bytes.storeBytes - bytes.reduceReadBytes
                       : bytes.storeBytes / static_cast<double>(splits);
  return given<N>(written, "D", "B");
}

/// One step with \p perSm blocks on each busy SM and \p active blocks in all.
template <Number N>
TileStep<N> TileModel<N>::step(int64_t perSm, int64_t active) const {
  const N each = given<N>(double(perSm), "blocks an SM");
  const N all = given<N>(double(active), "blocks");
  const double warps = double(perSm) * kernel.threads / kWarpThreads;
  TileStep<N> step;
  N clocks = stepFlops / sustainedRate<N>(kernel, device);
  if (kernel.conversionClocks > 0)
    clocks = clocks + given<N>(kernel.conversionClocks,
                               "conversions and promotions", "clk");
  N math = each * clocks / clock;
  if (warps < kernel.warpsForPeak)
    math = math / (given<N>(warps, "warps") /
                   given<N>(kernel.warpsForPeak, "warps for the full rate"));
  step.math = named(math, "arithmetic", "ns");
  // Bytes that the arithmetic reads and the loads write.
  step.shared =
      named(each *
                (given<N>(kernel.sharedReadBytes, "read", "B") +
                 given<N>(double(kernel.stageBytesA + kernel.stageBytesB),
                          "written", "B")) /
                deviceValue<N>(device, &DeviceModel::sharedBytesPerClockPerSm) /
                clock,
            "shared memory's step", "ns");
  step.issue = kernel.loadIssueClocks == 0
                   ? N(0)
                   : named(each *
                               given<N>(kernel.loadIssueClocks,
                                        "issue of a block's copies", "clk") /
                               clock,
                           "issue of loads", "ns");
  const N l2Rate = least({portBytesPerNs<N>(device, active),
                          deviceValue<N>(device, &DeviceModel::l2GBs)});
  step.l2 = named(all * loadedBytes / l2Rate, "L2", "ns");
  step.dram = named(all * loadedBytes * missShare / dramRate, "DRAM", "ns");
  step.pace =
      named(largest({step.math, step.shared, step.issue, step.l2, step.dram}),
            "pace of a step", "ns");
  // Other blocks of the SM compute meanwhile.
  step.barrier =
      named(fitted<N>(kStepBarrierClocks, "clocks", "clk") / clock / each,
            "barrier", "ns");
  step.ring = {ringLatency, largest({step.l2, step.dram}), step.pace,
               kernel.stages};
  step.exposed = named(step.ring.exposed(), "exposed latency", "ns");
  step.total =
      named(step.pace + step.exposed + step.barrier, "step of k", "ns");
  return step;
}

template <Number N>
TileWave<N> TileModel<N>::wave(int64_t perSm, int64_t active, int64_t splits,
                               bool isLast) const {
  TileWave<N> wave{perSm, active,
                   ceilDiv(ceilDiv(bytes.input.k, kernel.blockK), splits),
                   step(perSm, active)};
  const N each = given<N>(double(std::max<int64_t>(perSm, 1)), "blocks an SM");
  // The first stage has nothing to hide behind.
  wave.fill = named((deviceValue<N>(device, &DeviceModel::dramLatencyNs) +
                     wave.step.ring.load) /
                        each,
                    "fill", "ns");
  // Stores of one wave; with several blocks on an SM the others compute on,
  // but the last ones end together.
  const double outBytes = splits > 1 ? 4 : bytesOf(problem.out);
  constexpr double kEpilogueLatencyNs = 500; // shared memory, then L2
  const N stores =
      fitted<N>(kEpilogueLatencyNs, "staging", "ns") +
      given<N>(double(active), "blocks") *
          given<N>(double(kernel.blockM) * kernel.blockN * outBytes,
                   "of a tile", "B") /
          deviceValue<N>(device, &DeviceModel::dramWriteGBs);
  wave.epilogue = named(isLast ? stores : stores / each, "epilogue", "ns");
  wave.total = wave.fill +
               given<N>(double(wave.steps), "steps") * wave.step.total +
               wave.epilogue;
  return wave;
}

template <Number N> N TileModel<N>::reductionNs() const {
  if (splits == 1)
    return 0;
  const N read = given<N>(4.0 * kernel.blockM * kernel.blockN * double(splits),
                          "sums of a tile", "B") /
                 portBytesPerNs<N>(device);
  const N all = given<N>(bytes.reduceReadBytes, "all sums", "B") /
                deviceValue<N>(device, &DeviceModel::l2GBs);
  return named(fitted<N>(kHandOverNs, "hand-over", "ns") +
                   fitted<N>(kSumReadFactor, "few reads in flight") *
                       largest({read, all}),
               "reduction of splits", "ns");
}

template <Number N> llvm::StringRef TileModel<N>::bound() const {
  if (beyond > N(0))
    return "dram";
  const TileStep<N> &step = main().step;
  if (step.isLatencyBound())
    return "latency";
  if (step.pace == step.math)
    return kernel.tensor ? "tensor" : "simd";
  if (step.pace == step.dram)
    return "dram";
  if (step.pace == step.issue)
    return "load issue";
  return step.pace == step.l2 ? "l2" : "shared";
}

template struct TileModel<double>;
template struct TileModel<Figure>;

Estimate estimateTile(const GemmProblem &problem, const TileKernel &kernel,
                      const DeviceModel &device) {
  const TileModel<double> model(problem, kernel, device);
  return {model.total, model.bound()};
}

} // namespace kiln
