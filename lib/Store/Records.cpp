//===- Records.cpp - tuning records: facts, merging, keys -----------------===//
#include "Store/Records.h"

#include "Store/MeasurementIndex.h"
#include "Store/RecordLine.h"
#include "Store/TrialStatus.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace kiln {

llvm::StringRef nameOf(MeasurementMode mode) {
  return mode == MeasurementMode::Cold ? "cold" : "hot";
}

//===----------------------------------------------------------------------===//
// Measurements
//===----------------------------------------------------------------------===//

void Measurement::setEstimate(const Estimate &estimate) {
  predictedNs = estimate.totalNs;
  bound = estimate.bound.str();
}

bool Measurement::isSound() const {
  if (config.empty() || !std::isfinite(predictedNs) || predictedNs < 0 ||
      samples < 0)
    return false;
  if (!valid)
    return !validated;
  return isTime(medianNs) && isTime(ciLowNs) && isTime(ciHighNs) &&
         ciLowNs <= medianNs && medianNs <= ciHighNs;
}

static bool hasReason(const Measurement &measurement, TrialStatus status) {
  return llvm::StringRef(measurement.reason).starts_with(nameOf(status));
}

bool Measurement::isOfValue() const {
  return how.empty() || how == kMeasuredAtValue;
}

bool Measurement::isWrong() const { return !valid && isWrongResult(reason); }

bool Measurement::isRejection() const {
  if (valid || !hasReason(*this, TrialStatus::LaunchFailed))
    return !valid;
  const llvm::StringRef text = reason;
  return !text.contains("CUDA_ERROR_") ||
         llvm::any_of(kConfigRefusals, [&](const ConfigRefusal &refusal) {
           return text.contains(refusal.name);
         });
}

//===----------------------------------------------------------------------===//
// Points
//===----------------------------------------------------------------------===//

const Measurement *RecordPoint::find(llvm::StringRef config,
                                     MeasurementMode mode) const {
  for (const Measurement &measurement : measurements)
    if (measurement.config == config && measurement.mode == mode &&
        measurement.isOfValue())
      return &measurement;
  return nullptr;
}

uint64_t newSeries() {
  constexpr unsigned kExactBits = 53;
  std::random_device device;
  const uint64_t random = uint64_t(device()) << 32 | device();
  return std::max<uint64_t>(random >> (64 - kExactBits), 1);
}

/// The time of \p measurement, as far as it is credible.
static int64_t madeAt(const Measurement &measurement, int64_t nowMs) {
  return believedMs(measurement.measuredAtMs, nowMs);
}

namespace {
/// The generation of the added point compared with the existing one's.
enum class Generation { Lower, Same, Higher };
} // namespace

/// Whether \p fresh replaces \p old: see mergePoint().
static bool replaces(const Measurement &fresh, const Measurement &old,
                     Generation generation, int64_t nowMs) {
  // A launch may fail because of other work; a measured time stands.
  if (old.valid && !fresh.valid && !fresh.isWrong())
    return false;
  const bool isSameKernel = fresh.kernel == old.kernel;
  auto isUncompared = [](const Measurement &m) {
    return m.valid && !m.validated;
  };
  if (isSameKernel && old.isWrong() && isUncompared(fresh))
    return false;
  if (isSameKernel && fresh.isWrong() && isUncompared(old))
    return true;
  if (generation != Generation::Same)
    return generation == Generation::Higher;
  return !isSameKernel || madeAt(fresh, nowMs) >= madeAt(old, nowMs);
}

static bool isValidated(const RecordPoint &point, llvm::StringRef config) {
  return llvm::any_of(point.measurements, [&](const Measurement &measurement) {
    return measurement.config == config && measurement.validated &&
           measurement.isOfValue();
  });
}

