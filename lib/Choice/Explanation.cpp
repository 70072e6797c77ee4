//===- Explanation.cpp - why this config ----------------------------------===//
#include "Choice/Explanation.h"

#include "Kernel/ClassicRanking.h"
#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace kiln {

/// Makes \p config the subject, wherever it stands in \p space.
static void setSubject(Explanation &e, const Space &space,
                       KernelFamily::NamedConfig config) {
  for (auto [i, candidate] : llvm::enumerate(space.ranked))
    if (candidate.tmpl == config.tmpl && candidate.config == config.config) {
      e.subject = candidate;
      e.rank = static_cast<int>(i);
      return;
    }
  const Problem &problem = *e.problem;
  e.subject.tmpl = config.tmpl;
  e.subject.config = std::move(config.config);
  e.rejection = e.subject.tmpl->pruneWithin(e.allowance, problem,
                                            e.subject.config, *e.device);
  if (!e.rejection)
    e.subject.estimate =
        estimateCandidate(*e.family, problem, e.subject, *e.device, e.model);
}

/// What a reader asks after in a config with tiles: the tile, whichever way
/// round, the split of k and the number of stages.
static auto kindOf(const ClassicConfig &config) {
  return std::tuple(std::max(config.blockM, config.blockN),
                    std::min(config.blockM, config.blockN), config.blockK,
                    config.splitK, config.numStages);
}

/// Whether two configs are of another template or kind; where a template has no
/// tiles, of another class. The rest, warps, clusters, rasters or hints, makes
/// twins.
static bool isAnotherKind(const Candidate &a, const Candidate &b) {
  if (a.tmpl != b.tmpl)
    return true;
  auto tileA = classicConfigOf(*a.tmpl, a.config);
  auto tileB = classicConfigOf(*b.tmpl, b.config);
  return tileA && tileB ? kindOf(*tileA) != kindOf(*tileB) : !a.sharesClass(b);
}

/// Chooses what the subject is compared with: its rank in \p space, or -1. Of
/// the first choice that is the best of another kind whose time differs at all;
/// one that the model cannot tell apart teaches nothing.
static int chooseRival(const Explanation &e, const Space &space) {
  constexpr double kVisible = 1e-3;
  if (e.rank != 0)
    return space.ranked.empty() ? -1 : 0;
  double own = e.subject.estimate.totalNs;
  int other = space.ranked.size() > 1 ? 1 : -1; // where there are but twins
  bool isTwin = true;
  for (auto [i, candidate] : llvm::enumerate(space.ranked)) {
    if (!isAnotherKind(candidate, e.subject))
      continue;
    if (std::abs(candidate.estimate.totalNs - own) > kVisible * own)
      return static_cast<int>(i);
    if (std::exchange(isTwin, false))
      other = static_cast<int>(i);
  }
  return other;
}

llvm::Expected<Explanation> explain(const ExplanationRequest &request) {
  const auto &[family, problem, device, model, allowance, named] = request;
  if (family.isEmpty(problem))
    return makeError(ErrorCode::InvalidArgument,
                     "{}: there is nothing to compute", problem.text());
  auto space = exploreSpace(family, problem, device, model,
                            {.keepRejected = true, .allowance = allowance});
  if (!space)
    return space.takeError();
  Explanation e;
  e.text = problem.text();
  e.family = &family;
  e.problem = &problem;
  e.device = &device;
  e.model = model;
  e.allowance = allowance;
  e.ranked = space->ranked.size();
  e.pruned = space->rejected.size();
  if (named) {
    auto config = family.parseConfig(*named);
    if (!config)
      return config.takeError();
    setSubject(e, *space, std::move(*config));
  } else {
    e.subject = space->ranked.front();
    e.rank = 0;
  }
  if (e.rejection)
    return e;
  e.subject.fillTerms(problem, device);
  e.subjectModel = modelOf(family, problem, e.subject, model);
  e.derivation = explainCandidate(family, problem, e.subject, device, model);
  e.rivalRank = chooseRival(e, *space);
  if (e.rivalRank >= 0) {
    e.rival = space->ranked[static_cast<size_t>(e.rivalRank)];
    e.rival->fillTerms(problem, device);
  }
  if (e.rank == 0 && model == ModelKind::Main)
    e.generic = explainGeneric(family, problem, device, *space, allowance);
  return e;
}

} // namespace kiln
