//===- RangeCover.cpp - the fewest kernels for a range --------------------===//
//
// Spaces are derived from the problem, so two neighbouring values have
// different candidates. But a kernel can be estimated wherever prune() lets it
// run, so a kernel of one value's space serves other values. So the best few of
// each sample's space are candidates for all samples within some factor of
// where they were found, and a greedy search covers the samples by kernels.
// Configs that differ in run-time knobs alone share a kernel; each of them that
// is needed becomes a member.
//
// Rejected: the tuned choice of a few values, each for its neighbourhood. The
// best config at one value (a width that just fills its waves) is bad a few
// values later. Also rejected: one plan for each power of two, which is a third
// behind in the middle.
//
//===----------------------------------------------------------------------===//
#include "Tune/RangeCover.h"

#include "Compile/ResourceLimits.h"
#include "Kernel/Space.h"
#include "Store/ArtifactStore.h"
#include "Support/Error.h"
#include "Support/Parallel.h"
#include "Tune/CoverSearch.h"

#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace kiln {

namespace {

/// Configs of one sample's space that become candidates: `kFastest` of the
/// fastest, and `kClasses` more of those within the band, the best of each
/// class.
constexpr size_t kFastest = 8, kClasses = 8;
constexpr double kClassBand = 0.12;
/// The weight of a sample is its share of the range's logarithm, times this
/// power of its time: among equal regrets that of the longer launch costs more.
constexpr double kTimeExponent = 0.25;
/// A candidate is estimated at samples whose extents are all within this factor
/// of those where it was found.
constexpr double kReach = 4;
/// A member's interval holds the samples where it is no further behind than
/// this.
constexpr double kIntervalBand = 0.12;

/// The ideas of kernels that no sample's space has: each is an idea of its own.
constexpr uint64_t kIdeasOfTheirOwn = uint64_t(1) << 32;

struct Sample {
  ExtentPoint point;
  Problem problem;
  double weight = 0;
  double bestNs = 0; ///< the best of the space; 0: nothing may run
  size_t first = 0;  ///< the kernel of its first choice
};

struct Option {
  const Template *tmpl = nullptr;
  Values config;
  size_t kernel = 0;
  ExtentPoint low, high; ///< where it was found
};

/// The time of a kernel at a sample, and the config that has it.
struct KernelTime {
  float ns = CoverTable::kNever;
  size_t option = 0;
};

/// Template and compiled knobs.
using KernelKey = std::pair<const Template *, std::vector<int64_t>>;

class CoverMaker {
public:
  CoverMaker(const ProblemRange &range, const DeviceModel &device,
             const CoverOptions &options)
      : range(range), device(device), options(options),
        threads(options.threads ? options.threads : availableCpus()) {
    allowance.workspaceBytes = options.workspaceBytes;
  }

  llvm::Expected<Portfolio> make();

private:
  llvm::Error explore();
  void addSample(ExtentPoint point, double weight);
  void addOptions(Sample &sample, const Space &space);
  size_t addOption(const Template &tmpl, const Values &config,
                   llvm::ArrayRef<int64_t> point);
  llvm::Error addFixed();
  void addAtHand();
  bool isBarred(const Template &tmpl, const Values &config) const {
    return options.isBarred && options.isBarred(tmpl, config);
  }
  bool isCancelled() const { return options.cancel && *options.cancel; }
  bool isNear(const Option &option, const Sample &sample) const;
  void estimateAll();
  /// The times of one kernel at each sample; its options are indices of its
  /// configs.
  struct KernelRow {
    std::vector<Values> configs;
    std::vector<KernelTime> times;

    void consider(const Template &tmpl, const Values &variant,
                  const Sample &sample, KernelTime &time,
                  const CoverMaker &maker);
  };
  KernelRow estimateKernel(llvm::ArrayRef<size_t> known) const;
  float nsOf(size_t option, size_t sample) const;
  CoverTable makeTable() const;
  llvm::SmallVector<size_t, 4> configsOf(size_t kernel) const;
  void addMember(size_t option, Portfolio &portfolio) const;
  void extendIntervals(Portfolio &portfolio,
                       llvm::ArrayRef<size_t> chosen) const;
  bool endsAt(ExtentPoint high, PortfolioMember &member) const;
  bool shrinks(PortfolioMember &member) const;
  void settle(Portfolio &portfolio) const;

