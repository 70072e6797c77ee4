//===- AttentionDerivation.cpp - explains the estimates of tiles ----------===//
//
// Two walls bound a tile of rows and keys: registers, which hold scores,
// weights and O together, and shared memory, which holds blocks of keys. Within
// these walls the model has the pace of a step, the ends of a tile, and the
// path of the SM with the most tiles; the bytes of DRAM are a floor.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionModel.h"
#include "Families/FurtherWave.h"

#include "Support/EnumName.h"
#include "Support/Format.h"

#include <algorithm>

namespace kiln {

static int64_t rounded(double value) { return int64_t(value + 0.5); }

void addMerge(const SplitMergeTime &merge, Derivation &steps,
              std::vector<StepTerm> &addends) {
  if (merge.totalNs() == 0)
    return;
  int number = steps.add(
      {.title = "merge of splits",
       .formula = "after the last split: the start of a merge, rows of partial "
                  "results one after the other, and the splits of one row",
       .rule = StepRule::Sum,
       .terms = {{"start", merge.fixedNs},
                 {"rows", merge.rowNs, "ns", merge.partialRows},
                 {"splits of a row", merge.splitNs, "ns", merge.splits}}});
  addends.push_back(steps.resultOf(number));
}

namespace {

/// Appends the steps of a kernel with tiles.
class AttentionTileSteps {
public:
  AttentionTileSteps(const AttentionTileModel &model, Derivation &steps)
      : model(model), kernel(model.kernel), steps(steps) {}

  void run();

private:
  bool isWgmma() const {
    return kernel.instruction == AttentionTileKernel::Instruction::Wgmma;
  }
  void explainRegisters();
  void explainShared();
  void explainBlocks();
  int explainLoop(int tensor, int softmax);
  int explainChain(int loop);
  int explainPace(int loop);
  int explainEnds(int tensor, int softmax, int loop);
  int explainPath(int pace, int ends);
  int explainFloor();

