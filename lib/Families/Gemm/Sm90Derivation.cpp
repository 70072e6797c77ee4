//===- Sm90Derivation.cpp - explains the estimate of the wgmma GEMM -------===//
//
// Four walls bound a tile: registers, shared memory, latency, and power, which
// is not a wall of a tile but of the board: all products of the chip run at the
// clock that its power leaves, however the tiles are cut. The walls come first,
// then a block's own path, then the floors of the chip, and what these take
// beyond the path.
//
//===----------------------------------------------------------------------===//
#include "Families/FurtherWave.h"
#include "Families/Gemm/DerivationSteps.h"
#include "Families/Gemm/Sm90Model.h"
#include "Model/Bandwidth.h"
#include "Model/Rates.h"
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
  void explainPace();
  int explainStep(const Sm90Step &step, llvm::StringRef wave);
  int explainApart(const Sm90Step &step, llvm::StringRef wave, int together);
  int explainLoop();
  int explainEpilogue();
  void explainFurther(int path);
  int explainPower();
  int explainBytes();
  int explainBeyond(int loop);
  bool isAboveBy(double ns, llvm::StringRef bound) const;
  std::string verdict() const;

  const Sm90Model &model;
  const Sm90GemmConfig &config;
  Derivation &steps;
};

constexpr llvm::StringLiteral kArithmetic = "wgmma", kPort = "port of the SM",
                              kL2 = "L2", kDram = "DRAM",
                              kShared = "shared memory";

/// The terms that run side by side in a step.
std::vector<StepTerm> pacesOf(const Sm90Step &step) {
  std::vector<StepTerm> terms{{kArithmetic.str(), step.math},
                              {kPort.str(), step.port},
                              {kL2.str(), step.l2},
                              {kDram.str(), step.dram}};
  if (step.shared > 0)
    terms.push_back({kShared.str(), step.shared});
  return terms;
}

} // namespace

void Sm90Steps::explainRegisters() {
  int multiplying =
      (config.pingPong ? 1 : config.consumers) * Sm90GemmConfig::kWarpgroup;
  int limit = config.tradesRegisters()
                  ? config.consumerRegisters()
                  : int(model.device.maxRegistersPerThread);
  constexpr int kOthers = 40; // descriptors, places, the epilogue's values
  int sums = config.sums(model.signature);
  std::string promoted = sums == config.accumulators()
                             ? ""
                             : fmt::format(" + {} that are promoted",
                                           sums - config.accumulators());
  int total = sums + kOthers;
  steps.add({"register wall",
             fmt::format("{} x {} / {} threads = {} accumulators{}, + {} for "
                         "descriptors and the epilogue = {}",
                         config.blockM, config.blockN, multiplying,
                         config.accumulators(), promoted, kOthers, total),
             fmt::format("{} of {} registers of a multiplying thread: {}",
                         total, limit, total <= limit ? "fits" : "spills"),
             llvm::json::Object{{"accumulators", config.accumulators()},
                                {"registers", total},
                                {"limit", limit}}});
}

void Sm90Steps::explainShared() {
  int64_t bytes = config.sharedBytes(model.signature);
  int64_t limit = model.device.sharedBytesPerBlock;
  int64_t stage = config.stageBytes(model.signature);
  steps.add({"shared-memory wall",
             fmt::format("{} stages * ({} + {}) * {} * {} B = {} B, + {} B of "
                         "staging, barriers and alignment",
                         config.stages, config.blockM, config.blockN,
                         config.blockK, bytesOf(model.signature.in),
                         config.stages * stage, bytes - config.stages * stage),
             fmt::format("{} B of {} B; {} stages would fit", bytes, limit,
                         config.stages + (limit - bytes) / (stage + 16)),
             llvm::json::Object{{"bytes", bytes}, {"limit", limit}}});
}

/// Splits are told as splits: they wait for each other, but are no cluster.
void Sm90Steps::explainGrid() {
  double used =
      double(model.groups) / double(model.tilesPerBlock * model.resident);
  std::string groups = fmt::format("{} tiles", model.groups);
  if (config.splitK() > 1)
    groups = fmt::format("{} tiles of {} splits each", model.groups,
                         config.splitK());
  else if (config.multicastBlocks() > 1)
    groups = fmt::format("{} clusters of {} tiles", model.groups,
                         config.multicastBlocks());
  steps.add(
      {"waves",
       fmt::format("{} x {} tiles, batch {}: {}, {} of which run at once "
                   "on {} SMs: {} for each block",
                   tilesAlongMText(model.problem, config.blockM),
                   config.tilesN(model.problem.n), model.problem.batch, groups,
                   model.resident, model.device.smCount, model.tilesPerBlock),
       fmt::format("{:.0f} % of the blocks' turns have a tile", 100 * used),
       llvm::json::Object{{"tiles_per_block", model.tilesPerBlock},
                          {"utilisation", used}}});
}

