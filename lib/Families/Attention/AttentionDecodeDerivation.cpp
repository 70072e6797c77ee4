//===- AttentionDecodeDerivation.cpp --------------------------------------===//
//
// Explains the estimates of decode and naive kernels: bytes in flight, the
// arithmetic of a key, and waves of blocks.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionModel.h"
#include "Families/FurtherWave.h"
#include "Support/Format.h"

#include <algorithm>

namespace kiln {

//===----------------------------------------------------------------------===//
// Decode
//===----------------------------------------------------------------------===//

static void explainGrid(const AttentionDecodeModel &model, Derivation &steps) {
  const AttentionProblem &problem = model.problem;
  steps.add(
      {.title = "blocks",
       .formula = fmt::format(
           "{} sequences x {} heads of K x {} blocks of {} rows x {} of {} "
           "splits with keys = {:g}, {:g} of which run at once",
           problem.batch, problem.kvHeads, model.rowBlocks, model.kernel.rows,
           model.splits.active, model.splits.all, model.blocks, model.slots),
       .verdict = fmt::format("{} queries of {} heads: {} of {} rows have one",
                              problem.queries, problem.group(),
                              problem.queries * problem.group(),
                              model.rowBlocks * model.kernel.rows),
       .values = llvm::json::Object{{"blocks", model.blocks},
                                    {"empty_blocks", model.emptyBlocks},
                                    {"resident", model.slots}}});
  constexpr double kKB = 1024;
  double present = std::min(model.blocks, model.slots) * model.inFlight;
  steps.add(
      {.title = "Little's law",
       .formula = fmt::format(
           "{} warps x {} stages of {:.1f} KB, {:.1f} KB of a block: "
           "{:.0f} KB in flight; DRAM needs {:.0f} KB for {:.0f} B/ns",
           model.kernel.warps, model.kernel.stages, model.pieceBytes / kKB,
           model.inFlight / kKB, present / kKB, model.needed / kKB, model.rate),
       .verdict = present >= model.needed ? "enough" : "too few",
       .values = llvm::json::Object{{"in_flight", present},
                                    {"needed", model.needed}}});
}

static void explainKey(const AttentionDecodeModel &model, Derivation &steps) {
  double tiles = model.rowTiles;
  steps.add(
      {.title = "arithmetic of a key",
       .formula = fmt::format(
           "{:g} tiles of 16 rows by mma.sync; a warp that is alone takes "
           "{:.0f} clk, as its products and exponentials wait for each "
           "other",
           tiles, model.warpKeyClocks),
       .rule = StepRule::Sum,
       .terms = {{"products", model.productClocks, "clk", tiles},
                 {"exponentials", model.expClocks, "clk", tiles},
                 {"issue", model.issueClocks, "clk", tiles},
                 {"fragments", model.fragmentClocks, "clk"},
                 {"conversion", model.convertClocks, "clk"},
                 {"narrow copies", model.copyClocks, "clk"},
                 {"warps of a ring wait", model.waitClocks, "clk"}},
       .unit = "clk"});
}

static int explainWave(const DecodeWave &wave, llvm::StringRef title,
                       Derivation &steps) {
  return steps.add({.title = title.str(),
                    .formula = fmt::format("{:g} blocks", wave.blocks),
                    .rule = StepRule::Max,
                    .terms = {{"DRAM", wave.dramNs},
                              {"DRAM by bytes in flight", wave.littleNs},
                              {"ports of busy SMs", wave.portNs},
                              {"L2", wave.l2Ns},
                              {"life of a block", wave.lifeNs},
                              {"arithmetic", wave.arithmeticNs}}});
}

static void explainFurther(const AttentionDecodeModel &model,
                           Derivation &steps) {
  FurtherWave further{
      .count = model.blocks,
      .placeCount = model.sms(),
      .room = model.last.blocks > 0 ? model.slots - model.last.blocks : 0};
  further.further = {"a further wave", model.waveOf(model.sms()).totalNs()};
  further.all = {"all waves", model.streamNs()};
  explainFurtherWave(further, steps);
}

Derivation explainAttentionDecode(const AttentionProblem &problem,
                                  const AttentionDecodeKernel &kernel,
                                  const DeviceModel &device) {
  AttentionDecodeModel model(problem, kernel, device);
  Derivation steps;
  explainGrid(model, steps);
  explainKey(model, steps);
  std::vector<StepTerm> addends{
      {"launch", device.launchNs},
      {"ramp", device.rampNs},
      {"Q, first keys, merge of warps, O", model.endsNs}};
  if (model.fullWaves > 0)
    addends.push_back(steps.resultOf(explainWave(model.full, "a wave", steps),
                                     model.fullWaves));
  if (model.last.blocks > 0)
    addends.push_back(
        steps.resultOf(explainWave(model.last, "the last wave", steps)));
  explainFurther(model, steps);
  if (model.skewNs > 0)
    addends.push_back({"splits that end later", model.skewNs});
  if (model.unevenNs > 0)
    addends.push_back({"a part of the longest block, alone", model.unevenNs});
  if (model.emptyNs > 0)
    addends.push_back({"blocks without keys", model.emptyNs});
  addMerge(model.merge, steps, addends);
  steps.add({.title = "total",
             .verdict = fmt::format("bound by {}", model.bound()),
             .values = llvm::json::Object{{"bound", model.bound()}},
             .rule = StepRule::Sum,
             .terms = std::move(addends),
             .blames = model.bound()});
  return steps;
}

//===----------------------------------------------------------------------===//
// Naive
//===----------------------------------------------------------------------===//

Derivation explainNaiveAttention(const AttentionProblem &problem,
                                 const DeviceModel &device) {
  NaiveAttentionModel model(problem, device);
  Derivation steps;
  int issue = steps.add({.title = "instructions",
                         .formula = "rows of an SM and all their keys, with "
                                    "ordinary multiply-adds",
                         .rule = StepRule::Sum,
                         .terms = {{"rows", model.rowNs, "ns", model.rows},
                                   {"keys", model.keyNs, "ns", model.keys}}});
  int row =
      steps.add({.title = "longest row",
                 .formula = "four keys at a time: K, sums of the warp, and V",
                 .rule = StepRule::Sum,
                 .terms = {{"pieces", model.pieceNs, "ns", model.pieces}}});
  int walk = steps.add("rows, and the last of them", StepRule::Sum,
                       {steps.resultOf(issue), steps.resultOf(row)});
  int stream =
      steps.add({.title = "stream",
                 .formula = "Q, K, V and O once, with few bytes in flight",
                 .rule = StepRule::Quotient,
                 .terms = {{"bytes", model.bytes, "B"},
                           {"rate", model.bytesPerNs, "B/ns"}}});
  int body = steps.add("rows", StepRule::Max,
                       {steps.resultOf(walk), steps.resultOf(stream)});
  steps.add({.title = "total",
             .verdict = fmt::format("bound by {}", model.bound()),
             .values = llvm::json::Object{{"bound", model.bound()}},
             .rule = StepRule::Sum,
             .terms = {{"launch", device.launchNs},
                       {"ramp", device.rampNs},
                       {"start", model.startNs},
                       steps.resultOf(body)},
             .blames = model.bound()});
  return steps;
}

} // namespace kiln
