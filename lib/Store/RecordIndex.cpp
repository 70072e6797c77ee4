//===- RecordIndex.cpp - which point of a record matches a problem --------===//
#include "Store/RecordIndex.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

namespace kiln {

static std::string kernelKey(llvm::StringRef config, llvm::StringRef kernel) {
  return fmt::format("{}\n{}", config, kernel);
}

static std::string kernelKeyAt(int64_t extent, llvm::StringRef config,
                               llvm::StringRef kernel) {
  return fmt::format("{}\n{}\n{}", extent, config, kernel);
}

bool RecordMatch::mayReject(llvm::StringRef config) const {
  return record && record->rejected.contains(config);
}

bool RecordMatch::rejects(llvm::StringRef config,
                          llvm::StringRef kernel) const {
  if (!mayReject(config))
    return false;
  if (record->refused.contains(kernelKeyAt(askedExtent, config, kernel)))
    return true;
  if (!record->wrong.contains(kernelKey(config, kernel)))
    return false;
  const bool isRightHere =
      kind == RecordMatchKind::Exact &&
      llvm::any_of(validated(), [&](const RecordedConfig &c) {
        return c.measurement->config == config &&
               c.measurement->kernel == kernel;
      });
  return !isRightHere;
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
  indexed->hash = payloadHash(text);
  for (const RecordPoint &point : indexed->record.points) {
    indexed->cold.push_back(indexPoint(family, point, MeasurementMode::Cold));
    indexed->hot.push_back(indexPoint(family, point, MeasurementMode::Hot));
    for (const Measurement &m : point.measurements) {
      if (m.isWrong())
        indexed->wrong.insert(kernelKey(m.config, m.kernel));
      else if (m.isRejection())
        indexed->refused.insert(kernelKeyAt(point.extent, m.config, m.kernel));
      if (m.isRejection())
        indexed->rejected.insert(m.config);
    }
  }
  return indexed;
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

static double logDistance(int64_t a, int64_t b) {
  return std::abs(std::log2(static_cast<double>(std::max<int64_t>(a, 1))) -
                  std::log2(static_cast<double>(std::max<int64_t>(b, 1))));
}

namespace {
/// The points of a record by distance. Of two equally distant ones the larger
/// comes first: its configs fill the machine at least as well.
class NearestPoints {
public:
  NearestPoints(const std::vector<RecordPoint> &points, int64_t extent)
      : points(points), extent(extent) {
    auto at = llvm::partition_point(
        points, [&](const RecordPoint &p) { return p.extent < extent; });
    below = above = static_cast<size_t>(at - points.begin());
  }

  /// The next one's index; nullopt after the last.
  std::optional<size_t> next() {
    const bool hasBelow = below > 0, hasAbove = above < points.size();
    if (!hasBelow && !hasAbove)
      return std::nullopt;
    if (!hasBelow ||
        (hasAbove && logDistance(points[above].extent, extent) <=
                         logDistance(points[below - 1].extent, extent)))
      return above++;
    return --below;
  }

private:
  const std::vector<RecordPoint> &points;
  const int64_t extent;
  size_t below = 0, above = 0;
};
} // namespace

const RecordPoint *RecordMatch::point() const {
  return record ? record->record.find(askedExtent) : nullptr;
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
                        int64_t extent, MeasurementMode mode) {
  RecordMatch match;
  match.askedExtent = extent;
  match.skipped = record->record.skipped;
  const std::vector<RecordPoint> &points = record->record.points;
  NearestPoints nearest(points, extent);
  while (std::optional<size_t> i = nearest.next()) {
    const IndexedPoint &indexed = record->points(mode)[*i];
    const RecordPoint &point = points[*i];
    const bool isExact = point.extent == extent;
    match.skipped += indexed.skipped;
    if (isExact) {
      match.foundNoneRight = indexed.foundNoneRight;
      match.isIncomplete = point.isIncomplete();
      match.truncated = point.truncated;
    }
    if (indexed.validatedCount == 0)
      continue;
    match.kind = isExact ? RecordMatchKind::Exact : RecordMatchKind::Neighbour;
    match.extent = point.extent;
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
