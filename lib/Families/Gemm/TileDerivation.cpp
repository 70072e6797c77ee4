//===- TileDerivation.cpp - explains the estimate of a tiled GEMM ---------===//
//
// Walls and intensities first, then each wave of blocks as the sum that the
// estimate makes of it, then the floor of the bytes and the total.
//
//===----------------------------------------------------------------------===//
#include "Families/FurtherWave.h"
#include "Families/Gemm/DerivationSteps.h"
#include "Families/Gemm/TileModel.h"
#include "Model/RegisterWall.h"
#include "Model/SharedMemoryWall.h"
#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

namespace {

/// Appends the steps of one kernel's estimate.
class TileSteps {
public:
  TileSteps(const TileModel &model, Derivation &steps)
      : model(model), times(model), steps(steps) {}

  void run();

private:
  void explainRegisters();
  void explainShared();
  void explainGrid();
  int explainWave(const WaveTimes &wave, llvm::StringRef suffix);
  int explainPace(const WaveTimes &wave, llvm::StringRef suffix);
  TilePace paceOf(const WaveTimes &wave, int number) const;
  int explainReduction();
  void explainFurther(int all);
  int explainFloor(int all);

  llvm::StringRef arithmeticBound() const {
    return model.kernel.tensor ? "tensor" : "simd";
  }

  const TileModel &model;
  TileTimes times;
  Derivation &steps;
};

constexpr llvm::StringLiteral kTileArithmetic = "arithmetic", kTileL2 = "L2";

} // namespace

void TileSteps::explainRegisters() {
  const TileKernel &kernel = model.kernel;
  int64_t others = kernel.registersPerThread - kernel.accumulatorsPerThread;
  RegisterWall wall = registerWall(
      {kernel.blockM, kernel.blockN, kernel.threads, 0, others},
      registerLimit(model.device, kernel.threads, model.blocksPerSm()));
  steps.add({"register wall",
             fmt::format("{} x {} / {} threads = {} accumulators, + {} for "
                         "fragments and addresses = {}",
                         kernel.blockM, kernel.blockN, kernel.threads,
                         wall.accumulators, others, wall.total),
             fmt::format("{} of {} registers a thread with {} blocks an SM: {}",
                         wall.total, wall.limit, model.blocksPerSm(),
                         wall.fits ? "fits" : "spills or lowers occupancy"),
             llvm::json::Object{{"accumulators", wall.accumulators},
                                {"registers", wall.total},
                                {"limit", wall.limit}}});
}

void TileSteps::explainShared() {
  const TileKernel &kernel = model.kernel;
  int bits = bitsOf(model.problem.dtype);
  SharedMemoryWall wall = sharedMemoryWall(
      model.device, {kernel.blockM, kernel.blockN, kernel.blockK, kernel.stages,
                     bits, bits, 0, 0, model.blocksPerSm()});
  steps.add({"shared-memory wall",
             fmt::format("{} stages * ({} + {}) * {} * {} B = {} B",
                         kernel.stages, kernel.blockM, kernel.blockN,
                         kernel.blockK, bits / 8, wall.totalBytes),
             fmt::format("{} B taken of {} B that {} blocks an SM leave each; "
                         "{} stages would fit",
                         kernel.sharedBytes, wall.limitBytes,
                         model.blocksPerSm(), wall.maxStages),
             llvm::json::Object{{"bytes", kernel.sharedBytes},
                                {"limit", wall.limitBytes},
                                {"max_stages", wall.maxStages}}});
}

void TileSteps::explainGrid() {
  const Waves &grid = model.grid;
  std::string waves;
  if (times.wholeWaves > 0)
    waves = fmt::format("{} waves of {} tiles that one block each has, ",
                        times.wholeWaves, model.slots());
  if (times.fullWaves > 0)
    waves += fmt::format("{} full waves of {} blocks and a last one of {}",
                         times.fullWaves, model.slots(), times.lastBlocks);
  else
    waves += fmt::format("one wave of {} blocks", times.lastBlocks);
  steps.add(
      {"waves",
       fmt::format("{} blocks ({} x {} tiles, batch {}, split-K {}) on "
                   "{} slots = {}",
                   model.wholeTiles + model.blocks,
                   tilesAlongMText(model.problem, model.kernel.blockM),
                   model.tilesN, model.problem.batch, model.splits, grid.slots,
                   waves),
       fmt::format("{:.0f} % of the slots are used", 100 * grid.utilisation),
       llvm::json::Object{{"waves", grid.waves},
                          {"utilisation", grid.utilisation},
                          {"tail_utilisation", grid.tailUtilisation}}});
}