  const AttentionTileModel &model;
  const AttentionTileKernel &kernel;
  Derivation &steps;
};

} // namespace

/// S in fp32, P in 16 or 8 bits, O in fp32, and Q if it stays.
void AttentionTileSteps::explainRegisters() {
  double threads = double(isWgmma() ? 2 * kernel.rows : 32 * kernel.warps);
  double rows = double(kernel.rows), keys = double(kernel.keys);
  double word = 4, bytes = bytesOf(model.problem.dtype);
  double scores = rows * keys / threads,
         output = rows * model.valueDim /
                  (threads * double(std::max<int64_t>(kernel.columnParts, 1)));
  double weights = scores * bytes / word;
  double queries = isWgmma() || !kernel.residentQueries
                       ? 0
                       : rows * model.headDim * bytes / word / threads;
  double total = scores + weights + output + queries;
  // The rest is for addresses, sums and masks (for wgmma, within the registers
  // that consumers trade).
  double limit = 208;
  if (isWgmma() && kernel.rows > 128)
    limit = 132;
  steps.add(
      {.title = "register wall",
       .formula = fmt::format(
           "{} x {} scores, {} x {} of O in {} threads: {:g} for S, {:g} "
           "for P, {:g} for O, {:g} for Q = {:g}",
           kernel.rows, kernel.keys, kernel.rows,
           rounded(output * threads / rows), rounded(threads), scores, weights,
           output, queries, total),
       .verdict = fmt::format("{:g} of about {:g} registers a thread: {}",
                              total, limit,
                              total <= limit ? "fits"
                                             : "is likely to "
                                               "spill"),
       .values = llvm::json::Object{{"registers", total}, {"limit", limit}}});
}

void AttentionTileSteps::explainShared() {
  if (kernel.sharedBytes == 0)
    return;
  int64_t limit = model.device.sharedBytesPerBlock;
  steps.add({.title = "shared-memory wall",
             .formula = fmt::format(
                 "a block of {} keys has {} B of K and V; with Q, "
                 "stages and barriers {} B",
                 kernel.keys, rounded(model.stepBytes), kernel.sharedBytes),
             .verdict = fmt::format("{} B of {} B", kernel.sharedBytes, limit),
             .values = llvm::json::Object{{"bytes", kernel.sharedBytes},
                                          {"limit", limit}}});
}

void AttentionTileSteps::explainBlocks() {
  const AttentionProblem &problem = model.problem;
  double pairs =
      double(visibleBlocks(problem, 1, 1, 1).blocks) * double(kernel.packed);
  double computed =
      double(model.visible.blocks) * double(kernel.rows) * double(kernel.keys);
  double waste = computed > 0 ? 1 - pairs / computed : 0;
  steps.add(
      {.title = "blocks of keys",
       .formula = fmt::format(
           "{} queries, {} keys to expect: {} tiles of {} rows see {} blocks "
           "of {} keys, {} the longest and {} the shortest; {} sequences, {} "
           "heads{}",
           expectedQueries(problem), expectedKeys(problem), model.visible.tiles,
           kernel.rows, model.visible.blocks, kernel.keys,
           model.visible.longest, model.visible.shortest, problem.batch,
           problem.heads,
           kernel.packed > 1
               ? fmt::format(", {} of which share a tile", kernel.packed)
               : ""),
       .verdict = fmt::format("{:.0f} % of the scores are masked or padding",
                              100 * waste),
       .values = llvm::json::Object{{"tiles", model.tiles},
                                    {"blocks", model.blocks},
                                    {"waste", waste}}});
}

/// How products and softmax overlap.
int AttentionTileSteps::explainLoop(int tensor, int softmax) {
  const AttentionStep &step = model.step;
  if (isWgmma() && kernel.overlaps)
    return steps.add(
        {.title = "products beside softmax",
         .formula = "scores of the next step are multiplied "
                    "while this step's softmax runs",
         .rule = StepRule::Norm,
         .terms = {steps.resultOf(tensor), steps.resultOf(softmax)},
         .unit = "clk",
         .exponent = step.exponent});
  if (isWgmma())
    return steps.add({.title = "products and softmax",
                      .formula =
                          "one after the other; products of other consumers "
                          "hide a part",
                      .rule = StepRule::Sum,
                      .terms = {steps.resultOf(tensor),
                                steps.resultOf(softmax, step.softmaxShare)},
                      .unit = "clk"});
  int shared = steps.add(
      {.title = "fragments",
       .formula = fmt::format(
           "each of {} warps reads all keys{}", kernel.warps,
           kernel.swizzled ? "" : ", rows of which lie in the same banks"),
       .rule = StepRule::Quotient,
       .terms = {{"bytes of shared memory", model.sharedBytes, "B"},
                 {"rate", model.sharedPerClock, "B/clk"}},
       .unit = "clk"});
  int products =
      steps.add({.title = "products beside fragments",
                 .rule = StepRule::Norm,
                 .terms = {steps.resultOf(tensor), steps.resultOf(shared)},
                 .unit = "clk",
                 .exponent = step.exponent});
  return steps.add({.title = "products and softmax",
                    .formula = fmt::format("{} warps, {} blocks an SM: other "
                                           "warps hide a part of the softmax",
                                           kernel.warps, kernel.blocksPerSm),
                    .rule = StepRule::Sum,
                    .terms = {steps.resultOf(products),
                              steps.resultOf(softmax, step.softmaxShare),
                              {"loads without overlap", step.exposed, "clk"}},
                    .unit = "clk"});
}

/// Explains the time of a block that waits for its own products.
int AttentionTileSteps::explainChain(int loop) {
  int chain =
      steps.add({.title = "a step of one block",
                 .formula = "the products of a score wait for one another",
                 .rule = StepRule::Sum,
                 .terms = {{"products of a score", kChainedProduct, "clk",
                            model.chainLength()},
                           steps.resultOf(loop, kChainedRest)},
                 .unit = "clk"});
  return steps.add(
      "steps side by side", StepRule::Quotient,
      {steps.resultOf(chain), {"blocks of an SM", model.step.together, ""}},
      "clk");
}

int AttentionTileSteps::explainPace(int loop) {
  int l2 = steps.add(
      {.title = "keys from L2",
       .formula = fmt::format(
           "{} SMs, {} B of K and V a step each{}", model.device.smCount,
           rounded(model.stepBytes),
           kernel.sharers > 1 ? fmt::format(", the same for {}", kernel.sharers)
                              : ""),
       .rule = StepRule::Quotient,
       .terms = {{"bytes",
                  model.stepBytes * model.sms() /
                      double(std::max<int64_t>(kernel.sharers, 1)),
                  "B"},
                 {"L2",
                  model.device.l2BytesPerNs() / attentionClockGHz(model.device),
                  "B/clk"}},
       .unit = "clk"});
  const double pages = model.step.pages;
  if (pages > 0)
    loop = steps.add(
        {.title = "products, softmax and pages",
         .formula = "one thread finds the page of each box that it loads; the "
                    "others wait for a part of that",
         .rule = StepRule::Sum,
         .terms = {steps.resultOf(loop),
                   {"pages", pages, "clk", AttentionStep::kPagesShare}},
         .unit = "clk"});
  StepTerm chained{"steps side by side", 0, "clk"};
  if (!isWgmma())
    chained = steps.resultOf(explainChain(loop));
  return steps.add("pace of a step", StepRule::Max,
                   {steps.resultOf(loop),
                    {"pages", pages, "clk"},
                    chained,
                    steps.resultOf(l2),
                    {"port of the SM", model.step.port, "clk"}},
                   "clk");
}

/// Explains the cost of a tile in addition to its steps.
int AttentionTileSteps::explainEnds(int tensor, int softmax, int loop) {
  int serial =
      steps.add("a step alone", StepRule::Sum,
                {steps.resultOf(tensor),
                 kernel.keepsOrigins ? StepTerm{"softmax with maxima",
                                                model.raised.clocks(), "clk"}
                                     : steps.resultOf(softmax)},
                "clk");
  int alone = steps.add(
      {.title = "without overlap",
       .formula = "the first scores and the last product have no other step "
                  "beside them",
       .rule = StepRule::Excess,
       .terms = {steps.resultOf(serial), steps.resultOf(loop)},
       .unit = "clk"});
  return steps.add(
      "ends of a tile", StepRule::Sum,
      {steps.resultOf(alone),
       {"maxima of steps with a mask", model.raising, "clk"},
       {"first loads", model.latency, "clk"},
       {"number of the tile", model.draw, "clk"},
       {"elements of Q and O", model.element, "clk", model.elements}},
      "clk");
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

/// Explains the path of the SM with the most work.
int AttentionTileSteps::explainPath(int pace, int ends) {
  int longest = steps.add(
      {.title = "longest tile",
       .formula = fmt::format("{:.0f} % of a step for loads and barriers",
                              100 * (model.overhead - 1)),
       .rule = StepRule::Sum,
       .terms = {steps.resultOf(ends),
                 steps.resultOf(pace, (model.longest - model.ends) /
                                          model.step.pace())},
       .unit = "clk"});
  std::vector<StepTerm> terms;
  std::string order;
  if (model.hasEqualTiles()) {
    order = fmt::format("{:g} equal tiles on {} SMs", model.tiles,
                        model.device.smCount);
    terms.push_back(steps.resultOf(longest, model.turns));
    if (model.tail > 0)
      terms.push_back({"a long sequence's rest", model.tail, "clk"});
  } else {
    std::vector<StepTerm> parts{
        steps.resultOf(ends, model.tiles - model.idle),
        steps.resultOf(pace, model.blocks * model.overhead)};
    if (model.idle > 0)
      parts.push_back(
          {"tiles without keys", model.idleEnds, "clk", model.idle});
    int all = steps.add("all tiles", StepRule::Sum, std::move(parts), "clk");
    int share =
        steps.add("share of an SM", StepRule::Quotient,
                  {steps.resultOf(all), {"SMs", model.sms(), ""}}, "clk");
    int most =
        steps.add("an SM or a tile", StepRule::Max,
                  {steps.resultOf(share), steps.resultOf(longest)}, "clk");
    order = orderOf(kernel.order).str();
    terms = {steps.resultOf(most), {"the last tile", model.tail, "clk"}};
  }
  int clocks = steps.add({.title = "SM with the most work",
                          .formula = order,
                          .rule = StepRule::Sum,
                          .terms = std::move(terms),
                          .unit = "clk"});
  // Otherwise a tile more is one of many lengths.
  if (model.hasEqualTiles() && model.turns > 0)
    explainFurtherWave({.pieces = "tiles",
                        .count = model.numbers,
                        .placeCount = model.sms(),
                        .room = model.turns * model.sms() - model.numbers,
                        .further = steps.resultOf(longest),
                        .all = steps.resultOf(clocks)},
                       steps);
  return steps.add("path", StepRule::Quotient,
                   {steps.resultOf(clocks),
                    {"clock", attentionClockGHz(model.device), "GHz"}});
}

int AttentionTileSteps::explainFloor() {
  return steps.add({.title = "bytes wall",
                    .formula = fmt::format(
                        "Q, K, V and O once; busy SMs have {:.0f} KB in flight",
                        model.inFlight / 1024),
                    .rule = StepRule::Quotient,
                    .terms = {{"bytes", model.bytes, "B"},
                              {"DRAM", model.bytesPerNs, "B/ns"}}});
}

void AttentionTileSteps::run() {
  explainRegisters();
  explainShared();
  explainBlocks();
  int tensor = steps.add({.title = "products",
                          .formula = isWgmma() ? "wgmma" : "mma.sync",
                          .rule = StepRule::Quotient,
                          .terms = {{"flops of a step", model.flops, "flop"},
                                    {"rate", model.flopsPerClock, "flop/clk"}},
                          .unit = "clk"});
  const AttentionSoftmax &softmax = model.softmax;
  int special = steps.add(
      {.title = "softmax",
       .formula = "instructions of the scores, and of O, which is rescaled",
       .rule = StepRule::Sum,
       .terms = {{"scores", softmax.score, "clk", softmax.scores},
                 {"elements of O", softmax.output, "clk", softmax.outputs},
                 {"maxima of rows", softmax.fixed, "clk"}},
       .unit = "clk"});
  int loop = explainLoop(tensor, special);
  int pace = explainPace(loop);
  int ends = explainEnds(tensor, special, loop);
  int path = explainPath(pace, ends);
  int first = steps.add(
      {.title = "first keys",
       .formula = "keys of the first step, which all blocks load at once",
       .rule = StepRule::Quotient,
       .terms = {{"bytes", model.firstBytes, "B"},
                 {"DRAM", model.firstRate, "B/ns"}}});
  int busy = steps.add("keys, then the path", StepRule::Sum,
                       {steps.resultOf(first), steps.resultOf(path)});
  int beyond =
      steps.add("beyond path", StepRule::Excess,
                {steps.resultOf(explainFloor()), steps.resultOf(busy)});
  std::vector<StepTerm> addends{{"launch", model.device.launchNs},
                                {"ramp", model.device.rampNs},
                                {"start of blocks", kStartNs},
                                steps.resultOf(busy),
                                steps.resultOf(beyond)};
  if (model.skewNs > 0)
    addends.push_back({"splits that end later", model.skewNs});
  addMerge(model.merge, steps, addends);
  steps.add({.title = "total",
             .verdict = fmt::format("bound by {}", model.bound()),
             .values = llvm::json::Object{{"bound", model.bound()}},
             .rule = StepRule::Sum,
             .terms = std::move(addends),
             .blames = model.bound()});
}

Derivation explainAttentionTiles(const AttentionProblem &problem,
                                 const AttentionTileKernel &kernel,
                                 const DeviceModel &device) {
  AttentionTileModel model(problem, kernel, device);
  Derivation steps;
  AttentionTileSteps(model, steps).run();
  return steps;
}

} // namespace kiln
