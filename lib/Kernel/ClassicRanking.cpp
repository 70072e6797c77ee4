//===- ClassicRanking.cpp -------------------------------------------------===//
#include "Kernel/ClassicRanking.h"

#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

#include <array>
#include <set>

namespace kiln {

std::optional<MatrixProduct> classicProblemOf(const KernelFamily &family,
                                              const Problem &problem) {
  std::optional<MatrixProduct> product = family.matrixProduct(problem);
  // The model has no peak for types of one byte.
  const bool isKnown =
      product && !product->isEmpty() && bytesOf(product->type) > 1;
  return isKnown ? product : std::nullopt;
}

std::optional<ClassicConfig> classicConfigOf(const Template &tmpl,
                                             const Values &config) {
  if (const ClassicTemplate *classic = tmpl.classic())
    return classic->classicConfig(config);
  return std::nullopt;
}

static ClassicEstimate estimateClassic(const ClassicCase &classic,
                                       const DeviceModel &device) {
  const auto &[problem, config] = classic;
  // A batch is as many rows: the model knows none.
  return estimateClassic(device, problem.type, problem.m * problem.batch,
                         problem.n, problem.k, config);
}

/// What the model calls the limit, in the words of estimates.
static llvm::StringRef boundOf(const ClassicEstimate &estimated,
                               const ClassicConfig &config) {
  if (!estimated.isComputeBound())
    return "dram";
  return config.tensor ? "tensor" : "simd";
}

Estimate estimateOf(const ClassicCase &classic, const DeviceModel &device) {
  constexpr double kNsPerMs = 1e6;
  ClassicEstimate estimated = estimateClassic(classic, device);
  Estimate estimate;
  estimate.totalNs = estimated.totalMs * kNsPerMs;
  estimate.bound = boundOf(estimated, classic.config);
  auto addLoop = [&](llvm::StringRef name, double ms, bool isLarger) {
    if (isLarger)
      estimate.add(name, ms * kNsPerMs);
    else
      estimate.note(name, ms * kNsPerMs);
  };
  addLoop("compute", estimated.computeMs, estimated.isComputeBound());
  addLoop("load", estimated.loadMs, !estimated.isComputeBound());
  estimate.add("store", estimated.storeMs * kNsPerMs);
  return estimate;
}

//===----------------------------------------------------------------------===//
// Ranking
//===----------------------------------------------------------------------===//

/// A classic rejection in the words of the pruner.
static Rejection rejectionOf(const ClassicRejection &classic) {
  Rejection rejection{PruneReason::Dominated, double(classic.value),
                      double(classic.limit)};
  switch (classic.reason) {
  case ClassicReason::SharedMemory:
    rejection.reason = PruneReason::SharedMemory;
    rejection.unit = "B";
    break;
  case ClassicReason::SplitKType:
    rejection.reason = PruneReason::Type;
    rejection.unit = "splits";
    break;
  case ClassicReason::Stages:
  case ClassicReason::TwoStages:
    break;
  }
  return rejection;
}

void rankClassic(const MatrixProduct &problem, const DeviceModel &device,
                 bool keepRejected, Space &space) {
  auto reject = [&](Candidate &candidate, const Rejection &rejection) {
    if (keepRejected)
      space.rejected.push_back(
          {candidate.tmpl, std::move(candidate.config), rejection});
  };
  std::vector<Candidate> known, unknown;
  std::vector<ClassicConfig> configs;
  std::set<std::array<int64_t, 7>> seen;
  llvm::sort(space.ranked, [](const Candidate &a, const Candidate &b) {
    return a.order < b.order;
  });
  for (Candidate &candidate : space.ranked) {
    auto config = classicConfigOf(*candidate.tmpl, candidate.config);
    if (!config) {
      unknown.push_back(std::move(candidate));
      continue;
    }
    // What differs in knobs that the model does not know (a raster, the warps'
    // grid) is one config to it: two such would push out two of other stages.
    if (!seen.insert({config->blockM, config->blockN, config->blockK,
                      config->splitK, config->numWarps, config->numStages,
                      config->tensor})
             .second) {
      reject(candidate, Rejection{PruneReason::Dominated});
      continue;
    }
    configs.push_back(*config);
    known.push_back(std::move(candidate));
  }
  ClassicPruning pruning = pruneClassic(device, problem.type, configs);
  space.ranked.clear();
  for (const ClassicSurvivor &survivor : pruning.kept) {
    Candidate &candidate = known[survivor.index];
    candidate.estimate = estimateOf({problem, survivor.config}, device);
    candidate.candidateClass.ranksByTime = false;
    space.ranked.push_back(std::move(candidate));
  }
  for (const ClassicRejection &rejection : pruning.rejected)
    reject(known[rejection.index], rejectionOf(rejection));
  rankCandidates(space.ranked);
  for (Candidate &candidate : unknown)
    space.ranked.push_back(std::move(candidate));
}

//===----------------------------------------------------------------------===//
// Explanation
//===----------------------------------------------------------------------===//

/// Compute: the peak of the sub-cores that have a warp. Answers its number.
static int explainCompute(const ClassicCase &classic, const ClassicEstimate &e,
                          Derivation &steps) {
  const auto &[problem, config] = classic;
  steps.add({"blocks",
             fmt::format("{} x {} tiles of {} x {}, split-K {} = {} blocks of "
                         "{} warps, of which 4 count",
                         e.tilesM, e.tilesN, config.blockM, config.blockN,
                         config.splitK, e.blocks, config.numWarps),
             fmt::format("{} of {} sub-cores are active: {:.0f} %",
                         e.activeWarps, e.subCores, 100 * e.activeShare),
             llvm::json::Object{{"blocks", e.blocks},
                                {"active_share", e.activeShare}}});
  int rate = steps.add(
      {.title = "rate",
       .formula = fmt::format(
           "the share of active sub-cores of {:.1f} TFLOP/s, the peak of {}",
           e.peakTflops, config.tensor ? "tensor cores" : "FFMA"),
       .rule = StepRule::Sum,
       .terms = {{"peak", e.peakTflops, "TFLOP/s", e.activeShare}},
       .unit = "TFLOP/s"});
  return steps.add({.title = "compute",
                    .formula = "2 m n k of whole tiles, in 2^30 operations: "
                               "the model reads the quotient as ms",
                    .rule = StepRule::Quotient,
                    .terms = {{"operations", e.operations / kClassicGibi, "Gi"},
                              steps.resultOf(rate)},
                    .unit = "ms"});
}

/// DRAM's bandwidth by the blocks in flight.
static int explainRamp(const ClassicEstimate &e, Derivation &steps) {
  return steps.add(
      {.title = "DRAM bandwidth",
       .formula =
           "the first 32 blocks reach 95 % of the pins' bandwidth, those "
           "up to 108 the rest, both in proportion",
       .rule = StepRule::Sum,
       .terms = {{"pins, first blocks", e.dramPeakGBs, "GB/s", e.shareOfFew},
                 {"pins, later blocks", e.dramPeakGBs, "GB/s", e.shareOfRest}},
       .unit = "GB/s"});
}

/// A tile's row or column comes from DRAM once, and its repeats by 80 and 20 %
/// from L2 and DRAM.
static int explainLoad(const ClassicEstimate &e, int bandwidth,
                       Derivation &steps) {
  int fromDram = steps.add(
      {.title = "load from DRAM",
       .formula = fmt::format(
           "A and B once, and {:.0f} % of the {} and {} times that other tiles "
           "load them again, in MiB: read as ms",
           100 * kClassicMissShare, e.tilesN - 1, e.tilesM - 1),
       .rule = StepRule::Quotient,
       .terms = {{"bytes", e.dramBytes / kClassicMebi, "MiB"},
                 steps.resultOf(bandwidth)},
       .unit = "ms"});
  int fromL2 =
      steps.add({.title = "load from L2",
                 .formula = fmt::format(
                     "the other {:.0f} % of the repeats, at {:.0f} "
                     "times the bandwidth of DRAM",
                     100 * (1 - kClassicMissShare), kClassicL2OverDram),
                 .rule = StepRule::Quotient,
                 .terms = {{"bytes", e.l2Bytes / kClassicMebi, "MiB"},
                           {"L2 over DRAM", kClassicL2OverDram, ""},
                           steps.resultOf(bandwidth)},
                 .unit = "ms"});
  return steps.add({.title = "load",
                    .rule = StepRule::Sum,
                    .terms = {steps.resultOf(fromDram), steps.resultOf(fromL2)},
                    .unit = "ms"});
}

Derivation explainClassic(const ClassicCase &classic,
                          const DeviceModel &device) {
  ClassicEstimate e = estimateClassic(classic, device);
  llvm::StringRef bound = boundOf(e, classic.config);
  Derivation steps;
  int compute = explainCompute(classic, e, steps);
  int bandwidth = explainRamp(e, steps);
  int load = explainLoad(e, bandwidth, steps);
  int loop =
      steps.add({.title = "loop",
                 .verdict = fmt::format(
                     "{} hides {}", e.isComputeBound() ? "compute" : "load",
                     e.isComputeBound() ? "load" : "compute"),
                 .rule = StepRule::Max,
                 .terms = {steps.resultOf(compute), steps.resultOf(load)},
                 .unit = "ms",
                 .clears = e.isComputeBound()      ? "dram"
                           : classic.config.tensor ? "tensor"
                                                   : "simd"});
  int store = steps.add(
      {.title = "store",
       .formula =
           fmt::format("D for each split{}, at {:.0f} % of the bandwidth",
                       e.zeroedBytes > 0 ? ", and its zeros before" : "",
                       100 * kClassicStoreShare),
       .rule = StepRule::Quotient,
       .terms = {{"bytes", (e.storedBytes + e.zeroedBytes) / kClassicMebi,
                  "MiB"},
                 {"write over read", kClassicStoreShare, ""},
                 steps.resultOf(bandwidth)},
       .unit = "ms"});
  steps.add({.title = "total",
             .formula = "max(compute, load) + store",
             .verdict = fmt::format("bound by {}", bound),
             .rule = StepRule::Sum,
             .terms = {steps.resultOf(loop), steps.resultOf(store)},
             .unit = "ms",
             .blames = bound});
  return steps;
}

} // namespace kiln
