//===- Space.cpp - enumerate, prune, estimate, rank -----------------------===//
//
// A rank list has to be diverse: when the model is wrong it is wrong about an
// idea (a tile shape, split-K) and not about one config, so the best of each
// class precedes every second-best. Ties are real: two configs within 2 % of
// each other are one answer to a model, and what decides among them is the
// class's rank and the order of the space, never the last digit of an estimate.
//
//===----------------------------------------------------------------------===//
#include "Kernel/Space.h"

#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>

#include <array>
#include <set>
#include <tuple>
#include <utility>

namespace kiln {

llvm::StringRef nameOf(ModelKind kind) {
  return kind == ModelKind::Main ? "main" : "classic";
}

/// Reorders [begin, end), sorted by time, so that ties follow (rank, order).
static void orderTies(llvm::MutableArrayRef<Candidate> sorted) {
  for (size_t begin = 0; begin < sorted.size();) {
    double limit = sorted[begin].estimate.totalNs * kEstimateTie;
    size_t end = begin + 1;
    while (end < sorted.size() && sorted[end].estimate.totalNs <= limit)
      ++end;
    llvm::sort(sorted.slice(begin, end - begin),
               [](const Candidate &a, const Candidate &b) {
                 return std::tie(a.candidateClass.rank, a.order) <
                        std::tie(b.candidateClass.rank, b.order);
               });
    begin = end;
  }
}

void rankCandidates(std::vector<Candidate> &candidates) {
  llvm::sort(candidates, [](const Candidate &a, const Candidate &b) {
    return std::tie(a.estimate.totalNs, a.order) <
           std::tie(b.estimate.totalNs, b.order);
  });
  // Stable, so both parts stay sorted by time.
  // A set that takes any key: templates choose theirs freely.
  std::set<std::pair<const Template *, uint64_t>> classes;
  std::vector<bool> leads(candidates.size());
  for (auto [i, candidate] : llvm::enumerate(candidates))
    leads[i] =
        classes.insert({candidate.tmpl, candidate.candidateClass.key}).second;
  std::vector<Candidate> ranked;
  ranked.reserve(candidates.size());
  for (bool wanted : {true, false})
    for (auto [i, candidate] : llvm::enumerate(candidates))
      if (leads[i] == wanted)
        ranked.push_back(std::move(candidate));
  candidates = std::move(ranked);
  llvm::MutableArrayRef<Candidate> all(candidates);
  orderTies(all.take_front(classes.size()));
  orderTies(all.drop_front(classes.size()));
}

/// The main model: every template's own limits and estimate.
static void exploreMain(const KernelFamily &family, const Problem &problem,
                        const DeviceModel &device, bool keepRejected,
                        Space &space) {
  int32_t order = 0;
  for (const auto &tmpl : family.templates())
    tmpl->enumerate(problem, device, [&](Record config) {
      int32_t position = order++;
      if (auto rejection = tmpl->prune(problem, config, device)) {
        if (keepRejected)
          space.rejected.push_back({tmpl.get(), std::move(config), *rejection});
        return;
      }
      Candidate candidate{tmpl.get(), std::move(config), {}, {}, position};
      candidate.estimate = tmpl->estimate(problem, candidate.config, device);
      candidate.candidateClass = tmpl->classOf(problem, candidate.config);
      space.ranked.push_back(std::move(candidate));
    });
  rankCandidates(space.ranked);
}

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

/// The classic model prunes and ranks anew what the hard limits left over.
/// Templates that it has no words for, those without tiles, keep their place
/// behind.
static void rerankClassic(const KernelFamily::ClassicProblem &problem,
                          const DeviceModel &device, bool keepRejected,
                          Space &space) {
  auto reject = [&](Candidate &candidate, const Rejection &rejection) {
    if (keepRejected)
      space.rejected.push_back(
          {candidate.tmpl, std::move(candidate.config), rejection});
  };
  std::vector<Candidate> known, unknown;
  std::vector<ClassicConfig> configs;
  std::set<std::array<int64_t, 6>> seen;
  llvm::sort(space.ranked, [](const Candidate &a, const Candidate &b) {
    return a.order < b.order;
  });
  for (Candidate &candidate : space.ranked) {
    auto config = candidate.tmpl->classicConfig(candidate.config);
    if (!config) {
      unknown.push_back(std::move(candidate));
      continue;
    }
    // What differs in knobs that the model does not know (a raster, the warps'
    // grid) is one config to it: two such would push out two of other stages.
    if (!seen.insert({config->blockM, config->blockN, config->blockK,
                      config->splitK, config->numWarps, config->numStages})
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
    ClassicEstimate estimate = estimateClassic(
        device, problem.type, problem.m, problem.n, problem.k, survivor.config);
    constexpr double kNsPerMs = 1e6;
    candidate.estimate = Estimate{};
    candidate.estimate.totalNs = estimate.totalMs * kNsPerMs;
    candidate.estimate.bound =
        estimate.computeMs >= estimate.loadMs ? "tensor" : "dram";
    candidate.estimate.add("compute", estimate.computeMs * kNsPerMs);
    candidate.estimate.add("load", estimate.loadMs * kNsPerMs);
    candidate.estimate.add("store", estimate.storeMs * kNsPerMs);
    space.ranked.push_back(std::move(candidate));
  }
  for (const ClassicRejection &rejection : pruning.rejected)
    reject(known[rejection.index], rejectionOf(rejection));
  rankCandidates(space.ranked);
  for (Candidate &candidate : unknown)
    space.ranked.push_back(std::move(candidate));
}

llvm::Expected<Space> exploreSpace(const KernelFamily &family,
                                   const Problem &problem,
                                   const DeviceModel &device, ModelKind model,
                                   bool keepRejected) {
  Space space;
  exploreMain(family, problem, device, keepRejected, space);
  if (model == ModelKind::Classic) {
    auto classic = family.classicProblem(problem);
    if (!classic)
      return makeError(ErrorCode::Unsupported,
                       "the classic model knows nothing like {}",
                       problem.text());
    rerankClassic(*classic, device, keepRejected, space);
  }
  if (space.ranked.empty())
    return makeError(ErrorCode::NoCandidate,
                     "no template of {} runs {} on {}: every config is pruned",
                     family.name(), problem.text(), device.name);
  return space;
}

} // namespace kiln
