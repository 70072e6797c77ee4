//===- AttentionDerivation.cpp - the words of attention's derivations -----===//
//
// Two walls bound a kernel: registers, which hold scores, weights and O
// together, and shared memory, which holds blocks of keys. Within these walls
// the models have their figures; here are the reasons and the conclusions.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionModel.h"
#include "Families/Walls.h"
#include "Model/Occupancy.h"
#include "Model/Pipeline.h"
#include "Support/EnumName.h"
#include "Support/Format.h"

#include <algorithm>

namespace kiln {

//===----------------------------------------------------------------------===//
// Walls
//===----------------------------------------------------------------------===//

void addAttentionWalls(const AttentionWalls &walls, const DeviceModel &device,
                       Derivation &steps) {
  const AttentionRegisters &use = walls.registers;
  Figure sum;
  const auto add = [&](int64_t count, llvm::StringLiteral name) {
    if (count > 0)
      sum += given<Figure>(double(count), name);
  };
  add(use.output, "O");
  add(use.scores, "S");
  add(use.weights, "P");
  add(use.queries, "fragments of Q");
  add(use.keys, "fragments of K");
  add(use.rows, "maxima and sums of rows");
  add(use.rest, "addresses and loop");
  std::string note = walls.registerRule.str();
  if (walls.tradedRegisters > 0)
    note += fmt::format("; launch bounds of {} threads give each {}, and "
                        "consumers trade up to {} by setmaxnreg",
                        walls.block.threads, walls.block.registersPerThread,
                        walls.tradedRegisters);
  steps.begin("walls");
  steps.add(named(sum, "registers", ""),
            {.note = std::move(note),
             .verdict = fmt::format(
                 "{} of {} registers of a thread: {}", use.total(),
                 walls.registerLimit,
                 use.total() <= walls.registerLimit ? "fits" : "is pruned")});
  const Occupancy resident = occupancy(device, walls.block);
  SharedUse shared = walls.shared;
  shared.bytes = walls.block.sharedBytes;
  shared.blocksPerSm = std::max<int64_t>(resident.blocksPerSm, 1);
  shared.limit = sharedBytesLimit(device, shared.blocksPerSm);
  shared.nameA = "of K";
  shared.nameB = "of V";
  shared.nameRest = "Q and barriers";
  addSharedWall(shared, steps);
  addOccupancy(resident, device, steps);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

using TileFigures = AttentionTileModel<Figure>;

static void addBlocks(const TileFigures &model, Derivation &steps) {
  const AttentionProblem &problem = model.problem;
  const AttentionTileKernel &kernel = model.kernel;
  const VisibleBlocks &visible = model.visible;
  if (visible.blocks == 0)
    return;
  const double pairs =
      double(visibleBlocks(problem, 1, 1, 1).blocks) * double(kernel.packed);
  const Figure share =
      named(given<Figure>(pairs, "scores that count") /
                (given<Figure>(double(visible.blocks), "blocks of a head") *
                 given<Figure>(double(kernel.rows), "rows") *
                 given<Figure>(double(kernel.keys), "keys")),
            "share of the scores that count", "");
  steps.add(
      share,
      {.note = fmt::format(
           "{} queries, {} keys to expect: {} tiles of {} rows see {} blocks "
           "of {} keys, {} the longest and {} the shortest; {} sequences, {} "
           "heads, {} to a tile",
           expectedQueries(problem), expectedKeys(problem), visible.tiles,
           kernel.rows, visible.blocks, kernel.keys, visible.longest,
           visible.shortest, problem.batch, problem.heads, kernel.packed),
       .verdict = fmt::format("{:.0f} % of the scores are masked or padding",
                              100 * (1 - share.value()))});
}

/// How products and softmax overlap.
static void addLoop(const TileFigures &model, Derivation &steps) {
  const AttentionTileKernel &kernel = model.kernel;
  steps.add(model.step.softmax,
            {.note = kernel.keepsOrigins
                         ? "weights over the origins of the steps before: "
                           "without maxima, and O stays as it is"
                         : "instructions of the scores, and of O, which is "
                           "rescaled"});
  if (model.isWgmma()) {
    steps.add(model.step.loop,
              {.note = kernel.overlaps
                           ? "scores of the next step are multiplied while "
                             "this step's softmax runs"
                           : "one after the other; products of other consumers "
                             "hide a part"});
    return;
  }
  steps.add(model.step.shared,
            {.note = kernel.swizzled ? "each warp reads all keys"
                                     : "each warp reads all keys, rows of "
                                       "which lie in the same banks"});
  steps.add(model.step.loop,
            {.note = "other warps hide a part of the softmax"});
  steps.add(model.step.chained, {.note = "a step of one block, whose products "
                                         "for a score wait for one another"});
}

static llvm::StringRef pacer(const AttentionStep<Figure> &step) {
  if (step.pace == step.loaded)
    return valueOf(step.pages) > 0 ? "products, softmax and pages"
                                   : "products and softmax";
  return step.pace == step.chained ? "the chain of products"
         : step.pace == step.pages ? "the loading thread"
         : step.pace == step.l2    ? "L2"
                                   : "the port of an SM";
}

static void addPace(const TileFigures &model, Derivation &steps) {
  const AttentionStep<Figure> &step = model.step;
  if (valueOf(step.pages) > 0)
    steps.add(step.loaded, {.note = "one thread finds the page of each box; "
                                    "the others wait for a part of that"});
  steps.add(step.l2, {.note = "all SMs ask for their keys at the same time"});
  steps.add(step.pace, {.verdict = fmt::format(
                            "the pace of a step is that of {}", pacer(step))});
  // The keys that a tile asks for against its arithmetic.
  const Figure keys =
      named(largest({step.l2, step.port}), "way of the keys", "clk");
  const bool isWork = step.loaded >= keys;
  steps.add(
      named(model.flops / model.stepBytes, "intensity of the tile", "flop/B"));
  steps.add(named(model.flops / step.loaded / (model.stepBytes / keys),
                  "ridge of the tile", "flop/B"),
            {.note = "products of a step over its keys, at the times that the "
                     "step takes for both",
             .verdict = fmt::format(
                 "in a step {} longer than {}",
                 isWork ? "products and softmax take" : "the keys take",
                 isWork ? "the keys" : "products and softmax"),
             .clears = isWork ? "l2" : "tensor"});
}

/// Stages of keys against the latency of their copies.
static void addRing(const TileFigures &model, const Figure &latency,
                    Derivation &steps) {
  // K and V have rings of their own.
  const Figure keys =
      given<Figure>(double(model.kernel.keys), "keys") *
      given<Figure>(model.headDim, "d") *
      given<Figure>(bytesOf(model.problem.kv), "of an element", "B");
  const StageRing<Figure> ring{
      .latency = latency,
      .load = named(keys / smPort<Figure>() / model.clock, "load of K", "ns"),
      .pace = named(model.step.pace / model.clock, "step", "ns"),
      .stages = model.kernel.stages};
  addLatencyWall(ring, pacer(model.step), model.bound(), steps);
  const double exposed = ring.exposed().value();
  if (exposed == 0 && model.bound() != "latency")
    return;
  StepWords words = steps.find("S_min")->words;
  words.verdict = fmt::format(
      "{} stages: {}", ring.stages,
      exposed > 0
          ? quantityText(exposed, "ns") +
                " a step stay exposed by this rule; the model has no term for "
                "it, as its rates are those of such rings"
      : model.allEnds > model.all - model.allEnds
          ? "latency is hidden in the steps; the ends of tiles show"
          : "latency is hidden; the thread that loads is the limit");
  steps.amend("S_min", std::move(words));
}

/// Latency against the blocks of keys that are in flight, or against the warps.
static void addLatency(const TileFigures &model, Derivation &steps) {
  const AttentionTileKernel &kernel = model.kernel;
  const Figure latency = figureOf(model.device, &DeviceModel::l2LatencyNs) +
                         model.dramShare * model.busyLatency;
  if (model.isWgmma() && kernel.stages > 0 && model.blocks > 0)
    addRing(model,
            named(latency + fitted<Figure>(kTmaLatencyNs, "TMA", "ns"),
                  "latency of copies", "ns"),
            steps);
  // Otherwise the step has a term for loads that nothing hides.
  if (!model.isWgmma() && kernel.eagerLoads && kernel.asyncCopy)
    addWarpsWall(
        kernel.warps * kernel.blocksPerSm,
        named(model.step.loop / given<Figure>(double(kernel.warps), "warps") /
                  model.clock,
              "work of a warp", "ns"),
        named(latency, "latency of copies", "ns"), steps);
}

static llvm::StringRef orderOf(TileOrder order) {
  using enum TileOrder;
  static constexpr EnumName<TileOrder> kNames[] = {
      {Static, "tiles are assigned ahead"},
      {Pairs, "tiles are assigned ahead, one of last rows with one of first "
              "ones"},
      {Dynamic, "SMs take the next tile when they are done, in any order"},
      {LongestFirst,
       "SMs take the next tile when they are done, the longest first"}};
  return nameIn(kNames, order);
}

/// The path of the SM with the most work.
static void addPath(const TileFigures &model, Derivation &steps) {
  steps.add(model.ends, {.note = "the first scores and the last product have "
                                 "no other step beside them"});
  const bool isEqual = model.hasEqualTiles();
  steps.add(model.path,
            {.note = isEqual ? fmt::format("{:.0f} equal tiles", model.numbers)
                             : orderOf(model.kernel.order).str()});
  steps.add(model.tilesNs);
  // Otherwise a tile more is one of many lengths.
  if (isEqual && model.turns > 0)
    addFurtherWave({.pieces = "tiles",
                    .count = model.numbers,
                    .placeCount = model.sms(),
                    .room = model.turns * model.sms() - model.numbers,
                    .furtherNs = valueOf(model.longest / model.clock),
                    .all = model.tilesNs},
                   steps);
  if (valueOf(model.tailNs) > 0)
    steps.add(model.tailNs,
              {.note = isEqual ? "the rest of a long sequence"
                               : "the part of the tile that comes "
                                 "last behind the path"});
}

static void addBytes(const TileFigures &model, Derivation &steps) {
  steps.add(model.floorNs, {.note = "Q, K, V and O once, at the rate that the "
                                    "bytes in flight of busy SMs allow"});
  if (valueOf(model.firstNs) > 0)
    steps.add(model.firstNs, {.note = "all blocks load the keys of their first "
                                      "step at once"});
  const bool isBound = valueOf(model.beyondNs) > 0;
  steps.add(model.beyondNs,
            {.note = "no kernel ends before its bytes have moved",
             .verdict = isBound ? "DRAM is the limit" : "the tiles take longer",
             .blames = isBound ? "dram" : "",
             .clears = isBound ? "" : "dram"});
}

Prediction<Figure> explainAttentionTiles(const AttentionProblem &problem,
                                         const AttentionTileKernel &kernel,
                                         const DeviceModel &device,
                                         Derivation &steps) {
  const TileFigures model(problem, kernel, device);
  steps.heldClock = model.clock;
  steps.begin(
      fmt::format("a step: {} rows, {} keys", kernel.rows, kernel.keys));
  addBlocks(model, steps);
  addLoop(model, steps);
  addPace(model, steps);
  addLatency(model, steps);
  steps.begin("tiles");
  addPath(model, steps);
  steps.begin("bytes");
  addBytes(model, steps);
  steps.begin("total");
  return {model.total, model.bound()};
}

//===----------------------------------------------------------------------===//
// Decode
//===----------------------------------------------------------------------===//

using DecodeFigures = AttentionDecodeModel<Figure>;

static void addLittle(const DecodeFigures &model, Derivation &steps) {
  if (!(model.inFlight.value() > 0))
    return;
  // More is never too much: blocks wait for their own pieces alone.
  const double resident = std::min(model.blocks, model.slots);
  addLittlesLaw(
      {.inFlight = named(given<Figure>(resident, "blocks that run at once") *
                             model.inFlight /
                             figureOf(model.device, &DeviceModel::smCount),
                         "bytes in flight", "B"),
       .latency = model.latency,
       .rate = model.dramRate},
      model.bound(), model.device, steps);
}

static void addGrid(const DecodeFigures &model, Derivation &steps) {
  const AttentionProblem &problem = model.problem;
  const double rows = double(model.rowBlocks * model.kernel.rows);
  const int64_t used = problem.queries * problem.group();
  steps.add(
      named(given<Figure>(double(used), "queries of a head of K") /
                given<Figure>(rows, "rows of its blocks"),
            "share of rows with a query", ""),
      {.note = fmt::format("{} sequences, {} heads of K, {} blocks of {} rows, "
                           "{} of {} splits with keys: {:.0f} blocks, {:.0f} "
                           "of which can run at once",
                           problem.batch, problem.kvHeads, model.rowBlocks,
                           model.kernel.rows, model.splits.active,
                           model.splits.all, model.blocks, model.slots)});
}

static void addWave(const DecodeWave<Figure> &wave, llvm::StringRef title,
                    Derivation &steps) {
  if (wave.blocks <= 0)
    return;
  const llvm::StringRef limit =
      wave.total == wave.arithmetic ? "the arithmetic"
      : wave.total == wave.dram     ? "DRAM"
      : wave.total == wave.l2       ? "L2"
      : wave.total == wave.little   ? "its bytes in flight"
      : wave.total == wave.port     ? "the ports of busy SMs"
                                    : "the life of a block";
  steps.begin(fmt::format("{}: {:.0f} blocks", title, wave.blocks));
  steps.add(wave.total,
            {.verdict = fmt::format("its time is that of {}", limit)});
}

Prediction<Figure> explainAttentionDecode(const AttentionProblem &problem,
                                          const AttentionDecodeKernel &kernel,
                                          const DeviceModel &device,
                                          Derivation &steps) {
  const DecodeFigures model(problem, kernel, device);
  steps.heldClock = model.clock;
  steps.begin("blocks");
  addGrid(model, steps);
  addLittle(model, steps);
  steps.add(model.keyClocks, {.note = "by mma.sync, for all rows of a block"});
  steps.add(model.warpKeyClocks,
            {.note = "its products and exponentials wait for each other"});
  addWave(model.full, "full waves", steps);
  addWave(model.last, "the last wave", steps);
  steps.begin("waves");
  addFurtherWave(
      {.count = model.blocks,
       .placeCount = model.sms(),
       .room = model.last.blocks > 0 ? model.slots - model.last.blocks : 0,
       .furtherNs = model.waveOf(model.sms()).total.value(),
       .all = model.stream},
      steps);
  steps.begin("total");
  return {model.total, model.bound()};
}

//===----------------------------------------------------------------------===//
// Naive
//===----------------------------------------------------------------------===//

Prediction<Figure> explainNaiveAttention(const AttentionProblem &problem,
                                         const DeviceModel &device,
                                         Derivation &steps) {
  const NaiveAttentionModel<Figure> model(problem, device);
  steps.heldClock = attentionClock<Figure>(device);
  steps.begin("rows of queries, a warp each");
  steps.add(model.issue, {.note = "rows of an SM and all their keys, with "
                                  "ordinary multiply-adds"});
  steps.add(model.longest,
            {.note = "four keys at a time: K, sums of the warp, and V"});
  steps.add(model.stream,
            {.note = "Q, K, V and O once",
             .verdict = model.stream > model.walk ? "longer than the rows"
                                                  : "hidden by the rows",
             .clears = model.stream > model.walk ? "" : "dram"});
  steps.begin("total");
  return {model.total, model.bound()};
}

} // namespace kiln
