//===- PoolCover.cpp - the kernels that serve all sizes of a signature ----===//
//
// Layers are drawn as the family says, and problems of each over a coarse grid
// of the dynamic extent. The best configs of one problem are estimated for all
// others of about as much work, as RangeCover.cpp does within one layer: spaces
// are derived from problems, so two of them share few configs, and yet a kernel
// serves both nearly as well. A greedy search (CoverSearch.h) then takes
// kernels, the most valuable first. Configs that differ in run-time knobs alone
// are one kernel, which runs with the values that a problem asks for
// (Template::fastestAt).
//
// Other draws decide how many kernels are enough: layers that the search has
// not seen, at values between those of its grid. The search cannot decide it,
// because the regret of its own samples falls below that of a new layer. The
// first cut that reaches the goal on one set of judges meets it less well on
// others; so there are several sets, and each has to be served.
//
// Rare regimes decide about the worst regrets: few rows that many keys split, a
// group of heads that is drawn seldom. Most further layers are served by the
// kernels that are chosen already, and would only make the search slower. So
// only their unserved problems become samples. The first layers represent the
// served ones, and have a larger weight.
//
// Predictions are taken as they are. A pool has so many kernels that it has
// several of each idea, whichever ideas are off.
//
// Rejected: one cover a layer, and the union of all (23 layers of 64 kernels
// want 483, and serve these layers alone). Weighing samples by their time: all
// regrets are relative, and a decode step has as many launches as a prefill.
//
//===----------------------------------------------------------------------===//
#include "Tune/PoolCover.h"

#include "Compile/ResourceLimits.h"
#include "Kernel/Space.h"
#include "Observe/Span.h"
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

/// The number of fastest configs of each sample's space that are candidates.
constexpr size_t kLeaders = 12;
/// A candidate is estimated at samples whose best time is within this factor of
/// the best where it was found.
constexpr double kNearWork = 4;
/// The most configs of a kernel, and the mean saving for which another one is
/// kept.
constexpr size_t kMostConfigs = 4;
constexpr double kWorthAPoolConfig = 0.01;
/// The configs of a kernel are compared where it is no further behind than
/// this.
constexpr double kUsedBand = 0.12;
/// The tolerance and the factor above it. They are strict, because judges have
/// a larger regret than the samples that kernels are chosen for.
constexpr double kPoolTolerance = 0.01, kOverPool = 60;
/// The least gain, in the mean of all samples, at which the greedy order ends.
constexpr double kLeastPoolGain = 1e-7;
/// The ratio of successive numbers of kernels that a curve shows.
constexpr double kCurveStep = 1.25;

struct PoolSample {
  Problem problem;
  double bestNs = 0; ///< the best of its space; 0: nothing may run
  bool wasUnserved = false;
};

struct Found {
  const Template *tmpl;
  Values config;
};

/// A kernel in the spaces of samples.
struct PoolOption {
  const Template *tmpl = nullptr;
  /// No config is a variant of another one at the sample where it was found.
  std::vector<Values> configs;
  double leastNs = 0, mostNs = 0; ///< the best times where it was found
  std::vector<float> ns;          ///< by sample; some may be missing at the end
};

class PoolMaker {
public:
  PoolMaker(const PoolSubject &subject, const DeviceModel &device,
            const PoolOptions &options)
      : subject(subject), device(device),
        options(options), allowance{options.workspaceBytes},
        threads(options.threads ? options.threads : availableCpus()),
        layerBits(options.seed) {}

  llvm::Expected<PoolCover> make();

private:
  using KernelKey = std::pair<const Template *, std::vector<int64_t>>;
  using Samples = std::vector<PoolSample>;
  using Leaders = std::vector<std::vector<Found>>; ///< by sample

  Samples draw(size_t count, size_t shift, PoolSubject::Random &random) const;
  Leaders explore(Samples &drawn) const;
  void addSamples(Samples drawn, const Leaders &leaders);
  void addUnserved(size_t count, const PoolCover &cover);
  void addOption(const Found &found, const PoolSample &sample);
  void inParallel(size_t count, llvm::function_ref<void(size_t)> body) const {
    forEachInParallel(count, threads, body, options.cancel);
  }
  llvm::Error checkCancelled() const {
    if (options.cancel && *options.cancel)
      return makeError(ErrorCode::Cancelled, "cancelled");
    return llvm::Error::success();
  }
  void estimateAll();
  CoverTable makeTable(double weightOfFirst) const;
  std::optional<size_t> genericKernel() const;
  PoolKernel kernelOf(const PoolOption &option) const;
  llvm::Expected<PoolCover> choose(double weightOfFirst) const;
  void addUnits(PoolCover &cover) const;
  void drawJudges();
  llvm::Error judge(PoolCover &cover) const;
  double timeOf(const Template &tmpl, llvm::ArrayRef<Values> configs,
                const Problem &problem) const;