  const ProblemRange &range;
  const DeviceModel &device;
  const CoverOptions &options;
  const unsigned threads;
  Allowance allowance;
  std::vector<Sample> samples;
  std::vector<Option> list;
  std::map<std::pair<const Template *, std::vector<int64_t>>, size_t> places;
  std::map<KernelKey, size_t> kernels;
  std::vector<uint64_t> ideas;                ///< by kernel
  std::vector<std::vector<KernelTime>> times; ///< by kernel, then by sample
  llvm::DenseSet<size_t> kernelsAtHand;
  std::map<std::pair<const Template *, uint64_t>, uint64_t> ideaNumbers;
  std::vector<size_t> fixed; ///< options that are members in any case
};

} // namespace

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

/// Returns the index of a config, added if it is missing.
size_t CoverMaker::addOption(const Template &tmpl, const Values &config,
                             llvm::ArrayRef<int64_t> point) {
  auto [place, isNew] = places.try_emplace(
      {&tmpl, {config.array().begin(), config.array().end()}}, list.size());
  if (isNew) {
    Option &added = list.emplace_back();
    added.tmpl = &tmpl;
    added.config = config;
    auto kernel = kernels.try_emplace(KernelKey{&tmpl, config.compiledKnobs()},
                                      kernels.size());
    added.kernel = kernel.first->second;
    if (kernel.second)
      ideas.push_back(kIdeasOfTheirOwn + ideas.size());
    added.low.assign(point.begin(), point.end());
    added.high = added.low;
  }
  Option &option = list[place->second];
  for (size_t i = 0; i < point.size(); ++i) {
    option.low[i] = std::min(option.low[i], point[i]);
    option.high[i] = std::max(option.high[i], point[i]);
  }
  return place->second;
}

/// Adds the best configs of \p sample's space.
void CoverMaker::addOptions(Sample &sample, const Space &space) {
  std::vector<const Candidate *> sorted;
  for (const Candidate &candidate : space.ranked)
    if (!isBarred(*candidate.tmpl, candidate.config))
      sorted.push_back(&candidate);
  if (sorted.empty())
    return;
  const Candidate &first = *sorted.front();
  auto isFaster = [](const Candidate *a, const Candidate *b) {
    return a->isFasterThan(*b);
  };
  llvm::sort(sorted, isFaster);
  sample.bestNs = sorted.front()->estimate.totalNs;
  std::vector<const Candidate *> leaders;
  for (auto [i, candidate] : llvm::enumerate(sorted)) {
    const bool isLeader =
        leaders.size() < kClasses &&
        candidate->estimate.totalNs <= sample.bestNs * (1 + kClassBand) &&
        llvm::none_of(leaders, [&](const Candidate *leader) {
          return leader->sharesClass(*candidate);
        });
    if (isLeader)
      leaders.push_back(candidate);
    if (!isLeader && i >= kFastest && candidate != &first)
      continue;
    const size_t place =
        addOption(*candidate->tmpl, candidate->config, sample.point);
    // Ideas are numbered as they come, so that all processes agree.
    auto idea = ideaNumbers.try_emplace(
        {candidate->tmpl, candidate->candidateClass.key}, ideaNumbers.size());
    ideas[list[place].kernel] = idea.first->second;
    if (candidate == &first)
      sample.first = list[place].kernel;
  }
}

void CoverMaker::addSample(ExtentPoint point, double weight) {
  auto problem = range.find(point);
  if (!problem || range.family->isEmpty(*problem))
    return;
  Sample &added = samples.emplace_back();
  added.point = std::move(point);
  added.problem = std::move(*problem);
  added.weight = weight;
}

