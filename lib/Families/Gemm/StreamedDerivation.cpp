//===- StreamedDerivation.cpp - why a streamed kernel takes its time ------===//
#include "Families/FurtherWave.h"
#include "Families/Gemm/DerivationSteps.h"
#include "Families/Gemm/StreamedModel.h"
#include "Families/MemoryPass/MemoryPassEstimate.h"
#include "Support/Format.h"

#include <utility>
#include <vector>

namespace kiln {

static DerivationStep explainRows(const StreamModel &model) {
  const StreamedTile &kernel = model.kernel;
  const char *streamed = kernel.streamsA ? "A" : "B";
  const char *other = kernel.streamsA ? "B" : "A";
  const std::string spilled =
      model.spilledBytes > 0
          ? fmt::format(", which has {:.0f} B of them from DRAM",
                        model.spilledBytes)
          : "";
  return {"streamed rows",
          fmt::format("{} rows of {} past {} of {}, {} x {} a block, k in {}",
                      streamedExtent(model.problem, kernel.streamsA), streamed,
                      vectorExtent(model.problem, kernel.streamsA), other,
                      kernel.rows, kernel.vectors, kernel.splitK),
          fmt::format("{} blocks; each reads {:.0f} B of {} once, and {:.0f} B "
                      "of {} from L2{}",
                      model.blocks, model.streamedBytes, streamed,
                      model.vectorBytes, other, spilled),
          llvm::json::Object{{"blocks", model.blocks},
                             {"streamed_bytes", model.streamedBytes},
                             {"vector_bytes", model.vectorBytes},
                             {"spilled_bytes", model.spilledBytes}}};
}

static DerivationStep explainLittle(const StreamModel &model,
                                    llvm::StringRef bound) {
  LittlesLaw law =
      model.little(std::min<int64_t>(model.blocks, model.grid.slots));
  bool isEnough = law.bytesInFlight >= law.bytesNeeded;
  bool isBound = bound == "latency";
  DerivationStep step{
      "Little's law",
      fmt::format("{}; {:.0f} ns * {:.0f} GB/s ask for {:.0f} KB in flight, "
                  "of which there are {:.0f} KB",
                  busyDramText(model.device), law.latencyNs, law.fullBytesPerNs,
                  law.bytesNeeded / 1024, law.bytesInFlight / 1024),
      isEnough  ? isBound ? "enough while blocks load; what else they wait for "
                            "shows"
                          : "enough: latency is hidden"
      : isBound ? "too few: latency is the limit"
                : "too few: latency shows beside the limit",
      llvm::json::Object{{"bytes_in_flight", law.bytesInFlight},
                         {"bytes_needed", law.bytesNeeded}}};
  if (isEnough && !isBound)
    step.clears = "latency";
  if (!isEnough && isBound)
    step.blames = "latency";
  return step;
}

/// Returns the number of the path's sum.
static int explainPath(const StreamModel &model, Derivation &steps) {
  const StreamedTile &kernel = model.kernel;
  constexpr llvm::StringLiteral kWork = "instructions and waits";
  int turn = steps.add(
      {.title = "a step's turn",
       .formula = fmt::format("latency of the loads: {:.1f} times {:.0f} ns; "
                              "{:.0f} clocks of instructions and {:.0f} of "
                              "waits at {:.0f} MHz",
                              kernel.latencyShare, model.device.dramLatencyNs,
                              kernel.stepClocks, kernel.waitClocks,
                              1e3 * model.clockGHz()),
       .rule = StepRule::Sum,
       .terms = {{"latency", model.latencyNs()},
                 {kWork.str(), model.workNs()}}});
  int shared =
      steps.add("a turn over the steps in flight", StepRule::Quotient,
                {steps.resultOf(turn),
                 {"steps in flight", double(kernel.stepsInFlight), ""}});
  int step =
      steps.add({.title = "a step of a warp",
                 .formula = "no shorter than its instructions and waits",
                 .rule = StepRule::Max,
                 .terms = {steps.termOf(turn, kWork), steps.resultOf(shared)}});
  return steps.add("path of a block", StepRule::Sum,
                   {{"start", kernel.startNs},
                    steps.resultOf(step, double(model.steps), "steps"),
                    {"end of k within a step", model.partialNs()}});
}

static DerivationStep explainWave(const StreamedWave &wave,
                                  llvm::StringRef title, StepTerm path) {
  return {.title = title.str(),
          .formula = fmt::format(
              "{:.0f} blocks, {:.0f} on the busiest SM; no limit is reached to "
              "the last byte while another is close",
              wave.blocks, wave.perSm),
          .rule = StepRule::Norm,
          .terms = {{"dram", wave.dramNs},
                    {"l2", wave.l2Ns},
                    {"port", wave.portNs},
                    std::move(path),
                    {"issue", wave.issueNs}},
          .exponent = kStreamedNorm};
}

static void explainFurther(const StreamModel &model, const StreamTerms &terms,
                           Derivation &steps) {
  const int64_t sms = model.device.smCount;
  FurtherWave further{.count = double(model.blocks),
                      .placeCount = double(sms),
                      .room = terms.last.blocks > 0
                                  ? double(model.grid.slots) - terms.last.blocks
                                  : 0};
  further.further = {"a further wave", model.wave(sms).totalNs};
  further.all = {"all waves", terms.stream};
  explainFurtherWave(further, steps);
}

Derivation explainTile(const GemmProblem &problem, const StreamedTile &kernel,
                       const DeviceModel &device) {
  StreamModel model(problem, kernel, device);
  StreamTerms terms = termsOf(model);
  llvm::StringRef bound = boundOf(terms.main(), kernel.tensor);
  Derivation steps;
  steps.add(explainRows(model));
  explainOccupancy(model.resident, device, steps);
  steps.add(explainLittle(model, bound));
  StepTerm path = steps.resultOf(explainPath(model, steps), 1, "path");
  std::vector<StepTerm> addends{{"launch", device.launchNs},
                                {"ramp", device.rampNs}};
  if (terms.gather > 0)
    addends.push_back({"gather of A's rows", terms.gather});
  if (terms.fullWaves > 0)
    addends.push_back(
        steps.resultOf(steps.add(explainWave(terms.full, "a wave", path)),
                       double(terms.fullWaves), "full waves"));
  if (terms.last.blocks > 0)
    addends.push_back(steps.resultOf(
        steps.add(explainWave(terms.last, "the last wave", path))));
  explainFurther(model, terms, steps);
  if (terms.restarts > 0)
    addends.push_back({"starts behind the first wave", terms.restarts});
  if (kernel.tailNs > 0)
    addends.push_back({"last sums and stores", kernel.tailNs});
  if (terms.reduction > 0)
    addends.push_back({"reduction of splits", terms.reduction});
  steps.add({.title = "total",
             .verdict = fmt::format("bound by {}", bound),
             .values = llvm::json::Object{{"bound", bound}},
             .rule = StepRule::Sum,
             .terms = std::move(addends),
             .blames = bound});
  return steps;
}

} // namespace kiln