  const PoolSubject &subject;
  const DeviceModel &device;
  const PoolOptions &options;
  const Allowance allowance;
  const unsigned threads;
  PoolSubject::Random layerBits; ///< of the layers that kernels are chosen for
  Samples samples;
  std::vector<Samples> judges; ///< by set
  std::vector<PoolOption> list;
  std::map<KernelKey, size_t> places;
};

} // namespace

//===----------------------------------------------------------------------===//
// Samples
//===----------------------------------------------------------------------===//

/// Draws \p count layers, each at some places of the grid; with \p shift 2 all
/// of them move by half a step.
PoolMaker::Samples PoolMaker::draw(size_t count, size_t shift,
                                   PoolSubject::Random &random) const {
  Samples drawn;
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
        drawn.push_back({std::move(*problem)});
    }
  }
  return drawn;
}

/// Notes that \p found runs at \p sample.
void PoolMaker::addOption(const Found &found, const PoolSample &sample) {
  auto [place, isNew] = places.try_emplace(
      KernelKey{found.tmpl, found.config.compiledKnobs()}, list.size());
  if (isNew) {
    PoolOption &added = list.emplace_back();
    added.tmpl = found.tmpl;
    added.leastNs = added.mostNs = sample.bestNs;
  }
  PoolOption &option = list[place->second];
  const bool isVariant = llvm::any_of(option.configs, [&](const Values &known) {
    return known == found.config ||
           llvm::is_contained(
               found.tmpl->variantsAt(sample.problem, known, device),
               found.config);
  });
  if (isVariant && sample.bestNs >= option.leastNs &&
      sample.bestNs <= option.mostNs)
    return;
  if (!isVariant)
    option.configs.push_back(found.config);
  option.leastNs = std::min(option.leastNs, sample.bestNs);
  option.mostNs = std::max(option.mostNs, sample.bestNs);
  option.ns.clear(); // it may run elsewhere, too
}

