//===- Portfolio.cpp - the kernels that serve a range ---------------------===//
#include "Tune/Portfolio.h"

#include "Store/ArtifactStore.h"
#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSet.h>

#include <algorithm>
#include <cmath>

namespace kiln {

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

bool PortfolioMember::serves(llvm::ArrayRef<int64_t> point) const {
  for (auto [value, most] : llvm::zip_equal(point, high))
    if (value > most)
      return false;
  return true;
}

bool PortfolioMember::holds(llvm::ArrayRef<int64_t> point) const {
  for (auto [value, least] : llvm::zip_equal(point, low))
    if (value < least)
      return false;
  return serves(point);
}

std::vector<int64_t> compiledKnobs(const Record &config) {
  std::vector<int64_t> values;
  for (auto [field, value] :
       llvm::zip_equal(config.schema().fields(), config.values()))
    if (field.role == FieldRole::Knob)
      values.push_back(value);
  return values;
}

size_t Portfolio::measuredMembers() const {
  return static_cast<size_t>(
      llvm::count_if(list, [](const PortfolioMember &member) {
        return !member.times.empty();
      }));
}

size_t Portfolio::kernels() const {
  llvm::StringSet<> distinct;
  for (const PortfolioMember &member : list)
    distinct.insert(member.kernel);
  return distinct.size();
}

//===----------------------------------------------------------------------===//
// Calibration
//===----------------------------------------------------------------------===//

static double medianOf(std::vector<double> values) {
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// How far two points are apart: logarithms of the extents.
static double distanceOf(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b) {
  double distance = 0;
  for (auto [left, right] : llvm::zip_equal(a, b))
    distance +=
        std::abs(std::log(static_cast<double>(std::max<int64_t>(left, 1)) /
                          static_cast<double>(std::max<int64_t>(right, 1))));
  return distance;
}

void Portfolio::addTime(uint32_t member, MemberTime time) {
  std::vector<MemberTime> &times = list[member].times;
  auto place = llvm::partition_point(
      times, [&](const MemberTime &known) { return known.point < time.point; });
  if (place != times.end() && place->point == time.point)
    *place = std::move(time);
  else
    times.insert(place, std::move(time));
}

void Portfolio::calibrate() {
  hasProven = llvm::any_of(
      list, [](const PortfolioMember &member) { return member.validated; });
  hasWrong = llvm::any_of(
      faults, [](const StoredFault &fault) { return fault.isWrong(); });
  defaultFactors.assign(list.size(), 1);
  std::vector<double> all;
  for (const PortfolioMember &member : list)
    for (const MemberTime &time : member.times)
      all.push_back(time.factor());
  if (all.empty())
    return;
  const double median = medianOf(all);
  for (auto [i, member] : llvm::enumerate(list)) {
    std::vector<double> alike;
    for (const PortfolioMember &other : list)
      if (other.tmpl == member.tmpl)
        for (const MemberTime &time : other.times)
          alike.push_back(time.factor());
    defaultFactors[i] = alike.empty() ? median : medianOf(std::move(alike));
  }
}

double Portfolio::factorAt(uint32_t place,
                           llvm::ArrayRef<int64_t> point) const {
  const std::vector<MemberTime> &times = list[place].times;
  if (times.empty())
    return place < defaultFactors.size() ? defaultFactors[place] : 1;
  if (point.size() == 1) {
    auto above = llvm::partition_point(times, [&](const MemberTime &time) {
      return time.point[0] < point[0];
    });
    if (above == times.begin())
      return times.front().factor();
    if (above == times.end())
      return times.back().factor();
    const MemberTime &below = *std::prev(above);
    const double before = distanceOf(below.point, point);
    const double after = distanceOf(above->point, point);
    return (below.factor() * after + above->factor() * before) /
           (before + after);
  }
  double sum = 0, weights = 0;
  for (const MemberTime &time : times) {
    const double distance = distanceOf(time.point, point);
    if (distance == 0)
      return time.factor();
    sum += time.factor() / (distance * distance);
    weights += 1 / (distance * distance);
  }
  return sum / weights;
}

double Portfolio::factorOf(const Template &tmpl, const Record &config,
                           llvm::ArrayRef<int64_t> point) const {
  const std::vector<int64_t> knobs = compiledKnobs(config);
  double ofTemplate = 1;
  for (auto [i, member] : llvm::enumerate(list)) {
    if (member.tmpl != &tmpl)
      continue;
    const auto place = static_cast<uint32_t>(i);
    if (!member.times.empty() && compiledKnobs(member.config) == knobs)
      return factorAt(place, point);
    if (place < defaultFactors.size())
      ofTemplate = defaultFactors[place];
  }
  return std::min(ofTemplate, 1.0);
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

static void sortByTime(Portfolio::Ranking &ranking) {
  llvm::stable_sort(ranking,
                    [](const PortfolioChoice &a, const PortfolioChoice &b) {
                      return a.expectedNs < b.expectedNs;
                    });
}

/// Orders \p ranking, which is by time: see rank().
void Portfolio::preferProven(Ranking &ranking) const {
  auto isProven = [&](const PortfolioChoice &choice) {
    return list[choice.member].validated;
  };
  auto best = llvm::find_if(ranking, isProven);
  if (best == ranking.end()) {
    if (hasProven && hasWrong)
      ranking.clear();
    return;
  }
  const double limitNs = hasWrong ? 0 : best->expectedNs / kProofWorth;
  llvm::erase_if(ranking, [&](const PortfolioChoice &choice) {
    return !isProven(choice) && choice.expectedNs >= limitNs;
  });
}

void Portfolio::index(const DeviceModel &device) {
  for (PortfolioMember &member : list)
    llvm::sort(member.times, [](const MemberTime &a, const MemberTime &b) {
      return a.point < b.point;
    });
  calibrate();
  // Around a point of several fields there are more samples, so each needs to
  // tell less.
  constexpr size_t kMostSamples = 600;
  const size_t most = served.fields.size() == 1 ? 8 : 4;
  grid = RangeGrid(served, kMostSamples);
  plausible.assign(grid.size(), {});
  ExtentPoint last;
  for (size_t place = 0; place < grid.size(); ++place) {
    ExtentPoint point = served.alignDown(grid.at(place));
    if (place && point == last) {
      plausible[place] = plausible[place - 1];
      continue;
    }
    last = point;
    auto problem = point.empty() ? std::nullopt : served.find(point);
    if (!problem)
      continue;
    Ranking ranking;
    for (uint32_t member = 0; member < list.size(); ++member)
      if (list[member].holds(point))
        estimate(member, *problem, point, device, ranking);
    sortByTime(ranking);
    preferProven(ranking);
    ranking.resize(std::min(ranking.size(), most));
    for (const PortfolioChoice &choice : ranking)
      plausible[place].push_back(static_cast<uint16_t>(choice.member));
  }
}

/// Adds \p place to \p ranking if it may run there.
void Portfolio::estimate(uint32_t place, const Problem &problem,
                         llvm::ArrayRef<int64_t> point,
                         const DeviceModel &device, Ranking &ranking) const {
  const PortfolioMember &member = list[place];
  if (member.tmpl->prune(problem, member.config, device))
    return;
  const double predictedNs =
      member.tmpl->estimate(problem, member.config, device).totalNs;
  ranking.push_back({place, predictedNs, predictedNs * factorAt(place, point)});
}

Portfolio::Ranking Portfolio::rank(const Problem &problem,
                                   llvm::ArrayRef<int64_t> point,
                                   const DeviceModel &device,
                                   Filter mayTake) const {
  Ranking ranking;
  llvm::SmallVector<uint32_t, 32> seen;
  auto consider = [&](uint32_t place) {
    if (llvm::is_contained(seen, place))
      return;
    seen.push_back(place);
    const PortfolioMember &member = list[place];
    if (member.serves(point) && (!mayTake || mayTake(place)))
      estimate(place, problem, point, device, ranking);
  };
  auto considerAll = [&](auto isWanted) {
    for (uint32_t member = 0; member < list.size(); ++member)
      if (isWanted(list[member]))
        consider(member);
  };
  auto holds = [&](const PortfolioMember &member) {
    return member.holds(point);
  };
  if (plausible.empty())
    considerAll(holds);
  else if (served.contains(point))
    for (size_t place : grid.around(point))
      for (uint32_t member : plausible[place])
        if (holds(list[member]))
          consider(member);
  sortByTime(ranking);
  preferProven(ranking);
  if (!ranking.empty())
    return ranking;
  seen.clear();
  considerAll([](const PortfolioMember &) { return true; });
  sortByTime(ranking);
  preferProven(ranking);
  return ranking;
}

Portfolio::Ranking Portfolio::estimateAll(const Problem &problem,
                                          llvm::ArrayRef<int64_t> point,
                                          const DeviceModel &device) const {
  Ranking ranking;
  for (uint32_t member = 0; member < list.size(); ++member)
    if (list[member].holds(point))
      estimate(member, problem, point, device, ranking);
  sortByTime(ranking);
  return ranking;
}

bool Portfolio::hasHolder(llvm::ArrayRef<int64_t> point) const {
  return llvm::any_of(list, [&](const PortfolioMember &member) {
    return isSolid(member) && member.holds(point);
  });
}

/// Moves the ends of the best member's interval that may be moved to hold
/// \p point.
void Portfolio::stretchTo(const ExtentPoint &point, const DeviceModel &device,
                          const Allowance &allowance) {
  auto problem = point.empty() ? std::nullopt : served.find(point);
  if (!problem || hasHolder(point))
    return;
  Ranking ranking;
  for (uint32_t member = 0; member < list.size(); ++member)
    if (isSolid(list[member]))
      estimate(member, *problem, point, device, ranking);
  sortByTime(ranking);
  for (const PortfolioChoice &choice : ranking) {
    PortfolioMember &member = list[choice.member];
    ExtentPoint low = member.low, high = member.high;
    for (size_t field = 0; field < point.size(); ++field) {
      low[field] = std::min(low[field], point[field]);
      high[field] = std::max(high[field], point[field]);
    }
    high = served.alignDown(high);
    auto highest = high.empty() ? std::nullopt : served.covering(high);
    if (!highest ||
        member.tmpl->pruneWithin(allowance, *highest, member.config, device))
      continue;
    member.low = std::move(low);
    member.high = std::move(high);
    return;
  }
}

void Portfolio::closeGaps(const DeviceModel &device, uint64_t workspaceBytes) {
  Allowance allowance;
  allowance.workspaceBytes = workspaceBytes;
  calibrate();
  const RangeGrid samples(served);
  // From the highest on: a plan for that serves all below.
  for (size_t place = samples.size(); place-- > 0;)
    stretchTo(served.alignDown(samples.at(place)), device, allowance);
}

std::optional<PortfolioChoice> Portfolio::choose(const Problem &problem,
                                                 llvm::ArrayRef<int64_t> point,
                                                 const DeviceModel &device,
                                                 Filter mayTake) const {
  Ranking ranking = rank(problem, point, device, mayTake);
  if (ranking.empty())
    return std::nullopt;
  return ranking.front();
}

//===----------------------------------------------------------------------===//
// The stored form
//===----------------------------------------------------------------------===//

static std::vector<int64_t> storedPoint(llvm::ArrayRef<int64_t> point) {
  return {point.begin(), point.end()};
}

static ExtentPoint pointOf(llvm::ArrayRef<int64_t> stored) {
  return ExtentPoint(stored.begin(), stored.end());
}

StoredPortfolio Portfolio::toStored() const {
  StoredPortfolio stored;
  stored.low = storedPoint(served.low);
  stored.high = storedPoint(served.high);
  stored.regret = regret;
  stored.isComplete = isComplete;
  stored.measuredAtMs = measuredAtMs;
  stored.faults = faults;
  for (const PortfolioMember &member : list) {
    StoredMember &added = stored.members.emplace_back();
    added.config = member.config.text();
    added.kernel = member.kernel;
    added.low = storedPoint(member.low);
    added.high = storedPoint(member.high);
    added.validated = member.validated;
    for (const MemberTime &time : member.times)
      added.times.push_back(
          {storedPoint(time.point), time.measuredNs, time.predictedNs});
  }
  return stored;
}

/// The member that \p stored is today over \p range; nullopt: it is none.
static std::optional<PortfolioMember> restoreMember(const ProblemRange &range,
                                                    const StoredMember &stored,
                                                    const DeviceModel &device,
                                                    uint64_t workspaceBytes) {
  auto named = range.family->parseConfig(stored.config);
  if (!named) {
    llvm::consumeError(named.takeError()); // of another version
    return std::nullopt;
  }
  PortfolioMember member;
  member.tmpl = named->tmpl;
  member.config = std::move(named->config);
  member.kernel = stored.kernel;
  member.low = pointOf(stored.low);
  member.high = pointOf(stored.high);
  member.validated = stored.validated;
  auto highest = range.covering(member.high);
  Allowance allowance;
  allowance.workspaceBytes = workspaceBytes;
  if (!highest ||
      member.tmpl->pruneWithin(allowance, *highest, member.config, device) ||
      kernelDigest(member.tmpl->plan(*highest, member.config, device)) !=
          stored.kernel)
    return std::nullopt;
  for (const StoredTime &time : stored.times) {
    ExtentPoint point = pointOf(time.point);
    auto problem = range.find(point);
    if (!problem || member.tmpl->prune(*problem, member.config, device))
      continue;
    const double predictedNs =
        member.tmpl->estimate(*problem, member.config, device).totalNs;
    if (predictedNs > 0)
      member.times.push_back({std::move(point), time.measuredNs, predictedNs});
  }
  return member;
}

Portfolio Portfolio::restore(const ProblemRange &range,
                             const StoredPortfolio &stored,
                             const DeviceModel &device, uint64_t workspaceBytes,
                             std::vector<std::string> *dropped) {
  ProblemRange whole = range;
  whole.low = pointOf(stored.low);
  whole.high = pointOf(stored.high);
  Portfolio portfolio(std::move(whole));
  portfolio.regret = stored.regret;
  portfolio.isComplete = stored.isComplete;
  portfolio.measuredAtMs = stored.measuredAtMs;
  portfolio.faults = stored.faults;
  for (const StoredMember &known : stored.members) {
    auto member =
        restoreMember(portfolio.served, known, device, workspaceBytes);
    if (member)
      portfolio.list.push_back(std::move(*member));
    else if (dropped)
      dropped->push_back(known.config);
  }
  portfolio.index(device);
  return portfolio;
}

std::optional<Portfolio> findPortfolio(const PortfolioStore &store,
                                       const ProblemRange &range,
                                       const DeviceModel &device,
                                       llvm::StringRef deviceClass,
                                       uint64_t workspaceBytes) {
  const std::string layer = range.fixedText();
  for (const PortfolioKey &key : {PortfolioKey::measured(layer, deviceClass),
                                  PortfolioKey::estimated(layer, device)}) {
    auto known = store.load(key);
    // One of earlier kernels may hide a wider one of today's.
    for (const StoredPortfolio *stored :
         known->findAll(range.low, range.high)) {
      // Trials found nothing right: nor would they for the estimator's choice.
      if (stored->isHopeless())
        return std::nullopt;
      Portfolio portfolio =
          Portfolio::restore(range, *stored, device, workspaceBytes);
      if (!portfolio.empty())
        return portfolio;
    }
  }
  return std::nullopt;
}

} // namespace kiln
