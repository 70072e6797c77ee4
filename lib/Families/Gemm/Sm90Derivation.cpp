//===- Sm90Derivation.cpp - explains the estimate of the wgmma GEMM -------===//
//
// Walls first, then a step of k in each kind of wave, the path of a block and
// the floors that hold for the chip as a whole.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/Sm90Limits.h"
#include "Families/Gemm/Sm90Model.h"
#include "Families/Walls.h"
#include "Support/Format.h"

namespace kiln {

using Sm90Figures = Sm90Model<Figure>;

static llvm::StringRef pacer(const Sm90Figures &model,
                             const Sm90Step<Figure> &step) {
  return step.pace == model.math   ? "wgmma"
         : step.pace == model.port ? "the port of the SM"
         : step.pace == step.l2    ? "L2"
         : step.pace == step.dram  ? "DRAM"
                                   : "shared memory";
}

static void addRegisters(const Sm90Figures &model, Derivation &steps) {
  const Sm90GemmConfig &config = model.config;
  const int multiplying =
      (config.pingPong ? 1 : config.consumers) * Sm90GemmConfig::kWarpgroup;
  constexpr int kOthers = 40; // descriptors, places, the epilogue's values
  RegisterUse use{.tileM = config.blockM,
                  .tileN = config.blockN,
                  .threads = multiplying,
                  .further =
                      config.sums(model.signature) - config.accumulators(),
                  .others = kOthers};
  use.limit = config.tradesRegisters()
                  ? config.consumerRegisters()
                  : int(model.device.maxRegistersPerThread);
  use.limitOf =
      config.tradesRegisters()
          ? "a multiplying thread, to which the producer's warps give theirs"
          : "a thread";
  addRegisterWall(use, steps);
  // The pruner's rule: the sums that ptxas keeps in registers beside this
  // epilogue.
  const int most = mostAccumulators(model.signature, config);
  steps.amend("accumulators",
              {.verdict = fmt::format(
                   "{} of {}, the most with which ptxas spills nothing beside "
                   "this epilogue",
                   config.sums(model.signature), most)});
}

/// Splits are told as splits: they wait for each other, but are no cluster.
static void addTiles(const Sm90Figures &model, Derivation &steps) {
  const Sm90GemmConfig &config = model.config;
  const double used =
      double(model.groups) / double(model.tilesPerBlock * model.resident);
  std::string groups = "tiles";
  if (config.splitK() > 1)
    groups = fmt::format("tiles of {} splits each", config.splitK());
  else if (config.multicastBlocks() > 1)
    groups = fmt::format("clusters of {} tiles", config.multicastBlocks());
  steps.add(
      named(ceiling(given<Figure>(double(model.groups), "tiles") /
                    given<Figure>(double(model.resident), "at once")),
            "tiles of a block", ""),
      {.note = fmt::format("{} x {} tiles, batch {}, are {} {}; blocks stay",
                           tilesAlongMText(model.problem, config.blockM),
                           config.tilesN(model.problem.n), model.problem.batch,
                           model.groups, groups),
       .verdict = fmt::format("{:.0f} % of the blocks' turns have a tile",
                              100 * used)});
}

static void addWalls(const Sm90Figures &model, Derivation &steps) {
  const Sm90GemmConfig &config = model.config;
  addRegisters(model, steps);
  // A stage as it is taken: boxes of the whole tile.
  const double stage = config.stageBytes(model.signature);
  const double stageA =
      double(config.blockM) * config.blockK * bytesOf(model.signature.in);
  addSharedWall({.stages = config.stages,
                 .bytesA = stageA,
                 .bytesB = stage - stageA,
                 .bytes = config.sharedBytes(model.signature),
                 .limit = model.device.sharedBytesPerBlock},
                steps);
  addAccumulatorTrade(config.blockM, config.blockN, stage, steps);
  addTiles(model, steps);
}

/// The demand of a tile on its SM's port for its arithmetic, at the times that
/// a step takes for both.
static void addIntensity(const Sm90Figures &model, Derivation &steps) {
  const Sm90GemmConfig &config = model.config;
  const Figure flop = given<Figure>(2, "flop") *
                      given<Figure>(config.blockM, "blockM") *
                      given<Figure>(config.blockN, "blockN") *
                      given<Figure>(config.blockK, "blockK");
  const Figure bytes = named(given<Figure>(model.bytesA, "A", "B") +
                                 given<Figure>(model.bytesB, "B", "B"),
                             "loads of a step", "B");
  steps.add(named(flop / bytes, "intensity of the tile", "flop/B"));
  const Figure ridge = named(flop / model.math / (bytes / model.port),
                             "ridge of the tile", "flop/B");
  const bool isArithmetic = model.math >= model.port;
  StepWords words{.note = "arithmetic of a step over its loads, at the times "
                          "that the step takes for both"};
  words.verdict = isArithmetic
                      ? "in a step the arithmetic takes longer than the loads"
                      : "in a step the loads take longer than the arithmetic";
  // One block has enough of L2; all blocks together may ask too much. Power
  // may slow the arithmetic down beyond the loads.
  if (isArithmetic && model.bound() != "l2")
    words.clears = "l2";
  else if (!isArithmetic && model.bound() != "tensor")
    words.clears = "tensor";
  else if (!isArithmetic)
    words.verdict += "; power slows it down beyond that, see the floors";
  steps.add(ridge, std::move(words));
}

static void addStep(const Sm90Figures &model, const Sm90Step<Figure> &step,
                    llvm::StringRef title, Derivation &steps) {
  steps.begin(title.str());
  steps.add(step.pace, {.note = "blocks run in step and ask for the same k at "
                                "once, so L2 and DRAM pace them all",
                        .verdict = fmt::format("{} sets the pace of a step",
                                               pacer(model, step))});
  if (&step == &model.main()) {
    addIntensity(model, steps);
    addLatencyWall(step.ring, pacer(model, step), model.bound(), steps);
  }
  steps.add(step.together,
            {.note = "no pace is reached while another is close"});
  if (&step.total.formula() != &step.together.formula())
    steps.add(step.total,
              {.note =
                   "by then some blocks are ahead of others, and L2 answers "
                   "their requests for one line one by one"});
}

/// Blocks stay, so a further wave is a further tile of each.
static void addFurther(const Sm90Figures &model, Derivation &steps) {
  auto blocks = [&](int64_t groups) { return double(model.blocksOf(groups)); };
  const double furtherNs = double(model.kSteps) * model.main().total.value() +
                           model.exposedEpilogue.value() +
                           model.reduction.value();
  addFurtherWave(
      {.pieces = model.config.splitK() > 1 ? "splits" : "tiles",
       .places = "blocks",
       .count = blocks(model.groups),
       .placeCount = blocks(model.resident),
       .room = blocks(model.tilesPerBlock * model.resident - model.groups),
       .furtherNs = furtherNs,
       .all = model.path},
      steps);
}

static void addFloors(const Sm90Figures &model, Derivation &steps) {
  const bool isBytes = model.bytesFloor > model.heldPath;
  const bool isPower = !isBytes && model.powerFloor > model.path;
  steps.add(model.powerFloor,
            {.note = "while all tensor cores work, the board holds this clock",
             .verdict =
                 isPower ? "above the path: no cut of the tiles is faster" : "",
             .blames = isPower ? "tensor" : ""});
  steps.add(model.heldPath,
            {.note = "power shows before it takes as long as the path"});
  steps.add(model.bytesFloor,
            {.verdict = isBytes ? "above the path: DRAM is the limit" : "",
             .blames = isBytes ? "dram" : ""});
  steps.add(model.beyond,
            {.note = isBytes ? "by so much the bytes outlast the path"
                             : "by so much power stretches the path"});
}

Prediction<Figure> explainTile(const GemmProblem &problem,
                               const Sm90Kernel &kernel,
                               const DeviceModel &device, Derivation &steps) {
  const Sm90Figures model(problem, kernel.signature, kernel.config, device);
  steps.heldClock = model.powerClock;
  steps.begin("walls");
  addWalls(model, steps);
  if (model.fullWaves() > 0)
    addStep(model, model.full, "a step of k in a full wave", steps);
  if (model.lastGroups() > 0)
    addStep(model, model.last, "a step of k in the last wave", steps);
  amendReuse(model.bytes, model.bound(), steps);
  steps.begin("a block");
  steps.add(model.loop);
  steps.add(model.exposedEpilogue,
            {.note = kernel.config.pingPong
                         ? "the other consumer multiplies meanwhile"
                         : "nothing hides it"});
  steps.add(model.path);
  addFurther(model, steps);
  steps.begin("floors of the chip");
  addFloors(model, steps);
  steps.begin("total");
  return {model.total, model.bound()};
}

} // namespace kiln