TilePace TileSteps::paceOf(const WaveTimes &wave, int number) const {
  const StepTimes &step = wave.step;
  double pace = step.pace();
  TilePace result;
  result.number = number;
  result.arithmetic = kTileArithmetic;
  result.l2 = kTileL2;
  result.pacer = pace == step.math     ? "the arithmetic"
                 : pace == step.dram   ? "DRAM"
                 : pace == step.l2     ? "L2"
                 : pace == step.shared ? "shared memory"
                                       : "the issue of loads";
  result.mathNs = step.math;
  result.l2Ns = step.l2;
  result.flops = model.stepFlops();
  result.bytes = model.stageBytes();
  result.bound = times.bound;
  result.arithmeticBound = arithmeticBound();
  return result;
}

int TileSteps::explainPace(const WaveTimes &wave, llvm::StringRef suffix) {
  const TileKernel &kernel = model.kernel;
  const StepTimes &step = wave.step;
  std::vector<StepTerm> terms{{kTileArithmetic.str(), step.math},
                              {"shared memory", step.shared}};
  if (step.issue > 0)
    terms.push_back({"issue of loads", step.issue});
  terms.push_back({kTileL2.str(), step.l2});
  terms.push_back({"DRAM", step.dram});
  return steps.add(
      {.title = ("pace of a step" + suffix).str(),
       .formula = fmt::format(
           "{:.0f} blocks on {:.0f} an SM; each {:.4g} flop at {:.0f} flop/clk "
           "* {:.2f} and {:.0f} MHz, and {:.4g} B to load",
           wave.active, wave.perSm, model.stepFlops(), kernel.flopsPerClock,
           kernel.efficiency, 1e3 * model.clockGHz(), model.loadedBytes()),
       .verdict =
           fmt::format("{} sets the pace of a step", paceOf(wave, 0).pacer),
       .values = llvm::json::Object{{"math_ns", step.math},
                                    {"shared_ns", step.shared},
                                    {"l2_ns", step.l2},
                                    {"dram_ns", step.dram}},
       .rule = StepRule::Max,
       .terms = std::move(terms)});
}

/// Returns the number of the wave's sum.
int TileSteps::explainWave(const WaveTimes &wave, llvm::StringRef suffix) {
  const TileKernel &kernel = model.kernel;
  bool isMain = &wave == &times.main(), isLast = &wave == &times.last;
  int number = explainPace(wave, suffix);
  TilePace pace = paceOf(wave, number);
  pace.suffix = suffix;
  if (isMain)
    explainTileIntensity(kernel.blockM, kernel.blockN, model.problem.dtype,
                         pace, steps);
  int exposed = explainLatency(wave.step.ring, pace, steps);
  int step =
      steps.add({.title = ("step of k" + suffix).str(),
                 .formula = fmt::format(
                     "its barrier: {:.0f} clocks at {:.0f} MHz, "
                     "shared by {:.0f} blocks an SM",
                     kStepBarrierClocks, 1e3 * model.clockGHz(), wave.perSm),
                 .rule = StepRule::Sum,
                 .terms = {steps.resultOf(number),
                           steps.resultOf(exposed, 1, "exposed latency"),
                           {"barrier", wave.step.barrier}}});
  return steps.add(
      {.title = isLast && !isMain ? "the last wave" : ("a wave" + suffix).str(),
       .formula = fmt::format(
           "fill: DRAM's latency and the first stage's load; epilogue: staging "
           "and the stores; other blocks of an SM hide their share of {}",
           isLast ? "the fill, and the last blocks end together" : "both"),
       .rule = StepRule::Sum,
       .terms = {{"fill", wave.fill},
                 steps.resultOf(step, double(wave.steps)),
                 {"epilogue", wave.epilogue}}});
}

