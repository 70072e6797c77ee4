//===- Calibration.cpp - values that were measured on a GPU ---------------===//
#include "Device/Calibration.h"

#include "Device/ArchitectureRules.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

static constexpr const char *kKeys[] = {"sharedBytesPerClockPerSm",
                                        "maxClusters2",
                                        "maxClusters4",
                                        "maxClusters8",
                                        "sustainedTensorClockMHz",
                                        "sustainedMemoryClockMHz",
                                        "dramGBs",
                                        "dramWriteGBs",
                                        "l2GBs",
                                        "dramLatencyNs",
                                        "l2LatencyNs",
                                        "launchNs",
                                        "rampNs",
                                        "tensorFp64FlopsPerClock",
                                        "tensorTf32FlopsPerClock",
                                        "tensorFp16FlopsPerClock",
                                        "tensorBf16FlopsPerClock",
                                        "tensorFp8FlopsPerClock",
                                        "tensorInt8FlopsPerClock",
                                        "mmaSyncFp64FlopsPerClock",
                                        "mmaSyncTf32FlopsPerClock",
                                        "mmaSyncFp16FlopsPerClock",
                                        "mmaSyncBf16FlopsPerClock",
                                        "mmaSyncFp8FlopsPerClock",
                                        "mmaSyncInt8FlopsPerClock",
                                        "simdFp64FlopsPerClock",
                                        "simdFp32FlopsPerClock",
                                        "simdFp16FlopsPerClock",
                                        "simdInt32FlopsPerClock",
                                        "specialOpsPerClock"};

llvm::ArrayRef<const char *> calibratedKeys() { return kKeys; }

static bool isCalibrated(llvm::StringRef key) {
  return llvm::is_contained(calibratedKeys(), key);
}

/// A board may differ from the rule of its architecture by this factor, and
/// from the catalog's entry of its product.
static constexpr double kMostOff = 3;

/// Memory may seem faster than its pins by this factor, for rounding.
static constexpr double kMostOfPins = 1.02;

static double numberOf(const DeviceModel &model, const DeviceField &field) {
  const FieldValue value = field.valueOf(model);
  if (auto *whole = std::get_if<int64_t>(&value))
    return static_cast<double>(*whole);
  return std::get<double>(value);
}

std::string implausible(const DeviceModel &model,
                        const CalibratedValue &value) {
  if (!isCalibrated(value.key))
    return fmt::format("{}: it is not measured", value.key);
  const DeviceField &field = *findDeviceField(value.key);
  DeviceModel trial = model;
  if (llvm::Error error =
          setValue(trial, field, value.value, ValueSource::Calibration))
    return summarize(std::move(error)).message;
  const double pins = model.dramPeakBytesPerNs();
  if (llvm::StringRef(value.key).starts_with("dram") &&
      llvm::StringRef(field.unit) == "GB/s" && value.value > kMostOfPins * pins)
    return fmt::format("{}: {} is more than the {:.0f} GB/s of the pins",
                       value.key, value.value, pins);
  const ValueOrigin &origin = model.origins[field.index()];
  const double known = numberOf(model, field);
  if (known > 0 &&
      (value.value > known * kMostOff || value.value < known / kMostOff))
    return fmt::format("{}: {} is off the {} of the {} by more than a factor "
                       "of {}",
                       value.key, value.value, known, nameOf(origin.source),
                       kMostOff);
  if (known == 0 && value.value != 0 && origin.source != ValueSource::Unset)
    return fmt::format("{}: {} on a GPU without that unit", value.key,
                       value.value);
  return {};
}

void applyCalibration(DeviceModel &model, const Calibration &calibration,
                      std::vector<std::string> &notes) {
  if (!model.uncalibrated)
    model.uncalibrated = std::make_shared<DeviceModel>(model);
  for (const CalibratedValue &value : calibration.values) {
    const DeviceField *field = findDeviceField(value.key);
    if (field &&
        model.origins[field->index()].source >= ValueSource::Calibration)
      continue; // the user's own number
    if (std::string fault = implausible(model, value); !fault.empty()) {
      notes.push_back("calibration refused: " + fault);
      continue;
    }
    llvm::cantFail(setValue(model, *field, value.value,
                            ValueSource::Calibration, value.benchmark));
  }
}

void forgetCatalog(DeviceModel &model) {
  for (const char *key : kKeys) {
    ValueOrigin &origin = model.origins[findDeviceField(key)->index()];
    if (origin.source == ValueSource::Catalog)
      origin = {};
  }
  fillFromArchitecture(model);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

void Calibration::keepRefused(const Calibration &earlier) {
  if (earlier.gpu == gpu)
    llvm::copy_if(earlier.values, std::back_inserter(values),
                  [&](const CalibratedValue &value) {
                    return llvm::is_contained(refused, value.key);
                  });
}

llvm::json::Object Calibration::toJson() const {
  llvm::json::Array list;
  for (const CalibratedValue &value : values)
    list.push_back(llvm::json::Object{{"key", value.key},
                                      {"value", value.value},
                                      {"benchmark", value.benchmark}});
  return llvm::json::Object{{"gpu", gpu},
                            {"driver", driver},
                            {"time", time},
                            {"values", std::move(list)},
                            {"refused", llvm::json::Array(refused)}};
}

llvm::Expected<Calibration> Calibration::parse(llvm::StringRef text) {
  auto json = parseJson(text, "calibration");
  if (!json)
    return json.takeError();
  const llvm::json::Object *object = json->getAsObject();
  const llvm::json::Array *list = object ? object->getArray("values") : nullptr;
  if (!list)
    return makeError(ErrorCode::InvalidArgument,
                     "a calibration without values");
  Calibration calibration;
  calibration.gpu = object->getString("gpu").value_or("").str();
  calibration.driver = object->getString("driver").value_or("").str();
  calibration.time = object->getInteger("time").value_or(0);
  if (const llvm::json::Array *refused = object->getArray("refused"))
    for (const llvm::json::Value &key : *refused)
      calibration.refused.push_back(key.getAsString().value_or("").str());
  for (const llvm::json::Value &item : *list) {
    const llvm::json::Object *fields = item.getAsObject();
    auto key = fields ? fields->getString("key") : std::nullopt;
    auto value = fields ? fields->getNumber("value") : std::nullopt;
    if (!key || !value)
      return makeError(ErrorCode::InvalidArgument,
                       "a value of a calibration without key or number");
    calibration.values.push_back(
        {key->str(), *value,
         fields->getString("benchmark").value_or("").str()});
  }
  return calibration;
}

} // namespace kiln
