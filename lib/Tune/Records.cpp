//===- Records.cpp - tuning records: text, merging, matching --------------===//
//
// The content of a record is JSON that other versions of Kiln may have written:
// fields this one does not know are carried along, parts it cannot read are
// skipped, counted and kept.
//
//===----------------------------------------------------------------------===//
#include "Tune/Records.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>

namespace kiln {

llvm::StringRef nameOf(MeasurementMode mode) {
  return mode == MeasurementMode::Cold ? "cold" : "hot";
}

llvm::StringRef nameOf(RecordMatchKind kind) {
  switch (kind) {
  case RecordMatchKind::None:
    return "none";
  case RecordMatchKind::Exact:
    return "exact";
  case RecordMatchKind::Neighbour:
    return "neighbour";
  }
  return "unknown";
}

void Measurement::setEstimate(const Estimate &estimate) {
  predictedNs = estimate.totalNs;
  bound = estimate.bound.str();
  terms.clear();
  for (const EstimateTerm &term : estimate.terms)
    terms.push_back({term.name.str(), term.value, term.unit.str()});
}

const Measurement *RecordPoint::find(llvm::StringRef config,
                                     MeasurementMode mode) const {
  for (const Measurement &measurement : measurements)
    if (measurement.config == config && measurement.mode == mode)
      return &measurement;
  return nullptr;
}

RecordPoint *TuningRecord::find(int64_t extent) {
  for (RecordPoint &point : points)
    if (point.extent == extent)
      return &point;
  return nullptr;
}

static bool isTime(double ns) { return std::isfinite(ns) && ns > 0; }

/// Whether \p m says something that can be believed and written as JSON.
static bool isSound(const Measurement &m) {
  if (m.config.empty() || !std::isfinite(m.predictedNs) || m.predictedNs < 0 ||
      m.samples < 0)
    return false;
  if (!m.valid)
    return true;
  return isTime(m.medianNs) && isTime(m.ciLowNs) && isTime(m.ciHighNs) &&
         m.ciLowNs <= m.medianNs && m.medianNs <= m.ciHighNs;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

namespace {
/// Takes known fields out of an object, so that what is left is unknown. A
/// field of the wrong type makes the object damaged; an absent one keeps its
/// default.
class FieldReader {
public:
  explicit FieldReader(llvm::json::Object &object) : object(object) {}

  void read(llvm::StringRef key, double &value) {
    if (const llvm::json::Value *found = object.get(key))
      store(found->getAsNumber(), value);
    object.erase(key);
  }
  void read(llvm::StringRef key, int64_t &value) {
    if (const llvm::json::Value *found = object.get(key))
      store(found->getAsInteger(), value);
    object.erase(key);
  }
  void read(llvm::StringRef key, bool &value) {
    if (const llvm::json::Value *found = object.get(key))
      store(found->getAsBoolean(), value);
    object.erase(key);
  }
  void read(llvm::StringRef key, std::string &value) {
    if (const llvm::json::Value *found = object.get(key))
      store(found->getAsString(), value);
    object.erase(key);
  }
  llvm::json::Array takeArray(llvm::StringRef key) {
    llvm::json::Array taken;
    if (llvm::json::Value *found = object.get(key)) {
      if (llvm::json::Array *array = found->getAsArray())
        taken = std::move(*array);
      else
        isDamaged = true;
    }
    object.erase(key);
    return taken;
  }

  bool isDamaged = false;

private:
  template <class Source, class Target>
  void store(const std::optional<Source> &source, Target &value) {
    if (source)
      value = Target(*source);
    else
      isDamaged = true;
  }

  llvm::json::Object &object;
};
} // namespace

/// Whether \p value can be written: JSON has no infinity, but the parser makes
/// one of 1e999.
static bool isWritable(const llvm::json::Value &value) {
  if (const llvm::json::Object *object = value.getAsObject())
    return llvm::all_of(
        *object, [](const auto &field) { return isWritable(field.second); });
  if (const llvm::json::Array *array = value.getAsArray())
    return llvm::all_of(*array, isWritable);
  std::optional<double> number = value.getAsNumber();
  return !number || std::isfinite(*number);
}

/// Takes out of \p object what could not be written again.
static llvm::json::Object writableFields(llvm::json::Object object) {
  llvm::json::Object kept;
  for (auto &field : object)
    if (isWritable(field.second))
      kept[field.first] = std::move(field.second);
  return kept;
}

static std::string utf8(llvm::StringRef text) {
  return llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text);
}

/// Reads \p object, of which the unknown fields stay in the result.
static std::optional<Measurement> readMeasurement(llvm::json::Object object) {
  Measurement m;
  FieldReader reader(object);
  std::string mode = "cold";
  reader.read("config", m.config);
  reader.read("mode", mode);
  reader.read("valid", m.valid);
  reader.read("reason", m.reason);
  reader.read("medianNs", m.medianNs);
  reader.read("ciLowNs", m.ciLowNs);
  reader.read("ciHighNs", m.ciHighNs);
  reader.read("samples", m.samples);
  reader.read("predictedNs", m.predictedNs);
  reader.read("bound", m.bound);
  reader.read("kernel", m.kernel);
  reader.read("measuredAtMs", m.measuredAtMs);
  for (llvm::json::Value &value : reader.takeArray("terms")) {
    llvm::json::Object *term = value.getAsObject();
    if (!term)
      continue;
    FieldReader termReader(*term);
    MeasuredTerm read;
    termReader.read("name", read.name);
    termReader.read("value", read.value);
    termReader.read("unit", read.unit);
    if (!termReader.isDamaged && std::isfinite(read.value))
      m.terms.push_back(std::move(read));
  }
  if (reader.isDamaged || (mode != "cold" && mode != "hot"))
    return std::nullopt;
  m.mode = mode == "cold" ? MeasurementMode::Cold : MeasurementMode::Hot;
  m.unknown = writableFields(std::move(object));
  if (!isSound(m))
    return std::nullopt;
  return m;
}

static llvm::json::Object writeMeasurement(const Measurement &m) {
  llvm::json::Object object = m.unknown;
  object["config"] = utf8(m.config);
  object["mode"] = nameOf(m.mode);
  object["valid"] = m.valid;
  if (m.valid) {
    object["medianNs"] = m.medianNs;
    object["ciLowNs"] = m.ciLowNs;
    object["ciHighNs"] = m.ciHighNs;
    object["samples"] = m.samples;
  } else {
    object["reason"] = utf8(m.reason);
  }
  object["predictedNs"] = m.predictedNs;
  object["bound"] = utf8(m.bound);
  llvm::json::Array terms;
  for (const MeasuredTerm &term : m.terms)
    if (std::isfinite(term.value))
      terms.push_back(llvm::json::Object{{"name", utf8(term.name)},
                                         {"value", term.value},
                                         {"unit", utf8(term.unit)}});
  object["terms"] = std::move(terms);
  object["kernel"] = utf8(m.kernel);
  object["measuredAtMs"] = m.measuredAtMs;
  return object;
}

/// Replaces the measurement of the same config and mode, or appends. True when
/// there was one.
static bool place(RecordPoint &point, Measurement measurement) {
  for (Measurement &old : point.measurements)
    if (old.config == measurement.config && old.mode == measurement.mode) {
      old = std::move(measurement);
      return true;
    }
  point.measurements.push_back(std::move(measurement));
  return false;
}

static std::optional<RecordPoint> readPoint(llvm::json::Object object,
                                            uint64_t &skipped) {
  RecordPoint point;
  point.extent = -1;
  FieldReader reader(object);
  reader.read("extent", point.extent);
  reader.read("generation", point.generation);
  reader.read("winner", point.winner);
  llvm::json::Array list = reader.takeArray("measurements");
  if (reader.isDamaged || point.extent < 0 || point.generation < 0)
    return std::nullopt;
  for (llvm::json::Value &value : list) {
    std::optional<Measurement> read;
    if (const llvm::json::Object *known = value.getAsObject())
      read = readMeasurement(*known);
    if (!read) {
      ++skipped;
      if (isWritable(value))
        point.unread.push_back(std::move(value));
    } else if (place(point, std::move(*read))) {
      ++skipped; // the later of two of one config stays
    }
  }
  point.unknown = writableFields(std::move(object));
  return point;
}

llvm::Expected<TuningRecord> TuningRecord::parse(llvm::StringRef json) {
  auto value = parseJson(json, "tuning record");
  if (!value)
    return value.takeError();
  llvm::json::Object *object = value->getAsObject();
  llvm::json::Value *points = object ? object->get("points") : nullptr;
  if (!points || !points->getAsArray())
    return makeError(ErrorCode::InvalidArgument,
                     "tuning record: no array 'points'");
  TuningRecord record;
  for (llvm::json::Value &element : *points->getAsArray()) {
    std::optional<RecordPoint> point;
    if (const llvm::json::Object *known = element.getAsObject())
      point = readPoint(*known, record.skipped);
    if (!point) {
      ++record.skipped;
      if (isWritable(element))
        record.unread.push_back(std::move(element));
      continue;
    }
    if (record.find(point->extent))
      ++record.skipped; // a repeated point is united with the first
    mergePoint(record, *point);
  }
  object->erase("points");
  record.unknown = writableFields(std::move(*object));
  return record;
}

llvm::json::Object TuningRecord::toJson() const {
  llvm::json::Array pointArray;
  for (const RecordPoint &point : points) {
    llvm::json::Array list;
    for (const Measurement &measurement : point.measurements)
      list.push_back(writeMeasurement(measurement));
    for (const llvm::json::Value &value : point.unread)
      list.push_back(value);
    llvm::json::Object object = point.unknown;
    object["extent"] = point.extent;
    object["generation"] = point.generation;
    object["winner"] = utf8(point.winner);
    object["measurements"] = std::move(list);
    pointArray.push_back(std::move(object));
  }
  for (const llvm::json::Value &value : unread)
    pointArray.push_back(value);
  llvm::json::Object object = unknown;
  object["points"] = std::move(pointArray);
  return object;
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

static bool isUsable(const RecordPoint &point, llvm::StringRef config) {
  for (const Measurement &measurement : point.measurements)
    if (measurement.config == config && measurement.valid)
      return true;
  return false;
}

void mergePoint(TuningRecord &record, const RecordPoint &point) {
  RecordPoint *into = record.find(point.extent);
  const bool isNew = !into;
  if (isNew) {
    auto after = std::find_if(
        record.points.begin(), record.points.end(),
        [&](const RecordPoint &p) { return p.extent > point.extent; });
    into = &*record.points.insert(after, RecordPoint{});
    into->extent = point.extent;
    into->generation = point.generation;
    into->winner = point.winner;
    into->unknown = point.unknown;
  }
  for (const Measurement &measurement : point.measurements) {
    const Measurement *old = into->find(measurement.config, measurement.mode);
    if (!isSound(measurement) ||
        (old && old->measuredAtMs > measurement.measuredAtMs))
      continue;
    // What could not be read of this config is superseded.
    llvm::erase_if(into->unread, [&](const llvm::json::Value &value) {
      const llvm::json::Object *object = value.getAsObject();
      return object && object->getString("config") == measurement.config;
    });
    place(*into, measurement);
  }
  into->unread.insert(into->unread.end(), point.unread.begin(),
                      point.unread.end());
  if (point.generation > into->generation) {
    into->generation = point.generation;
    into->winner = point.winner;
  }
  if (!isUsable(*into, into->winner))
    into->winner = isUsable(*into, point.winner) ? point.winner : "";
}

void mergeRecord(TuningRecord &record, const TuningRecord &from) {
  for (const RecordPoint &point : from.points)
    mergePoint(record, point);
  record.unread.insert(record.unread.end(), from.unread.begin(),
                       from.unread.end());
  record.skipped += from.skipped;
}

//===----------------------------------------------------------------------===//
// Keys and matching
//===----------------------------------------------------------------------===//

std::string recordKey(const KernelFamily &family, const Problem &problem,
                      llvm::StringRef deviceClass) {
  return fmt::format("kiln record 1\nproblem {}\ndevice {}\n",
                     family.fixedText(problem), deviceClass);
}

int64_t dynamicExtentOf(const KernelFamily &family, const Problem &problem) {
  int field = family.dynamicExtent();
  return field < 0 ? 0 : problem.extents[field];
}

int extentBucket(int64_t extent) {
  int bucket = 0;
  for (uint64_t rest = extent > 1 ? static_cast<uint64_t>(extent) - 1 : 0; rest;
       rest >>= 1)
    ++bucket;
  return bucket;
}

static double logDistance(int64_t a, int64_t b) {
  return std::abs(std::log2(static_cast<double>(std::max<int64_t>(a, 1))) -
                  std::log2(static_cast<double>(std::max<int64_t>(b, 1))));
}

/// Fills the configs of \p match from \p point; false when none is usable.
static bool takeConfigs(RecordMatch &match, const KernelFamily &family,
                        const RecordPoint &point, MeasurementMode mode) {
  match.configs.clear();
  match.rejected.clear();
  for (const Measurement &measurement : point.measurements) {
    if (measurement.mode != mode)
      continue;
    auto parsed = family.parseConfig(measurement.config);
    if (!parsed) {
      llvm::consumeError(parsed.takeError()); // of another version
      ++match.skipped;
      continue;
    }
    auto &list = measurement.valid ? match.configs : match.rejected;
    list.push_back({parsed->tmpl, std::move(parsed->config), measurement});
  }
  auto rank = [&](const RecordedConfig &c) {
    return std::tuple(c.measurement.config != point.winner,
                      c.measurement.medianNs,
                      llvm::StringRef(c.measurement.config));
  };
  std::sort(match.configs.begin(), match.configs.end(),
            [&](const RecordedConfig &a, const RecordedConfig &b) {
              return rank(a) < rank(b);
            });
  match.hasWinner = !match.configs.empty() &&
                    match.configs.front().measurement.config == point.winner;
  return !match.configs.empty();
}

RecordMatch RecordStore::find(const KernelFamily &family,
                              const Problem &problem,
                              llvm::StringRef deviceClass,
                              MeasurementMode mode) const {
  TuningRecord record = load(family, problem, deviceClass);
  const int64_t extent = dynamicExtentOf(family, problem);
  const int bucket = extentBucket(extent);
  RecordMatch match;
  match.skipped = record.skipped;

  std::vector<const RecordPoint *> order;
  for (const RecordPoint &point : record.points)
    order.push_back(&point);
  auto rank = [&](const RecordPoint *point) {
    return std::tuple(point->extent != extent,
                      extentBucket(point->extent) != bucket,
                      logDistance(point->extent, extent));
  };
  // Of two equally distant points the later, larger one comes first: its
  // configs fill the machine at least as well.
  std::reverse(order.begin(), order.end());
  std::stable_sort(order.begin(), order.end(),
                   [&](const RecordPoint *a, const RecordPoint *b) {
                     return rank(a) < rank(b);
                   });
  for (const RecordPoint *point : order) {
    if (!takeConfigs(match, family, *point, mode))
      continue;
    match.kind = point->extent == extent ? RecordMatchKind::Exact
                                         : RecordMatchKind::Neighbour;
    match.extent = point->extent;
    match.distance = logDistance(point->extent, extent);
    match.sameBucket = extentBucket(point->extent) == bucket;
    match.generation = point->generation;
    return match;
  }
  match.rejected.clear();
  return match;
}

/// The record in \p payload; an empty one if it is none.
static TuningRecord parseOrEmpty(llvm::StringRef payload) {
  auto record = TuningRecord::parse(payload);
  if (record)
    return std::move(*record);
  llvm::consumeError(record.takeError());
  TuningRecord empty;
  empty.skipped = 1;
  return empty;
}

TuningRecord RecordStore::load(const KernelFamily &family,
                               const Problem &problem,
                               llvm::StringRef deviceClass) const {
  std::optional<cache::Entry> entry = cache->lookup(
      cache::Kind::Record, recordKey(family, problem, deviceClass));
  return entry ? parseOrEmpty(entry->payload) : TuningRecord{};
}

RecordStore::StoreResult RecordStore::store(const KernelFamily &family,
                                            const Problem &problem,
                                            llvm::StringRef deviceClass,
                                            const RecordPoint &point) {
  assert(point.extent == dynamicExtentOf(family, problem) &&
         "the point belongs to another problem");
  StoreResult result;
  llvm::json::Object attributes{{"family", family.name()},
                                {"problem", family.fixedText(problem)},
                                {"device", deviceClass}};
  result.publish = cache->update(
      cache::Kind::Record, recordKey(family, problem, deviceClass), attributes,
      [&](std::optional<llvm::StringRef> old) {
        TuningRecord record = old ? parseOrEmpty(*old) : TuningRecord{};
        mergePoint(record, point);
        result.point = *record.find(point.extent);
        return printJson(record.toJson());
      });
  return result;
}

} // namespace kiln
