//===- CalibrationStore.cpp - calibrations in the cache -------------------===//
#include "Store/CalibrationStore.h"

#include "Support/Error.h"
#include "Support/Json.h"

namespace kiln {

/// Another number means that the definition of some value has changed.
static constexpr int64_t kFormat = 1;

static std::string classKeyOf(const DeviceModel &model) {
  return fmt::format("kiln calibration\n{}\n", deviceClassKey(model));
}
static std::string boardKeyOf(const DeviceModel &model) {
  return fmt::format("{}gpu {}\n", classKeyOf(model), model.uuid);
}

std::optional<Calibration>
CalibrationStore::read(const std::string &key,
                       std::vector<std::string> &notes) const {
  auto entry = cache->lookup(
      cache::Kind::Calibration, key, [](const llvm::json::Object &attributes) {
        return attributes.getInteger("format") == kFormat;
      });
  if (!entry)
    return std::nullopt;
  auto calibration = Calibration::parse(entry->payload);
  if (calibration)
    return std::move(*calibration);
  notes.push_back(fmt::format("calibration ignored: {}",
                              summarize(calibration.takeError()).message));
  return std::nullopt;
}

std::optional<Calibration>
CalibrationStore::find(const DeviceModel &model,
                       std::vector<std::string> &notes) const {
  if (!model.uuid.empty())
    if (auto own = read(boardKeyOf(model), notes))
      return own;
  return read(classKeyOf(model), notes);
}

CalibrationStore::Stored
CalibrationStore::store(const DeviceModel &model,
                        const Calibration &calibration) {
  const llvm::json::Object attributes{{"format", kFormat},
                                      {"device", model.name},
                                      {"gpu", calibration.gpu},
                                      {"driver", calibration.driver}};
  const std::string payload = printJson(calibration.toJson());
  std::vector<std::string> ignored; // a damaged one is replaced
  auto known = read(classKeyOf(model), ignored);
  const bool isForClass = !known || known->gpu == calibration.gpu ||
                          known->refused.size() > calibration.refused.size();
  if (isForClass) {
    auto result = cache->publish(cache::Kind::Calibration, classKeyOf(model),
                                 attributes, payload);
    if (result.status != cache::PublishStatus::Stored)
      return {std::move(result), false};
  }
  return {cache->publish(cache::Kind::Calibration, boardKeyOf(model),
                         attributes, payload),
          isForClass};
}

cache::Claim CalibrationStore::claim(const DeviceModel &model, bool own) {
  return cache->claim(cache::Kind::Calibration,
                      own ? boardKeyOf(model) : classKeyOf(model));
}

} // namespace kiln
