//===- AnchorPlan.cpp - where the members of a portfolio are measured -----===//
#include "Tune/AnchorPlan.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>

namespace kiln {

/// A member further behind the best at a point does not compete there.
static constexpr double kCompetitorBand = 0.15;
static constexpr size_t kParts = 3; ///< of a member's domain
/// A range of several fields has corners where all of them are large. A point
/// that takes longer than this, in ns, is measured only if it comes first.
static constexpr double kLongestOfProduct = 25e6;

namespace {

/// A point that may become an anchor.
struct Place {
  ExtentPoint point;
  double weight = 0;
  double leastNs = 0;            ///< the least expected time of the members
  std::vector<uint32_t> members; ///< that compete there, best first
};

/// A section of the places where a member competes, to be measured once.
struct Section {
  uint32_t member = 0;
  size_t first = 0, last = 0; ///< indices of places
  double value = 0;
  bool isFilled = false;
};

class Planner {
public:
  Planner(const Portfolio &portfolio, const DeviceModel &device,
          const AnchorGoal &goal)
      : portfolio(portfolio), device(device), goal(goal) {}

  std::vector<Anchor> plan();

private:
  void findPlaces();
  std::optional<Place> placeOf(const ExtentPoint &point) const;
  bool isTooLong(const Place &place) const {
    return place.point.size() > 1 && place.leastNs > kLongestOfProduct;
  }
  void makeSections();
  double worthOf(size_t place) const;
  void take(size_t place);
  size_t nearestTo(const ExtentPoint &point) const;
  void takeFirst(const ExtentPoint &point);
  void takeWidestGap();
  bool isTaken(llvm::ArrayRef<int64_t> point) const;

