//===- TileEstimate.cpp ---------------------------------------------------===//
//
// A tiled GEMM is a loop over k whose step takes as long as the slowest of four
// streams (arithmetic, shared memory, L2, DRAM), unless too few loads are in
// flight to hide latency. Blocks run in waves; what a step costs depends on how
// many blocks share an SM in that wave, so the last, partial wave is costed on
// its own. The estimate is a sum of a dozen products: it explains itself, and
// it is wrong only where one of its facts is.
//
// Rejected: fitting coefficients to rank measured configs. It helps on the
// shapes that were fitted and hurts on others.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/TileEstimate.h"

#include "Families/Gemm/TileDerivation.h"
#include "Model/Bandwidth.h"
#include "Model/MathUtil.h"
#include "Model/Occupancy.h"
#include "Model/Pipeline.h"
#include "Model/RegisterWall.h"
#include "Model/SharedMemoryWall.h"
#include "Model/Traffic.h"
#include "Model/Waves.h"
#include "Support/Format.h"

#include <algorithm>
#include <cmath>

namespace kiln {

namespace {

/// Everything that the terms are computed from, for one kernel and problem.
struct TileModel {
  const GemmProblem &problem;
  const TileKernel &kernel;
  const DeviceModel &device;

  int64_t tilesM, tilesN, blocks, kIterations;
  Occupancy resident;
  Waves grid;
  Traffic bytes;

  TileModel(const GemmProblem &problem, const TileKernel &kernel,
            const DeviceModel &device);

  double clockGHz() const {
    return 1e-3 *
           (kernel.tensor ? device.sustainedTensorClockMHz : device.smClockMHz);
  }
  int64_t blocksPerSm() const {
    return std::max<int64_t>(resident.blocksPerSm, 1);
  }
  /// Bytes that one block loads in one k iteration.
  double stageBytes() const {
    return double(kernel.blockM + kernel.blockN) * kernel.blockK *
           bytesOf(problem.dtype);
  }
};

/// What one k iteration takes when some blocks share an SM, in ns.
struct StepTimes {
  double math, shared, issue, l2, dram, exposed;

  double pace() const { return std::max({math, shared, issue, l2, dram}); }
  double total() const { return pace() + exposed; }
};

/// One wave of blocks.
struct WaveTimes {
  StepTimes step;
  double fill, loop, epilogue;

