//===- Explanation.cpp - why this config ----------------------------------===//
#include "Choice/Explanation.h"

#include "Kernel/Roofline.h"
#include "Kernel/Space.h"
#include "Support/Error.h"
#include "Support/Format.h"

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

bool isAnotherKind(const Candidate &a, const Candidate &b) {
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

/// Appends what the problem asks of the device, and the shares of these limits
/// that the predicted time reaches.
static void addRoofline(Explanation &e) {
  if (e.derivation.size() == 0)
    return;
  Derivation &steps = e.derivation;
  const Figure total = steps.total().figure;
  const Roofline roof = rooflineOf(*e.family, *e.problem, *e.device);
  steps.begin("roofline");
  if (roof.arithmetic) {
    const auto &[flop, perClock, peak, intensity, ridge] = *roof.arithmetic;
    const Figure held = named(perClock * steps.heldClock,
                              "peak at the clock that holds", "flop/ns");
    steps.add(intensity);
    steps.add(ridge,
              {.verdict = fmt::format(
                   "of the problem itself {} is the limit; what binds this "
                   "config is {}",
                   intensity >= ridge ? "arithmetic" : "DRAM",
                   e.subject.estimate.bound)});
    const Figure rate = named(flop / total, "rate", "flop/ns");
    steps.add(named(rate / peak, "share of the dense peak", ""));
    steps.add(named(rate / held, "share of the peak that holds", ""));
    steps.add(named(rate / least({peak, intensity * roof.pins}),
                    "share of the roofline", ""));
  }
  steps.add(
      named(roof.bytes / total / roof.pins, "share of the DRAM's pins", ""));
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
  e.derivation = e.subject.derive(problem, device);
  addRoofline(e);
  e.neighbours = neighboursOf(e.subject, *space, problem, device, allowance);
  e.changed = changedChoices(e.subject, family, problem, device, allowance);
  e.rivalRank = chooseRival(e, *space);
  if (e.rivalRank >= 0) {
    e.rival = space->ranked[static_cast<size_t>(e.rivalRank)];
    e.rivalDerivation = e.rival->derive(problem, device);
  }
  if (e.rank == 0)
    e.generic = explainGeneric(family, problem, device, *space, allowance);
  return e;
}

void tellCompiled(ArtifactStore &artifacts, Explanation &explained) {
  const DerivationStep *wall = explained.derivation.find("registers");
  if (!wall)
    return;
  const Candidate &subject = explained.subject;
  const Plan plan =
      subject.tmpl->plan(*explained.problem, subject.config, *explained.device);
  std::string taken;
  for (const TranslationUnit &unit : plan.kernels) {
    const auto artifact = artifacts.lookup(unit);
    if (!artifact)
      return;
    const ResourceUsage &usage = (*artifact)->usage;
    taken += fmt::format("{}{}", taken.empty() ? "" : ", ",
                         usage.registersPerThread);
    if ((*artifact)->hasSpills())
      taken += fmt::format(" and {} B spilled",
                           usage.spillStoreBytes + usage.spillLoadBytes);
  }
  StepWords words = wall->words;
  words.note += fmt::format(
      "{}ptxas took {}{}", words.note.empty() ? "" : "; ", taken,
      plan.kernels.size() > 1 ? " for the kernels of this plan, in order" : "");
  explained.derivation.amend("registers", std::move(words));
}

} // namespace kiln
