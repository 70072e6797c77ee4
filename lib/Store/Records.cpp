//===- Records.cpp - tuning records: what they say, merging, keys ---------===//
#include "Store/Records.h"

#include "Store/MeasurementIndex.h"
#include "Store/TrialStatus.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSet.h>
#include <llvm/Support/ErrorHandling.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace kiln {

llvm::StringRef nameOf(MeasurementMode mode) {
  return mode == MeasurementMode::Cold ? "cold" : "hot";
}

//===----------------------------------------------------------------------===//
// What a measurement says
//===----------------------------------------------------------------------===//

void Measurement::setEstimate(const Estimate &estimate) {
  predictedNs = estimate.totalNs;
  bound = estimate.bound.str();
}

static bool isTime(double ns) { return std::isfinite(ns) && ns > 0; }

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
    if (measurement.config == config && measurement.mode == mode)
      return &measurement;
  return nullptr;
}

/// The first point of \p points that is not before \p extents.
template <class Points>
static auto lowerBound(Points &points, llvm::ArrayRef<int64_t> extents) {
  return llvm::partition_point(points, [&](const RecordPoint &point) {
    return std::lexicographical_compare(point.extents.begin(),
                                        point.extents.end(), extents.begin(),
                                        extents.end());
  });
}

const RecordPoint *TuningRecord::find(llvm::ArrayRef<int64_t> extents) const {
  auto found = lowerBound(points, extents);
  const bool isThere = found != points.end() && extents.equals(found->extents);
  return isThere ? &*found : nullptr;
}

RecordPoint *TuningRecord::find(llvm::ArrayRef<int64_t> extents) {
  return const_cast<RecordPoint *>(std::as_const(*this).find(extents));
}

int64_t unixTimeMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// When \p measurement was made; 0 for what the clock of today cannot have
/// told.
static int64_t stampOf(const Measurement &measurement, int64_t nowMs) {
  constexpr int64_t kDayMs = 24 * 60 * 60 * 1000;
  const int64_t at = measurement.measuredAtMs;
  return at < 0 || at > nowMs + kDayMs ? 0 : at;
}

namespace {
/// How the generation of what comes in compares with that of what is there.
enum class Generation { Lower, Same, Higher };
} // namespace

/// Whether \p fresh takes the place of \p old: see mergePoint().
static bool replaces(const Measurement &fresh, const Measurement &old,
                     Generation generation, int64_t nowMs) {
  // A launch may fail because of other work; a time that was taken stands.
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
  return !isSameKernel || stampOf(fresh, nowMs) >= stampOf(old, nowMs);
}

static bool isValidated(const RecordPoint &point, llvm::StringRef config) {
  return llvm::any_of(point.measurements, [&](const Measurement &measurement) {
    return measurement.config == config && measurement.validated;
  });
}

/// Takes out of \p point what could not be read of the configs \p superseded.
static void dropUnread(RecordPoint &point,
                       const llvm::StringSet<> &superseded) {
  llvm::erase_if(point.unread, [&](const llvm::json::Value &value) {
    const llvm::json::Object *object = value.getAsObject();
    auto config = object ? object->getString("config") : std::nullopt;
    return config && superseded.contains(*config);
  });
}

static void mergeMeasurements(RecordPoint &into, const RecordPoint &point,
                              Generation generation, int64_t nowMs) {
  MeasurementIndex index(into);
  llvm::StringSet<> superseded;
  for (const Measurement &measurement : point.measurements) {
    if (!measurement.isSound())
      continue;
    superseded.insert(measurement.config);
    Measurement *old = index.find(measurement.config, measurement.mode);
    if (!old) {
      index.append(measurement);
      continue;
    }
    // That a kernel is right stays true, whichever of its times does.
    const bool isProven = old->kernel == measurement.kernel &&
                          (old->validated || measurement.validated);
    if (replaces(measurement, *old, generation, nowMs))
      *old = measurement;
    old->validated |= isProven && old->valid;
  }
  if (!into.unread.empty())
    dropUnread(into, superseded);
}

void mergePoint(TuningRecord &record, const RecordPoint &point, int64_t nowMs) {
  auto into = lowerBound(record.points, point.extents);
  if (into == record.points.end() || into->extents != point.extents) {
    into = record.points.insert(into, RecordPoint{});
    into->extents = point.extents;
    into->generation = point.generation;
    into->winner = point.winner;
    into->truncated = point.truncated;
    into->leftOutBytes = point.leftOutBytes;
    into->unknown = point.unknown;
  }
  const Generation generation =
      point.generation > into->generation   ? Generation::Higher
      : point.generation < into->generation ? Generation::Lower
                                            : Generation::Same;
  mergeMeasurements(*into, point, generation, nowMs);
  into->unread.insert(into->unread.end(), point.unread.begin(),
                      point.unread.end());
  auto takeWinner = [&] {
    into->winner = point.winner;
    into->truncated = point.truncated;
    into->leftOutBytes = point.leftOutBytes;
  };
  if (generation == Generation::Higher) {
    into->generation = point.generation;
    takeWinner();
  } else if (generation == Generation::Same &&
             point.leftOutBytes > into->leftOutBytes &&
             isValidated(*into, point.winner)) {
    takeWinner();
  } else if (generation == Generation::Same && into->truncated > 0) {
    into->truncated = std::max(into->truncated, point.truncated);
  }
  if (isValidated(*into, into->winner))
    return;
  if (isValidated(*into, point.winner))
    takeWinner();
  else
    into->winner.clear();
}

/// Leaves \p most measurements of \p point. Verdicts have no time and stay
/// longest of their run: without them a wrong config would be tried again.
static void trimPoint(RecordPoint &point, size_t most, int64_t nowMs) {
  std::vector<Measurement> &all = point.measurements;
  if (all.size() <= most)
    return;
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t(0));
  auto rank = [&](size_t i) {
    return std::tuple(all[i].config != point.winner, -stampOf(all[i], nowMs),
                      all[i].valid, all[i].medianNs, i);
  };
  llvm::sort(order, [&](size_t a, size_t b) { return rank(a) < rank(b); });
  order.resize(most);
  llvm::sort(order);
  std::vector<Measurement> kept;
  for (size_t i : order)
    kept.push_back(std::move(all[i]));
  all = std::move(kept);
}

void trimRecord(TuningRecord &record, size_t most, int64_t nowMs) {
  for (RecordPoint &point : record.points)
    trimPoint(point, most, nowMs);
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

std::string recordKey(const KernelFamily &family, const Problem &problem,
                      llvm::StringRef deviceClass) {
  return fmt::format("kiln record 1\nproblem {}\ndevice {}\n",
                     family.fixedText(problem), deviceClass);
}

ExtentPoint dynamicExtentsOf(const KernelFamily &family,
                             const Problem &problem) {
  ExtentPoint extents;
  for (int field : family.dynamicExtents())
    extents.push_back(problem.record[field]);
  if (extents.empty())
    extents.push_back(0);
  return extents;
}

} // namespace kiln