int TileSteps::explainReduction() {
  return steps.add({.title = "reduction",
                    .formula = "splits store their sums, count arrivals, and "
                               "the last of a tile adds them, a few at a time",
                    .rule = StepRule::Sum,
                    .terms = {{"hand-over", times.reduction.handOver},
                              {"reading the sums", times.reduction.reads}}});
}

void TileSteps::explainFurther(int all) {
  const double sms = double(model.device.smCount);
  const WaveTimes wave = model.wave(1, sms, model.splits, true);
  // Blocks of a wave that is no longer the last hide each other's epilogues.
  auto epilogueOf = [&](bool isLast) {
    return model
        .wave(double(model.blocksPerSm()), double(model.slots()), model.splits,
              isLast)
        .epilogue;
  };
  const double hidden = epilogueOf(true) - epilogueOf(false);
  FurtherWave further{.count = double(model.wholeTiles + model.blocks),
                      .placeCount = sms,
                      .room = double(model.slots() - times.lastBlocks)};
  further.further = {"a further wave",
                     wave.fill + wave.loop + wave.epilogue - hidden};
  if (hidden > 0)
    further.note = fmt::format(", which would hide {} of epilogues",
                               quantityText(hidden, "ns"));
  further.all = steps.resultOf(all);
  explainFurtherWave(further, steps);
}

int TileSteps::explainFloor(int all) {
  int bytes = steps.add(
      {.title = "bytes floor",
       .formula =
           fmt::format("{:.4g} B read at {:.0f} B/ns, {:.4g} B written "
                       "at {:.0f} B/ns",
                       model.bytes.dramReadBytes, model.dramBytesPerNs(),
                       model.writeBytes(), model.device.dramWriteBytesPerNs()),
       .rule = StepRule::Sum,
       .terms = {{"reading", model.readNs()}, {"writing", model.writeNs()}}});
  bool isBound = times.floor > 0;
  return steps.add(
      {.title = "beyond the waves",
       .formula = "no kernel ends before its bytes have moved",
       .verdict = isBound ? "DRAM is the limit" : "the waves take longer",
       .rule = StepRule::Excess,
       .terms = {steps.resultOf(bytes), steps.resultOf(all)},
       .blames = isBound ? "dram" : ""});
}

void TileSteps::run() {
  const DeviceModel &device = model.device;
  explainRegisters();
  explainShared();
  explainOccupancy(model.resident, device, steps);
  explainGrid();
  std::vector<StepTerm> waves;
  auto explain = [&](const WaveTimes &wave, int64_t count,
                     llvm::StringRef suffix, llvm::StringRef name) {
    waves.push_back(
        steps.resultOf(explainWave(wave, &wave == &times.main() ? "" : suffix),
                       double(count), name.str()));
  };
  if (times.wholeWaves > 0)
    explain(times.whole, times.wholeWaves, "", "waves of whole tiles");
  if (times.fullWaves > 0)
    explain(times.full, times.fullWaves, " of split tiles", "full waves");
  explain(times.last, 1, " of the last wave", "the last wave");
  int all = steps.add("all waves", StepRule::Sum, waves);
  explainFurther(all);
  double peak = model.kernel.flopsPerClock * model.kernel.efficiency *
                double(device.smCount) * model.clockGHz();
  explainProblemIntensity(model.problem, peak, device, paceOf(times.main(), 0),
                          steps);
  std::vector<StepTerm> addends{{"launch", device.launchNs},
                                {"ramp", device.rampNs}};
  if (times.gather > 0)
    addends.push_back({"gather of A's rows", times.gather});
  llvm::append_range(addends, waves);
  if (model.splits > 1)
    addends.push_back(steps.resultOf(explainReduction()));
  addends.push_back(steps.resultOf(explainFloor(all)));
  steps.add({.title = "total",
             .verdict = fmt::format("bound by {}", times.bound),
             .values = llvm::json::Object{{"bound", times.bound}},
             .rule = StepRule::Sum,
             .terms = std::move(addends),
             .blames = times.bound});
}

Derivation explainTile(const GemmProblem &problem, const TileKernel &kernel,
                       const DeviceModel &device) {
  TileModel model(problem, kernel, device);
  Derivation steps;
  TileSteps(model, steps).run();
  return steps;
}

} // namespace kiln
