//===- Portfolio.cpp - the kernels that serve a range ---------------------===//
#include "Tune/Portfolio.h"

#include "Store/ArtifactStore.h"
#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringSet.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

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

void Portfolio::addTime(uint32_t member, MemberTime time) {
  std::vector<MemberTime> &times = list[member].times;
  auto place = llvm::partition_point(
      times, [&](const MemberTime &known) { return known.point < time.point; });
  if (place != times.end() && place->point == time.point)
    *place = std::move(time);
  else
    times.insert(place, std::move(time));
}

/// The time of \p config at \p point by \p measured; nullopt if it cannot run
/// there.
static std::optional<MemberTime>
timeOf(const ProblemRange &range, const Template &tmpl, const Values &config,
       const RangeFact &fact, const DeviceModel &device) {
  auto problem = range.find(fact.point);
  if (!problem || tmpl.prune(*problem, config, device))
    return std::nullopt;
  const Estimate estimate = tmpl.estimate(*problem, config, device);
  if (estimate.totalNs <= 0)
    return std::nullopt;
  return MemberTime{fact.point, fact.found->medianNs, estimate.totalNs,
                    estimate.bound, fact.found->series};
}

/// Adds \p fact about a config that is no member, if its kernel is today's.
void Portfolio::addOther(const RangeFact &fact, const DeviceModel &device) {
  auto named = served.family->parseConfig(fact.found->config);
  if (!named) {
    llvm::consumeError(named.takeError()); // of another version
    return;
  }
  auto time = timeOf(served, *named->tmpl, named->config, fact, device);
  if (time &&
      kernelDigest(named->tmpl->plan(*served.find(fact.point), named->config,
                                     device)) == fact.found->kernel)
    others.push_back({named->tmpl, std::move(named->config), *time});
}

void Portfolio::addFacts(const RangeFacts &facts, const DeviceModel &device) {
  others.clear();
  llvm::StringMap<uint32_t> places;
  for (uint32_t member = 0; member < list.size(); ++member)
    places[list[member].config.text()] = member;
  // Each fact costs a plan, to see whether its kernel is today's.
  constexpr size_t kMostOthers = 64;
  for (const RangeFact &fact : facts.all()) {
    const Measurement &found = *fact.found;
    hasFoundWrong |= found.isWrong() && !found.isOfValue();
    if (!found.valid)
      continue;
    auto place = places.find(found.config);
    if (place == places.end()) {
      if (others.size() < kMostOthers)
        addOther(fact, device);
      continue;
    }
    const PortfolioMember &member = list[place->second];
    if (member.kernel != found.kernel)
      continue;
    if (auto time = timeOf(served, *member.tmpl, member.config, fact, device))
      addTime(place->second, std::move(*time));
  }
}

