//===- RecordJson.cpp - tuning records as text ----------------------------===//
//
// The content of a record is JSON that other versions of Kiln may have written:
// fields this one does not know are carried along, parts it cannot read are
// skipped, counted and kept. A field with its default is left out.
//
//===----------------------------------------------------------------------===//
#include "Store/Records.h"

#include "Store/MeasurementIndex.h"
#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>

#include <cmath>

namespace kiln {

namespace {
/// Reads known fields of an object. A field of the wrong type makes the object
/// damaged; an absent one keeps its default.
class FieldReader {
public:
  explicit FieldReader(const llvm::json::Object &object) : object(object) {}

  void read(llvm::StringRef key, double &value) {
    if (const llvm::json::Value *found = find(key))
      store(found->getAsNumber(), value);
  }
  void read(llvm::StringRef key, int64_t &value) {
    if (const llvm::json::Value *found = find(key))
      store(found->getAsInteger(), value);
  }
  void read(llvm::StringRef key, bool &value) {
    if (const llvm::json::Value *found = find(key))
      store(found->getAsBoolean(), value);
  }
  void read(llvm::StringRef key, std::string &value) {
    if (const llvm::json::Value *found = find(key))
      store(found->getAsString(), value);
  }
  /// A number, or an array of some.
  void read(llvm::StringRef key, ExtentPoint &extents) {
    const llvm::json::Value *found = find(key);
    if (!found)
      return;
    const llvm::json::Array one({*found});
    const llvm::json::Array *list = found->getAsArray();
    for (const llvm::json::Value &value : list ? *list : one)
      store(value.getAsInteger(), extents.emplace_back());
  }
  const llvm::json::Array *readArray(llvm::StringRef key) {
    const llvm::json::Value *found = find(key);
    const llvm::json::Array *array = found ? found->getAsArray() : nullptr;
    isDamaged |= found && !array;
    return array;
  }
  /// Passes over what this version has no use for.
  void drop(llvm::StringRef key) { find(key); }

  /// The fields that nobody read, except for what could not be written again.
  llvm::json::Object unknown() const;

  bool isDamaged = false;

private:
  const llvm::json::Value *find(llvm::StringRef key) {
    const llvm::json::Value *found = object.get(key);
    if (found)
      known.push_back(key);
    return found;
  }
  template <class Source, class Target>
  void store(const std::optional<Source> &source, Target &value) {
    if (source)
      value = Target(*source);
    else
      isDamaged = true;
  }