  const Portfolio &portfolio;
  const DeviceModel &device;
  const AnchorGoal &goal;
  std::vector<Place> places;
  std::vector<Section> sections;
  std::vector<std::vector<size_t>> sectionsOf; ///< by place
  std::vector<Anchor> anchors;
};

} // namespace

/// Finds the members that compete at \p point; nullopt if it is not of the
/// range.
std::optional<Place> Planner::placeOf(const ExtentPoint &point) const {
  auto problem = portfolio.range().find(point);
  if (!problem || portfolio.range().family->isEmpty(*problem) ||
      (goal.hasRoom && !goal.hasRoom(*problem)))
    return std::nullopt;
  Place place;
  place.point = point;
  const Portfolio::Ranking ranking =
      portfolio.estimateAll(*problem, point, device);
  if (!ranking.empty())
    place.leastNs = ranking.front().expectedNs;
  for (const PortfolioChoice &choice : ranking)
    if (place.members.size() < 2 ||
        choice.expectedNs <= ranking.front().expectedNs * (1 + kCompetitorBand))
      place.members.push_back(choice.member);
  return place;
}

void Planner::findPlaces() {
  const RangeGrid grid(portfolio.range());
  for (size_t i = 0; i < grid.size(); ++i) {
    ExtentPoint point = portfolio.range().alignDown(grid.at(i));
    if (point.empty())
      continue;
    if (!places.empty() && places.back().point == point)
      places.back().weight += grid.weightOf(i);
    else if (auto place = placeOf(point); place && !isTooLong(*place)) {
      place->weight = grid.weightOf(i);
      places.push_back(std::move(*place));
    }
  }
}

/// Cuts each member's domain into sections of similar weight. A measured point
/// fills its section.
void Planner::makeSections() {
  sectionsOf.resize(places.size());
  for (uint32_t member = 0; member < portfolio.members().size(); ++member) {
    std::vector<size_t> domain;
    double total = 0;
    size_t closest = places.size(), leastRank = SIZE_MAX;
    for (auto [i, place] : llvm::enumerate(places)) {
      auto found = llvm::find(place.members, member);
      if (found == place.members.end())
        continue;
      const auto rank = static_cast<size_t>(found - place.members.begin());
      if (rank < leastRank) {
        leastRank = rank;
        closest = i;
      }
      if (rank < goal.members) {
        domain.push_back(i);
        total += place.weight;
      }
    }
    if (domain.empty() && closest < places.size())
      domain.push_back(closest);
    double before = 0;
    size_t part = kParts;
    for (size_t i : domain) {
      const size_t here =
          total > 0 ? std::min(kParts - 1,
                               static_cast<size_t>(kParts * before / total))
                    : 0;
      before += places[i].weight;
      if (here != part) {
        part = here;
        sections.push_back({member, i, i, 0, false});
      }
      Section &section = sections.back();
      section.last = i;
      const bool isFirst =
          !places[i].members.empty() && places[i].members.front() == member;
      constexpr double kOfCompetitor = 0.1;
      section.value += places[i].weight * (isFirst ? 1 : kOfCompetitor) + 1e-6;
      sectionsOf[i].push_back(sections.size() - 1);
    }
  }
  for (Section &section : sections)
    for (const MemberTime &time : portfolio.members()[section.member].times)
      for (size_t i = section.first; i <= section.last; ++i)
        section.isFilled |= places[i].point == time.point;
}

/// The value of an anchor at \p place: the sections that it would fill. The
/// middle of a section represents it better than its ends.
double Planner::worthOf(size_t place) const {
  double worth = 0;
  for (size_t index : sectionsOf[place]) {
    const Section &section = sections[index];
    if (section.isFilled)
      continue;
    const double width = static_cast<double>(section.last - section.first + 1);
    const double offset =
        std::abs(static_cast<double>(place - section.first) + 0.5 - width / 2) /
        width;
    worth += section.value * (1 - offset);
  }
  return worth;
}

bool Planner::isTaken(llvm::ArrayRef<int64_t> point) const {
  return llvm::any_of(anchors, [&](const Anchor &anchor) {
    return llvm::ArrayRef<int64_t>(anchor.point) == point;
  });
}

void Planner::take(size_t index) {
  const Place &place = places[index];
  Anchor &anchor = anchors.emplace_back();
  anchor.point = place.point;
  for (uint32_t member : place.members)
    if (anchor.members.size() < goal.members)
      anchor.members.push_back(member);
  for (size_t section : sectionsOf[index]) {
    sections[section].isFilled = true;
    if (!llvm::is_contained(anchor.members, sections[section].member) &&
        anchor.members.size() <= goal.members)
      anchor.members.push_back(sections[section].member);
  }
}

/// The distance of two points.
static double distanceOf(const ExtentPoint &a, const ExtentPoint &b) {
  double sum = 0;
  for (auto [x, y] : llvm::zip_equal(a, b))
    sum += std::abs(std::log(static_cast<double>(x) / static_cast<double>(y)));
  return sum;
}

/// The place nearest to \p point.
size_t Planner::nearestTo(const ExtentPoint &point) const {
  size_t nearest = places.size();
  double least = INFINITY;
  for (auto [i, place] : llvm::enumerate(places))
    if (double distance = distanceOf(place.point, point); distance < least) {
      least = distance;
      nearest = i;
    }
  return nearest;
}

/// Takes a point that need not be a place.
void Planner::takeFirst(const ExtentPoint &point) {
  const std::optional<Place> place = placeOf(point);
  if (!place || isTaken(point))
    return;
  Anchor &anchor = anchors.emplace_back();
  anchor.point = point;
  anchor.members = place->members;
  anchor.members.resize(std::min(anchor.members.size(), goal.members));
  const size_t nearest = nearestTo(point);
  for (Section &section : sections)
    section.isFilled |= llvm::is_contained(anchor.members, section.member) &&
                        section.first <= nearest && nearest <= section.last;
}

/// Takes the place that is furthest from all measured points.
void Planner::takeWidestGap() {
  size_t widest = places.size();
  double most = 0;
  for (auto [i, place] : llvm::enumerate(places)) {
    double nearest = INFINITY;
    for (const Anchor &anchor : anchors)
      nearest = std::min(nearest, distanceOf(anchor.point, place.point));
    // Times of a kernel without a competitor decide nothing.
    if (place.members.size() > 1 && nearest > most) {
      most = nearest;
      widest = i;
    }
  }
  if (widest < places.size() && most > 0)
    take(widest);
}

std::vector<Anchor> Planner::plan() {
  findPlaces();
  makeSections();
  for (const ExtentPoint &point : goal.first)
    takeFirst(point);
  while (anchors.size() < goal.mostAnchors) {
    size_t best = 0;
    double most = 0;
    for (size_t place = 0; place < places.size(); ++place)
      if (double worth = worthOf(place); worth > most) {
        most = worth;
        best = place;
      }
    if (most <= 0)
      break;
    take(best);
  }
  const bool isNew = !anchors.empty();
  for (size_t count = 0;
       isNew && count != anchors.size() && anchors.size() < goal.mostAnchors;) {
    count = anchors.size();
    takeWidestGap();
  }
  return std::move(anchors);
}

std::vector<Anchor> planAnchors(const Portfolio &portfolio,
                                const DeviceModel &device,
                                const AnchorGoal &goal) {
  return Planner(portfolio, device, goal).plan();
}

} // namespace kiln
