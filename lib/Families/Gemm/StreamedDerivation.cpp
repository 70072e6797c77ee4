//===- StreamedDerivation.cpp - why a streamed kernel takes its time ------===//
#include "Families/Gemm/StreamedModel.h"
#include "Families/Walls.h"
#include "Model/Occupancy.h"
#include "Support/Format.h"

#include <algorithm>

namespace kiln {

using StreamFigures = StreamModel<Figure>;

static Figure count(double value, llvm::StringLiteral name,
                    llvm::StringLiteral unit = "") {
  return given<Figure>(value, name, unit);
}

static void addWalls(const StreamFigures &model, Derivation &steps) {
  const StreamedTile &kernel = model.kernel;
  const int64_t perSm = model.blocksPerSm();
  addSharedWall({.bytes = kernel.block.sharedBytes,
                 .limit = sharedBytesLimit(model.device, perSm),
                 .blocksPerSm = perSm},
                steps);
  addOccupancy(model.resident, model.device, steps);
}

static void addRows(const StreamFigures &model, Derivation &steps) {
  const StreamedTile &kernel = model.kernel;
  const char *streamed = kernel.streamsA ? "A" : "B";
  const char *other = kernel.streamsA ? "B" : "A";
  const std::string inTurn =
      model.turns > 1 ? fmt::format(" take up to {} tiles each", model.turns)
                      : "";
  steps.add(
      named(count(double(streamedExtent(model.problem, kernel.streamsA)),
                  "streamed rows") /
                count(kernel.rows, "rows of a tile"),
            "tiles along the rows", ""),
      {.note =
           fmt::format("each row of {} is read once, past {} rows of {}, {} "
                       "a tile, k in {}",
                       streamed, vectorExtent(model.problem, kernel.streamsA),
                       other, kernel.vectors, kernel.splitK),
       .verdict = fmt::format(
           "{} blocks{}; each reads {:.0f} B of {} once, and {:.0f} B of {} "
           "from L2",
           model.blocks, inTurn, model.streamedBytes, streamed,
           model.vectorBytes, other)});
}

static void addLittle(const StreamFigures &model, Derivation &steps) {
  const double atOnce = double(std::min<int64_t>(model.blocks, model.slots()));
  const Figure inFlight =
      named(count(atOnce, "blocks at once") *
                count(model.bytesInFlight, "of a block", "B") /
                figureOf(model.device, &DeviceModel::smCount),
            "bytes in flight", "B");
  addLittlesLaw({.inFlight = inFlight,
                 .latency = busyDramLatencyNs<Figure>(model.device),
                 .rate = figureOf(model.device, &DeviceModel::dramGBs)},
                model.bound(), model.device, steps);
}

static void addFurther(const StreamFigures &model, Derivation &steps) {
  const int64_t sms = model.device.smCount;
  addFurtherWave({.count = double(model.blocks),
                  .placeCount = double(sms),
                  .room = model.last.blocks > 0
                              ? double(model.slots() - model.last.blocks)
                              : 0,
                  .furtherNs = model.wave(sms).total.value(),
                  .all = model.waves},
                 steps);
}

Prediction<Figure> explainTile(const GemmProblem &problem,
                               const StreamedTile &kernel,
                               const DeviceModel &device, Derivation &steps) {
  const StreamFigures model(problem, kernel, device);
  steps.heldClock = model.clock;
  steps.begin("walls");
  addWalls(model, steps);
  addRows(model, steps);
  addLittle(model, steps);
  steps.begin("path of a block");
  steps.add(model.turn, {.note = "no shorter than its work"});
  steps.add(model.path);
  const auto addWave = [&](const StreamedWave<Figure> &wave,
                           llvm::StringRef title) {
    steps.begin(fmt::format("{}: {} blocks, {} on the busiest SM", title,
                            wave.blocks, wave.perSm));
    steps.add(wave.total, {.note = "no limit is reached to the last byte while "
                                   "another is close"});
  };
  if (model.fullWaves > 0)
    addWave(model.full, fmt::format("{} full waves", model.fullWaves));
  if (model.last.blocks > 0)
    addWave(model.last, "the last wave");
  steps.begin("waves");
  addFurther(model, steps);
  steps.begin("total");
  return {model.total, model.bound()};
}

} // namespace kiln
