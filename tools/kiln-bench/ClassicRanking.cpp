//===- ClassicRanking.cpp -------------------------------------------------===//
#include "kiln-bench/ClassicRanking.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <array>
#include <set>

namespace kiln::cli {

std::optional<MatrixProduct> classicProblemOf(const KernelFamily &family,
                                              const Problem &problem) {
  std::optional<MatrixProduct> product = family.matrixProduct(problem);
  // The model has no peak for types of one byte.
  const bool isKnown =
      product && !product->isEmpty() && bytesOf(product->type) > 1;
  return isKnown ? product : std::nullopt;
}

/// Warps of a block, by the knobs of the template called \p name.
static int64_t warpsOf(llvm::StringRef name, const Values &config) {
  constexpr int64_t kWarp = 32, kWarpsOfGroup = 4;
  if (const int64_t consumers = name == "sm90" ? config.get("wg") : 0)
    return consumers * kWarpsOfGroup + (consumers > 1 ? kWarpsOfGroup : 2);
  if (name == "mma")
    return config.get("wm") * config.get("wn");
  const int64_t threads = config.get("bm") / config.get("tm") *
                          (config.get("bn") / config.get("tn"));
  return threads * (name == "ffma" ? config.get("wk") : 1) / kWarp;
}

std::optional<ClassicConfig> classicConfigOf(const Template &tmpl,
                                             const Values &config) {
  constexpr llvm::StringLiteral kTiled[] = {"sm90", "mma", "ffma", "simt"};
  const llvm::StringRef name = tmpl.name();
  if (!llvm::is_contained(kTiled, name))
    return std::nullopt;
  const bool isSimt = name == "simt"; // two buffers, no splits
  return ClassicConfig{.blockM = config.get("bm"),
                       .blockN = config.get("bn"),
                       .blockK = config.get("bk"),
                       .splitK =
                           isSimt ? 1 : std::max<int64_t>(config.get("sk"), 1),
                       .numWarps = warpsOf(name, config),
                       .numStages = isSimt ? 2 : config.get("st"),
                       .tensor = name == "sm90" || name == "mma"};
}

double classicNs(const MatrixProduct &problem, const ClassicConfig &config,
                 const DeviceModel &device) {
  constexpr double kNsPerMs = 1e6;
  // A batch is as many rows: the model knows none.
  return kNsPerMs * estimateClassic(device, problem.type,
                                    problem.m * problem.batch, problem.n,
                                    problem.k, config)
                        .totalMs;
}

std::vector<Candidate> rankClassic(const MatrixProduct &problem,
                                   const DeviceModel &device,
                                   std::vector<Candidate> ranked) {
  std::vector<Candidate> known, unknown;
  std::vector<ClassicConfig> configs;
  std::set<std::array<int64_t, 7>> seen;
  llvm::sort(ranked, [](const Candidate &a, const Candidate &b) {
    return a.order < b.order;
  });
  for (Candidate &candidate : ranked) {
    auto config = classicConfigOf(*candidate.tmpl, candidate.config);
    if (!config) {
      unknown.push_back(std::move(candidate));
      continue;
    }
    // Configs that differ in knobs that the model does not know (a raster, the
    // warps' grid) are one to it: two such would push out two of other stages.
    if (!seen.insert({config->blockM, config->blockN, config->blockK,
                      config->splitK, config->numWarps, config->numStages,
                      config->tensor})
             .second)
      continue;
    configs.push_back(*config);
    known.push_back(std::move(candidate));
  }
  std::vector<Candidate> order;
  for (const ClassicSurvivor &survivor :
       pruneClassic(device, problem.type, configs).kept) {
    Candidate &candidate = known[survivor.index];
    candidate.estimate = {};
    candidate.estimate.totalNs = classicNs(problem, survivor.config, device);
    candidate.candidateClass.ranksByTime = false;
    order.push_back(std::move(candidate));
  }
  rankCandidates(order);
  for (Candidate &candidate : unknown)
    order.push_back(std::move(candidate));
  return order;
}

} // namespace kiln::cli