  const llvm::json::Object &object;
  llvm::SmallVector<llvm::StringRef, 16> known;
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

llvm::json::Object FieldReader::unknown() const {
  llvm::json::Object kept;
  if (known.size() == object.size())
    return kept;
  for (const auto &field : object)
    if (!llvm::is_contained(known, llvm::StringRef(field.first)) &&
        isWritable(field.second))
      kept[field.first] = field.second;
  return kept;
}

/// Reads a measurement of a point that \p winner won.
static std::optional<Measurement>
readMeasurement(const llvm::json::Object &object, llvm::StringRef winner) {
  Measurement m;
  FieldReader reader(object);
  std::string mode = "cold";
  reader.read("config", m.config);
  reader.read("mode", mode);
  reader.read("valid", m.valid);
  m.validated = m.config == winner;
  reader.read("validated", m.validated);
  reader.read("reason", m.reason);
  reader.read("medianNs", m.medianNs);
  reader.read("ciLowNs", m.ciLowNs);
  reader.read("ciHighNs", m.ciHighNs);
  reader.read("samples", m.samples);
  reader.read("predictedNs", m.predictedNs);
  reader.read("bound", m.bound);
  reader.read("kernel", m.kernel);
  reader.read("measuredAtMs", m.measuredAtMs);
  reader.drop("terms");
  if (reader.isDamaged || (mode != "cold" && mode != "hot"))
    return std::nullopt;
  m.mode = mode == "cold" ? MeasurementMode::Cold : MeasurementMode::Hot;
  m.validated &= m.valid;
  if (!m.isSound())
    return std::nullopt;
  m.unknown = reader.unknown();
  return m;
}

static llvm::json::Object writeMeasurement(const Measurement &m) {
  llvm::json::Object object = m.unknown;
  object["config"] = jsonText(m.config);
  if (m.mode != MeasurementMode::Cold)
    object["mode"] = nameOf(m.mode);
  if (m.valid) {
    object["validated"] = m.validated;
    object["medianNs"] = m.medianNs;
    object["ciLowNs"] = m.ciLowNs;
    object["ciHighNs"] = m.ciHighNs;
    object["samples"] = m.samples;
  } else {
    object["valid"] = false;
    object["reason"] = jsonText(m.reason);
  }
  object["predictedNs"] = m.predictedNs;
  object["bound"] = jsonText(m.bound);
  object["kernel"] = jsonText(m.kernel);
  object["measuredAtMs"] = m.measuredAtMs;
  return object;
}

static std::optional<RecordPoint> readPoint(const llvm::json::Object &object,
                                            uint64_t &skipped) {
  RecordPoint point;
  FieldReader reader(object);
  reader.read("extent", point.extents);
  reader.read("generation", point.generation);
  reader.read("truncated", point.truncated);
  int64_t leftOutBytes = INT64_MAX; // more than there is
  reader.read("leftOutBytes", leftOutBytes);
  reader.read("winner", point.winner);
  const llvm::json::Array *list = reader.readArray("measurements");
  const bool hasExtents =
      !point.extents.empty() && point.extents.size() <= kMaxProblemFields &&
      llvm::all_of(point.extents, [](int64_t value) { return value >= 0; });
  if (reader.isDamaged || !hasExtents || point.generation < 0 ||
      point.generation > kMaxGeneration || point.truncated < 0 ||
      leftOutBytes < 0)
    return std::nullopt;
  if (leftOutBytes != INT64_MAX)
    point.leftOutBytes = static_cast<uint64_t>(leftOutBytes);
  point.unknown = reader.unknown();
  if (!list)
    return point;
  MeasurementIndex index(point);
  for (const llvm::json::Value &value : *list) {
    std::optional<Measurement> read;
    if (const llvm::json::Object *known = value.getAsObject())
      read = readMeasurement(*known, point.winner);
    if (!read) {
      ++skipped;
      if (isWritable(value))
        point.unread.push_back(value);
    } else if (Measurement *first = index.find(read->config, read->mode)) {
      ++skipped;
      *first = std::move(*read); // the later of two of one config stays
    } else {
      index.append(std::move(*read));
    }
  }
  return point;
}

llvm::Expected<TuningRecord> TuningRecord::parse(llvm::StringRef json) {
  auto value = parseJson(json, "tuning record");
  if (!value)
    return value.takeError();
  const llvm::json::Object *object = value->getAsObject();
  const llvm::json::Array *list = object ? object->getArray("points") : nullptr;
  if (!list)
    return makeError(ErrorCode::InvalidArgument,
                     "tuning record: no array 'points'");
  TuningRecord record;
  std::vector<RecordPoint> points;
  for (const llvm::json::Value &element : *list) {
    std::optional<RecordPoint> point;
    if (const llvm::json::Object *known = element.getAsObject())
      point = readPoint(*known, record.skipped);
    if (point) {
      points.push_back(std::move(*point));
    } else {
      ++record.skipped;
      if (isWritable(element))
        record.unread.push_back(element);
    }
  }
  llvm::stable_sort(points, [](const RecordPoint &a, const RecordPoint &b) {
    return a.extents < b.extents;
  });
  for (const RecordPoint &point : points) {
    if (!record.points.empty() && record.points.back().extents == point.extents)
      ++record.skipped; // a repeated point is united with the first
    mergePoint(record, point);
  }
  FieldReader reader(*object);
  reader.drop("points");
  record.unknown = reader.unknown();
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
    if (point.extents.size() == 1)
      object["extent"] = point.extents.front();
    else
      object["extent"] = llvm::json::Array(point.extents);
    object["generation"] = point.generation;
    if (point.truncated != 0)
      object["truncated"] = point.truncated;
    if (point.leftOutBytes != Allowance::kUnlimited)
      object["leftOutBytes"] = static_cast<int64_t>(point.leftOutBytes);
    object["winner"] = jsonText(point.winner);
    object["measurements"] = std::move(list);
    pointArray.push_back(std::move(object));
  }
  for (const llvm::json::Value &value : unread)
    pointArray.push_back(value);
  llvm::json::Object object = unknown;
  object["points"] = std::move(pointArray);
  return object;
}

} // namespace kiln
