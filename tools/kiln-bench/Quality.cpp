//===- Quality.cpp --------------------------------------------------------===//
#include "kiln-bench/Quality.h"

#include "Store/Records.h"
#include "Support/Error.h"
#include "Trial/Statistics.h"
#include "kiln-bench/ClassicRanking.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringMap.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::cli {

double ReplayedSpace::choiceError() const {
  return timed.empty()
             ? 0
             : timed.front().predictedNs / timed.front().measuredNs - 1;
}

namespace {

/// The configs of a recorded space that today's model has a time for.
struct KnownConfigs {
  std::vector<Candidate> candidates;
  /// Measured times by place of the recorded config; that is a candidate's
  /// order until orderAsSpace().
  std::vector<double> times;
  size_t refused = 0;
};

} // namespace

/// Estimates what \p space has, config by config, in or out of today's space.
static KnownConfigs estimateAll(const RecordedSpace &space,
                                const Registry::NamedProblem &named,
                                const DeviceModel &device) {
  const auto &[family, problem] = named;
  KnownConfigs known;
  for (const TimedConfig &one : space.configs) {
    auto parsed = family->parseConfig(one.config);
    if (!parsed) {
      llvm::consumeError(parsed.takeError());
      ++known.refused;
      continue;
    }
    if (parsed->tmpl->prune(problem, parsed->config, device)) {
      ++known.refused;
      continue;
    }
    Candidate &candidate = known.candidates.emplace_back();
    candidate.tmpl = parsed->tmpl;
    candidate.config = std::move(parsed->config);
    candidate.estimate =
        parsed->tmpl->estimate(problem, candidate.config, device);
    candidate.candidateClass = parsed->tmpl->classOf(problem, candidate.config);
    candidate.order = static_cast<int32_t>(known.times.size());
    known.times.push_back(one.ns);
  }
  return known;
}

/// Best time over that of the fastest of the first \p count of \p order.
static double shareOf(llvm::ArrayRef<double> order, double bestNs,
                      size_t count) {
  order = order.take_front(count);
  if (order.empty())
    return 0;
  // Whatever had no chance against the playoff's best is no better than it.
  return std::min(bestNs / *std::min_element(order.begin(), order.end()), 1.0);
}

static OrderShare sharesOf(llvm::ArrayRef<double> order, double bestNs) {
  return {shareOf(order, bestNs, 1), shareOf(order, bestNs, kTopFew)};
}

/// Measured times in the order of \p candidates, of which `timeAt` knows the
/// place of each by its order.
static std::vector<double> timesOf(llvm::ArrayRef<Candidate> candidates,
                                   const std::map<int32_t, double> &timeAt) {
  std::vector<double> times;
  for (const Candidate &candidate : candidates)
    times.push_back(timeAt.at(candidate.order));
  return times;
}

/// Gives each candidate its place in today's space, which decides ties;
/// candidates that are not in it come last. Returns the times by these places.
static std::map<int32_t, double> orderAsSpace(KnownConfigs &known,
                                              const Space &today) {
  llvm::StringMap<int32_t> orders;
  for (const Candidate &candidate : today.ranked)
    orders[candidate.config.text()] = candidate.order;
  std::map<int32_t, double> timeAt;
  int32_t outside = std::numeric_limits<int32_t>::max() / 2;
  for (Candidate &candidate : known.candidates) {
    const double ns = known.times[static_cast<size_t>(candidate.order)];
    auto found = orders.find(candidate.config.text());
    candidate.order = found == orders.end() ? outside++ : found->second;
    // A config that is there twice.
    while (!timeAt.emplace(candidate.order, ns).second)
      candidate.order = outside++;
  }
  return timeAt;
}

/// "gemm 65-256" of a matrix product, "rmsnorm" of anything else.
static std::string regimeOf(const Registry::NamedProblem &named) {
  const auto &[family, problem] = named;
  if (!family->matrixProduct(problem))
    return family->name().str();
  const int64_t value = dynamicExtentsOf(*family, problem).front();
  const Band *band =
      llvm::find_if(kBands, [&](const Band &one) { return one.holds(value); });
  return fmt::format("{} {}", family->name(), band->name);
}

/// Orders by the classic model, which prunes \p ranked.
static void replayClassic(const Registry::NamedProblem &named,
                          const DeviceModel &device,
                          std::vector<Candidate> ranked,
                          const std::map<int32_t, double> &timeAt,
                          ReplayedSpace &replayed) {
  auto product = classicProblemOf(*named.family, named.problem);
  if (!product)
    return;
  ranked = rankClassic(*product, device, std::move(ranked));
  const std::vector<double> order = timesOf(ranked, timeAt);
  replayed.classic = sharesOf(order, replayed.bestNs);
  replayed.classicRegret = regretCurve(order, replayed.bestNs);
}

/// Today's order, \p ranked, beside a random one.
static void replayMain(llvm::ArrayRef<Candidate> ranked,
                       llvm::ArrayRef<double> order, ReplayedSpace &replayed) {
  replayed.main = sharesOf(order, replayed.bestNs);
  replayed.regret = regretCurve(order, replayed.bestNs);
  replayed.random = {expectedShare(order, replayed.bestNs, 1),
                     expectedShare(order, replayed.bestNs, kTopFew)};
  replayed.randomRegret = expectedRegretCurve(order, replayed.bestNs);
  replayed.chosen = ranked.front().config.text();
  replayed.chosenNs = order.front();
  for (auto [candidate, ns] : llvm::zip(ranked, order))
    replayed.timed.push_back({candidate.tmpl->name().str(),
                              candidate.estimate.bound.str(),
                              candidate.estimate.totalNs, ns});
}

