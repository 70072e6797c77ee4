//===- PoolCover.cpp - the kernels that serve all sizes of a signature ----===//
//
// Layers are drawn as the family says, and problems of each over a coarse grid
// of the dynamic extent. The best of one problem is estimated for all
// others of about as much work, as RangeCover.cpp does within one layer: spaces
// are derived from problems, so two of them have hardly a config in common, and
// yet a kernel serves both nearly as well. A greedy search (CoverSearch.h) then
// takes kernels, the most valuable first. Configs that differ in run-time knobs
// alone are one kernel.
//
// How many are enough, other draws say: layers that the search has not seen, at
// values between those of its grid. The search sees its samples' regret fall
// below what the next layer will have, so it cannot tell by itself.
//
// Predictions are taken as they are. A pool has so many kernels that there are
// others of each idea, whatever ideas are off.
//
// Rejected: one cover a layer, and the union of all (23 layers of 64 kernels
// want 483, and serve these layers alone). Weighing samples by their time: all
// regrets are relative, and a decode step has as many launches as a prefill.
//
//===----------------------------------------------------------------------===//
#include "Tune/PoolCover.h"

#include "Compile/ResourceLimits.h"
#include "Kernel/Space.h"
#include "Support/Error.h"
#include "Support/Parallel.h"
#include "Tune/CoverSearch.h"
#include "Tune/Portfolio.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <map>
#include <set>

namespace kiln {

namespace {

/// Of each sample's space so many of the fastest are candidates.
constexpr size_t kLeaders = 12;
/// A candidate is estimated where the best takes so much longer or shorter than
/// where it was found, at most.
constexpr double kNearWork = 4;
/// A kernel's configs: where another one saves so much in the mean, it is kept.
constexpr size_t kMostConfigs = 4;
constexpr double kWorthAPoolConfig = 0.01;
/// Kernels are compared by their configs where they are no further behind.
constexpr double kUsedBand = 0.12;
/// So much counts what is above the tolerance: judges are met worse than the
/// samples that kernels are chosen for.
constexpr double kPoolTolerance = 0.01, kOverPool = 60;
/// The last of the greedy order, by the mean of all samples.
constexpr double kLeastPoolGain = 1e-7;
/// Numbers of kernels that a curve shows: each is larger by a quarter.
constexpr double kCurveStep = 1.25;

struct PoolSample {
  Problem problem;
  double bestNs = 0; ///< of its space; 0: nothing may run
};

struct Found {
  const Template *tmpl;
  Record config;
};

struct PoolOption {
  const Template *tmpl = nullptr;
  Record config;
  size_t kernel = 0;
  double leastNs = 0, mostNs = 0; ///< of the best where it was found
  std::vector<float> ns;          ///< by sample
};

class PoolMaker {
public:
  PoolMaker(const PoolSubject &subject, const DeviceModel &device,
            const PoolOptions &options, size_t layers)
      : subject(subject), device(device), options(options),
        layers(layers), allowance{options.workspaceBytes},
        threads(options.threads ? options.threads : availableCpus()) {}

  llvm::Expected<PoolCover> make();

private:
  using KernelKey = std::pair<const Template *, std::vector<int64_t>>;
  using Samples = std::vector<PoolSample>;

  Samples draw(size_t count, size_t shift, uint64_t seed) const;
  llvm::Error explore();
  void addOption(const Template &tmpl, const Record &config, double bestNs);
  void inParallel(size_t count, llvm::function_ref<void(size_t)> body) const {
    forEachInParallel(count, threads, body, options.cancel);
  }
  bool isPruned(const Template &tmpl, const Problem &problem,
                const Record &config) const {
    return tmpl.pruneWithin(allowance, problem, config, device).has_value();
  }
  bool isCancelled() const { return options.cancel && *options.cancel; }
  void estimateAll();
  CoverTable makeTable() const;
  std::optional<size_t> genericKernel() const;
  PoolKernel kernelOf(size_t kernel) const;
  void addUnits(PoolCover &cover) const;
  llvm::Error judge(PoolCover &cover) const;
  double timeOf(const PoolKernel &kernel, const Problem &problem) const;

