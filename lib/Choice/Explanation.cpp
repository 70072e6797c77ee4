//===- Explanation.cpp - why this config ----------------------------------===//
#include "Choice/Explanation.h"

#include "Kernel/Space.h"
#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <array>
#include <cmath>
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
        e.subject.tmpl->estimate(problem, e.subject.config, *e.device);
}

/// The knobs of a tile of GEMM that a reader asks about: its sides, whichever
/// way round, the split-K factor and the number of stages. nullopt: \p config
/// has no such tile.
static std::optional<std::array<int64_t, 5>> kindOf(const Values &config) {
  if (config.schema().find("bm") < 0)
    return std::nullopt;
  auto knob = [&](llvm::StringRef key) {
    const int field = config.schema().find(key);
    return field < 0 ? int64_t(0) : config[field];
  };
  const auto [least, most] = std::minmax({knob("bm"), knob("bn")});
  return {
      {most, least, knob("bk"), std::max<int64_t>(knob("sk"), 1), knob("st")}};
}

/// Whether two configs are of another template or kind; where a template has no
/// tiles, of another class. The rest, warps, clusters, rasters or hints, makes
/// twins.
static bool isAnotherKind(const Candidate &a, const Candidate &b) {
  if (a.tmpl != b.tmpl)
    return true;
  const auto kind = kindOf(a.config);
  return kind ? kind != kindOf(b.config) : !a.sharesClass(b);
}

/// Chooses the rival of the subject: its rank in \p space, or -1. The rival of
/// the first choice is the best of another kind whose time differs at all; a
/// config that the model cannot tell apart teaches nothing.
static int chooseRival(const Explanation &e, const Space &space) {
  constexpr double kVisible = 1e-3;
  if (e.rank != 0)
    return space.ranked.empty() ? -1 : 0;
  double own = e.subject.estimate.totalNs;
  int other = space.ranked.size() > 1 ? 1 : -1; // if all are twins
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
  const auto &[family, problem, device, allowance, named] = request;
  if (family.isEmpty(problem))
    return makeError(ErrorCode::InvalidArgument,
                     "{}: there is nothing to compute", problem.text());
  auto space = exploreSpace(family, problem, device,
                            {.keepRejected = true, .allowance = allowance});
  if (!space)
    return space.takeError();
  Explanation e;
  e.text = problem.text();
  e.family = &family;
  e.problem = &problem;
  e.device = &device;
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
  e.derivation = e.subject.tmpl->explain(problem, e.subject.config, device);
  e.rivalRank = chooseRival(e, *space);
  if (e.rivalRank >= 0) {
    e.rival = space->ranked[static_cast<size_t>(e.rivalRank)];
    e.rival->fillTerms(problem, device);
  }
  if (e.rank == 0)
    e.generic = explainGeneric(family, problem, device, *space, allowance);
  return e;
}

} // namespace kiln