/// Removes unreadable measurements of the configs \p superseded from \p point.
static void dropUnread(RecordPoint &point,
                       const llvm::StringSet<> &superseded) {
  llvm::json::Array kept;
  for (llvm::json::Value &value : point.unread) {
    const llvm::json::Object *object = value.getAsObject();
    auto config = object ? object->getString("config") : std::nullopt;
    if (!config || !superseded.contains(*config))
      kept.push_back(std::move(value));
  }
  point.unread = std::move(kept);
}

static void mergeMeasurements(RecordPoint &into, const RecordPoint &point,
                              Generation generation, int64_t nowMs) {
  MeasurementIndex index(into);
  llvm::StringSet<> superseded;
  for (const Measurement &measurement : point.measurements) {
    if (!measurement.isSound())
      continue;
    superseded.insert(measurement.config);
    Measurement *old = index.find(measurement);
    if (!old) {
      index.append(measurement);
      continue;
    }
    // A kernel stays proven, whichever of its times stays.
    const bool isProven = old->kernel == measurement.kernel &&
                          (old->validated || measurement.validated);
    if (replaces(measurement, *old, generation, nowMs))
      *old = measurement;
    old->validated |= isProven && old->valid;
  }
  if (!into.unread.empty())
    dropUnread(into, superseded);
}

void mergePoint(RecordPoint &into, const RecordPoint &point, int64_t nowMs) {
  const Generation generation =
      point.generation > into.generation   ? Generation::Higher
      : point.generation < into.generation ? Generation::Lower
                                           : Generation::Same;
  mergeMeasurements(into, point, generation, nowMs);
  addMissing(into.unknown, point.unknown);
  into.unread.insert(into.unread.end(), point.unread.begin(),
                     point.unread.end());
  auto takeWinner = [&] {
    into.winner = point.winner;
    into.truncated = point.truncated;
    into.leftOutBytes = point.leftOutBytes;
  };
  if (generation == Generation::Higher) {
    into.generation = point.generation;
    takeWinner();
  } else if (generation == Generation::Same &&
             point.leftOutBytes > into.leftOutBytes &&
             isValidated(into, point.winner)) {
    takeWinner();
  } else if (generation == Generation::Same && into.truncated > 0) {
    into.truncated = std::max(into.truncated, point.truncated);
  }
  if (isValidated(into, into.winner))
    return;
  if (isValidated(into, point.winner))
    takeWinner();
  else
    into.winner.clear();
}

/// Wrong results have no time and stay longest in their run: without them a
/// wrong config would be tried again.
size_t trimPoint(RecordPoint &point, size_t most, int64_t nowMs) {
  std::vector<Measurement> &all = point.measurements;
  if (all.size() <= most)
    return 0;
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t(0));
  auto rank = [&](size_t i) {
    return std::tuple(all[i].config != point.winner || !all[i].isOfValue(),
                      -madeAt(all[i], nowMs), all[i].valid, all[i].medianNs, i);
  };
  llvm::sort(order, [&](size_t a, size_t b) { return rank(a) < rank(b); });
  order.resize(most);
  llvm::sort(order);
  std::vector<Measurement> kept;
  for (size_t i : order)
    kept.push_back(std::move(all[i]));
  const size_t dropped = all.size() - most;
  all = std::move(kept);
  return dropped;
}

/// The time when \p point was last measured.
static int64_t lastMadeAt(const RecordPoint &point, int64_t nowMs) {
  int64_t last = 0;
  for (const Measurement &measurement : point.measurements)
    last = std::max(last, madeAt(measurement, nowMs));
  return last;
}

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

const ExtentPoint &TuningRecord::extentsAt(size_t i) const {
  return lines[i]->extents();
}

const RecordPoint &TuningRecord::at(size_t i) const {
  return lines[i]->point();
}

size_t TuningRecord::lowerBound(llvm::ArrayRef<int64_t> extents) const {
  auto at = llvm::partition_point(lines, [&](const LinePtr &line) {
    return std::lexicographical_compare(line->extents().begin(),
                                        line->extents().end(), extents.begin(),
                                        extents.end());
  });
  return static_cast<size_t>(at - lines.begin());
}