  const PoolSubject &subject;
  const DeviceModel &device;
  const PoolOptions &options;
  const size_t layers; ///< that kernels are chosen for
  const Allowance allowance;
  const unsigned threads;
  Samples samples;
  std::vector<PoolOption> list;
  std::map<KernelKey, size_t> kernels;
  std::vector<std::vector<size_t>> optionsOf; ///< by kernel
  std::map<KernelKey, size_t> places;
};

} // namespace

//===----------------------------------------------------------------------===//
// Samples
//===----------------------------------------------------------------------===//

/// Draws \p count layers, each at some places of the grid; \p shift of two
/// moves all of them by half a step.
PoolMaker::Samples PoolMaker::draw(size_t count, size_t shift,
                                   uint64_t seed) const {
  Samples drawn;
  PoolSubject::Random random(seed);
  const size_t values = std::min(options.valuesOfLayer, options.gridValues);
  const size_t stride = std::max<size_t>(1, options.gridValues / values);
  const size_t places = 2 * options.gridValues;
  for (size_t layer = 0; layer < count; ++layer) {
    auto record = subject.drawLayer(random);
    if (!record)
      break;
    for (size_t i = 0; i < values; ++i) {
      const size_t place = 2 * (i * stride + layer % stride) + shift;
      if (place >= places)
        continue;
      if (auto problem = subject.drawAt(*record, place, places, random))
        drawn.push_back({std::move(*problem), 0});
    }
  }
  return drawn;
}

void PoolMaker::addOption(const Template &tmpl, const Record &config,
                          double bestNs) {
  auto [place, isNew] = places.try_emplace(
      {&tmpl, {config.values().begin(), config.values().end()}}, list.size());
  if (isNew) {
    PoolOption &added = list.emplace_back();
    added.tmpl = &tmpl;
    added.config = config;
    auto kernel = kernels.try_emplace(KernelKey{&tmpl, config.compiledKnobs()},
                                      kernels.size());
    added.kernel = kernel.first->second;
    if (kernel.second)
      optionsOf.emplace_back();
    optionsOf[added.kernel].push_back(place->second);
    added.leastNs = added.mostNs = bestNs;
  }
  PoolOption &option = list[place->second];
  option.leastNs = std::min(option.leastNs, bestNs);
  option.mostNs = std::max(option.mostNs, bestNs);
}

/// The candidates of a space: the fastest, and the first generic one.
static std::vector<Found> leadersOf(Space &space, PoolSample &sample) {
  std::vector<const Candidate *> sorted;
  for (const Candidate &candidate : space.ranked)
    sorted.push_back(&candidate);
  auto isFaster = [](const Candidate *a, const Candidate *b) {
    return std::tie(a->estimate.totalNs, a->order) <
           std::tie(b->estimate.totalNs, b->order);
  };
  const size_t count = std::min(kLeaders, sorted.size());
  std::partial_sort(sorted.begin(), sorted.begin() + count, sorted.end(),
                    isFaster);
  sample.bestNs = sorted.front()->estimate.totalNs;
  std::vector<Found> leaders;
  for (size_t i = 0; i < count; ++i)
    leaders.push_back({sorted[i]->tmpl, sorted[i]->config});
  auto generic = llvm::find_if(space.ranked, [](const Candidate &candidate) {
    return candidate.tmpl->isGeneric();
  });
  if (generic != space.ranked.end())
    leaders.push_back({generic->tmpl, generic->config});
  return leaders;
}

llvm::Error PoolMaker::explore() {
  samples = draw(layers, 0, options.seed);
  std::vector<std::vector<Found>> found(samples.size());
  inParallel(samples.size(), [&](size_t i) {
    auto space = exploreSpace(subject.family(), samples[i].problem, device,
                              {.allowance = allowance});
    if (space)
      found[i] = leadersOf(*space, samples[i]);
    else
      llvm::consumeError(space.takeError()); // counted below
  });
  if (isCancelled())
    return makeError(ErrorCode::Cancelled, "cancelled");
  // In the order of the samples, so that all processes agree.
  for (size_t i = 0; i < samples.size(); ++i)
    for (const Found &one : found[i])
      addOption(*one.tmpl, one.config, samples[i].bestNs);
  llvm::erase_if(samples, [](const PoolSample &s) { return s.bestNs <= 0; });
  if (!samples.empty())
    return llvm::Error::success();
  return makeError(ErrorCode::NoCandidate, "nothing of {} runs on {} for {}",
                   subject.family().name(), device.name, subject.text());
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

void PoolMaker::estimateAll() {
  inParallel(list.size(), [&](size_t place) {
    PoolOption &option = list[place];
    option.ns.assign(samples.size(), CoverTable::kNever);
    for (auto [i, sample] : llvm::enumerate(samples)) {
      if (sample.bestNs * kNearWork < option.leastNs ||
          sample.bestNs > kNearWork * option.mostNs ||
          isPruned(*option.tmpl, sample.problem, option.config))
        continue;
      option.ns[i] = static_cast<float>(
          option.tmpl->estimate(sample.problem, option.config, device).totalNs);
    }
  });
}

CoverTable PoolMaker::makeTable() const {
  CoverTable table;
  table.weights.assign(samples.size(), 1);
  for (const PoolSample &sample : samples)
    table.bestNs.push_back(sample.bestNs);
  table.kernels.resize(kernels.size());
  for (CoverTable::Kernel &kernel : table.kernels)
    kernel.ns.assign(samples.size(), CoverTable::kNever);
  for (const PoolOption &option : list) {
    std::vector<float> &ns = table.kernels[option.kernel].ns;
    for (size_t i = 0; i < ns.size(); ++i) {
      ns[i] = std::min(ns[i], option.ns[i]);
      // A kernel from elsewhere may be better than all of a sample's own space.
      table.bestNs[i] = std::min<double>(table.bestNs[i], ns[i]);
    }
  }
  return table;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The generic kernel that runs at most samples, of these the fastest in all.
std::optional<size_t> PoolMaker::genericKernel() const {
  std::optional<size_t> best;
  std::pair<size_t, double> most;
  for (const PoolOption &option : list) {
    if (!option.tmpl->isGeneric())
      continue;
    std::pair<size_t, double> worth;
    for (const PoolSample &sample : samples)
      if (!isPruned(*option.tmpl, sample.problem, option.config)) {
        ++worth.first;
        worth.second -=
            option.tmpl->estimate(sample.problem, option.config, device)
                .totalNs;
      }
    if (!best || worth > most) {
      best = option.kernel;
      most = worth;
    }
  }
  return best;
}

/// A kernel with its configs: the one that is best where the kernel is good,
/// then others while they save something.
PoolKernel PoolMaker::kernelOf(size_t kernel) const {
  PoolKernel made;
  std::vector<float> best(samples.size(), CoverTable::kNever);
  for (size_t round = 0; round < kMostConfigs; ++round) {
    const PoolOption *next = nullptr;
    double most = 0;
    for (size_t place : optionsOf[kernel]) {
      const PoolOption &option = list[place];
      double saved = 0;
      for (size_t i = 0; i < samples.size(); ++i) {
        const double before = std::min(0.5, best[i] / samples[i].bestNs - 1);
        const double after = option.ns[i] / samples[i].bestNs - 1;
        const double least = round == 0 ? 0 : kWorthAPoolConfig;
        if (after <= kUsedBand && after < before - least)
          saved += before - after;
      }
      if (!next || saved > most) {
        most = saved;
        next = &option;
      }
    }
    if (round > 0 && most <= 0)
      break;
    made.tmpl = next->tmpl;
    made.configs.push_back(next->config);
    for (size_t i = 0; i < samples.size(); ++i)
      best[i] = std::min(best[i], next->ns[i]);
  }
  return made;
}

/// The kernels of all plans: further steps depend on the problem, too.
void PoolMaker::addUnits(PoolCover &cover) const {
  inParallel(cover.kernels.size(), [&](size_t place) {
    PoolKernel &kernel = cover.kernels[place];
    std::set<Digest> seen;
    constexpr size_t kPlans = 64;
    size_t plans = 0;
    for (const PoolSample &sample : samples)
      for (const Record &config : kernel.configs) {
        if (plans >= kPlans || isPruned(*kernel.tmpl, sample.problem, config))
          continue;
        ++plans;
        Plan plan = kernel.tmpl->plan(sample.problem, config, device);
        for (TranslationUnit &unit : plan.kernels)
          if (seen.insert(unit.digest()).second)
            kernel.units.push_back(std::move(unit));
      }
  });
}

//===----------------------------------------------------------------------===//
// Judges
//===----------------------------------------------------------------------===//

double PoolMaker::timeOf(const PoolKernel &kernel,
                         const Problem &problem) const {
  double least = CoverTable::kNever;
  for (const Record &config : kernel.configs)
    if (!isPruned(*kernel.tmpl, problem, config))
      least = std::min(least,
                       kernel.tmpl->estimate(problem, config, device).totalNs);
  return least;
}

static PoolPoint pointOf(size_t kernels, std::vector<double> regrets) {
  PoolPoint point;
  point.kernels = kernels;
  llvm::sort(regrets);
  for (double regret : regrets)
    point.mean += regret / static_cast<double>(regrets.size());
  point.p99 = regrets[(regrets.size() - 1) * 99 / 100];
  point.most = regrets.back();
  return point;
}

/// Cuts \p cover where it reaches the goal on problems of other draws.
llvm::Error PoolMaker::judge(PoolCover &cover) const {
  Samples judges = draw(options.judges, 1, ~options.seed);
  std::vector<std::vector<double>> times(judges.size());
  inParallel(judges.size(), [&](size_t i) {
    auto space = exploreSpace(subject.family(), judges[i].problem, device,
                              {.allowance = allowance});
    if (!space)
      return llvm::consumeError(space.takeError()); // nothing runs there
    double &bestNs = judges[i].bestNs = space->ranked.front().estimate.totalNs;
    for (const Candidate &candidate : space->ranked)
      bestNs = std::min(bestNs, candidate.estimate.totalNs);
    for (const PoolKernel &kernel : cover.kernels)
      times[i].push_back(timeOf(kernel, judges[i].problem));
  });
  if (isCancelled())
    return makeError(ErrorCode::Cancelled, "cancelled");
  std::vector<double> least, best;
  std::vector<size_t> judged;
  for (size_t i = 0; i < judges.size(); ++i)
    if (judges[i].bestNs > 0)
      judged.push_back(i);
  cover.judged = judged.size();
  std::vector<double> regrets(judged.size(), CoverTable::kNever);
  size_t shown = 0, kept = 0;
  while (kept < cover.kernels.size() && !judged.empty()) {
    for (auto [regret, i] : llvm::zip_equal(regrets, judged))
      regret = std::min(regret,
                        std::max(0.0, times[i][kept] / judges[i].bestNs - 1));
    ++kept;
    const bool isLast = kept == cover.kernels.size();
    const PoolPoint point = pointOf(kept, regrets);
    cover.reachesGoal = point.reaches(options.goal);
    if (kept < shown && !isLast && !cover.reachesGoal)
      continue;
    cover.curve.push_back(point);
    shown =
        static_cast<size_t>(std::max(kept + 1.0, double(kept) * kCurveStep));
    if (cover.reachesGoal)
      break;
  }
  cover.kernels.resize(kept);
  return llvm::Error::success();
}

llvm::Expected<PoolCover> PoolMaker::make() {
  if (llvm::Error error = explore())
    return error;
  estimateAll();
  if (isCancelled())
    return makeError(ErrorCode::Cancelled, "cancelled");
  std::vector<size_t> fixed;
  if (auto generic = genericKernel())
    fixed.push_back(*generic);
  const Cover order =
      chooseCover(makeTable(), {.tolerance = kPoolTolerance,
                                .overTolerance = kOverPool,
                                .maxKernels = options.maxKernels,
                                .leastGain = kLeastPoolGain,
                                .worlds = 0,
                                .fixed = fixed});
  // Beyond this point the order of kernels is final.
  PoolCover cover;
  cover.samples = samples.size();
  cover.kernels.resize(order.kernels.size());
  inParallel(order.kernels.size(),
             [&](size_t i) { cover.kernels[i] = kernelOf(order.kernels[i]); });
  if (isCancelled())
    return makeError(ErrorCode::Cancelled, "cancelled");
  if (llvm::Error error = judge(cover))
    return error;
  addUnits(cover);
  if (isCancelled())
    return makeError(ErrorCode::Cancelled, "cancelled");
  return cover;
}

llvm::Expected<PoolCover> coverSignature(const PoolSubject &subject,
                                         const DeviceModel &device,
                                         const PoolOptions &options) {
  for (size_t layers = std::max<size_t>(1, options.layers);; layers *= 2) {
    auto cover = PoolMaker(subject, device, options, layers).make();
    // More layers ask for kernels that fewer did not need.
    if (!cover || cover->reachesGoal || 2 * layers > options.mostLayers ||
        cover->kernels.size() >= options.maxKernels)
      return cover;
  }
}

} // namespace kiln