/// Paces, intensities and latency in the wave that names the bound.
void Sm90Steps::explainPace() {
  const Sm90Step &step = model.main();
  llvm::StringRef pacer = step.pace() == step.math   ? kArithmetic
                          : step.pace() == step.port ? kPort
                          : step.pace() == step.l2   ? kL2
                          : step.pace() == step.dram ? kDram
                                                     : kShared;
  double flops = 2.0 * config.blockM * config.blockN * config.blockK;
  int number =
      steps.add({.title = "pace of a step",
                 .formula = fmt::format("{:.4g} flop at {:.0f} MHz; {:.4g} B "
                                        "through the SM's port of {:.0f} "
                                        "B/clk; L2 and DRAM for all blocks, "
                                        "which ask for the same k at once",
                                        flops, 1e3 * model.clockGHz(),
                                        model.bytesA + model.bytesB,
                                        kL2BytesPerClockPerSm),
                 .verdict = fmt::format("{} sets the pace of a step", pacer),
                 .values = llvm::json::Object{{"math_ns", step.math},
                                              {"port_ns", step.port},
                                              {"l2_ns", step.l2},
                                              {"dram_ns", step.dram}},
                 .rule = StepRule::Max,
                 .terms = pacesOf(step)});
  TilePace pace;
  pace.number = number;
  pace.arithmetic = kArithmetic;
  pace.l2 = kPort;
  pace.pacer = pacer;
  pace.mathNs = step.math;
  pace.l2Ns = step.port;
  pace.flops = flops;
  pace.bytes = model.bytesA + model.bytesB;
  pace.bound = model.bound();
  pace.arithmeticBound = "tensor";
  explainTileIntensity(config.blockM, config.blockN, model.problem.dtype, pace,
                       steps);
  RateType rate = rateTypeOf(model.signature.in, model.signature.compute);
  explainProblemIntensity(
      model.problem,
      usedRate(model.device.tensorFlopsPerClockPerSm(rate)) *
          double(model.device.smCount) * model.powerGHz(),
      model.device, pace, steps);
  explainLatency(model.ringOf(step), pace, steps);
}

/// Explains the time of a step of k in a wave. Returns the number of the
/// derivation's step.
int Sm90Steps::explainStep(const Sm90Step &step, llvm::StringRef wave) {
  std::vector<StepTerm> terms = pacesOf(step);
  terms.push_back(
      {fmt::format("a stage's latency and pace, over {} stages", config.stages),
       step.ring});
  return steps.add(
      {.title = ("step of k, " + wave).str(),
       .formula = "none reaches its own pace while another is close",
       .rule = StepRule::Norm,
       .terms = std::move(terms),
       .exponent = kSm90Exponent});
}

/// Explains the time that a step takes longer out of step. \p together: the
/// number of the step while blocks keep step. Returns its own.
int Sm90Steps::explainApart(const Sm90Step &step, llvm::StringRef wave,
                            int together) {
  return steps.add(
      {.title = ("out of step, " + wave).str(),
       .formula = fmt::format(
           "{:.0f} % of a block's {} steps: by then some blocks are ahead of "
           "others, and L2 answers their requests for one line one by one; "
           "they queue, which costs {:.1f} times what is beyond the norm",
           100 * model.apartShare, model.tilesPerBlock * model.kSteps,
           kSm90Queue),
       .rule = StepRule::Excess,
       .terms = {{"L2, out of step", step.apart}, steps.resultOf(together)}});
}

/// The steps of all waves. Returns their number.
int Sm90Steps::explainLoop() {
  std::vector<StepTerm> waves;
  auto add = [&](const Sm90Step &step, llvm::StringRef wave, int64_t count) {
    const double turns = double(count) * double(model.kSteps);
    const int number = explainStep(step, wave);
    waves.push_back(steps.resultOf(number, turns));
    if (model.apartShare > 0 && step.beyond() > 0)
      waves.push_back(steps.resultOf(explainApart(step, wave, number),
                                     turns * model.apartShare * kSm90Queue));
  };
  if (model.fullWaves() > 0)
    add(model.full, "a full wave", model.fullWaves());
  if (model.lastGroups() > 0)
    add(model.last, "the last wave", 1);
  return steps.add({.title = "loop",
                    .formula = fmt::format("{} steps of k a tile, {} tiles a "
                                           "block at most",
                                           model.kSteps, model.tilesPerBlock),
                    .rule = StepRule::Sum,
                    .terms = std::move(waves)});
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
                           : "nothing hides it"),
       .values = llvm::json::Object{{"epilogue_ns", model.epilogue},
                                    {"exposed_ns", model.exposedEpilogue},
                                    {"reduction_ns", model.reduction}},
       .rule = StepRule::Sum,
       .terms = std::move(terms)});
}