  double total() const { return fill + loop + epilogue; }
};

} // namespace

TileModel::TileModel(const GemmProblem &problem, const TileKernel &kernel,
                     const DeviceModel &device)
    : problem(problem), kernel(kernel), device(device) {
  tilesM = ceilDiv(std::max<int64_t>(problem.m, 1), kernel.blockM);
  tilesN = ceilDiv(std::max<int64_t>(problem.n, 1), kernel.blockN);
  int64_t batch = std::max<int64_t>(problem.batch, 1);
  blocks = tilesM * tilesN * batch * kernel.splitK;
  int64_t k = std::max<int64_t>(problem.k, 1);
  kIterations = ceilDiv(ceilDiv(k, kernel.blockK), kernel.splitK);
  resident = occupancy(
      device, {kernel.threads, kernel.registersPerThread, kernel.sharedBytes});
  grid = waves(device, blocks, blocksPerSm());
  TrafficInput input;
  input.m = std::max<int64_t>(problem.m, 1);
  input.n = std::max<int64_t>(problem.n, 1);
  input.k = k;
  input.batch = batch;
  input.bitsA = input.bitsB = bitsOf(problem.dtype);
  input.bitsD = bitsOf(problem.out);
  input.blockM = kernel.blockM;
  input.blockN = kernel.blockN;
  input.splitK = kernel.splitK;
  input.groupTiles = kernel.rasterGroup;
  input.slots = std::max<int64_t>(grid.slots, 1);
  bytes = traffic(device, input);
}

/// One step with \p perSm blocks on each busy SM and \p active blocks in all.
static StepTimes stepTimes(const TileModel &model, double perSm,
                           double active) {
  const TileKernel &kernel = model.kernel;
  const DeviceModel &device = model.device;
  double warps = perSm * kernel.threads / 32;
  double busy = std::min(1.0, warps / kernel.warpsForPeak);
  StepTimes step;
  double flops = 2.0 * kernel.blockM * kernel.blockN * kernel.blockK;
  step.math = perSm * flops /
              (kernel.flopsPerClock * kernel.efficiency * busy) /
              model.clockGHz();
  // What the arithmetic reads, and what the loads write.
  step.shared = perSm * (kernel.sharedReadBytes + model.stageBytes()) /
                device.sharedBytesPerClockPerSm / model.clockGHz();
  step.issue = perSm * kernel.loadIssueClocks / model.clockGHz();
  double inFlight = model.stageBytes() * (kernel.stages - 1);
  double l2 =
      rampedBandwidth(device, MemoryLevel::L2, int64_t(active), inFlight)
          .portBytesPerNs;
  l2 = std::min(l2, device.l2BytesPerNs());
  step.l2 = active * model.stageBytes() / l2;
  // DRAM serves the part of the loads that L2 does not keep.
  double missShare = std::min(1.0, model.bytes.dramReadBytes /
                                       std::max(model.bytes.l2ReadBytes, 1.0));
  step.dram = active * model.stageBytes() * missShare / device.dramBytesPerNs();
  double pace = step.pace();
  double latency = missShare > 0.5
                       ? device.dramLatencyNs
                       : device.l2LatencyNs + missShare * device.dramLatencyNs;
  double load = std::max(step.l2, step.dram);
  // The barrier of a step, and the first fragments behind it: other blocks of
  // the SM compute meanwhile.
  constexpr double kBarrierClocks = 60;
  double barrier = kBarrierClocks / model.clockGHz() / perSm;
  step.exposed =
      barrier + pipeline(latency, load, pace, kernel.stages).exposedNs;
  return step;
}

static WaveTimes waveTimes(const TileModel &model, double perSm,
                           double active) {
  const DeviceModel &device = model.device;
  WaveTimes wave;
  wave.step = stepTimes(model, perSm, active);
  // The first stage has nothing to hide behind.
  wave.fill = device.dramLatencyNs + std::max(wave.step.l2, wave.step.dram);
  wave.loop = model.kIterations * wave.step.total();
  // Stores of one wave; with several blocks on an SM the others compute on.
  double outBytes = model.kernel.splitK > 1 ? 4 : bytesOf(model.problem.out);
  double stored = active * model.kernel.blockM * model.kernel.blockN * outBytes;
  constexpr double kEpilogueLatencyNs = 500; // shared memory, then L2
  wave.epilogue = kEpilogueLatencyNs + stored / device.dramWriteBytesPerNs();
  if (perSm > 1) {
    wave.fill /= perSm;
    wave.epilogue /= perSm;
  }
  return wave;
}

/// Splits write partial tiles to L2, count arrivals and read them back.
static double reductionNs(const TileModel &model) {
  if (model.kernel.splitK == 1)
    return 0;
  const DeviceModel &device = model.device;
  double tileBytes = 4.0 * model.kernel.blockM * model.kernel.blockN;
  double reads = tileBytes * model.kernel.splitK;
  double port = kL2BytesPerClockPerSm * device.sustainedMemoryClockMHz * 1e-3;
  double all = model.bytes.reduceReadBytes / device.l2BytesPerNs();
  return kHandOverNs + std::max(reads / port, all);
}

static llvm::StringRef boundOf(const TileModel &model, const StepTimes &step) {
  if (step.exposed > step.pace())
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

Estimate estimateTile(const GemmProblem &problem, const TileKernel &kernel,
                      const DeviceModel &device, Detail detail) {
  TileModel model(problem, kernel, device);
  int64_t slots = std::max<int64_t>(model.grid.slots, 1);
  int64_t fullWaves = model.blocks / slots;
  int64_t lastBlocks = model.blocks % slots;
  Estimate estimate(detail);
  double loop = 0, fill = 0, epilogue = 0;
  WaveTimes main{};
  if (fullWaves > 0) {
    main = waveTimes(model, double(model.blocksPerSm()), double(slots));
    loop += fullWaves * main.loop;
    fill += fullWaves * main.fill;
    epilogue += fullWaves * main.epilogue;
  }
  if (lastBlocks > 0) {
    double perSm = double(ceilDiv(lastBlocks, device.smCount));
    WaveTimes last = waveTimes(model, perSm, double(lastBlocks));
    loop += last.loop;
    fill += last.fill;
    epilogue += last.epilogue;
    if (fullWaves == 0)
      main = last;
  }
  double reduction = reductionNs(model);
  // No kernel ends before its compulsory bytes have moved.
  double moved =
      model.bytes.dramReadBytes / device.dramBytesPerNs() +
      model.bytes.storeBytes / kernel.splitK / device.dramWriteBytesPerNs();
  double floor = std::max(0.0, moved - (fill + loop + epilogue));
  estimate.totalNs = device.launchNs + device.rampNs + fill + loop + epilogue +
                     reduction + floor;
  estimate.bound = floor > 0 ? "dram" : boundOf(model, main.step);
  estimate.add("launch", device.launchNs);
  estimate.add("ramp", device.rampNs);
  estimate.add("fill", fill);
  estimate.add("loop", loop);
  estimate.add("epilogue", epilogue);
  estimate.add("reduction", reduction);
  estimate.add("bytes floor", floor);
  estimate.add("step math", main.step.math);
  estimate.add("step shared", main.step.shared);
  estimate.add("step issue", main.step.issue);
  estimate.add("step l2", main.step.l2);
  estimate.add("step dram", main.step.dram);
  estimate.add("step exposed", main.step.exposed);
  estimate.add("k iterations", double(model.kIterations), "");
  estimate.add("blocks per SM", double(model.blocksPerSm()), "");
  estimate.add("waves", double(model.blocks) / slots, "");
  estimate.add("dram bytes", model.bytes.dramReadBytes, "B");
  return estimate;
}

//===----------------------------------------------------------------------===//
// Explanation
//===----------------------------------------------------------------------===//

static DerivationStep explainRegisters(const TileModel &model) {
  const TileKernel &kernel = model.kernel;
  int64_t others = kernel.registersPerThread - kernel.accumulatorsPerThread;
  RegisterWall wall = registerWall(
      {kernel.blockM, kernel.blockN, kernel.threads, 0, others},
      registerLimit(model.device, kernel.threads, model.blocksPerSm()));
  return {"register wall",
          fmt::format("{} x {} / {} threads = {} accumulators, + {} for "
                      "fragments and addresses = {}",
                      kernel.blockM, kernel.blockN, kernel.threads,
                      wall.accumulators, others, wall.total),
          fmt::format("{} of {} registers a thread with {} blocks an SM: {}",
                      wall.total, wall.limit, model.blocksPerSm(),
                      wall.fits ? "fits" : "spills or lowers occupancy"),
          llvm::json::Object{{"accumulators", wall.accumulators},
                             {"registers", wall.total},
                             {"limit", wall.limit}}};
}

static DerivationStep explainShared(const TileModel &model) {
  const TileKernel &kernel = model.kernel;
  int bits = bitsOf(model.problem.dtype);
  SharedMemoryWall wall = sharedMemoryWall(
      model.device, {kernel.blockM, kernel.blockN, kernel.blockK, kernel.stages,
                     bits, bits, 0, 0, model.blocksPerSm()});
  return {"shared-memory wall",
          fmt::format("{} stages * ({} + {}) * {} * {} B = {} B", kernel.stages,
                      kernel.blockM, kernel.blockN, kernel.blockK, bits / 8,
                      wall.totalBytes),
          fmt::format("{} B taken of {} B that {} blocks an SM leave each; "
                      "{} stages would fit",
                      kernel.sharedBytes, wall.limitBytes, model.blocksPerSm(),
                      wall.maxStages),
          llvm::json::Object{{"bytes", kernel.sharedBytes},
                             {"limit", wall.limitBytes},
                             {"max_stages", wall.maxStages}}};
}

static DerivationStep explainWaves(const TileModel &model) {
  const Waves &grid = model.grid;
  return {"waves",
          fmt::format("{} blocks ({} x {} tiles, batch {}, split-K {}) on {} "
                      "SMs * {} = {} slots: {} waves",
                      grid.tiles, model.tilesM, model.tilesN,
                      model.problem.batch, model.kernel.splitK,
                      model.device.smCount, grid.blocksPerSm, grid.slots,
                      grid.waves),
          fmt::format("{:.0f} % of the slots are used, {:.0f} % in the last "
                      "wave; {:.1f} tiles an SM",
                      100 * grid.utilisation, 100 * grid.tailUtilisation,
                      grid.tilesPerSm),
          llvm::json::Object{{"waves", grid.waves},
                             {"utilisation", grid.utilisation},
                             {"tail_utilisation", grid.tailUtilisation}}};
}

static DerivationStep explainOccupancy(const TileModel &model) {
  const Occupancy &o = model.resident;
  return {"occupancy",
          fmt::format("blocks an SM by warps {}, blocks {}, registers {}, "
                      "shared memory {}",
                      o.blocksByWarps, o.blocksByBlocks, o.blocksByRegisters,
                      o.blocksByShared),
          fmt::format("{} blocks, {} warps of {}, limited by {}", o.blocksPerSm,
                      o.warpsPerSm, model.device.maxWarpsPerSm,
                      nameOf(o.limit)),
          llvm::json::Object{{"blocks_per_sm", o.blocksPerSm},
                             {"warps_per_sm", o.warpsPerSm}}};
}

static DerivationStep explainBound(const TileModel &model,
                                   const StepTimes &step) {
  return {"bound",
          fmt::format("a step of k: arithmetic {:.0f}, shared {:.0f}, L2 "
                      "{:.0f}, DRAM {:.0f} ns, exposed {:.0f} ns",
                      step.math, step.shared, step.l2, step.dram, step.exposed),
          fmt::format("{} sets the pace of {} steps", boundOf(model, step),
                      model.kIterations),
          llvm::json::Object{{"bound", boundOf(model, step)},
                             {"math_ns", step.math},
                             {"shared_ns", step.shared},
                             {"l2_ns", step.l2},
                             {"dram_ns", step.dram}}};
}

Derivation explainTile(const GemmProblem &problem, const TileKernel &kernel,
                       const DeviceModel &device) {
  TileModel model(problem, kernel, device);
  int64_t active =
      std::min<int64_t>(model.blocks, std::max<int64_t>(model.grid.slots, 1));
  StepTimes step =
      stepTimes(model, double(ceilDiv(active, device.smCount)), double(active));
  double peak = kernel.flopsPerClock * device.smCount * model.clockGHz();
  Derivation steps;
  steps.push_back(explainRegisters(model));
  steps.push_back(explainShared(model));
  steps.push_back(explainOccupancy(model));
  Pipeline ring = pipeline(device.dramLatencyNs, std::max(step.l2, step.dram),
                           step.pace(), kernel.stages);
  steps.push_back(explainLatency(ring, step.exposed));
  explainIntensities(problem, kernel.blockM, kernel.blockN, peak, device,
                     steps);
  steps.push_back(explainWaves(model));
  steps.push_back(explainBound(model, step));
  return steps;
}

} // namespace kiln
