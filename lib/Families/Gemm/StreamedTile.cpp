//===- StreamedTile.cpp ---------------------------------------------------===//
//
// Blocks do not wait for each other: as one ends the next starts, while the
// others of the SM keep loads in flight. So the time is that of all bytes at
// the rate that the resident blocks sustain, not a sum of waves in step. Waves
// matter for how many blocks the busiest SM has, and because the blocks of the
// first one end together.
//
// A block's own path is what its warps wait for: a step takes the latency of
// its loads and its instructions, over the steps that are in flight, but no
// less than its instructions. Constants without another source were fitted to
// exhaustive sweeps of 30 problems of 1 to 56 rows (H200). Fitted to half of
// them, the first choice in the other half reaches 0.990 of the best.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/StreamedTile.h"

#include "Families/Gemm/DerivationSteps.h"
#include "Families/Gemm/GatherStep.h"
#include "Families/Gemm/TileEstimate.h"
#include "Families/LaunchLimits.h"
#include "Families/MemoryPass/MemoryPassEstimate.h"
#include "Model/Bandwidth.h"
#include "Model/MathUtil.h"
#include "Model/Waves.h"
#include "Support/Format.h"

#include <algorithm>
#include <cmath>

namespace kiln {

int64_t streamedExtent(const GemmProblem &problem, bool streamsA) {
  return streamsA ? problem.m : problem.n;
}

int64_t vectorExtent(const GemmProblem &problem, bool streamsA) {
  return streamsA ? problem.n : problem.m;
}

std::optional<Rejection> checkStreamed(const GemmProblem &problem,
                                       const GemmSignature &signature,
                                       bool streamsA, int vectors,
                                       const DeviceModel &device) {
  if (auto rejection = checkAmpere(device))
    return rejection;
  // Rows along k are what a warp reads at once and what mma.sync takes.
  if (signature.layout != Layout::NT)
    return Rejection{PruneReason::InstructionShape};
  constexpr int kVectorBytes = 16;
  if (auto rejection = checkAlign(std::min(signature.alignA, signature.alignB),
                                  kVectorBytes))
    return rejection;
  // More would stream the rows again for every so many vectors.
  int64_t extent = vectorExtent(problem, streamsA);
  if (extent > vectors)
    return Rejection{PruneReason::Dominated, double(extent), double(vectors),
                     "vectors"};
  return std::nullopt;
}

namespace {

/// A wave of blocks, in ns: what each resource takes, and all of them together.
struct StreamedWave {
  double blocks = 0, perSm = 0;
  double dramNs = 0, l2Ns = 0, portNs = 0, pathNs = 0, issueNs = 0;
  double totalNs = 0;
};

/// Everything that the terms are computed from, for one kernel and problem.
struct StreamModel {
  const GemmProblem &problem;
  const StreamedTile &kernel;
  const DeviceModel &device;

  int64_t blocks = 0, steps = 0;             ///< steps of a block along k
  double streamedBytes = 0, vectorBytes = 0; ///< that a block reads
  double spilledBytes = 0; ///< a block's share of vectors that L2 does not hold
  double otherBytes = 0;   ///< of C, the residual and D, of a block
  double bytesInFlight = 0;
  Occupancy resident;
  Waves grid;

  StreamModel(const GemmProblem &problem, const StreamedTile &kernel,
              const DeviceModel &device);

  double clockGHz() const { return device.sustainedMemoryClockMHz * 1e-3; }
  /// A step of a warp that waits for nothing, and for its loads.
  double workNs() const {
    return (kernel.stepClocks + kernel.waitClocks) / clockGHz();
  }
  double latencyNs() const {
    return kernel.latencyShare * device.dramLatencyNs;
  }
  double partialNs() const {
    bool isPartial = problem.k % kernel.stepK != 0;
    return isPartial ? kernel.partialClocks / clockGHz() : 0;
  }
  double stepNs() const {
    return std::max(workNs(), (latencyNs() + workNs()) / kernel.stepsInFlight);
  }
  double pathNs() const {
    return kernel.startNs + double(steps) * stepNs() + partialNs();
  }

  /// Less where blocks end before their ring is full.
  double restartNs() const {
    double filled = double(steps) / kernel.stepsInFlight;
    return grid.waves > 1 ? std::min(1.0, filled) * kernel.restartNs : 0;
  }