/// The floors of the chip, and what they add to the blocks' own path.
int Sm90Steps::explainBeyond(int loop) {
  std::vector<StepTerm> terms{steps.resultOf(loop)};
  if (model.tilesPerBlock > 1)
    terms.push_back({"between tiles", model.exposedEpilogue, "ns",
                     double(model.tilesPerBlock - 1)});
  if (model.reduction > 0)
    terms.push_back({"reduction of splits", model.reduction, "ns",
                     double(model.tilesPerBlock)});
  int path = steps.add("path of a block", StepRule::Sum, std::move(terms));
  explainFurther(path);
  int power = explainPower();
  int held = steps.add({.title = "path at the clock that power leaves",
                        .formula = "power shows before it takes as long",
                        .rule = StepRule::Norm,
                        .terms = {steps.resultOf(path), steps.resultOf(power)},
                        .exponent = kSm90Exponent});
  int bytes = explainBytes();
  int body = steps.add("path and floors", StepRule::Max,
                       {steps.resultOf(held), steps.resultOf(bytes)});
  return steps.add("beyond path", StepRule::Excess,
                   {steps.resultOf(body), steps.resultOf(path)});
}

/// Blocks stay, so a further wave is a further tile of each.
void Sm90Steps::explainFurther(int path) {
  auto blocks = [&](int64_t groups) { return double(model.blocksOf(groups)); };
  FurtherWave further{
      .pieces = config.splitK() > 1 ? "splits" : "tiles",
      .places = "blocks",
      .count = blocks(model.groups),
      .placeCount = blocks(model.resident),
      .room = blocks(model.tilesPerBlock * model.resident - model.groups)};
  further.further = {"a further wave",
                     double(model.kSteps) * model.paced(model.full) +
                         model.exposedEpilogue + model.reduction};
  further.all = steps.resultOf(path);
  explainFurtherWave(further, steps);
}

int Sm90Steps::explainPower() {
  const DeviceModel &device = model.device;
  return steps.add(
      {.title = "power wall",
       .formula = fmt::format(
           "while all tensor cores work the board holds {:.0f} of {:.0f} MHz "
           "in launches this short, {:.0f} for long; all products keep each of "
           "{} SMs busy for so many clocks of wgmma",
           1e3 * model.powerGHz(), device.smClockMHz,
           device.sustainedTensorClockMHz, device.smCount),
       .verdict = "no cut of the tiles is faster than this",
       .rule = StepRule::Quotient,
       .terms = {{"clocks", model.productClocks, "clk"},
                 {"clock", model.powerGHz(), "GHz"}},
       .blames = isAboveBy(model.powerFloor, "tensor") ? "tensor" : ""});
}

int Sm90Steps::explainBytes() {
  const DeviceModel &device = model.device;
  return steps.add(
      {.title = "bytes wall",
       .formula = fmt::format(
           "all bytes of DRAM once: read at {:.0f} B/ns ({:.4g} B of A and B), "
           "written at {:.0f} B/ns",
           device.dramBytesPerNs(), model.bytes.dramReadBytes,
           device.dramWriteBytesPerNs()),
       .rule = StepRule::Sum,
       .terms = {{"reading", model.readNs}, {"writing", model.writeNs}},
       .blames = isAboveBy(model.bytesFloor, "dram") ? "dram" : ""});
}

/// Whether the floor \p ns is above the path and what the estimate calls
/// \p bound.
bool Sm90Steps::isAboveBy(double ns, llvm::StringRef bound) const {
  return ns > model.path() && model.bound() == bound;
}

std::string Sm90Steps::verdict() const {
  llvm::StringRef bound = model.bound();
  for (auto [ns, wall] : {std::pair{model.bytesFloor, "dram"},
                          std::pair{model.powerFloor, "tensor"}})
    if (isAboveBy(ns, wall))
      return fmt::format("bound by {}: the {} wall", bound,
                         bound == "dram" ? "bytes" : "power");
  return fmt::format("bound by {}, on the blocks' own path", bound);
}

void Sm90Steps::run() {
  const DeviceModel &device = model.device;
  explainRegisters();
  explainShared();
  explainPace();
  explainGrid();
  int loop = explainLoop();
  int epilogue = explainEpilogue();
  int beyond = explainBeyond(loop);
  std::vector<StepTerm> addends{{"launch", device.launchNs},
                                {"ramp", device.rampNs}};
  if (model.repack > 0)
    addends.push_back({"repack of operands", model.repack});
  if (model.gather > 0)
    addends.push_back({"gather of A's rows", model.gather});
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