void Portfolio::calibrate() {
  hasProven = llvm::any_of(
      list, [](const PortfolioMember &member) { return member.validated; });
  gathered = Evidence();
  std::map<std::pair<uint64_t, ExtentPoint>, uint32_t> series;
  auto add = [&](const Template &tmpl, const Values &config,
                 const MemberTime &time) {
    const auto number = static_cast<uint32_t>(series.size());
    const auto key =
        std::pair(time.series, time.series ? ExtentPoint() : time.point);
    gathered.add({tmpl, config, time.point, time.bound},
                 series.try_emplace(key, number).first->second,
                 std::log(time.measuredNs / time.predictedNs));
  };
  for (const OtherTime &other : others)
    add(*other.tmpl, other.config, other.time);
  for (const PortfolioMember &member : list)
    for (const MemberTime &time : member.times)
      add(*member.tmpl, member.config, time);
  gathered.fit();
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// The member at \p place as a contender at \p point; nullopt if it may not
/// run.
std::optional<Contender> Portfolio::contender(uint32_t place,
                                              const Problem &problem,
                                              llvm::ArrayRef<int64_t> point,
                                              const DeviceModel &device) const {
  const PortfolioMember &member = list[place];
  if (member.tmpl->prune(problem, member.config, device))
    return std::nullopt;
  // Run-time knobs of other values are used where they were measured.
  const auto variants = member.tmpl->variantsAt(problem, member.config, device);
  const auto own = llvm::find(variants, member.config);
  if (own == variants.end() && member.times.empty())
    return std::nullopt;
  const Estimate estimate =
      member.tmpl->estimate(problem, member.config, device);
  return Contender{{*member.tmpl, member.config, point, estimate.bound},
                   estimate.totalNs,
                   estimate.totalNs,
                   place,
                   static_cast<int32_t>(own - variants.begin())};
}

/// Once trials found wrong results, any unproven member may be wrong as well.
void Portfolio::dropUnproven(std::vector<Contender> &contenders) const {
  if (hasProven && hasFoundWrong)
    llvm::erase_if(contenders, [&](const Contender &contender) {
      return !list[contender.place].validated;
    });
}

Portfolio::Ranking Portfolio::order(std::vector<Contender> contenders) const {
  dropUnproven(contenders);
  llvm::stable_sort(contenders, [](const Contender &a, const Contender &b) {
    return std::tie(a.predictedNs, a.order) < std::tie(b.predictedNs, b.order);
  });
  judge(contenders, gathered, /*mostLeads=*/2);
  Ranking ranking;
  for (const Contender &contender : contenders)
    ranking.push_back({static_cast<uint32_t>(contender.place),
                       contender.predictedNs, contender.expectedNs});
  return ranking;
}

void Portfolio::addPlausible(llvm::ArrayRef<int64_t> point,
                             const DeviceModel &device,
                             llvm::SmallVectorImpl<uint16_t> &places) const {
  auto problem = point.empty() ? std::nullopt : served.find(point);
  if (!problem)
    return;
  std::vector<Contender> contenders;
  for (uint32_t member = 0; member < list.size(); ++member)
    if (list[member].holds(point))
      if (auto added = contender(member, *problem, point, device))
        contenders.push_back(std::move(*added));
  dropUnproven(contenders);
  auto addFirst = [&](auto timeOf) {
    // A point of several fields has more samples around it, so each may have
    // fewer members.
    const size_t most = served.fields.size() == 1 ? 5 : 3;
    llvm::stable_sort(contenders, [&](const Contender &a, const Contender &b) {
      return timeOf(a) < timeOf(b);
    });
    for (const Contender &one : llvm::ArrayRef(contenders).take_front(most))
      if (!llvm::is_contained(places, one.place))
        places.push_back(static_cast<uint16_t>(one.place));
  };
  addFirst([](const Contender &one) { return one.predictedNs; });
  if (gathered.empty())
    return;
  for (Contender &one : contenders)
    one.expectedNs = one.predictedNs * std::exp(gathered.expect(one.subject));
  addFirst([](const Contender &one) { return one.expectedNs; });
}

void Portfolio::index(const DeviceModel &device) {
  for (PortfolioMember &member : list)
    llvm::sort(member.times, [](const MemberTime &a, const MemberTime &b) {
      return a.point < b.point;
    });
  calibrate();
  constexpr size_t kMostSamples = 600;
  grid = RangeGrid(served, kMostSamples);
  plausible.assign(grid.size(), {});
  ExtentPoint last;
  for (size_t place = 0; place < grid.size(); ++place) {
    ExtentPoint point = served.alignDown(grid.at(place));
    if (place && point == last)
      plausible[place] = plausible[place - 1];
    else
      addPlausible(point, device, plausible[place]);
    last = std::move(point);
  }
}

Portfolio::Ranking Portfolio::rank(const Problem &problem,
                                   llvm::ArrayRef<int64_t> point,
                                   const DeviceModel &device,
                                   Filter mayTake) const {
  std::vector<Contender> contenders;
  llvm::SmallVector<uint32_t, 32> seen;
  auto consider = [&](uint32_t place) {
    if (llvm::is_contained(seen, place))
      return;
    seen.push_back(place);
    if (!list[place].serves(point) || (mayTake && !mayTake(place)))
      return;
    if (auto added = contender(place, problem, point, device))
      contenders.push_back(std::move(*added));
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
  Ranking ranking = order(std::move(contenders));
  if (!ranking.empty())
    return ranking;
  seen.clear();
  contenders.clear();
  considerAll([](const PortfolioMember &) { return true; });
  return order(std::move(contenders));
}

std::optional<PortfolioChoice>
Portfolio::expect(uint32_t member, const Problem &problem,
                  llvm::ArrayRef<int64_t> point,
                  const DeviceModel &device) const {
  auto one = contender(member, problem, point, device);
  if (!one)
    return std::nullopt;
  return PortfolioChoice{member, one->predictedNs,
                         one->predictedNs *
                             std::exp(gathered.expect(one->subject))};
}

double behindBest(llvm::ArrayRef<PortfolioChoice> ranking) {
  if (ranking.empty())
    return 0;
  double leastNs = std::numeric_limits<double>::infinity();
  for (const PortfolioChoice &choice : ranking)
    leastNs = std::min(leastNs, choice.predictedNs);
  return ranking.front().predictedNs / leastNs - 1;
}

static void sortByTime(Portfolio::Ranking &ranking) {
  llvm::stable_sort(ranking,
                    [](const PortfolioChoice &a, const PortfolioChoice &b) {
                      return a.expectedNs < b.expectedNs;
                    });
}

Portfolio::Ranking Portfolio::estimateAll(const Problem &problem,
                                          llvm::ArrayRef<int64_t> point,
                                          const DeviceModel &device) const {
  Ranking ranking;
  for (uint32_t member = 0; member < list.size(); ++member)
    if (list[member].holds(point))
      if (auto one = expect(member, problem, point, device))
        ranking.push_back(*one);
  sortByTime(ranking);
  return ranking;
}

bool Portfolio::hasHolder(llvm::ArrayRef<int64_t> point) const {
  return llvm::any_of(list, [&](const PortfolioMember &member) {
    return isSolid(member) && member.holds(point);
  });
}

/// Moves the ends of the best member's interval to hold \p point, if they may
/// be moved.
void Portfolio::stretchTo(const ExtentPoint &point, const DeviceModel &device,
                          const Allowance &allowance) {
  auto problem = point.empty() ? std::nullopt : served.find(point);
  if (!problem || hasHolder(point))
    return;
  Ranking ranking;
  for (uint32_t member = 0; member < list.size(); ++member)
    if (isSolid(list[member]))
      if (auto one = expect(member, *problem, point, device))
        ranking.push_back(*one);
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
  // The highest sample comes first, because a plan for it serves all below.
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
  stored.hasGrown = hasGrown;
  stored.measuredAtMs = measuredAtMs;
  for (const ExtentPoint &anchor : anchors)
    stored.anchors.push_back(storedPoint(anchor));
  for (const PortfolioMember &member : list) {
    StoredMember &added = stored.members.emplace_back();
    added.config = member.config.text();
    added.kernel = member.kernel;
    added.low = storedPoint(member.low);
    added.high = storedPoint(member.high);
    added.validated = member.validated;
    added.isMeasured = !member.times.empty();
  }
  return stored;
}

/// Restores \p stored as today's member over \p range; nullopt if it cannot be
/// used any more.
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
  return member;
}

bool Portfolio::lacksFacts(const StoredPortfolio &stored) const {
  return llvm::any_of(stored.members, [&](const StoredMember &known) {
    return known.isMeasured && llvm::any_of(list, [&](const auto &member) {
             return member.times.empty() && member.kernel == known.kernel &&
                    member.config.text() == known.config;
           });
  });
}

Portfolio Portfolio::restore(const ProblemRange &range,
                             const StoredPortfolio &stored,
                             const RangeFacts &facts, const DeviceModel &device,
                             uint64_t workspaceBytes,
                             std::vector<std::string> *dropped) {
  ProblemRange whole = range;
  whole.low = pointOf(stored.low);
  whole.high = pointOf(stored.high);
  Portfolio portfolio(std::move(whole));
  portfolio.regret = stored.regret;
  portfolio.measuredAtMs = stored.measuredAtMs;
  for (const std::vector<int64_t> &anchor : stored.anchors)
    portfolio.anchors.insert(pointOf(anchor));
  for (const StoredMember &known : stored.members) {
    auto member =
        restoreMember(portfolio.served, known, device, workspaceBytes);
    if (member)
      portfolio.list.push_back(std::move(*member));
    else if (dropped)
      dropped->push_back(known.config);
  }
  portfolio.addFacts(facts, device);
  portfolio.isComplete = portfolio.isWhole =
      stored.isComplete && !portfolio.lacksFacts(stored);
  portfolio.hasGrown = stored.hasGrown;
  portfolio.index(device);
  return portfolio;
}

std::optional<FoundPortfolio> findPortfolio(const PortfolioSources &from,
                                            const ProblemRange &range,
                                            RecordAge age, bool onlyMeasured) {
  const std::string layer = range.fixedText();
  std::vector<PortfolioKey> keys = {
      PortfolioKey::measured(layer, from.deviceClass)};
  if (!onlyMeasured)
    keys.push_back(PortfolioKey::estimated(layer, from.device));
  for (PortfolioKey &key : keys) {
    const auto known = from.portfolios.load(key, age);
    // A portfolio of earlier kernels may hide a wider one of today's.
    for (const StoredPortfolio *stored :
         known->findAll(range.low, range.high)) {
      ProblemRange whole = range;
      whole.low = pointOf(stored->low);
      whole.high = pointOf(stored->high);
      FoundPortfolio found;
      found.facts = RangeFacts::find(from.records, whole, stored->anchors,
                                     from.deviceClass, from.mode);
      std::vector<std::string> dropped;
      found.portfolio =
          Portfolio::restore(range, *stored, found.facts, from.device,
                             from.workspaceBytes, &dropped);
      found.hasDropped = !dropped.empty();
      found.lacksFacts = found.portfolio.lacksFacts(*stored);
      found.key = key;
      if (stored->isHopeless() || !found.portfolio.empty())
        return found;
    }
  }
  return std::nullopt;
}

} // namespace kiln