  StreamedWave wave(int64_t count) const;
  LittlesLaw little(int64_t count) const;
};

/// Every term of the time, in ns.
struct StreamTerms {
  int64_t fullWaves = 0;
  StreamedWave full, last; ///< of no blocks where there is no such wave
  double gather = 0;       ///< ahead of the product
  double stream = 0, restarts = 0, reduction = 0, total = 0;

  /// A full wave, or the only one.
  const StreamedWave &main() const { return fullWaves > 0 ? full : last; }
};

/// Exponent of the norm that joins the times of a wave: none is reached to the
/// last byte while another is close.
constexpr double kNorm = 4;

/// Long streams of one operand reach 4460 GB/s, where a sum, which the device's
/// figure is of, reaches 4290 (H200, 1 x 28672 x 4096).
constexpr double kStreamShare = 1.04;

} // namespace

StreamModel::StreamModel(const GemmProblem &problem, const StreamedTile &kernel,
                         const DeviceModel &device)
    : problem(problem), kernel(kernel), device(device) {
  int64_t rows = std::max<int64_t>(streamedExtent(problem, kernel.streamsA), 1);
  int64_t vectors =
      std::max<int64_t>(vectorExtent(problem, kernel.streamsA), 1);
  double bytes = bytesOf(problem.dtype);
  double k = double(std::max<int64_t>(problem.k, 1)) / kernel.splitK;
  // Groups have sizes of their own; their rows are vectors.
  const double across = problem.meanRows > 0
                            ? problem.tilesAlongM(kernel.vectors)
                            : double(ceilDiv(vectors, kernel.vectors));
  blocks = std::llround(double(ceilDiv(rows, kernel.rows)) * across *
                        double(std::max<int64_t>(problem.batch, 1))) *
           kernel.splitK;
  double ownRows = double(std::min<int64_t>(rows, kernel.rows));
  double ownVectors = double(std::min<int64_t>(vectors, kernel.vectors));
  steps = ceilDiv(ceilDiv(std::max<int64_t>(problem.k, 1), kernel.stepK),
                  kernel.splitK);
  streamedBytes = ownRows * k * bytes * kernel.streamedShare;
  vectorBytes = ownVectors * k * bytes * kernel.vectorShare;
  // Those of a few rows lie in L2, and all blocks read them there.
  const double allVectors =
      (problem.meanRows > 0 ? problem.meanRows : double(vectors)) *
      double(std::max<int64_t>(problem.batch, 1)) * double(problem.k) * bytes;
  spilledBytes = std::max(allVectors - double(device.l2Bytes), 0.0) /
                 double(std::max<int64_t>(blocks, 1));
  int accesses = 1 + (problem.beta != 0) +
                 problem.pointwise.contains(PointwiseOp::Residual);
  double share =
      double(problem.outCols()) / double(std::max<int64_t>(problem.n, 1));
  otherBytes = accesses * share * ownRows * ownVectors * bytesOf(problem.out) /
               kernel.splitK;
  bytesInFlight = std::min(ownRows * kernel.stepK * bytes *
                               kernel.streamedShare * kernel.stepsInFlight,
                           streamedBytes);
  resident = occupancy(device, kernel.block);
  grid = waves(device, blocks, std::max<int64_t>(resident.blocksPerSm, 1));
}

LittlesLaw StreamModel::little(int64_t count) const {
  return littlesLaw(busyDramLatencyNs(device), device.dramBytesPerNs(),
                    double(count) * bytesInFlight);
}

StreamedWave StreamModel::wave(int64_t count) const {
  StreamedWave wave;
  if (count == 0)
    return wave;
  wave.blocks = double(count);
  wave.perSm = double(ceilDiv(count, device.smCount));
  double moved = streamedBytes + otherBytes;
  double loaded = moved + vectorBytes;
  wave.dramNs = wave.blocks * (moved + spilledBytes) /
                (kStreamShare * device.dramBytesPerNs());
  wave.l2Ns = wave.blocks * loaded / (kernel.l2Share * device.l2BytesPerNs());
  wave.portNs = wave.perSm * loaded / (kL2BytesPerClockPerSm * clockGHz());
  double warps =
      wave.perSm * double(ceilDiv(kernel.block.threads, kWarpThreads));
  wave.issueNs = warps / double(device.subCoresPerSm) *
                 (double(steps) * kernel.stepClocks / clockGHz() + partialNs());
  wave.pathNs = pathNs();
  double sum = 0;
  for (double part :
       {wave.dramNs, wave.l2Ns, wave.portNs, wave.pathNs, wave.issueNs})
    sum += part * part * part * part;
  static_assert(kNorm == 4, "written out: pow would take most of the estimate");
  wave.totalNs = std::sqrt(std::sqrt(sum));
  return wave;
}

/// Splits store their sums, count arrivals, and the last reads them all: less
/// than what splits of larger tiles cost.
static double reductionNs(const StreamedTile &kernel,
                          const DeviceModel &device) {
  constexpr double kArrivalNs = 2000;
  return kernel.splitK == 1 ? 0
                            : kArrivalNs + kernel.splitK * device.l2LatencyNs;
}

static StreamTerms termsOf(const StreamModel &model) {
  const DeviceModel &device = model.device;
  StreamTerms terms;
  int64_t slots = std::max<int64_t>(model.grid.slots, 1);
  terms.fullWaves = model.blocks / slots;
  if (terms.fullWaves > 0)
    terms.full = model.wave(slots);
  terms.last = model.wave(model.blocks % slots);
  terms.stream =
      double(terms.fullWaves) * terms.full.totalNs + terms.last.totalNs;
  terms.restarts = model.restartNs();
  terms.reduction = reductionNs(model.kernel, device);
  terms.gather = gatherNs(model.problem, device);
  terms.total = device.launchNs + device.rampNs + terms.gather + terms.stream +
                terms.restarts + model.kernel.tailNs + terms.reduction;
  return terms;
}

static llvm::StringRef boundOf(const StreamedWave &wave, bool tensor) {
  double most = std::max(
      {wave.dramNs, wave.l2Ns, wave.portNs, wave.pathNs, wave.issueNs});
  return most == wave.dramNs    ? "dram"
         : most == wave.pathNs  ? "latency"
         : most != wave.issueNs ? "l2"
         : tensor               ? "tensor"
                                : "simd";
}

Estimate estimateTile(const GemmProblem &problem, const StreamedTile &kernel,
                      const DeviceModel &device, Detail detail) {
  StreamModel model(problem, kernel, device);
  StreamTerms terms = termsOf(model);
  Estimate estimate(detail);
  estimate.totalNs = terms.total;
  estimate.bound = boundOf(terms.main(), kernel.tensor);
  estimate.add("launch", device.launchNs);
  estimate.add("ramp", device.rampNs);
  estimate.add("gather", terms.gather);
  estimate.add("stream", terms.stream);
  estimate.add("restarts", terms.restarts);
  estimate.add("tail", kernel.tailNs);
  estimate.add("reduction", terms.reduction);
  estimate.note("wave dram", terms.main().dramNs);
  estimate.note("wave l2", terms.main().l2Ns);
  estimate.note("wave port", terms.main().portNs);
  estimate.note("wave path", terms.main().pathNs);
  estimate.note("wave issue", terms.main().issueNs);
  estimate.note("blocks per SM", double(model.grid.blocksPerSm), "");
  estimate.note("waves", double(model.blocks) / double(model.grid.slots), "");
  estimate.note("in flight per block", model.bytesInFlight, "B");
  return estimate;
}

//===----------------------------------------------------------------------===//
// Explanation
//===----------------------------------------------------------------------===//

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

/// Answers the number of the path's sum.
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
  int shared = steps.add(
      {.title = "a turn over the steps in flight",
       .rule = StepRule::Quotient,
       .terms = {steps.resultOf(turn),
                 {"steps in flight", double(kernel.stepsInFlight), ""}}});
  int step =
      steps.add({.title = "a step of a warp",
                 .formula = "no shorter than its instructions and waits",
                 .rule = StepRule::Max,
                 .terms = {steps.termOf(turn, kWork), steps.resultOf(shared)}});
  return steps.add(
      {.title = "path of a block",
       .rule = StepRule::Sum,
       .terms = {{"start", kernel.startNs},
                 steps.resultOf(step, double(model.steps), "steps"),
                 {"end of k within a step", model.partialNs()}}});
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
          .exponent = kNorm};
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