/// Compares the first choice with the best config, if they differ.
static void replayBlame(const Registry::NamedProblem &named,
                        const DeviceModel &device,
                        llvm::ArrayRef<Candidate> ranked,
                        ReplayedSpace &replayed) {
  const auto best = llvm::find_if(ranked, [&](const Candidate &one) {
    return one.config.text() == replayed.best;
  });
  if (replayed.main.top1 >= 1 || best == ranked.end())
    return;
  auto sideOf = [&](const Candidate &candidate, double ns) {
    return BlamedConfig{candidate.config.text(),
                        candidate.tmpl->name().str(),
                        candidate.estimate.bound.str(),
                        candidate.estimate.totalNs,
                        ns,
                        addendsOf(candidate, named.problem, device)};
  };
  replayed.blame = blame(sideOf(ranked.front(), replayed.chosenNs),
                         sideOf(*best, replayed.bestNs));
}

llvm::Expected<ReplayedSpace> replay(const RecordedSpace &space,
                                     const Registry &registry,
                                     const DeviceModel &device) {
  auto named = registry.parseProblem(space.problem);
  if (!named)
    return named.takeError();
  auto today = exploreSpace(*named->family, named->problem, device);
  if (!today)
    return today.takeError();
  ReplayedSpace replayed;
  replayed.name = space.name;
  replayed.regime = regimeOf(*named);
  replayed.family = named->family->name().str();
  replayed.isTest = space.isTest();
  replayed.bestNs = space.bestNs();
  KnownConfigs known = estimateAll(space, *named, device);
  replayed.configs = known.candidates.size();
  replayed.refused = known.refused;
  if (replayed.configs < 2)
    return makeError(ErrorCode::NoCandidate,
                     "{}: {} of {} configs have a time that counts",
                     space.problem, replayed.configs, space.configs.size());

  std::vector<double> predicted;
  for (auto [candidate, ns] : llvm::zip(known.candidates, known.times)) {
    predicted.push_back(candidate.orderingNs());
    replayed.errors.push_back(std::abs(candidate.estimate.totalNs / ns - 1));
  }
  replayed.correlation = rankCorrelation(predicted, known.times);
  const std::string first = today->ranked.front().config.text();
  for (const TimedConfig &one : space.configs) {
    replayed.hasFirstChoice |= one.config == first;
    if (one.ns == replayed.bestNs)
      replayed.best = one.config;
  }
  const auto timeAt = orderAsSpace(known, *today);
  rankCandidates(known.candidates);
  replayMain(known.candidates, timesOf(known.candidates, timeAt), replayed);
  replayBlame(*named, device, known.candidates, replayed);
  replayClassic(*named, device, std::move(known.candidates), timeAt, replayed);
  return replayed;
}

//===----------------------------------------------------------------------===//
// Figures
//===----------------------------------------------------------------------===//

QualityFigures
QualityFigures::of(llvm::ArrayRef<const ReplayedSpace *> spaces) {
  QualityFigures figures;
  std::vector<double> top1, top5, errors, classic1, classic5, random1, random5;
  for (const ReplayedSpace *space : spaces) {
    ++figures.problems;
    figures.configs += space->configs;
    figures.correlation += space->correlation;
    figures.withFirstChoice += space->hasFirstChoice;
    top1.push_back(space->main.top1);
    top5.push_back(space->main.top5);
    random1.push_back(space->random.top1);
    random5.push_back(space->random.top5);
    errors.insert(errors.end(), space->errors.begin(), space->errors.end());
    if (space->classic.top1 <= 0)
      continue;
    ++figures.classicProblems;
    classic1.push_back(space->classic.top1);
    classic5.push_back(space->classic.top5);
  }
  if (figures.problems > 0)
    figures.correlation /= static_cast<double>(figures.problems);
  figures.top1 = RatioFigures::of(top1);
  figures.top5 = RatioFigures::of(top5);
  figures.timeError = quantile(errors, 0.5);
  figures.classic = {geomean(classic1), geomean(classic5)};
  figures.random = {geomean(random1), geomean(random5)};
  return figures;
}

ChoiceErrors ChoiceErrors::of(llvm::ArrayRef<const ReplayedSpace *> spaces) {
  std::vector<double> errors, sizes;
  for (const ReplayedSpace *space : spaces) {
    errors.push_back(space->choiceError());
    sizes.push_back(std::abs(errors.back()));
  }
  return {quantile(errors, 0.1),  quantile(errors, 0.25), quantile(errors, 0.5),
          quantile(errors, 0.75), quantile(errors, 0.9),  quantile(sizes, 0.5)};
}

QualityTable tabulate(llvm::ArrayRef<ReplayedSpace> spaces) {
  std::map<std::pair<std::string, std::string>,
           std::vector<const ReplayedSpace *>>
      groups;
  for (const ReplayedSpace &space : spaces) {
    const std::string split = space.isTest ? "test" : "fit";
    groups[{split, space.regime}].push_back(&space);
    groups[{split, "all"}].push_back(&space);
  }
  QualityTable table;
  for (const auto &[key, members] : groups)
    table[key.first][key.second] = QualityFigures::of(members);
  return table;
}

} // namespace kiln::cli
