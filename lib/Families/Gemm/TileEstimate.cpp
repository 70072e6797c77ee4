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

TileModel::TileModel(const GemmProblem &problem, const TileKernel &kernel,
                     const DeviceModel &device)
    : problem(problem), kernel(kernel), device(device) {
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
  grid = waves(device, wholeTiles + blocks, blocksPerSm());
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
  input.slots = std::max<int64_t>(grid.slots, 1);
  bytes = traffic(device, input);
  if (wholeTiles > 0) {
    bytes.reduceReadBytes =
        4.0 * kernel.blockM * kernel.blockN * double(blocks);
    bytes.storeBytes += bytes.reduceReadBytes;
  }
}

double ffmaEfficiency(double ffmas, double slots, double others,
                      const DeviceModel &device) {
  constexpr double kWarpFlops = 2 * 32, kBeside = 0.3;
  double perSubCore = device.simdFlopsPerClockPerSm(RateType::FP32) /
                      double(device.subCoresPerSm);
  return perSubCore >= kWarpFlops ? ffmas / (slots * ffmas + others)
                                  : ffmas / (ffmas + kBeside * others);
}

/// From the issue of a stage's copies to their last bytes, where \p missShare
/// of them go to DRAM.
static double ringLatencyNs(const DeviceModel &device, double missShare) {
  double dramNs = kRingLatencyFactor * device.dramLatencyNs;
  return missShare > 0.5 ? dramNs : device.l2LatencyNs + missShare * dramNs;
}

/// One step with \p perSm blocks on each busy SM and \p active blocks in all.
StepTimes TileModel::step(double perSm, double active) const {
  double warps = perSm * kernel.threads / 32;
  double busy = std::min(1.0, warps / kernel.warpsForPeak);
  StepTimes step;
  step.math = perSm * stepFlops() /
              (kernel.flopsPerClock * kernel.efficiency * busy) / clockGHz();
  // Bytes that the arithmetic reads and the loads write.
  step.shared = perSm * (kernel.sharedReadBytes + stageBytes()) /
                device.sharedBytesPerClockPerSm / clockGHz();
  step.issue = perSm * kernel.loadIssueClocks / clockGHz();
  double l2 =
      std::min(portBytesPerNs(device, int64_t(active)), device.l2BytesPerNs());
  step.l2 = active * loadedBytes() / l2;
  double missShare = bytes.missShare();
  step.dram = active * loadedBytes() * missShare / dramBytesPerNs();
  double load = std::max(step.l2, step.dram);
  // Other blocks of the SM compute meanwhile.
  step.barrier = kStepBarrierClocks / clockGHz() / perSm;
  step.ring = pipeline(ringLatencyNs(device, missShare), load, step.pace(),
                       kernel.stages);
  return step;
}

WaveTimes TileModel::wave(double perSm, double active, int64_t splits,
                          bool isLast) const {
  WaveTimes wave{perSm, active,
                 ceilDiv(ceilDiv(bytes.input.k, kernel.blockK), splits),
                 step(perSm, active)};
  // The first stage has nothing to hide behind.
  wave.fill = device.dramLatencyNs + std::max(wave.step.l2, wave.step.dram);
  wave.loop = double(wave.steps) * wave.step.total();
  // Stores of one wave; with several blocks on an SM the others compute on,
  // but the last ones end together.
  double outBytes = splits > 1 ? 4 : bytesOf(problem.out);
  double stored = active * kernel.blockM * kernel.blockN * outBytes;
  constexpr double kEpilogueLatencyNs = 500; // shared memory, then L2
  wave.epilogue = kEpilogueLatencyNs + stored / device.dramWriteBytesPerNs();
  wave.fill /= std::max(perSm, 1.0);
  wave.epilogue /= isLast ? 1 : std::max(perSm, 1.0);
  return wave;
}

TileReduction TileModel::reduction() const {
  if (splits == 1)
    return {};
  double tileBytes = 4.0 * kernel.blockM * kernel.blockN;
  double reads = tileBytes * double(splits);
  double all = bytes.reduceReadBytes / device.l2BytesPerNs();
  return {kHandOverNs,
          kSumReadFactor * std::max(reads / portBytesPerNs(device, 1), all)};
}

static llvm::StringRef boundOf(const TileModel &model, const StepTimes &step) {
  if (step.exposed() > step.pace())
    return "latency";
  double pace = step.pace();
  if (pace == step.math)
    return model.kernel.tensor ? "tensor" : "simd";
  if (pace == step.dram)
    return "dram";
  if (pace == step.issue)
    return "load issue";
  return pace == step.l2 ? "l2" : "shared";
}

TileTimes::TileTimes(const TileModel &model)
    : wholeWaves(ceilDiv(model.wholeTiles, model.slots())),
      fullWaves((model.blocks - 1) / model.slots()),
      lastBlocks(model.blocks - fullWaves * model.slots()),
      reduction(model.reduction()),
      gather(gatherNs(model.problem, model.device)) {
  auto fullWave = [&](int64_t splits) {
    return model.wave(double(model.blocksPerSm()), double(model.slots()),
                      splits, false);
  };
  if (wholeWaves > 0)
    add(wholeWaves, whole = fullWave(1));
  if (fullWaves > 0)
    add(fullWaves, full = fullWave(model.splits));
  last = model.wave(double(ceilDiv(lastBlocks, model.device.smCount)),
                    double(lastBlocks), model.splits, true);
  add(1, last);
  // No kernel ends before its compulsory bytes have moved.
  floor = std::max(0.0,
                   model.readNs() + model.writeNs() - (fill + loop + epilogue));
  totalNs = model.device.launchNs + model.device.rampNs + gather + fill + loop +
            epilogue + reduction.total() + floor;
  bound = floor > 0 ? "dram" : boundOf(model, main().step);
}

Estimate estimateTile(const GemmProblem &problem, const TileKernel &kernel,
                      const DeviceModel &device, Detail detail) {
  TileModel model(problem, kernel, device);
  TileTimes times(model);
  const StepTimes &step = times.main().step;
  Estimate estimate(detail);
  estimate.totalNs = times.totalNs;
  estimate.bound = times.bound;
  estimate.add("launch", device.launchNs);
  estimate.add("ramp", device.rampNs);
  estimate.add("gather", times.gather);
  estimate.add("fill", times.fill);
  estimate.add("loop", times.loop);
  estimate.add("epilogue", times.epilogue);
  estimate.add("reduction", times.reduction.total());
  estimate.add("bytes floor", times.floor);
  estimate.note("step math", step.math);
  estimate.note("step shared", step.shared);
  estimate.note("step issue", step.issue);
  estimate.note("step l2", step.l2);
  estimate.note("step dram", step.dram);
  estimate.note("step exposed", step.exposed());
  estimate.note("k iterations", double(times.main().steps), "");
  estimate.note("blocks per SM", double(model.blocksPerSm()), "");
  estimate.note("waves",
                double(model.wholeTiles + model.blocks) / model.slots(), "");
  estimate.note("dram bytes", model.bytes.dramReadBytes, "B");
  return estimate;
}

} // namespace kiln
