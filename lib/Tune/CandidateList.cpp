//===- CandidateList.cpp - the configs that a session may try -------------===//
//
// Trials follow the estimator's order, which begins with one config of each
// idea; beside the next of these a batch tries a relative of the best so far.
// (Replayed on the swept GEMMs of an H200, 12 trials reach 99.9 % of the
// exhaustive best with relatives, and 99.4 % without.)
//
//===----------------------------------------------------------------------===//
#include "Tune/CandidateList.h"

#include "Observe/Span.h"
#include "Tune/StopRule.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSet.h>

#include <algorithm>
#include <thread>

namespace kiln {

Candidate makeCandidate(const TuningTask &task, const Template &tmpl,
                        const Values &config) {
  Candidate candidate;
  candidate.tmpl = &tmpl;
  candidate.config = config;
  candidate.estimate = tmpl.estimate(task.problem, config, task.context.device);
  candidate.candidateClass = tmpl.classOf(task.problem, config);
  return candidate;
}

namespace {
/// A config that a record knows, with its estimate here.
struct Seed {
  Candidate candidate;
  int rank = 0;
  double ratio = 1; ///< measured over predicted, where it was measured

  double forecastNs() const { return candidate.estimate.totalNs * ratio; }
};
} // namespace

/// The configs of the record that may run, the one that should be fastest here
/// first.
static std::vector<Seed> seedsOf(const TuningTask &task,
                                 llvm::ArrayRef<Candidate> ranked) {
  std::vector<Seed> seeds;
  for (const RecordedConfig &known : task.match.configs) {
    if (known.tmpl->pruneWithin(task.options.allowance, task.problem,
                                known.config, task.context.device))
      continue;
    const Candidate *found = llvm::find_if(ranked, [&](const Candidate &c) {
      return c.tmpl == known.tmpl && c.config == known.config;
    });
    Seed seed;
    // A config of another extent's space comes last where ranks decide.
    seed.rank = static_cast<int>(found - ranked.begin());
    seed.candidate = found != ranked.end()
                         ? *found
                         : makeCandidate(task, *known.tmpl, known.config);
    const Measurement &measured = *known.measurement;
    if (measured.predictedNs > 0)
      seed.ratio = measured.medianNs / measured.predictedNs;
    seeds.push_back(std::move(seed));
  }
  llvm::stable_sort(seeds, [](const Seed &a, const Seed &b) {
    return a.forecastNs() < b.forecastNs();
  });
  return seeds;
}

/// Drops configs that neighbours measured and that cannot be the best here: far
/// from its own point such a config may be the only one that is compiled, and
/// slower by any factor. (Configs that were measured here go first, however
/// slow.)
static void dropHopeless(const TuningTask &task,
                         llvm::ArrayRef<Candidate> ranked,
                         std::vector<Seed> &seeds) {
  if (task.match.kind == RecordMatchKind::Exact || seeds.empty())
    return;
  std::vector<double> ratios;
  for (const Seed &seed : seeds)
    ratios.push_back(seed.ratio);
  auto middle = ratios.begin() + static_cast<ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  // The best forecast; for configs that the record does not know, by its median
  // ratio.
  double leastNs = seeds.front().forecastNs();
  for (const Candidate &candidate : ranked)
    if (llvm::none_of(seeds, [&](const Seed &seed) {
          return seed.candidate.tmpl == candidate.tmpl &&
                 seed.candidate.config == candidate.config;
        }))
      leastNs = std::min(leastNs, candidate.estimate.totalNs * *middle);
  constexpr double kMayWin = 1.25;
  llvm::erase_if(seeds, [&](const Seed &seed) {
    return seed.forecastNs() > kMayWin * leastNs;
  });
}

static llvm::Expected<Space> exploreSpace(const TuningTask &task) {
  return exploreSpace(task.family, task.problem, task.context.device,
                      {.allowance = task.options.allowance});
}

llvm::Error CandidateList::explore() {
  const TuningOptions &options = task.options;
  const observe::Span span(
      observe::Phase::Plan, [&] { return task.problem.text(); },
      "configs are estimated and ranked");
  auto space = exploreSpace(task);
  if (!space)
    return space.takeError();
  ranked = space->ranked.size();
  leftOut = space->leftOut.leastBytes;

  std::vector<Seed> seeds = seedsOf(task, space->ranked);
  dropHopeless(task, space->ranked, seeds);
  seeds.resize(std::min<size_t>(seeds.size(), std::max(options.batch, 1u)));
  for (Seed &seed : seeds)
    add(std::move(seed.candidate), seed.rank);
  for (size_t i = 0; i < ranked && i < std::max(options.top, 1u); ++i)
    add(space->ranked[i], static_cast<int>(i));
  llvm::StringSet<> generic;
  for (auto [i, candidate] : llvm::enumerate(space->ranked))
    if (candidate.tmpl->isGeneric() &&
        generic.insert(candidate.tmpl->name()).second)
      add(candidate, static_cast<int>(i), /*isReserve=*/true);
  return llvm::Error::success();
}

/// Returns the entry of \p candidate, added if there is none.
TuningCandidate &CandidateList::add(Candidate candidate, int rank,
                                    bool isReserve) {
  for (const auto &entry : list)
    if (entry->candidate.tmpl == candidate.tmpl &&
        entry->candidate.config == candidate.config) {
      entry->isReserve &= isReserve;
      entry->isLastResort |= isReserve;
      return *entry;
    }
  list.push_back(std::make_unique<TuningCandidate>(std::move(candidate), rank));
  list.back()->isReserve = isReserve;
  list.back()->isLastResort = isReserve;
  return *list.back();
}

/// The space is explored again, which takes a fraction of a millisecond,
/// because the spaces of many problems would fill the memory.
void CandidateList::addRelatives(const TuningCandidate &best) {
  if (kin && kin->candidate.sharesClass(best.candidate))
    return;
  kin = &best;
  auto space = exploreSpace(task);
  if (!space)
    return llvm::consumeError(space.takeError()); // it could be explored before
  for (auto [i, candidate] : llvm::enumerate(space->ranked))
    if (candidate.sharesClass(best.candidate))
      add(std::move(candidate), static_cast<int>(i));
}

TuningCandidate *CandidateList::findOrAdd(llvm::StringRef config) {
  auto find = [&] {
    auto found = llvm::find_if(
        list, [&](const auto &entry) { return entry->config == config; });
    return found == list.end() ? nullptr : found->get();
  };
  if (TuningCandidate *entry = find())
    return entry;
  auto named = task.family.parseConfig(config);
  if (!named) {
    llvm::consumeError(named.takeError()); // of another version
    return nullptr;
  }
  if (named->tmpl->pruneWithin(task.options.allowance, task.problem,
                               named->config, task.context.device))
    return nullptr;
  return &add(makeCandidate(task, *named->tmpl, named->config),
              static_cast<int>(ranked));
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

void CandidateList::request(TuningCandidate &entry, int64_t priority) {
  if (!entry.isOpen())
    return;
  entry.makePlan(task.problem, task.context.device);
  if (task.isBarred(entry.config, entry.kernel))
    entry.stage = TuningCandidate::Stage::Barred;
  else
    entry.request(task.context.artifacts, priority);
}

bool CandidateList::await(TuningCandidate &entry,
                          Clock::time_point until) const {
  if (entry.poll())
    return true;
  const observe::Span span(observe::Phase::Compile, "kernels are compiled");
  while (!entry.poll()) {
    if (task.isCancelled() || Clock::now() >= until)
      return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

/// A request that takes longer than any honest compilation is left to the
/// compile pool, which gives up on it.
bool CandidateList::await(TuningCandidate &entry) const {
  constexpr std::chrono::seconds kPatience{30};
  if (await(entry, Clock::now() + kPatience))
    return true;
  return !task.isCancelled() && entry.wait(task.options.cancel);
}

//===----------------------------------------------------------------------===//
// The next trials
//===----------------------------------------------------------------------===//

static StopRule ruleOf(const TuningTask &task, const TrialSeries &series) {
  return StopRule(series.tried(), series.best(), task.options.maxTrials);
}

/// Every batch has a relative of the best, which shares the model's error about
/// it, as long as there are some; with batches of one, every other batch is
/// one.
CandidateRefs CandidateList::worthTrying(const TrialSeries &series) const {
  const StopRule rule = ruleOf(task, series);
  const TuningCandidate *best = series.best();
  CandidateRefs relatives, ideas;
  for (auto &entry : list) {
    if (!entry->isOpen() || entry->isReserve || rule.isBeyondBound(*entry))
      continue;
    bool isRelative = best && entry->candidate.sharesClass(best->candidate);
    (isRelative ? relatives : ideas).push_back(entry.get());
  }
  const size_t stride = std::max(task.options.batch, 2u);
  CandidateRefs order;
  auto relative = relatives.begin(), idea = ideas.begin();
  while (relative != relatives.end() || idea != ideas.end()) {
    const bool isTurn = (series.tried().size() + order.size()) % stride == 0;
    const bool takesRelative =
        relative != relatives.end() && (isTurn || idea == ideas.end());
    order.push_back(takesRelative ? *relative++ : *idea++);
  }
  return order;
}

size_t CandidateList::skippedByBound(const TrialSeries &series) const {
  const StopRule rule = ruleOf(task, series);
  return static_cast<size_t>(llvm::count_if(list, [&](const auto &entry) {
    return entry->isOpen() && !entry->isReserve && rule.isBeyondBound(*entry);
  }));
}

} // namespace kiln