const RecordPoint *TuningRecord::find(llvm::ArrayRef<int64_t> extents) const {
  const size_t i = lowerBound(extents);
  const bool isThere = i < size() && extents.equals(extentsAt(i));
  return isThere && !lines[i]->isDamaged() ? &at(i) : nullptr;
}

void TuningRecord::merge(const RecordPoint &point, int64_t nowMs, size_t most) {
  lazy.refusals = nullptr;
  const size_t i = lowerBound(point.extents);
  const bool isThere = i < size() && point.extents == extentsAt(i);
  RecordPoint into;
  if (isThere && lines[i]->isDamaged())
    other.unread.push_back(lines[i]->text().rtrim('\n').str());
  if (isThere && !lines[i]->isDamaged()) {
    into = at(i);
  } else {
    into.extents = point.extents;
    into.generation = point.generation;
    into.winner = point.winner;
    into.truncated = point.truncated;
    into.leftOutBytes = point.leftOutBytes;
  }
  mergePoint(into, point, nowMs);
  trimPoint(into, most, nowMs);
  auto line = std::make_shared<RecordLine>(std::move(into));
  if (isThere)
    lines[i] = std::move(line);
  else
    lines.insert(lines.begin() + static_cast<ptrdiff_t>(i), std::move(line));
}

void TuningRecord::trim(size_t most, int64_t nowMs) {
  for (LinePtr &line : lines) {
    if (line->point().measurements.size() <= most)
      continue;
    RecordPoint point = line->point();
    trimPoint(point, most, nowMs);
    line = std::make_shared<RecordLine>(std::move(point));
  }
}

/// Drops the points that were measured longest ago, until \p most bytes or one
/// point are left. Returns the number of dropped ones.
size_t TuningRecord::dropOldest(size_t most) {
  const int64_t nowMs = unixTimeMs();
  std::vector<size_t> order(size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::vector<int64_t> last;
  for (size_t i = 0; i < size(); ++i)
    last.push_back(lastMadeAt(at(i), nowMs));
  llvm::stable_sort(order,
                    [&](size_t a, size_t b) { return last[a] < last[b]; });
  size_t bytes = text().size(), dropped = 0;
  for (size_t i : order) {
    if (bytes <= most || dropped + 1 == size())
      break;
    bytes -= lines[i]->text().size();
    lines[i] = nullptr;
    ++dropped;
  }
  llvm::erase_if(lines, [](const LinePtr &line) { return !line; });
  return dropped;
}

/// Drops points until the text is well below the limit, so that not every new
/// point needs it again.
size_t TuningRecord::shrink(size_t most) {
  size_t bytes = text().size();
  if (bytes <= most)
    return 0;
  auto measurements = [&] {
    size_t all = 0;
    for (const LinePtr &line : lines)
      all += line->point().measurements.size();
    return all;
  };
  size_t largest = 0;
  for (const LinePtr &line : lines)
    largest = std::max(largest, line->point().measurements.size());
  const size_t before = measurements();
  while (bytes > most && largest > kFewMeasurements) {
    largest = std::max(largest / 2, kFewMeasurements);
    trim(largest);
    bytes = text().size();
  }
  size_t dropped = before - measurements();
  // A point that does not fit by itself must not displace others.
  const bool hasRoom = llvm::none_of(lines, [&](const LinePtr &line) {
    return line->text().size() > most / 2;
  });
  if (bytes > most && hasRoom)
    dropped += dropOldest(most - most / 4);
  return dropped;
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

std::string recordKey(const KernelFamily &family, const Problem &problem,
                      llvm::StringRef deviceClass) {
  return fmt::format("kiln record 2\nproblem {}\ndevice {}\n",
                     family.fixedText(problem), deviceClass);
}

ExtentPoint dynamicExtentsOf(const KernelFamily &family,
                             const Problem &problem) {
  ExtentPoint extents;
  for (int field : family.dynamicExtents())
    extents.push_back(problem.values[field]);
  if (extents.empty())
    extents.push_back(0);
  return extents;
}

} // namespace kiln
