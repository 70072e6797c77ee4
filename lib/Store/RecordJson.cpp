//===- RecordJson.cpp - tuning records as text ----------------------------===//
//
// A point is a line of the entry, see MergedText.h. It begins with its extents,
// which identify it, and with whether anything there is proven; these are found
// without parsing the rest.
//
//===----------------------------------------------------------------------===//
#include "Store/MeasurementIndex.h"
#include "Store/MergedText.h"
#include "Store/RecordLine.h"
#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>

#include <tuple>

namespace kiln {

/// Fields that measurements of one run have in common.
static void readShared(FieldReader &reader, Measurement &m) {
  reader.read("measuredAtMs", m.measuredAtMs);
  reader.read("series", m.series);
  reader.read("how", m.how);
}

/// \p shared has the values that the object does not have itself.
static std::optional<Measurement>
readMeasurement(const llvm::json::Object &object, const Measurement &shared) {
  Measurement m = shared;
  FieldReader reader(object);
  std::string mode = "cold";
  reader.read("config", m.config);
  reader.read("mode", mode);
  reader.read("valid", m.valid);
  reader.read("validated", m.validated);
  reader.read("reason", m.reason);
  reader.read("medianNs", m.medianNs);
  reader.read("ciLowNs", m.ciLowNs);
  reader.read("ciHighNs", m.ciHighNs);
  reader.read("samples", m.samples);
  reader.read("predictedNs", m.predictedNs);
  reader.read("bound", m.bound);
  reader.read("kernel", m.kernel);
  readShared(reader, m);
  if (reader.isDamaged || (mode != "cold" && mode != "hot"))
    return std::nullopt;
  m.mode = mode == "cold" ? MeasurementMode::Cold : MeasurementMode::Hot;
  m.validated &= m.valid;
  if (!m.isSound())
    return std::nullopt;
  m.unknown = reader.unknown();
  addMissing(m.unknown, shared.unknown);
  return m;
}

/// The field of a point for the values that all of its measurements share; they
/// mostly come from one run.
static constexpr llvm::StringLiteral kSharedField = "each";

static Measurement readSharedOf(FieldReader &point) {
  Measurement shared;
  llvm::json::Object object;
  point.read(kSharedField, object);
  FieldReader reader(object);
  readShared(reader, shared);
  point.isDamaged |= reader.isDamaged;
  shared.unknown = reader.unknown();
  return shared;
}

static llvm::json::Object writeShared(const Measurement &m) {
  llvm::json::Object object;
  object["measuredAtMs"] = m.measuredAtMs;
  if (m.series)
    object["series"] = m.series;
  if (!m.how.empty())
    object["how"] = jsonText(m.how);
  return object;
}

static llvm::json::Object writeMeasurement(const Measurement &m) {
  llvm::json::Object object = m.unknown;
  object["config"] = jsonText(m.config);
  if (m.mode != MeasurementMode::Cold)
    object["mode"] = nameOf(m.mode);
  if (m.valid) {
    if (m.validated)
      object["validated"] = true;
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
  return object;
}

/// Whether a point can have \p extents.
static bool areExtents(llvm::ArrayRef<int64_t> extents) {
  return !extents.empty() && extents.size() <= kMaxProblemFields &&
         llvm::all_of(extents, [](int64_t value) { return value >= 0; });
}

/// Reads a point; false if it is damaged.
static bool readPoint(const llvm::json::Object &object, RecordPoint &point,
                      uint64_t &skipped) {
  FieldReader reader(object);
  reader.read("extent", point.extents);
  reader.read("generation", point.generation);
  reader.read("truncated", point.truncated);
  int64_t leftOutBytes = INT64_MAX; // more than any workspace
  reader.read("leftOutBytes", leftOutBytes);
  reader.read("winner", point.winner);
  bool isProven = false; // follows from the measurements
  reader.read("proven", isProven);
  bool refuses = false; // follows from them as well
  reader.read("refuses", refuses);
  const Measurement shared = readSharedOf(reader);
  MeasurementIndex index(point);
  skipped += reader.readItems(
      "measurements", point.unread, [&](const llvm::json::Object &item) {
        std::optional<Measurement> read = readMeasurement(item, shared);
        if (!read)
          return false;
        if (Measurement *first = index.find(*read)) {
          ++skipped;
          *first = std::move(*read); // the later of two of one config stays
        } else {
          index.append(std::move(*read));
        }
        return true;
      });
  // Unreadable measurements get the shared values, so that they are complete on
  // their own.
  const llvm::json::Object *each = object.getObject(kSharedField);
  for (llvm::json::Value &value : point.unread)
    if (llvm::json::Object *item = value.getAsObject(); item && each)
      addMissing(*item, *each);
  if (leftOutBytes != INT64_MAX)
    point.leftOutBytes = static_cast<uint64_t>(leftOutBytes);
  point.unknown = reader.unknown();
  return !reader.isDamaged && areExtents(point.extents) &&
         point.generation >= 0 && point.generation <= kMaxGeneration &&
         point.truncated >= 0 && leftOutBytes >= 0;
}

static bool hasProven(const RecordPoint &point) {
  return llvm::any_of(point.measurements, [](const Measurement &m) {
    return m.validated && m.isOfValue();
  });
}

/// Whether all measurements share the values that writeShared() writes.
/// Unreadable ones are complete on their own.
static bool areOfOneRun(const RecordPoint &point) {
  auto runOf = [](const Measurement &m) {
    return std::tie(m.measuredAtMs, m.series, m.how);
  };
  return point.measurements.size() > 1 && point.unread.empty() &&
         llvm::all_of(point.measurements, [&](const Measurement &m) {
           return runOf(m) == runOf(point.measurements.front());
         });
}

static bool hasRefused(const RecordPoint &point) {
  return llvm::any_of(point.measurements, [](const Measurement &m) {
    return m.isRejection() && !m.isWrong();
  });
}

// The first fields of a line, in this order if they are present.
static constexpr llvm::StringLiteral kExtentField = "{\"extent\":",
                                     kUnprovenField = ",\"proven\":false",
                                     kRefusesField = ",\"refuses\":true",
                                     kRefusesNoneField = ",\"refuses\":false";

static std::string writePoint(const RecordPoint &point) {
  llvm::json::Object object = point.unknown;
  object["generation"] = point.generation;
  if (point.truncated != 0)
    object["truncated"] = point.truncated;
  if (point.leftOutBytes != Allowance::kUnlimited)
    object["leftOutBytes"] = static_cast<int64_t>(point.leftOutBytes);
  object["winner"] = jsonText(point.winner);
  llvm::json::Array list;
  const bool areAlike = areOfOneRun(point);
  if (areAlike)
    object[kSharedField] = writeShared(point.measurements.front());
  for (const Measurement &measurement : point.measurements) {
    llvm::json::Object item = writeMeasurement(measurement);
    if (!areAlike)
      for (auto &[key, value] : writeShared(measurement))
        item[key] = std::move(value);
    list.push_back(std::move(item));
  }
  for (const llvm::json::Value &value : point.unread)
    list.push_back(value);
  object["measurements"] = std::move(list);
  const std::string extents =
      point.extents.size() == 1
          ? fmt::format("{}", point.extents.front())
          : fmt::format("[{}]", fmt::join(point.extents, ","));
  return fmt::format("{}{}{}{},{}", kExtentField.str(), extents,
                     hasProven(point) ? "" : kUnprovenField.str(),
                     hasRefused(point) ? kRefusesField.str()
                                       : kRefusesNoneField.str(),
                     jsonLine(std::move(object)).substr(1));
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

/// Reads the extents that \p line begins with, as writePoint() writes them, and
/// takes them off.
static bool scanExtents(llvm::StringRef &line, ExtentPoint &extents) {
  if (!line.consume_front(kExtentField))
    return false;
  const bool isList = line.consume_front("[");
  do {
    if (line.consumeInteger(10, extents.emplace_back()))
      return false;
  } while (isList && line.consume_front(","));
  return (!isList || line.consume_front("]")) && line.starts_with(",") &&
         areExtents(extents);
}

RecordLine::RecordLine(RecordPoint point)
    : ownExtents(point.extents), ownMayBeProven(hasProven(point)),
      ownMayRefuse(hasRefused(point)) {
  auto read = std::make_unique<Parsed>();
  read->point = std::move(point);
  parsed = std::move(read);
}

std::shared_ptr<const RecordLine>
RecordLine::take(std::shared_ptr<const std::string> owner,
                 llvm::StringRef line) {
  std::shared_ptr<RecordLine> made(new RecordLine);
  made->owner = std::move(owner);
  made->line = line;
  if (scanExtents(line, made->ownExtents)) {
    made->ownMayBeProven = !line.consume_front(kUnprovenField);
    made->ownMayRefuse = !line.starts_with(kRefusesNoneField);
    return made;
  }
  // A line of another writer may have its fields in any order.
  made->ownExtents.clear();
  auto value = parseJson(made->line, "record");
  if (!value) {
    llvm::consumeError(value.takeError());
    return nullptr;
  }
  if (const llvm::json::Object *object = value->getAsObject()) {
    FieldReader reader(*object);
    reader.read("extent", made->ownExtents);
    if (!reader.isDamaged && areExtents(made->ownExtents))
      return made;
  }
  return nullptr;
}

llvm::StringRef RecordLine::text() const {
  std::lock_guard guard(mutex);
  if (!owner) {
    owner = std::make_shared<const std::string>(writePoint(parsed->point));
    line = *owner;
  }
  return line;
}

const RecordLine::Parsed &RecordLine::read() const {
  std::lock_guard guard(mutex);
  if (parsed)
    return *parsed;
  auto made = std::make_unique<Parsed>();
  auto value = parseJson(line, "record");
  const llvm::json::Object *object = value ? value->getAsObject() : nullptr;
  made->isDamaged = !object ||
                    !readPoint(*object, made->point, made->skipped) ||
                    made->point.extents != ownExtents;
  if (!value)
    llvm::consumeError(value.takeError());
  if (made->isDamaged) {
    made->skipped = 1;
    made->point = RecordPoint();
    made->point.extents = ownExtents;
  }
  parsed = std::move(made);
  return *parsed;
}

llvm::Expected<TuningRecord> TuningRecord::open(std::string text) {
  TuningRecord record;
  if (text.size() > kMaxJsonBytes)
    return makeError(ErrorCode::InvalidArgument, "record: {} bytes",
                     text.size());
  if (!llvm::StringRef(text).ends_with("\n"))
    text += '\n';
  const auto owner = std::make_shared<const std::string>(std::move(text));
  llvm::StringRef rest = *owner;
  if (llvm::Error error = takeHead(rest, kKind.name, record.other))
    return error;
  record.lines.reserve(rest.count('\n'));
  while (!rest.empty()) {
    const llvm::StringRef line = rest.take_front(rest.find('\n') + 1);
    rest = rest.drop_front(line.size());
    if (auto taken = RecordLine::take(owner, line))
      record.lines.push_back(std::move(taken));
    else if (line != "\n")
      record.other.unread.push_back(line.rtrim('\n').str());
  }
  record.sortLines();
  return record;
}

/// Sorts lines by extents; points with the same extents are united.
void TuningRecord::sortLines() {
  auto isLess = [](const LinePtr &a, const LinePtr &b) {
    return a->extents() < b->extents();
  };
  if (!llvm::is_sorted(lines, isLess))
    llvm::stable_sort(lines, isLess);
  auto isSame = [](const LinePtr &a, const LinePtr &b) {
    return a->extents() == b->extents();
  };
  if (std::adjacent_find(lines.begin(), lines.end(), isSame) == lines.end())
    return;
  const std::vector<LinePtr> all = std::exchange(lines, {});
  for (const LinePtr &line : all) {
    if (lines.empty() || !isSame(lines.back(), line)) {
      lines.push_back(line);
      continue;
    }
    ++repeated;
    merge(line->point());
  }
}

void TuningRecord::readAll() {
  llvm::erase_if(lines, [&](const LinePtr &line) {
    if (line->isDamaged())
      other.unread.push_back(line->text().rtrim('\n').str());
    return line->isDamaged();
  });
}

llvm::Expected<TuningRecord> TuningRecord::parse(std::string text) {
  auto record = open(std::move(text));
  if (record)
    record->readAll();
  return record;
}

uint64_t TuningRecord::skipped() const {
  uint64_t all = repeated + other.unread.size();
  for (const LinePtr &line : lines)
    all += line->skipped();
  return all;
}

std::string TuningRecord::text() const {
  std::string text = headLine(kKind.name, other);
  size_t bytes = text.size();
  for (const LinePtr &line : lines)
    bytes += line->text().size();
  text.reserve(bytes);
  for (const LinePtr &line : lines)
    text += line->text();
  for (const std::string &line : other.unread)
    text += line + "\n";
  return text;
}

} // namespace kiln
