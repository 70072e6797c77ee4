//===- Sm90Derivation.cpp - explains the estimate of the wgmma GEMM -------===//
//
// Four walls bound a tile: registers, shared memory, latency, and power, which
// is not a wall of a tile but of the board: all products of the chip run at the
// clock that it sustains, however the tiles are cut. The walls come first, then
// a block's own path at the full clock, then the floors of the chip, and what
// these take beyond the path.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/DerivationSteps.h"
#include "Families/Gemm/Sm90Model.h"
#include "Model/Bandwidth.h"
#include "Support/Format.h"

namespace kiln {

namespace {

/// Appends the steps of one kernel's estimate.
class Sm90Steps {
public:
  Sm90Steps(const Sm90Model &model, Derivation &steps)
      : model(model), config(model.config), steps(steps) {}

  void run();

private:
  void explainRegisters();
  void explainShared();
  void explainGrid();
  int explainStep();
  int explainEpilogue();
  int explainFloors();
  int explainBeyond(int step);
  std::string verdict() const;

  const Sm90Model &model;
  const Sm90GemmConfig &config;
  Derivation &steps;
};

constexpr llvm::StringLiteral kArithmetic = "wgmma", kL2 = "L2";

} // namespace

void Sm90Steps::explainRegisters() {
  int multiplying =
      (config.pingPong ? 1 : config.consumers) * Sm90GemmConfig::kWarpgroup;
  int limit = config.tradesRegisters()
                  ? config.consumerRegisters()
                  : int(model.device.maxRegistersPerThread);
  constexpr int kOthers = 40; // descriptors, places, the epilogue's values
  int total = config.accumulators() + kOthers;
  steps.add({"register wall",
             fmt::format("{} x {} / {} threads = {} accumulators, + {} for "
                         "descriptors and the epilogue = {}",
                         config.blockM, config.blockN, multiplying,
                         config.accumulators(), kOthers, total),
             fmt::format("{} of {} registers of a multiplying thread: {}",
                         total, limit, total <= limit ? "fits" : "spills"),
             llvm::json::Object{{"accumulators", config.accumulators()},
                                {"registers", total},
                                {"limit", limit}}});
}

void Sm90Steps::explainShared() {
  int64_t bytes = config.sharedBytes(model.signature);
  int64_t limit = model.device.sharedBytesPerBlock;
  steps.add({"shared-memory wall",
             fmt::format("{} stages * ({} + {}) * {} * 2 B = {} B, + {} B of "
                         "staging, barriers and alignment",
                         config.stages, config.blockM, config.blockN,
                         config.blockK, config.stages * config.stageBytes(),
                         bytes - config.stages * config.stageBytes()),
             fmt::format("{} B of {} B; {} stages would fit", bytes, limit,
                         config.stages +
                             (limit - bytes) / (config.stageBytes() + 16)),
             llvm::json::Object{{"bytes", bytes}, {"limit", limit}}});
}

/// Splits are told as splits: they wait for each other, but are no cluster.
void Sm90Steps::explainGrid() {
  double used =
      double(model.clusters) / double(model.tilesPerBlock * model.resident);
  std::string groups = fmt::format("{} tiles", model.clusters);
  if (config.splitK() > 1)
    groups = fmt::format("{} tiles of {} splits each", model.clusters,
                         config.splitK());
  else if (config.multicastBlocks() > 1)
    groups = fmt::format("{} clusters of {} tiles", model.clusters,
                         config.multicastBlocks());
  steps.add(
      {"waves",
       fmt::format("{} x {} tiles, batch {}: {}, {} of which run at once "
                   "on {} SMs: {} for each block",
                   config.tilesM(model.problem.m),
                   config.tilesN(model.problem.n), model.problem.batch, groups,
                   model.resident, model.device.smCount, model.tilesPerBlock),
       fmt::format("{:.0f} % of the blocks' turns have a tile", 100 * used),
       llvm::json::Object{{"tiles_per_block", model.tilesPerBlock},
                          {"utilisation", used}}});
}

/// Pace, intensities and latency. Answers the number of what a step takes.
int Sm90Steps::explainStep() {
  llvm::StringRef pacer = model.pace() == model.math ? "wgmma"
                          : model.pace() == model.l2 ? "L2"
                                                     : "shared memory";
  double flops = 2.0 * config.blockM * config.blockN * config.blockK;
  int number = steps.add(
      {.title = "pace of a step",
       .formula = fmt::format(
           "a block's own path runs at {:.0f} MHz: {:.4g} flop, and {:.4g} B "
           "through the SM's port of {:.0f} B/clk",
           1e3 * model.clockGHz(), flops, double(config.stageBytes()),
           kL2BytesPerClockPerSm),
       .verdict = fmt::format("{} sets the pace of a step", pacer),
       .values = llvm::json::Object{{"math_ns", model.math},
                                    {"shared_ns", model.shared},
                                    {"l2_ns", model.l2},
                                    {"dram_ns", model.dram}},
       .rule = StepRule::Max,
       .terms = {{kArithmetic.str(), model.math},
                 {"shared memory", model.shared},
                 {kL2.str(), model.l2}}});
  TilePace pace;
  pace.number = number;
  pace.arithmetic = kArithmetic;
  pace.l2 = kL2;
  pace.pacer = pacer;
  pace.mathNs = model.math;
  pace.l2Ns = model.l2;
  pace.flops = flops;
  pace.bytes = config.stageBytes();
  pace.bound = model.bound();
  pace.arithmeticBound = "tensor";
  explainTileIntensity(config.blockM, config.blockN, model.problem.dtype, pace,
                       steps);
  RateType rate = rateTypeOf(model.signature.in, model.signature.compute);
  explainProblemIntensity(model.problem,
                          model.device.tensorFlopsPerClockPerSm(rate) *
                              double(model.device.smCount) *
                              model.sustainedGHz(),
                          model.device, pace, steps);
  int exposed = explainLatency(model.ring, pace, steps);
  return steps.add({.title = "step of k",
                    .rule = StepRule::Sum,
                    .terms = {steps.resultOf(number),
                              steps.resultOf(exposed, 1, "exposed latency")}});
}

int Sm90Steps::explainEpilogue() {
  std::vector<StepTerm> terms;
  if (model.tilesPerBlock > 1)
    terms.push_back({"between tiles", model.exposedEpilogue, "ns",
                     double(model.tilesPerBlock - 1)});
  terms.push_back({"last tile and arrival", model.drain});
  return steps.add(
      {.title = "epilogue",
       .formula = fmt::format(
           "{:.0f} ns a tile, {:.0f} ns of it exposed: {}; behind the last one "
           "its stores arrive",
           model.epilogue, model.exposedEpilogue,
           config.pingPong ? "the other consumer multiplies meanwhile"
                           : "the ring fills meanwhile"),
       .values = llvm::json::Object{{"epilogue_ns", model.epilogue},
                                    {"exposed_ns", model.exposedEpilogue},
                                    {"reduction_ns", model.reduction}},
       .rule = StepRule::Sum,
       .terms = std::move(terms)});
}

/// The floors of the chip. Answers the number of the higher one.
int Sm90Steps::explainFloors() {
  const DeviceModel &device = model.device;
  int bytes = steps.add(
      {.title = "bytes wall",
       .formula = fmt::format(
           "all bytes of DRAM once: read at {:.0f} B/ns ({:.4g} B of A and B), "
           "written at {:.0f} B/ns",
           device.dramBytesPerNs(), model.bytes.dramReadBytes,
           device.dramWriteBytesPerNs()),
       .rule = StepRule::Sum,
       .terms = {{"reading", model.readNs}, {"writing", model.writeNs}}});
  int power = steps.add(
      {.title = "power wall",
       .formula = fmt::format(
           "while all tensor cores work the board sustains {:.0f} of {:.0f} "
           "MHz; all products keep each of {} SMs busy for so many clocks of "
           "wgmma",
           device.sustainedTensorClockMHz, device.smClockMHz, device.smCount),
       .verdict = "no cut of the tiles is faster than this",
       .rule = StepRule::Quotient,
       .terms = {{"clocks", model.productClocks, "clk"},
                 {"sustained clock", model.sustainedGHz(), "GHz"}}});
  bool isPower = model.powerFloor >= model.bytesFloor;
  bool isBound = model.beyondFloor() > 0;
  llvm::StringRef higher = isPower ? "tensor" : "dram";
  return steps.add(
      {.title = "floor",
       .verdict = fmt::format(
           "{} is the higher floor of the chip{}", isPower ? "power" : "DRAM",
           isBound ? ", and above the blocks' own path" : ""),
       .rule = StepRule::Max,
       .terms = {steps.resultOf(bytes), steps.resultOf(power)},
       .blames = isBound ? higher : ""});
}

/// What the floor takes beyond the path of the tiles, wave by wave.
int Sm90Steps::explainBeyond(int step) {
  int floor = explainFloors();
  std::vector<StepTerm> path{steps.resultOf(step, double(model.kSteps))};
  if (model.reduction > 0)
    path.push_back({"reduction of splits", model.reduction});
  int tile = steps.add({.title = "path of a tile",
                        .rule = StepRule::Sum,
                        .terms = std::move(path)});
  auto beyond = [&](int64_t groups, llvm::StringRef wave) {
    int share = steps.add(
        {.title = ("floor of " + wave).str(),
         .formula = fmt::format("its share: {} of {}", groups, model.clusters),
         .rule = StepRule::Sum,
         .terms = {
             steps.resultOf(floor, double(groups) / double(model.clusters))}});
    return steps.add({.title = ("beyond the path, " + wave).str(),
                      .rule = StepRule::Excess,
                      .terms = {steps.resultOf(share), steps.resultOf(tile)}});
  };
  std::vector<StepTerm> waves;
  if (model.fullWaves() > 0)
    waves.push_back(steps.resultOf(beyond(model.resident, "a full wave"),
                                   double(model.fullWaves()), "full waves"));
  if (model.lastGroups() > 0)
    waves.push_back(steps.resultOf(beyond(model.lastGroups(), "the last wave"),
                                   1, "the last wave"));
  return steps.add({.title = "beyond path",
                    .rule = StepRule::Sum,
                    .terms = std::move(waves)});
}

std::string Sm90Steps::verdict() const {
  llvm::StringRef bound = model.bound();
  if (model.beyondFloor() == 0)
    return fmt::format("bound by {}, on the blocks' own path", bound);
  return fmt::format("bound by {}: {}", bound,
                     bound == "dram" ? "the bytes wall" : "the power wall");
}

void Sm90Steps::run() {
  const DeviceModel &device = model.device;
  explainRegisters();
  explainShared();
  int step = explainStep();
  explainGrid();
  int loop =
      steps.add({.title = "loop",
                 .formula = fmt::format("{} tiles a block * {} steps of k",
                                        model.tilesPerBlock, model.kSteps),
                 .rule = StepRule::Sum,
                 .terms = {steps.resultOf(step, double(model.tilesPerBlock) *
                                                    double(model.kSteps))}});
  int epilogue = explainEpilogue();
  int beyond = explainBeyond(step);
  std::vector<StepTerm> addends{{"launch", device.launchNs},
                                {"ramp", device.rampNs}};
  if (model.repack > 0)
    addends.push_back({"repack of unaligned operands", model.repack});
  addends.push_back({"fill: latency and load of the first stage", model.fill});
  addends.push_back(steps.resultOf(loop));
  addends.push_back(steps.resultOf(epilogue));
  if (model.reduction > 0)
    addends.push_back({"reduction of splits", model.reduction, "ns",
                       double(model.tilesPerBlock)});
  addends.push_back(steps.resultOf(beyond));
  steps.add({.title = "total",
             .verdict = verdict(),
             .values = llvm::json::Object{{"bound", model.bound()}},
             .rule = StepRule::Sum,
             .terms = std::move(addends),
             .blames = model.bound()});
}

Derivation explainTile(const GemmProblem &problem, const Sm90Kernel &kernel,
                       const DeviceModel &device) {
  const auto &[signature, config] = kernel;
  Sm90Model model(problem, signature, config, device);
  Derivation steps;
  Sm90Steps(model, steps).run();
  return steps;
}

} // namespace kiln
