//===- DeviceFields.cpp - the field table and all that it drives ----------===//
#include "Device/DeviceModel.h"

#include "Support/Error.h"
#include "Support/Hash.h"
#include "Support/Json.h"
#include "Support/Printable.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <vector>

namespace kiln {

using Range = DeviceField::Range;

/// The one list of all values: key (the member's name), unit, member, range.
/// Zero is refused where an estimate divides by the value. Values that nothing
/// is planned with differ between GPUs of one product, or between one of them
/// and its catalog entry.
static constexpr DeviceField kFields[] = {
    {"name", "", &DeviceModel::name, Range::Positive},
    {"uuid", "", &DeviceModel::uuid, Range::Positive, false},
    {"migProfile", "", &DeviceModel::migProfile, Range::Positive, false},
    {"ccMajor", "", &DeviceModel::ccMajor, Range::Positive},
    {"ccMinor", "", &DeviceModel::ccMinor, Range::NonNegative},
    {"smCount", "", &DeviceModel::smCount, Range::Positive},
    {"subCoresPerSm", "", &DeviceModel::subCoresPerSm, Range::Positive},
    {"registersPerSm", "", &DeviceModel::registersPerSm, Range::Positive},
    {"maxRegistersPerThread", "", &DeviceModel::maxRegistersPerThread,
     Range::Positive},
    {"maxWarpsPerSm", "", &DeviceModel::maxWarpsPerSm, Range::Positive},
    {"maxBlocksPerSm", "", &DeviceModel::maxBlocksPerSm, Range::Positive},
    {"maxThreadsPerBlock", "", &DeviceModel::maxThreadsPerBlock,
     Range::Positive},
    {"sharedBytesPerSm", "B", &DeviceModel::sharedBytesPerSm, Range::Positive},
    {"sharedBytesPerBlock", "B", &DeviceModel::sharedBytesPerBlock,
     Range::Positive},
    {"sharedBytesReservedPerBlock", "B",
     &DeviceModel::sharedBytesReservedPerBlock, Range::NonNegative},
    {"sharedBytesPerClockPerSm", "B/clk",
     &DeviceModel::sharedBytesPerClockPerSm, Range::Positive},
    {"maxClusters2", "", &DeviceModel::maxClusters2, Range::NonNegative},
    {"maxClusters4", "", &DeviceModel::maxClusters4, Range::NonNegative},
    {"maxClusters8", "", &DeviceModel::maxClusters8, Range::NonNegative},
    {"smClockMHz", "MHz", &DeviceModel::smClockMHz, Range::Positive},
    {"sustainedTensorClockMHz", "MHz", &DeviceModel::sustainedTensorClockMHz,
     Range::Positive},
    {"sustainedMemoryClockMHz", "MHz", &DeviceModel::sustainedMemoryClockMHz,
     Range::Positive},
    {"memoryClockMHz", "MHz", &DeviceModel::memoryClockMHz, Range::Positive},
    {"powerLimitWatts", "W", &DeviceModel::powerLimitWatts, Range::NonNegative,
     false},
    {"memoryBusBits", "bit", &DeviceModel::memoryBusBits, Range::Positive},
    {"memoryBytes", "B", &DeviceModel::memoryBytes, Range::NonNegative, false},
    {"l2Bytes", "B", &DeviceModel::l2Bytes, Range::Positive},
    {"dramGBs", "GB/s", &DeviceModel::dramGBs, Range::Positive},
    {"dramWriteGBs", "GB/s", &DeviceModel::dramWriteGBs, Range::Positive},
    {"l2GBs", "GB/s", &DeviceModel::l2GBs, Range::Positive},
    {"dramLatencyNs", "ns", &DeviceModel::dramLatencyNs, Range::Positive},
    {"l2LatencyNs", "ns", &DeviceModel::l2LatencyNs, Range::Positive},
    {"launchNs", "ns", &DeviceModel::launchNs, Range::NonNegative},
    {"rampNs", "ns", &DeviceModel::rampNs, Range::NonNegative},
    {"tensorFp64FlopsPerClock", "flop/clk",
     &DeviceModel::tensorFp64FlopsPerClock, Range::NonNegative},
    {"tensorTf32FlopsPerClock", "flop/clk",
     &DeviceModel::tensorTf32FlopsPerClock, Range::NonNegative},
    {"tensorFp16FlopsPerClock", "flop/clk",
     &DeviceModel::tensorFp16FlopsPerClock, Range::NonNegative},
    {"tensorBf16FlopsPerClock", "flop/clk",
     &DeviceModel::tensorBf16FlopsPerClock, Range::NonNegative},
    {"tensorFp8FlopsPerClock", "flop/clk", &DeviceModel::tensorFp8FlopsPerClock,
     Range::NonNegative},
    {"tensorInt8FlopsPerClock", "flop/clk",
     &DeviceModel::tensorInt8FlopsPerClock, Range::NonNegative},
    {"mmaSyncFp64FlopsPerClock", "flop/clk",
     &DeviceModel::mmaSyncFp64FlopsPerClock, Range::NonNegative},
    {"mmaSyncTf32FlopsPerClock", "flop/clk",
     &DeviceModel::mmaSyncTf32FlopsPerClock, Range::NonNegative},
    {"mmaSyncFp16FlopsPerClock", "flop/clk",
     &DeviceModel::mmaSyncFp16FlopsPerClock, Range::NonNegative},
    {"mmaSyncBf16FlopsPerClock", "flop/clk",
     &DeviceModel::mmaSyncBf16FlopsPerClock, Range::NonNegative},
    {"mmaSyncFp8FlopsPerClock", "flop/clk",
     &DeviceModel::mmaSyncFp8FlopsPerClock, Range::NonNegative},
    {"mmaSyncInt8FlopsPerClock", "flop/clk",
     &DeviceModel::mmaSyncInt8FlopsPerClock, Range::NonNegative},
    {"simdFp64FlopsPerClock", "flop/clk", &DeviceModel::simdFp64FlopsPerClock,
     Range::Positive},
    {"simdFp32FlopsPerClock", "flop/clk", &DeviceModel::simdFp32FlopsPerClock,
     Range::Positive},
    {"simdFp16FlopsPerClock", "flop/clk", &DeviceModel::simdFp16FlopsPerClock,
     Range::NonNegative},
    {"simdInt32FlopsPerClock", "flop/clk", &DeviceModel::simdInt32FlopsPerClock,
     Range::Positive},
    {"specialOpsPerClock", "op/clk", &DeviceModel::specialOpsPerClock,
     Range::Positive},
};

static_assert(std::size(kFields) == kDeviceFieldCount,
              "the table and DeviceModel::origins must agree");

llvm::ArrayRef<DeviceField> deviceFields() { return kFields; }

size_t DeviceField::index() const {
  return static_cast<size_t>(this - kFields);
}

FieldValue DeviceField::valueOf(const DeviceModel &model) const {
  return std::visit([&](auto pointer) -> FieldValue { return model.*pointer; },
                    member);
}

const DeviceField *findDeviceField(llvm::StringRef key) {
  for (const DeviceField &field : kFields)
    if (key == field.key)
      return &field;
  return nullptr;
}

const ValueOrigin &originOf(const DeviceModel &model, llvm::StringRef key) {
  const DeviceField *field = findDeviceField(key);
  assert(field && "no such device field");
  return model.origins[field->index()];
}

//===----------------------------------------------------------------------===//
// Writing a field
//===----------------------------------------------------------------------===//

/// Bounds that no GPU comes near. Within them products of a few values stay
/// inside 64 bits and every estimate stays finite.
static constexpr double kMaxCount = 1 << 20;
static constexpr double kMaxBytes = 0x1p50;
static constexpr double kMaxReal = 1e9;
static constexpr double kMinReal = 1e-6;

namespace {
/// The numbers that a field takes.
struct Bounds {
  double least, greatest;
};
} // namespace

static Bounds boundsOf(const DeviceField &field) {
  bool isReal = std::holds_alternative<double DeviceModel::*>(field.member);
  bool isBytes = llvm::StringRef(field.unit) == "B";
  double least = field.range != Range::Positive ? 0 : isReal ? kMinReal : 1;
  return {least, isReal ? kMaxReal : isBytes ? kMaxBytes : kMaxCount};
}

static llvm::Error refuse(const DeviceField &field, llvm::StringRef why) {
  return makeError(ErrorCode::InvalidArgument, "{}: {}", field.key, why);
}

/// Checks a number against the field's range; returns "" when it is fine.
static std::string faultOf(const DeviceField &field, double number) {
  if (!std::isfinite(number))
    return fmt::format("{} is not a finite number", number);
  if (number < 0)
    return fmt::format("{} is negative", number);
  if (number == 0 && field.range == Range::Positive)
    return "0 is not allowed, it must be positive";
  Bounds bounds = boundsOf(field);
  if (number != 0 && number < bounds.least)
    return fmt::format("{} is below {}", number, bounds.least);
  if (number > bounds.greatest)
    return fmt::format("{} is above {}", number, bounds.greatest);
  return {};
}

llvm::Error setValue(DeviceModel &model, const DeviceField &field,
                     FieldValue value, ValueSource source,
                     llvm::StringRef note) {
  bool wantsText =
      std::holds_alternative<std::string DeviceModel::*>(field.member);
  auto *text = std::get_if<std::string>(&value);
  if (wantsText != (text != nullptr))
    return refuse(field, wantsText ? "expected a string" : "expected a number");
  if (text) {
    // It stands in tables and keys, a line each.
    model.*std::get<std::string DeviceModel::*>(field.member) =
        printable(*text);
  } else {
    auto *whole = std::get_if<int64_t>(&value);
    double number =
        whole ? static_cast<double>(*whole) : std::get<double>(value);
    if (std::string fault = faultOf(field, number); !fault.empty())
      return refuse(field, fault);
    if (auto *real = std::get_if<double DeviceModel::*>(&field.member)) {
      model.**real = number;
    } else {
      if (!whole && number != std::trunc(number))
        return refuse(field, fmt::format("{} is not a whole number", number));
      model.*std::get<int64_t DeviceModel::*>(field.member) =
          whole ? *whole : static_cast<int64_t>(number);
    }
  }
  model.origins[field.index()] = {source, printable(note)};
  return llvm::Error::success();
}

void fillValue(DeviceModel &model, llvm::StringRef key, FieldValue value,
               ValueSource source, llvm::StringRef note) {
  const DeviceField *field = findDeviceField(key);
  assert(field && "no such device field");
  if (model.origins[field->index()].source != ValueSource::Unset)
    return;
  // A value that is derived from an odd override may leave its range.
  Bounds bounds = boundsOf(*field);
  auto clamp = [&](auto number) {
    using Number = decltype(number);
    return std::clamp(number, static_cast<Number>(bounds.least),
                      static_cast<Number>(bounds.greatest));
  };
  if (auto *whole = std::get_if<int64_t>(&value))
    value = clamp(*whole);
  else if (auto *real = std::get_if<double>(&value))
    value = clamp(*real);
  llvm::cantFail(setValue(model, *field, std::move(value), source, note));
}

//===----------------------------------------------------------------------===//
// JSON and text
//===----------------------------------------------------------------------===//

static llvm::json::Value jsonOf(const FieldValue &value) {
  return std::visit(
      [](const auto &v) -> llvm::json::Value { return llvm::json::Value(v); },
      value);
}

llvm::json::Object toJson(const DeviceModel &model) {
  llvm::json::Object result;
  for (const DeviceField &field : kFields) {
    const ValueOrigin &origin = model.origins[field.index()];
    llvm::json::Object entry;
    entry["value"] = jsonOf(field.valueOf(model));
    entry["unit"] = field.unit;
    entry["source"] = nameOf(origin.source);
    entry["note"] = origin.note;
    result[field.key] = std::move(entry);
  }
  return result;
}

/// A JSON number or string as a field value.
static llvm::Expected<FieldValue> fieldValueOf(const DeviceField &field,
                                               const llvm::json::Value &json) {
  if (auto whole = json.getAsInteger())
    return FieldValue(*whole);
  if (auto real = json.getAsNumber())
    return FieldValue(*real);
  if (auto text = json.getAsString())
    return FieldValue(text->str());
  return refuse(field, "expected a number or a string");
}

/// Applies one member of the object: a bare value, or what toJson writes.
static llvm::Error applyEntry(DeviceModel &model, llvm::StringRef key,
                              const llvm::json::Value &json, ValueSource source,
                              llvm::StringRef note) {
  const DeviceField *field = findDeviceField(key);
  if (!field)
    return makeError(ErrorCode::InvalidArgument, "{}: unknown key", key);
  const llvm::json::Value *bare = &json;
  if (const llvm::json::Object *object = json.getAsObject()) {
    // A value that toJson wrote as unset says nothing.
    if (object->getString("source") == nameOf(ValueSource::Unset))
      return llvm::Error::success();
    if (auto unit = object->getString("unit"); unit && *unit != field->unit)
      return refuse(
          *field, fmt::format("unit '{}', expected '{}'", *unit, field->unit));
    bare = object->get("value");
    if (!bare)
      return refuse(*field, "an object without \"value\"");
  }
  auto value = fieldValueOf(*field, *bare);
  if (!value)
    return value.takeError();
  return setValue(model, *field, std::move(*value), source, note);
}

llvm::Error applyJson(DeviceModel &model, const llvm::json::Value &json,
                      llvm::StringRef what, ValueSource source) {
  const llvm::json::Object *object = json.getAsObject();
  if (!object)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: expected an object of device values", what);
  DeviceModel changed = model;
  for (const auto &[key, value] : *object)
    if (llvm::Error error = applyEntry(changed, key, value, source, what))
      return addContext(std::move(error), what);
  model = std::move(changed);
  return llvm::Error::success();
}

llvm::Error applyJsonFile(DeviceModel &model, llvm::StringRef path,
                          ValueSource source) {
  auto json = readJsonFile(path);
  if (!json)
    return json.takeError();
  return applyJson(model, *json, path, source);
}

std::string planningDigest(const DeviceModel &model) {
  // Canonical: the text does not depend on the order of the table.
  std::vector<const DeviceField *> sorted;
  for (const DeviceField &field : kFields)
    if (field.isPlannedWith)
      sorted.push_back(&field);
  llvm::sort(sorted, [](const DeviceField *a, const DeviceField *b) {
    return llvm::StringRef(a->key) < b->key;
  });
  std::string text = "{";
  for (const DeviceField *field : sorted)
    std::visit(
        [&](const auto &value) {
          if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>)
            fmt::format_to(std::back_inserter(text), "\"{}\":{},", field->key,
                           value);
          else
            fmt::format_to(std::back_inserter(text), "\"{}\":\"{}\",",
                           field->key, value);
        },
        field->valueOf(model));
  text.back() = '}';
  constexpr size_t kDigits = 32;
  return strongHash(text).hex().substr(0, kDigits);
}

} // namespace kiln
