//===- TileDerivation.cpp - explains the estimate of a tiled GEMM ---------===//
//
// Walls first, then each wave of blocks, then the floor of the bytes.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/TileModel.h"
#include "Families/Walls.h"
#include "Model/Occupancy.h"
#include "Model/RegisterWall.h"
#include "Support/Format.h"

namespace kiln {

using TileFigures = TileModel<Figure>;

static llvm::StringRef pacer(const TileStep<Figure> &step) {
  return step.pace == step.math     ? "the arithmetic"
         : step.pace == step.dram   ? "DRAM"
         : step.pace == step.l2     ? "L2"
         : step.pace == step.shared ? "shared memory"
                                    : "the issue of loads";
}

static void addWalls(const TileFigures &model, Derivation &steps) {
  const TileKernel &kernel = model.kernel;
  const DeviceModel &device = model.device;
  const int64_t perSm = model.blocksPerSm();
  RegisterUse registers{.tileM = kernel.blockM,
                        .tileN = kernel.blockN,
                        .threads = kernel.tileThreads,
                        .fragmentsA = kernel.fragmentsA,
                        .fragmentsB = kernel.fragmentsB,
                        .limit = registerLimit(device, kernel.threads, perSm)};
  const int64_t sums =
      int64_t(kernel.blockM) * kernel.blockN / kernel.tileThreads;
  registers.others =
      kernel.registersPerThread - sums - kernel.fragmentsA - kernel.fragmentsB;
  registers.limitOf = fmt::format("a thread with {} {} an SM", perSm,
                                  perSm == 1 ? "block" : "blocks");
  addRegisterWall(registers, steps);
  addSharedWall({.stages = kernel.stages,
                 .bytesA = double(kernel.stageBytesA),
                 .bytesB = double(kernel.stageBytesB),
                 .bytes = kernel.sharedBytes,
                 .limit = sharedBytesLimit(device, perSm),
                 .blocksPerSm = perSm},
                steps);
  addAccumulatorTrade(kernel.blockM, kernel.blockN,
                      double(kernel.stageBytesA + kernel.stageBytesB), steps);
  addOccupancy(model.resident, device, steps);
}

/// The demand of a tile on L2 for its arithmetic, at the rates of a step.
static void addIntensity(const TileFigures &model, Derivation &steps) {
  const TileStep<Figure> &step = model.main().step;
  steps.add(named(model.stepFlops / model.loadedBytes, "intensity of the tile",
                  "flop/B"));
  const Figure perSm = given<Figure>(double(model.main().perSm), "blocks");
  const Figure ridge = named(perSm * model.stepFlops / step.math /
                                 (perSm * model.loadedBytes / step.l2),
                             "ridge of the tile", "flop/B");
  const bool isArithmetic = step.math >= step.l2;
  const llvm::StringRef arithmetic = model.kernel.tensor ? "tensor" : "simd";
  StepWords words{.note = "arithmetic of a step over its loads, at the times "
                          "that the step takes for both"};
  words.verdict = isArithmetic
                      ? "in a step the arithmetic takes longer than L2"
                      : "in a step L2 takes longer than the arithmetic";
  // All blocks together may still ask too much of L2.
  if (isArithmetic && model.bound() != "l2")
    words.clears = "l2";
  if (!isArithmetic)
    words.clears = arithmetic;
  steps.add(ridge, std::move(words));
}

static void addWave(const TileFigures &model, const TileWave<Figure> &wave,
                    llvm::StringRef title, Derivation &steps) {
  const TileStep<Figure> &step = wave.step;
  const bool isMain = &wave == &model.main(), isLast = &wave == &model.last;
  steps.begin(fmt::format("{}: {} blocks, {} on an SM", title, wave.active,
                          wave.perSm));
  steps.add(step.pace, {.verdict = fmt::format("{} sets the pace of a step",
                                               pacer(step))});
  if (isMain) {
    addIntensity(model, steps);
    addWarpsWall(wave.perSm * model.kernel.threads / kWarpThreads, step.math,
                 step.ring.latency, steps);
  }
  if (model.kernel.stageBytesA > 0)
    addLatencyWall(step.ring, pacer(step), isMain ? model.bound() : "", steps);
  steps.add(
      wave.total,
      {.note = fmt::format(
           "fill: DRAM's latency and the first stage's load; epilogue: staging "
           "and the stores; other blocks of an SM hide their share of {}",
           isLast ? "the fill, and the last blocks end together" : "both")});
}

static void addFurther(const TileFigures &model, Derivation &steps) {
  const double sms = double(model.device.smCount);
  const TileWave<Figure> wave =
      model.wave(1, model.device.smCount, model.splits, true);
  // Blocks of a wave that is no longer the last hide each other's epilogues.
  auto epilogueOf = [&](bool isLast) {
    return model.wave(model.blocksPerSm(), model.slots(), model.splits, isLast)
        .epilogue;
  };
  FurtherWave further{.count = double(model.wholeTiles + model.blocks),
                      .placeCount = sms,
                      .room = double(model.slots() - model.lastBlocks)};
  const Figure hidden = epilogueOf(true) - epilogueOf(false);
  further.furtherNs = wave.total.value();
  if (hidden.value() > 0) {
    further.furtherNs = excess(further.furtherNs, hidden.value());
    further.note = fmt::format(", which would hide {} of epilogues",
                               quantityText(hidden.value(), "ns"));
  }
  further.all = model.waves;
  addFurtherWave(further, steps);
}

Prediction<Figure> explainTile(const GemmProblem &problem,
                               const TileKernel &kernel,
                               const DeviceModel &device, Derivation &steps) {
  const TileFigures model(problem, kernel, device);
  steps.heldClock = model.clock;
  steps.begin("walls");
  addWalls(model, steps);
  if (model.wholeWaves > 0)
    addWave(model, model.whole,
            fmt::format("{} waves of whole tiles", model.wholeWaves), steps);
  if (model.fullWaves > 0)
    addWave(model, model.full, fmt::format("{} full waves", model.fullWaves),
            steps);
  addWave(model, model.last, "the last wave", steps);
  amendReuse(model.bytes, model.bound(), steps);
  steps.begin("waves");
  addFurther(model, steps);
  steps.begin("total");
  steps.add(model.beyond,
            {.note = "no kernel ends before its bytes have moved",
             .verdict = model.beyond.value() > 0 ? "DRAM is the limit"
                                                 : "the waves take longer",
             .blames = model.beyond.value() > 0 ? "dram" : ""});
  return {model.total, model.bound()};
}

} // namespace kiln