/// Returns the candidates of a space: the fastest configs, and the first
/// generic one.
static std::vector<Found> leadersOf(Space &space, PoolSample &sample) {
  std::vector<const Candidate *> sorted;
  for (const Candidate &candidate : space.ranked)
    sorted.push_back(&candidate);
  auto isFaster = [](const Candidate *a, const Candidate *b) {
    return a->isFasterThan(*b);
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

/// Finds the candidates of each sample's space; drops samples where nothing
/// runs.
PoolMaker::Leaders PoolMaker::explore(Samples &drawn) const {
  Leaders leaders(drawn.size());
  inParallel(drawn.size(), [&](size_t i) {
    auto space = exploreSpace(subject.family(), drawn[i].problem, device,
                              {.allowance = allowance});
    if (space)
      leaders[i] = leadersOf(*space, drawn[i]);
    else
      llvm::consumeError(space.takeError());
  });
  llvm::erase_if(leaders, [](const auto &found) { return found.empty(); });
  llvm::erase_if(drawn, [](const PoolSample &s) { return s.bestNs <= 0; });
  return leaders;
}

/// Adds \p drawn in their order, so that all processes agree.
void PoolMaker::addSamples(Samples drawn, const Leaders &leaders) {
  for (auto [sample, found] : llvm::zip_equal(drawn, leaders)) {
    for (const Found &one : found)
      addOption(one, sample);
    samples.push_back(std::move(sample));
  }
}

/// Draws \p count further layers. Their problems that the kernels of \p cover
/// do not serve become samples.
void PoolMaker::addUnserved(size_t count, const PoolCover &cover) {
  Samples drawn = draw(count, 0, layerBits);
  Leaders leaders = explore(drawn);
  std::vector<char> isServed(drawn.size());
  inParallel(drawn.size(), [&](size_t i) {
    const double limitNs = drawn[i].bestNs * (1 + kPoolTolerance);
    isServed[i] = llvm::any_of(cover.kernels, [&](const PoolKernel &kernel) {
      return timeOf(*kernel.tmpl, kernel.configs, drawn[i].problem) <= limitNs;
    });
  });
  Samples unserved;
  Leaders theirs;
  for (size_t i = 0; i < drawn.size(); ++i)
    if (!isServed[i]) {
      drawn[i].wasUnserved = true;
      unserved.push_back(std::move(drawn[i]));
      theirs.push_back(std::move(leaders[i]));
    }
  addSamples(std::move(unserved), theirs);
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// The time of a kernel with these configs; kNever if it may not run.
double PoolMaker::timeOf(const Template &tmpl, llvm::ArrayRef<Values> configs,
                         const Problem &problem) const {
  auto fastest = tmpl.fastestAt(allowance, problem, configs, device);
  return fastest ? fastest->ns : CoverTable::kNever;
}

/// Estimates the times that are still missing.
void PoolMaker::estimateAll() {
  inParallel(list.size(), [&](size_t place) {
    PoolOption &option = list[place];
    for (size_t i = option.ns.size(); i < samples.size(); ++i) {
      const PoolSample &sample = samples[i];
      const bool isNear = sample.bestNs * kNearWork >= option.leastNs &&
                          sample.bestNs <= kNearWork * option.mostNs;
      option.ns.push_back(
          isNear ? static_cast<float>(
                       timeOf(*option.tmpl, option.configs, sample.problem))
                 : CoverTable::kNever);
    }
  });
}

CoverTable PoolMaker::makeTable(double weightOfFirst) const {
  CoverTable table;
  for (const PoolSample &sample : samples) {
    table.weights.push_back(sample.wasUnserved ? 1 : weightOfFirst);
    table.bestNs.push_back(sample.bestNs);
  }
  for (const PoolOption &option : list) {
    // A kernel of another sample's space may be better than all of this
    // sample's own.
    for (auto [best, ns] : llvm::zip_equal(table.bestNs, option.ns))
      best = std::min<double>(best, ns);
    table.kernels.emplace_back().ns = option.ns;
  }
  return table;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The generic kernel that runs at the most samples, and is the fastest over
/// all among these.
std::optional<size_t> PoolMaker::genericKernel() const {
  std::optional<size_t> best;
  std::pair<size_t, double> most;
  for (auto [place, option] : llvm::enumerate(list)) {
    if (!option.tmpl->isGeneric())
      continue;
    std::pair<size_t, double> worth;
    for (const PoolSample &sample : samples) {
      const double ns = timeOf(*option.tmpl, option.configs, sample.problem);
      if (ns == CoverTable::kNever)
        continue;
      ++worth.first;
      worth.second -= ns;
    }
    if (!best || worth > most) {
      best = place;
      most = worth;
    }
  }
  return best;
}

/// Makes a kernel with its useful configs: the one that is best where the
/// kernel is good, then others while they save something.
PoolKernel PoolMaker::kernelOf(const PoolOption &option) const {
  PoolKernel made;
  made.tmpl = option.tmpl;
  made.configs = option.configs;
  if (option.configs.size() == 1)
    return made;
  std::vector<size_t> used; // samples
  for (auto [i, ns] : llvm::enumerate(option.ns))
    if (ns <= samples[i].bestNs * (1 + kUsedBand))
      used.push_back(i);
  std::vector<std::vector<double>> regrets; // by config
  for (const Values &config : option.configs)
    for (std::vector<double> &row = regrets.emplace_back(); size_t i : used)
      row.push_back(timeOf(*option.tmpl, config, samples[i].problem) /
                        samples[i].bestNs -
                    1);
  constexpr double kMost = 0.5;
  std::vector<double> best(used.size(), kMost);
  made.configs.clear();
  while (made.configs.size() < std::min(kMostConfigs, option.configs.size())) {
    const double least = made.configs.empty() ? 0 : kWorthAPoolConfig;
    size_t next = 0;
    double most = 0;
    for (auto [config, row] : llvm::enumerate(regrets)) {
      double saved = 0;
      for (auto [before, after] : llvm::zip_equal(best, row))
        if (after <= kUsedBand && after < before - least)
          saved += before - after;
      if (saved > most) {
        most = saved;
        next = config;
      }
    }
    if (most <= 0 && !made.configs.empty())
      break;
    made.configs.push_back(option.configs[next]);
    for (auto [before, after] : llvm::zip_equal(best, regrets[next]))
      before = std::min(before, after);
  }
  return made;
}

/// Adds the kernels of all plans. Further steps depend on run-time knobs and on
/// the problem, so a plan is made for each value of the knobs and for some
/// sizes.
void PoolMaker::addUnits(PoolCover &cover) const {
  inParallel(cover.kernels.size(), [&](size_t place) {
    PoolKernel &kernel = cover.kernels[place];
    std::set<Digest> seen;
    std::set<std::vector<int64_t>> seenConfigs;
    constexpr size_t kPlans = 64;
    size_t plans = 0;
    for (const PoolSample &sample : samples) {
      auto fastest = kernel.tmpl->fastestAt(allowance, sample.problem,
                                            kernel.configs, device);
      if (!fastest)
        continue;
      const Values &config = fastest->config;
      const bool isNew =
          seenConfigs.insert({config.array().begin(), config.array().end()})
              .second;
      if (!isNew && ++plans > kPlans)
        continue;
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

void PoolMaker::drawJudges() {
  PoolSubject::Random random(~options.seed);
  for (size_t set = 0; set < options.judgeSets; ++set) {
    judges.push_back(draw(options.judges, 1, random));
    explore(judges.back());
  }
  llvm::erase_if(judges, [](const Samples &set) { return set.empty(); });
}

/// Cuts \p cover at the first number of kernels that reaches the goal on each
/// set of judges.
llvm::Error PoolMaker::judge(PoolCover &cover) const {
  struct Judged {
    const PoolSample *sample;
    std::vector<double> times; ///< by kernel
    double regret = CoverTable::kNever;
  };
  std::vector<Judged> judged;
  for (const Samples &set : judges)
    for (const PoolSample &sample : set)
      judged.push_back({&sample, {}});
  inParallel(judged.size(), [&](size_t i) {
    for (const PoolKernel &kernel : cover.kernels)
      judged[i].times.push_back(
          timeOf(*kernel.tmpl, kernel.configs, judged[i].sample->problem));
  });
  if (llvm::Error error = checkCancelled())
    return error;
  cover.judged = judged.size();
  auto pointAt = [&](size_t kernels, llvm::ArrayRef<Judged> some) {
    std::vector<double> regrets;
    for (const Judged &one : some)
      regrets.push_back(one.regret);
    return pointOf(kernels, std::move(regrets));
  };
  size_t shown = 0, kept = 0;
  while (kept < cover.kernels.size() && !judged.empty()) {
    for (Judged &one : judged)
      one.regret = std::min(
          one.regret, std::max(0.0, one.times[kept] / one.sample->bestNs - 1));
    ++kept;
    const bool isLast = kept == cover.kernels.size();
    llvm::ArrayRef<Judged> rest = judged;
    cover.reachesGoal = llvm::all_of(judges, [&](const Samples &set) {
      const PoolPoint point = pointAt(kept, rest.take_front(set.size()));
      rest = rest.drop_front(set.size());
      return point.reaches(options.goal);
    });
    if (kept < shown && !isLast && !cover.reachesGoal)
      continue;
    cover.curve.push_back(pointAt(kept, judged));
    shown =
        static_cast<size_t>(std::max(kept + 1.0, double(kept) * kCurveStep));
    if (cover.reachesGoal)
      break;
  }
  cover.kernels.resize(kept);
  return llvm::Error::success();
}

/// Chooses the kernels for the samples so far, the most valuable first. Each
/// sample of the first layers represents \p weightOfFirst problems.
llvm::Expected<PoolCover> PoolMaker::choose(double weightOfFirst) const {
  std::vector<size_t> fixed;
  if (auto generic = genericKernel())
    fixed.push_back(*generic);
  const Cover order =
      chooseCover(makeTable(weightOfFirst), {.tolerance = kPoolTolerance,
                                             .overTolerance = kOverPool,
                                             .maxKernels = options.maxKernels,
                                             .leastGain = kLeastPoolGain,
                                             .worlds = 0,
                                             .fixed = fixed});
  // Beyond this point the order of kernels is final.
  PoolCover cover;
  cover.samples = samples.size();
  cover.kernels.resize(order.kernels.size());
  inParallel(order.kernels.size(), [&](size_t i) {
    cover.kernels[i] = kernelOf(list[order.kernels[i]]);
  });
  if (llvm::Error error = checkCancelled())
    return error;
  return cover;
}

llvm::Expected<PoolCover> PoolMaker::make() {
  const size_t first = std::max<size_t>(1, options.layers);
  Samples drawn = draw(first, 0, layerBits);
  Leaders leaders = explore(drawn);
  addSamples(std::move(drawn), leaders);
  drawJudges();
  if (llvm::Error error = checkCancelled())
    return error;
  if (samples.empty())
    return makeError(ErrorCode::NoCandidate,
                     "no config of {} runs on {} for {}",
                     subject.family().name(), device.name, subject.text());
  for (size_t layers = first;; layers *= 2) {
    estimateAll();
    if (llvm::Error error = checkCancelled())
      return error;
    auto cover = choose(double(layers) / double(first));
    if (!cover)
      return cover.takeError();
    const PoolCover whole = *cover;
    if (llvm::Error error = judge(*cover))
      return error;
    // More layers ask for kernels that fewer layers did not need. If there is
    // no room for further kernels, these would displace more useful ones.
    if (cover->reachesGoal || 2 * layers > options.mostLayers ||
        cover->kernels.size() >= options.maxKernels) {
      addUnits(*cover);
      if (llvm::Error error = checkCancelled())
        return error;
      return cover;
    }
    addUnserved(layers, whole);
    if (llvm::Error error = checkCancelled())
      return error;
  }
}

llvm::Expected<PoolCover> coverSignature(const PoolSubject &subject,
                                         const DeviceModel &device,
                                         const PoolOptions &options) {
  const observe::Span span(observe::Phase::Plan,
                           "the kernels of a pool are chosen");
  return PoolMaker(subject, device, options).make();
}

} // namespace kiln
