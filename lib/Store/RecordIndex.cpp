//===- RecordIndex.cpp - which point of a record matches a problem --------===//
#include "Store/RecordIndex.h"

#include "Store/Verdicts.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

namespace kiln {

static std::string kernelKeyAt(llvm::ArrayRef<int64_t> extents,
                               llvm::StringRef config, llvm::StringRef kernel) {
  return fmt::format("{}\n{}\n{}", fmt::join(extents, ","), config, kernel);
}

bool RecordMatch::mayRefuse(llvm::StringRef config) const {
  return record && record->refusedConfigs.contains(config);
}

bool RecordMatch::refuses(llvm::StringRef config,
                          llvm::StringRef kernel) const {
  return mayRefuse(config) &&
         record->refused.contains(kernelKeyAt(askedExtents, config, kernel));
}

bool foundNoneRight(const RecordMatch &match, const Verdicts &verdicts,
                    llvm::StringRef deviceClass) {
  const RecordPoint *point = match.foundNoneRight ? match.point() : nullptr;
  return point && llvm::any_of(point->measurements, [&](const Measurement &m) {
           return m.isWrong() && verdicts.isWrong(deviceClass, m.kernel);
         });
}

static IndexedPoint indexPoint(const KernelFamily &family,
                               const RecordPoint &point, MeasurementMode mode) {
  IndexedPoint indexed;
  bool hasWrong = false;
  for (const Measurement &measurement : point.measurements) {
    if (measurement.mode != mode)
      continue;
    hasWrong |= measurement.isWrong();
    if (!measurement.valid)
      continue;
    auto parsed = family.parseConfig(measurement.config);
    if (!parsed) {
      llvm::consumeError(parsed.takeError()); // of another version
      ++indexed.skipped;
      continue;
    }
    indexed.configs.push_back(
        {parsed->tmpl, std::move(parsed->config), &measurement});
    indexed.validatedCount += measurement.validated;
  }
  auto rank = [&](const RecordedConfig &c) {
    const Measurement &m = *c.measurement;
    return std::tuple(!m.validated, m.config != point.winner, m.medianNs,
                      llvm::StringRef(m.config));
  };
  llvm::sort(indexed.configs,
             [&](const auto &a, const auto &b) { return rank(a) < rank(b); });
  indexed.foundNoneRight = hasWrong && indexed.validatedCount == 0;
  return indexed;
}

std::shared_ptr<const IndexedRecord> indexRecord(TuningRecord record,
                                                 const KernelFamily &family,
                                                 llvm::StringRef text,
                                                 bool isReadable) {
  auto indexed = std::make_shared<IndexedRecord>();
  indexed->record = std::move(record);
  indexed->family = &family;
  indexed->isReadable = isReadable;
  indexed->bytes = text.size();
  indexed->hash = quickHash(text);
  for (const RecordPoint &point : indexed->record.points) {
    indexed->cold.push_back(indexPoint(family, point, MeasurementMode::Cold));
    indexed->hot.push_back(indexPoint(family, point, MeasurementMode::Hot));
    for (const Measurement &m : point.measurements) {
      if (m.isWrong() || !m.isRejection())
        continue;
      indexed->refused.insert(kernelKeyAt(point.extents, m.config, m.kernel));
      indexed->refusedConfigs.insert(m.config);
    }
  }
  return indexed;
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

/// The sum over extents of how far their logarithms are apart.
static double logDistance(llvm::ArrayRef<int64_t> a,
                          llvm::ArrayRef<int64_t> b) {
  auto logOf = [](int64_t value) {
    return std::log2(static_cast<double>(std::max<int64_t>(value, 1)));
  };
  double distance = 0;
  for (auto [left, right] : llvm::zip_equal(a, b))
    distance += std::abs(logOf(left) - logOf(right));
  return distance;
}

namespace {
/// The points of a record by distance. Of two equally distant ones the larger
/// comes first: its configs fill the machine at least as well.
class NearestPoints {
public:
  NearestPoints(const std::vector<RecordPoint> &points,
                const ExtentPoint &extents)
      : points(points), extents(extents) {}

  /// The next one's index; nullopt after the last.
  std::optional<size_t> next() {
    if (!hasBegun)
      if (std::optional<size_t> exact = begin())
        return exact;
    if (!isSorted)
      sortRest();
    if (rest.empty())
      return std::nullopt;
    std::pop_heap(rest.begin(), rest.end());
    const size_t nearest = rest.back().second;
    rest.pop_back();
    return nearest;
  }

private:
  /// The point itself, which most questions are about.
  std::optional<size_t> begin() {
    hasBegun = true;
    auto at = llvm::partition_point(
        points, [&](const RecordPoint &p) { return p.extents < extents; });
    exact = static_cast<size_t>(at - points.begin());
    const bool isThere = at != points.end() && extents == at->extents;
    if (!isThere)
      exact = points.size();
    return isThere ? std::optional(exact) : std::nullopt;
  }
  void sortRest() {
    isSorted = true;
    for (auto [i, point] : llvm::enumerate(points))
      if (i != exact && point.extents.size() == extents.size())
        rest.push_back({-logDistance(point.extents, extents), i});
    std::make_heap(rest.begin(), rest.end());
  }

  const std::vector<RecordPoint> &points;
  const ExtentPoint &extents;
  bool hasBegun = false, isSorted = false;
  size_t exact = 0;
  std::vector<std::pair<double, size_t>> rest; ///< a heap: the nearest on top
};
} // namespace

const RecordPoint *RecordMatch::point() const {
  return record ? record->record.find(askedExtents) : nullptr;
}

bool RecordMatch::leavesOut(const KernelFamily &family, const Problem &problem,
                            const DeviceModel &device,
                            const Allowance &allowance) const {
  if (leftOutBytes == Allowance::kUnlimited ||
      allowance.workspaceBytes < leftOutBytes)
    return false;
  if (!allowance.largest)
    return true;
  // What his own search would leave out as well is no reason for one.
  auto space = exploreSpace(family, problem, device, {.allowance = allowance});
  if (!space) {
    llvm::consumeError(space.takeError());
    return false;
  }
  return space->leftOut.leastBytes > leftOutBytes;
}

RecordMatch matchRecord(std::shared_ptr<const IndexedRecord> record,
                        llvm::ArrayRef<int64_t> extents, MeasurementMode mode) {
  RecordMatch match;
  match.askedExtents.assign(extents.begin(), extents.end());
  match.skipped = record->record.skipped;
  const std::vector<RecordPoint> &points = record->record.points;
  NearestPoints nearest(points, match.askedExtents);
  while (std::optional<size_t> i = nearest.next()) {
    const IndexedPoint &indexed = record->points(mode)[*i];
    const RecordPoint &point = points[*i];
    const bool isExact = point.extents == match.askedExtents;
    match.skipped += indexed.skipped;
    if (isExact) {
      match.foundNoneRight = indexed.foundNoneRight;
      match.isIncomplete = point.isIncomplete();
      match.truncated = point.truncated;
    }
    if (indexed.validatedCount == 0)
      continue;
    match.kind = isExact ? RecordMatchKind::Exact : RecordMatchKind::Neighbour;
    match.extents = point.extents;
    match.generation = point.generation;
    match.leftOutBytes = point.leftOutBytes;
    match.configs = indexed.configs;
    match.validatedCount = indexed.validatedCount;
    break;
  }
  match.record = std::move(record);
  return match;
}

} // namespace kiln