llvm::Error CoverMaker::explore() {
  const RangeGrid grid(range);
  for (size_t place = 0; place < grid.size(); ++place) {
    ExtentPoint point = range.alignDown(grid.at(place));
    if (point.empty())
      continue;
    if (!samples.empty() && samples.back().point == point)
      samples.back().weight += grid.weightOf(place);
    else
      addSample(std::move(point), grid.weightOf(place));
  }
  // Spaces are large, so only some are kept at a time.
  constexpr size_t kTogether = 32;
  ErrorSummary failure;
  for (size_t first = 0; first < samples.size(); first += kTogether) {
    if (isCancelled())
      return makeError(ErrorCode::Cancelled, "cancelled");
    const size_t count = std::min(kTogether, samples.size() - first);
    std::vector<std::optional<Space>> spaces(count);
    std::vector<ErrorSummary> failures(count);
    forEachInParallel(count, threads, [&](size_t i) {
      auto space = exploreSpace(*range.family, samples[first + i].problem,
                                device, {.allowance = allowance});
      if (space)
        spaces[i] = std::move(*space);
      else
        failures[i] = summarize(space.takeError());
    });
    for (size_t i = 0; i < count; ++i)
      if (spaces[i])
        addOptions(samples[first + i], *spaces[i]);
      else
        failure = std::move(failures[i]);
  }
  llvm::erase_if(samples, [](const Sample &s) { return s.bestNs <= 0; });
  if (!samples.empty())
    return llvm::Error::success();
  if (failure.code != ErrorCode::Success)
    return errorOf(failure);
  return makeError(ErrorCode::NoCandidate, "no config of {} runs on {} for {}",
                   range.family->name(), device.name, range.text());
}

/// Adds members that stay whatever their worth: kept ones, and the first
/// choices at the values that callers wait for.
llvm::Error CoverMaker::addFixed() {
  for (const ExtentPoint &point : options.points) {
    auto problem = range.find(point);
    if (!problem)
      continue;
    auto space =
        exploreSpace(*range.family, *problem, device, {.allowance = allowance});
    if (!space)
      return space.takeError();
    auto first = llvm::find_if(space->ranked, [&](const Candidate &candidate) {
      return !isBarred(*candidate.tmpl, candidate.config);
    });
    if (first != space->ranked.end())
      fixed.push_back(addOption(*first->tmpl, first->config, point));
  }
  for (const PortfolioMember &member : options.kept) {
    fixed.push_back(addOption(*member.tmpl, member.config, member.low));
    addOption(*member.tmpl, member.config, member.high);
  }
  return llvm::Error::success();
}

