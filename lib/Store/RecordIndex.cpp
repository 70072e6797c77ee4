//===- RecordIndex.cpp - finds the point of a record for a problem --------===//
#include "Store/RecordLine.h"

#include "Store/Verdicts.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <tuple>

namespace kiln {

/// The text of a kernel in RecordMatch::refused.
static std::string refusedKey(llvm::StringRef config, llvm::StringRef kernel) {
  return fmt::format("{}\n{}", config, kernel);
}

bool RecordMatch::mayRefuse(llvm::StringRef config) const {
  return refused.contains(config);
}

bool RecordMatch::refuses(llvm::StringRef config,
                          llvm::StringRef kernel) const {
  return mayRefuse(config) && refused.contains(refusedKey(config, kernel));
}

bool foundNoneRight(const RecordMatch &match, const Verdicts &verdicts,
                    llvm::StringRef deviceClass) {
  const RecordPoint *point = match.foundNoneRight ? match.point() : nullptr;
  return point && llvm::any_of(point->measurements, [&](const Measurement &m) {
           return m.isOfValue() && m.isWrong() &&
                  verdicts.isWrong(deviceClass, m.kernel);
         });
}

static IndexedPoint::Mode indexMode(const KernelFamily &family,
                                    const RecordPoint &point,
                                    MeasurementMode mode) {
  IndexedPoint::Mode indexed;
  bool hasWrong = false;
  for (const Measurement &measurement : point.measurements) {
    if (measurement.mode != mode || !measurement.isOfValue())
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

std::shared_ptr<const IndexedPoint>
RecordLine::index(const KernelFamily &family) const {
  const RecordPoint &point = read().point;
  std::lock_guard guard(mutex);
  if (indexed && indexed->family == &family)
    return indexed;
  auto made = std::make_shared<IndexedPoint>();
  made->family = &family;
  made->cold = indexMode(family, point, MeasurementMode::Cold);
  made->hot = indexMode(family, point, MeasurementMode::Hot);
  indexed = std::move(made);
  return indexed;
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

/// The sum over extents of the distance of their logarithms.
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

/// The outcome of trials of a kernel at a point.
struct RefusalIndex::Trial {
  size_t line = 0;
  bool isRefused = false;
  bool isOfValue = false;
};

RefusalIndex::RefusalIndex(const TuningRecord &record) {
  for (size_t i = 0; i < record.size(); ++i)
    if (record.lineAt(i).mayRefuse())
      for (const Measurement &m : record.at(i).measurements)
        if (m.isRejection() && !m.isWrong())
          kernels[refusedKey(m.config, m.kernel)];
  if (kernels.empty())
    return;
  for (size_t i = 0; i < record.size(); ++i)
    for (const Measurement &m : record.at(i).measurements)
      if (auto found = kernels.find(refusedKey(m.config, m.kernel));
          found != kernels.end() && (m.valid || m.isRejection()))
        found->second.push_back({i, !m.valid, m.isOfValue()});
}

RefusalIndex::~RefusalIndex() = default;

llvm::StringSet<> RefusalIndex::at(const TuningRecord &record,
                                   llvm::ArrayRef<int64_t> extents) const {
  llvm::StringSet<> refused;
  for (const auto &[key, trials] : kernels) {
    double nearest = std::numeric_limits<double>::infinity();
    bool isRefused = false;
    for (const Trial &trial : trials) {
      const ExtentPoint &point = record.extentsAt(trial.line);
      if (point.size() != extents.size() ||
          (trial.isRefused && trial.isOfValue && !extents.equals(point)))
        continue;
      const double distance = logDistance(point, extents);
      if (distance < nearest || (distance == nearest && trial.isRefused)) {
        nearest = distance;
        isRefused = trial.isRefused;
      }
    }
    if (isRefused) {
      refused.insert(key);
      refused.insert(key.split('\n').first);
    }
  }
  return refused;
}

const RefusalIndex &TuningRecord::refusals() const {
  std::lock_guard guard(lazy.mutex);
  if (!lazy.refusals)
    lazy.refusals = std::make_shared<const RefusalIndex>(*this);
  return *lazy.refusals;
}

namespace {
/// The points of a record that may be proven, by distance. Between two equally
/// distant ones the larger comes first, because its configs fill the machine at
/// least as well.
class NearestPoints {
public:
  NearestPoints(const TuningRecord &record, llvm::ArrayRef<int64_t> extents,
                size_t exact) {
    for (size_t i = 0; i < record.size(); ++i)
      if (i != exact && record.lineAt(i).mayBeProven() &&
          record.extentsAt(i).size() == extents.size())
        rest.push_back({-logDistance(record.extentsAt(i), extents), i});
    std::make_heap(rest.begin(), rest.end());
  }

  /// The next one's index; nullopt after the last.
  std::optional<size_t> next() {
    if (rest.empty())
      return std::nullopt;
    std::pop_heap(rest.begin(), rest.end());
    const size_t nearest = rest.back().second;
    rest.pop_back();
    return nearest;
  }

private:
  std::vector<std::pair<double, size_t>> rest; ///< a heap: the nearest on top
};
} // namespace

const RecordPoint *RecordMatch::point() const {
  return record ? record->find(askedExtents) : nullptr;
}

bool RecordMatch::leavesOut(const KernelFamily &family, const Problem &problem,
                            const DeviceModel &device,
                            const Allowance &allowance) const {
  if (leftOutBytes == Allowance::kUnlimited ||
      allowance.workspaceBytes < leftOutBytes)
    return false;
  if (!allowance.largest)
    return true;
  // Configs that the caller's own search would leave out as well do not count.
  auto space = exploreSpace(family, problem, device, {.allowance = allowance});
  if (!space) {
    llvm::consumeError(space.takeError());
    return false;
  }
  return space->leftOut.leastBytes > leftOutBytes;
}

/// Takes the results of \p line for \p mode into \p match. False if none is
/// validated.
static bool takePoint(RecordMatch &match, const RecordLine &line,
                      std::shared_ptr<const IndexedPoint> index,
                      MeasurementMode mode) {
  const IndexedPoint::Mode &found = index->of(mode);
  match.skipped += found.skipped + line.skipped();
  if (found.validatedCount == 0)
    return false;
  const RecordPoint &point = line.point();
  match.extents = point.extents;
  match.generation = point.generation;
  match.leftOutBytes = point.leftOutBytes;
  match.configs = found.configs;
  match.validatedCount = found.validatedCount;
  match.matched = std::move(index);
  return true;
}

RecordMatch matchRecord(std::shared_ptr<const TuningRecord> record,
                        const KernelFamily &family,
                        llvm::ArrayRef<int64_t> extents, MeasurementMode mode) {
  RecordMatch match;
  match.askedExtents.assign(extents.begin(), extents.end());
  match.skipped = record->unread().size();
  match.record = record;
  match.refused = record->refusals().at(*record, extents);
  size_t exact = record->lowerBound(extents);
  if (exact < record->size() && extents.equals(record->extentsAt(exact))) {
    const RecordLine &line = record->lineAt(exact);
    match.asked = line.index(family);
    match.foundNoneRight = match.asked->of(mode).foundNoneRight;
    match.isIncomplete = line.point().isIncomplete();
    match.truncated = line.point().truncated;
    if (takePoint(match, line, match.asked, mode)) {
      match.kind = RecordMatchKind::Exact;
      return match;
    }
  } else {
    exact = record->size();
  }
  NearestPoints nearest(*record, extents, exact);
  while (std::optional<size_t> i = nearest.next()) {
    const RecordLine &line = record->lineAt(*i);
    if (takePoint(match, line, line.index(family), mode)) {
      match.kind = RecordMatchKind::Neighbour;
      break;
    }
  }
  return match;
}

} // namespace kiln
