//===- DerivationSteps.cpp ------------------------------------------------===//
#include "Families/Gemm/DerivationSteps.h"

#include "Model/Intensity.h"
#include "Support/Format.h"

namespace kiln {

/// S_min. A ring that something else than the arithmetic empties is fed its
/// pace, and says so: the formula's own name is for T_math.
static std::string stagesText(const Pipeline &ring, const TilePace &pace) {
  auto formula = [&](double slowestNs, int64_t stages) {
    return fmt::format("ceil(({:.0f} + {:.0f} ns) / {:.0f} ns) + 1 = {}",
                       ring.latencyNs, ring.loadNs, slowestNs, stages);
  };
  std::string own = formula(ring.mathNs, ring.stagesNeeded);
  if (ring.mathNs <= pace.mathNs)
    return "S_min = " + own;
  Pipeline fed =
      pipeline(ring.latencyNs, ring.loadNs, pace.mathNs, ring.stages);
  return fmt::format("S_min at the pace that {} sets, not at T_math: {}; with "
                     "T_math it would be {}",
                     pace.pacer, own, formula(pace.mathNs, fed.stagesNeeded));
}

int explainLatency(const Pipeline &ring, const TilePace &pace,
                   Derivation &steps) {
  bool hides = ring.exposedNs == 0, isMain = pace.suffix.empty();
  bool isBound = isMain && pace.bound == "latency";
  DerivationStep step{
      .title = ("latency wall" + pace.suffix).str(),
      .formula = stagesText(ring, pace),
      .values = llvm::json::Object{{"stages_needed", ring.stagesNeeded},
                                   {"stages", ring.stages},
                                   {"exposed_ns", ring.exposedNs}},
      .rule = StepRule::Excess};
  step.terms = {
      {fmt::format("latency, load and work of a stage, over {} stages",
                   ring.stages),
       (ring.latencyNs + ring.loadNs + ring.mathNs) / double(ring.stages)},
      steps.resultOf(pace.number)};
  if (!hides)
    step.verdict = fmt::format("{} stages: {:.0f} ns a step stay exposed",
                               ring.stages, ring.exposedNs);
  else if (!isBound)
    step.verdict = fmt::format("{} stages: latency is hidden", ring.stages);
  else
    step.verdict = fmt::format("{} stages: the loads' latency is hidden; what "
                               "shows is the barrier of so short a step",
                               ring.stages);
  if (hides && isMain && !isBound)
    step.clears = "latency";
  return steps.add(std::move(step));
}

void explainTileIntensity(int64_t rows, int64_t columns, DType type,
                          const TilePace &pace, Derivation &steps) {
  int bits = bitsOf(type);
  double flopsPerNs = pace.flops / pace.mathNs;
  double bytesPerNs = pace.bytes / pace.l2Ns;
  Intensity tile =
      tileIntensity(rows, columns, bits, bits, flopsPerNs, bytesPerNs);
  DerivationStep step{
      .title = "intensity of the tile",
      .formula = fmt::format(
          "2 * {} * {} flop / (({} + {}) * {} B) = {:.1f} flop/B; ridge {:.1f} "
          "= "
          "{:.0f} flop/ns / {:.1f} B/ns, what a block has of arithmetic and L2",
          rows, columns, rows, columns, bytesOf(type), tile.flopsPerByte,
          tile.ridge, flopsPerNs, bytesPerNs),
      .values = llvm::json::Object{{"flops_per_byte", tile.flopsPerByte},
                                   {"ridge", tile.ridge}},
      .terms = {steps.termOf(pace.number, pace.arithmetic),
                steps.termOf(pace.number, pace.l2)}};
  if (tile.computeBound) {
    step.verdict = "in a step the arithmetic takes longer than L2";
    // One block has enough of L2; all blocks together may ask too much.
    if (pace.bound != "l2")
      step.clears = "l2";
  } else if (pace.bound != pace.arithmeticBound) {
    step.verdict = "in a step L2 takes longer than the arithmetic";
    step.clears = pace.arithmeticBound;
  } else {
    step.verdict = "in a step L2 takes longer than the arithmetic, which power "
                   "slows down beyond that: see the floors";
  }
  steps.add(std::move(step));
}

void explainProblemIntensity(const GemmProblem &problem, double flopsPerNs,
                             const DeviceModel &device, const TilePace &pace,
                             Derivation &steps) {
  int bits = bitsOf(problem.dtype);
  Intensity whole =
      problemIntensity({problem.m, problem.n, problem.k, problem.batch, bits,
                        bits, bitsOf(problem.out)},
                       flopsPerNs, device.dramBytesPerNs());
  llvm::StringRef limit = whole.computeBound ? pace.arithmeticBound : "dram";
  std::string verdict = fmt::format(
      "the products take {} at best, the bytes {}: {} is the "
      "problem's own limit",
      quantityText(whole.flops / flopsPerNs, "ns"),
      quantityText(whole.bytes / device.dramBytesPerNs(), "ns"), limit);
  if (limit != pace.bound)
    verdict += fmt::format("; what binds this config is {}", pace.bound);
  steps.add(
      {.title = "intensity of the problem",
       .formula =
           fmt::format("{:.4g} flop / {:.4g} B = {:.1f} flop/B; ridge {:.1f} = "
                       "{:.0f} flop/ns / {:.0f} B/ns of DRAM",
                       whole.flops, whole.bytes, whole.flopsPerByte,
                       whole.ridge, flopsPerNs, device.dramBytesPerNs()),
       .verdict = std::move(verdict),
       .values = llvm::json::Object{{"flops_per_byte", whole.flopsPerByte},
                                    {"ridge", whole.ridge}}});
}

void explainOccupancy(const Occupancy &occupancy, const DeviceModel &device,
                      Derivation &steps) {
  steps.add(
      {.title = "occupancy",
       .formula = fmt::format(
           "blocks an SM by warps {}, blocks {}, registers {}, shared "
           "memory {}",
           occupancy.blocksByWarps, occupancy.blocksByBlocks,
           occupancy.blocksByRegisters, occupancy.blocksByShared),
       .verdict = fmt::format("{} blocks, {} warps of {}, limited by {}",
                              occupancy.blocksPerSm, occupancy.warpsPerSm,
                              device.maxWarpsPerSm, nameOf(occupancy.limit)),
       .values = llvm::json::Object{{"blocks_per_sm", occupancy.blocksPerSm},
                                    {"warps_per_sm", occupancy.warpsPerSm}}});
}

} // namespace kiln