/// Kernels of other layers may serve anywhere, so they are estimated at all
/// samples.
void CoverMaker::addAtHand() {
  for (const KnownConfig &known : options.atHand) {
    if (isBarred(*known.tmpl, known.config))
      continue;
    const size_t place = addOption(*known.tmpl, known.config, range.low);
    addOption(*known.tmpl, known.config, range.high);
    kernelsAtHand.insert(list[place].kernel);
  }
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

bool CoverMaker::isNear(const Option &option, const Sample &sample) const {
  for (size_t i = 0; i < sample.point.size(); ++i) {
    const auto value = static_cast<double>(sample.point[i]);
    if (value * kReach < static_cast<double>(option.low[i]) ||
        value > kReach * static_cast<double>(option.high[i]))
      return false;
  }
  return true;
}

/// Estimates the kernel of \p known at all samples, with the run-time knobs
/// that each sample asks for. Thread-safe.
CoverMaker::KernelRow
CoverMaker::estimateKernel(llvm::ArrayRef<size_t> known) const {
  KernelRow row;
  row.times.resize(samples.size());
  for (auto [sample, time] : llvm::zip_equal(samples, row.times)) {
    llvm::SmallVector<Values, 8> seen; // variants of one kernel share theirs
    for (size_t place : known) {
      const Option &option = list[place];
      if (!isNear(option, sample) || isCancelled() ||
          llvm::is_contained(seen, option.config))
        continue;
      for (Values &variant :
           option.tmpl->variantsAt(sample.problem, option.config, device)) {
        if (llvm::is_contained(seen, variant))
          continue;
        row.consider(*option.tmpl, variant, sample, time, *this);
        seen.push_back(std::move(variant));
      }
    }
  }
  return row;
}

/// Takes \p variant for \p time if it is faster at \p sample.
void CoverMaker::KernelRow::consider(const Template &tmpl,
                                     const Values &variant,
                                     const Sample &sample, KernelTime &time,
                                     const CoverMaker &maker) {
  if (tmpl.pruneWithin(maker.allowance, sample.problem, variant, maker.device))
    return;
  const auto ns = static_cast<float>(
      tmpl.estimate(sample.problem, variant, maker.device).totalNs);
  if (ns >= time.ns)
    return;
  auto place = llvm::find(configs, variant);
  if (place == configs.end())
    place = configs.insert(place, variant);
  time = {ns, static_cast<size_t>(place - configs.begin())};
}

void CoverMaker::estimateAll() {
  std::vector<llvm::SmallVector<size_t, 4>> optionsOf(kernels.size());
  for (size_t place = 0; place < list.size(); ++place)
    optionsOf[list[place].kernel].push_back(place);
  std::vector<KernelRow> rows(kernels.size());
  forEachInParallel(rows.size(), threads, [&](size_t kernel) {
    rows[kernel] = estimateKernel(optionsOf[kernel]);
  });
  for (auto [kernel, row] : llvm::enumerate(rows)) {
    const Template &tmpl = *list[optionsOf[kernel].front()].tmpl;
    for (auto [sample, time] : llvm::zip_equal(samples, row.times)) {
      if (time.ns == CoverTable::kNever)
        continue;
      time.option = addOption(tmpl, row.configs[time.option], sample.point);
      // A kernel of another sample's space may be better than all of this
      // sample's own.
      sample.bestNs = std::min<double>(sample.bestNs, time.ns);
    }
    times.push_back(std::move(row.times));
  }
}

/// The time of a member with \p option at \p sample.
float CoverMaker::nsOf(size_t option, size_t sample) const {
  const KernelTime &time = times[list[option].kernel][sample];
  return time.option == option ? time.ns : CoverTable::kNever;
}

CoverTable CoverMaker::makeTable() const {
  CoverTable table;
  for (const Sample &sample : samples) {
    table.weights.push_back(sample.weight *
                            std::pow(sample.bestNs, kTimeExponent));
    table.bestNs.push_back(sample.bestNs);
    table.first.push_back(sample.first);
  }
  table.kernels.resize(kernels.size());
  for (auto [i, kernel] : llvm::enumerate(table.kernels)) {
    kernel.idea = ideas[i];
    kernel.isAtHand = kernelsAtHand.contains(i);
    for (const KernelTime &time : times[i])
      kernel.ns.push_back(time.ns);
  }
  return table;
}

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

/// Returns the configs of a kernel that samples ask for where it may be the
/// best, the most wanted first. They share its code.
llvm::SmallVector<size_t, 4> CoverMaker::configsOf(size_t kernel) const {
  std::map<size_t, double> wanted; // weight by option
  for (auto [sample, time] : llvm::zip_equal(samples, times[kernel]))
    if (time.ns <= sample.bestNs * (1 + kIntervalBand))
      wanted[time.option] += sample.weight;
  llvm::SmallVector<size_t, 4> chosen;
  for (const auto &[option, weight] : wanted)
    chosen.push_back(option);
  llvm::stable_sort(chosen,
                    [&](size_t a, size_t b) { return wanted[a] > wanted[b]; });
  return chosen;
}

void CoverMaker::addMember(size_t place, Portfolio &portfolio) const {
  const Option &option = list[place];
  PortfolioMember member;
  for (const PortfolioMember &known : options.known)
    if (known.tmpl == option.tmpl && known.config == option.config) {
      member.validated |= known.validated;
      llvm::append_range(member.times, known.times);
    }
  for (const PortfolioMember &kept : options.kept)
    if (kept.tmpl == option.tmpl && kept.config == option.config)
      member = kept;
  member.tmpl = option.tmpl;
  member.config = option.config;
  for (auto [i, sample] : llvm::enumerate(samples)) {
    if (nsOf(place, i) > sample.bestNs * (1 + kIntervalBand))
      continue;
    if (member.low.empty()) {
      member.low = member.high = sample.point;
      continue;
    }
    for (size_t field = 0; field < member.low.size(); ++field) {
      member.low[field] = std::min(member.low[field], sample.point[field]);
      member.high[field] = std::max(member.high[field], sample.point[field]);
    }
  }
  // It is good nowhere, but wanted, so its interval is where it was found.
  if (member.low.empty()) {
    member.low = option.low;
    member.high = option.high;
  }
  portfolio.mutableMembers().push_back(std::move(member));
}

/// Extends intervals so that every sample lies in that of its best member.
void CoverMaker::extendIntervals(Portfolio &portfolio,
                                 llvm::ArrayRef<size_t> chosen) const {
  std::vector<PortfolioMember> &members = portfolio.mutableMembers();
  for (auto [i, sample] : llvm::enumerate(samples)) {
    size_t best = 0;
    bool isHeld = false;
    for (size_t member = 0; member < chosen.size(); ++member) {
      if (nsOf(chosen[member], i) < nsOf(chosen[best], i))
        best = member;
      isHeld |= members[member].holds(sample.point) &&
                nsOf(chosen[member], i) < CoverTable::kNever;
    }
    if (isHeld || nsOf(chosen[best], i) == CoverTable::kNever)
      continue;
    PortfolioMember &member = members[best];
    for (size_t field = 0; field < member.low.size(); ++field) {
      member.low[field] = std::min(member.low[field], sample.point[field]);
      member.high[field] = std::max(member.high[field], sample.point[field]);
    }
  }
}

/// Whether a plan of \p member may be made for \p high; if so, sets its digest.
bool CoverMaker::endsAt(ExtentPoint high, PortfolioMember &member) const {
  high = range.alignDown(high);
  auto highest = high.empty() ? std::nullopt : range.covering(high);
  if (!highest ||
      member.tmpl->pruneWithin(allowance, *highest, member.config, device))
    return false;
  member.high = std::move(high);
  member.kernel =
      kernelDigest(member.tmpl->plan(*highest, member.config, device));
  return true;
}

/// Shrinks the interval of \p member until its plan is allowed: the corner of
/// several fields may need more than any sample that the interval holds.
bool CoverMaker::shrinks(PortfolioMember &member) const {
  ExtentPoint high = member.high;
  auto lengthOf = [&](size_t field) {
    return static_cast<double>(high[field]) /
           static_cast<double>(member.low[field]);
  };
  for (;;) {
    size_t longest = 0;
    for (size_t field = 1; field < high.size(); ++field)
      if (lengthOf(field) > lengthOf(longest))
        longest = field;
    if (high[longest] == member.low[longest])
      return false;
    high[longest] = std::max(member.low[longest], high[longest] / 2);
    if (endsAt(high, member))
      return true;
  }
}

/// Extends intervals between samples, as far as a member's plan is allowed: a
/// sample decides for the values up to the next one.
void CoverMaker::settle(Portfolio &portfolio) const {
  constexpr int kHalvings = 6;
  const RangeGrid grid(range);
  llvm::erase_if(portfolio.mutableMembers(), [&](PortfolioMember &member) {
    ExtentPoint known = member.high, open = member.high;
    grid.widen(member.low, open);
    if (endsAt(open, member))
      return false;
    if (!endsAt(known, member))
      return !shrinks(member);
    for (int i = 0; i < kHalvings && known != open; ++i) {
      ExtentPoint middle = known;
      for (size_t field = 0; field < middle.size(); ++field)
        middle[field] += (open[field] - known[field]) / 2;
      (endsAt(middle, member) ? known : open) = middle;
    }
    return false;
  });
}

llvm::Expected<Portfolio> CoverMaker::make() {
  if (llvm::Error error = explore())
    return error;
  if (llvm::Error error = addFixed())
    return error;
  addAtHand();
  estimateAll();
  if (isCancelled())
    return makeError(ErrorCode::Cancelled, "cancelled");
  const CoverTable table = makeTable();
  std::vector<size_t> fixedKernels;
  for (size_t option : fixed)
    if (!llvm::is_contained(fixedKernels, list[option].kernel))
      fixedKernels.push_back(list[option].kernel);
  const Cover cover = chooseCover(
      table, {.tolerance = options.tolerance, .fixed = fixedKernels});
  // Beyond this point the list of kernels is final.
  Portfolio portfolio(range);
  portfolio.regret = cover.regret;
  std::vector<size_t> chosen = fixed;
  for (size_t kernel : cover.kernels)
    for (size_t option : configsOf(kernel))
      chosen.push_back(option);
  std::vector<size_t> members;
  for (size_t option : chosen)
    if (!llvm::is_contained(members, option))
      members.push_back(option);
  for (size_t option : members)
    addMember(option, portfolio);
  extendIntervals(portfolio, members);
  settle(portfolio);
  portfolio.index(device);
  return portfolio;
}

llvm::Expected<Portfolio> coverRange(const ProblemRange &range,
                                     const DeviceModel &device,
                                     const CoverOptions &options) {
  return CoverMaker(range, device, options).make();
}

} // namespace kiln
