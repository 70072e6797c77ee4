//===- Decisions.cpp - the estimator's choices, stored without trials -----===//
#include "Store/Decisions.h"

#include "Support/Format.h"
#include "Support/Json.h"

#include <cmath>

namespace kiln {

static std::optional<DecidedConfig>
readDecided(const llvm::json::Object &object) {
  DecidedConfig decided;
  FieldReader reader(object);
  reader.require("config", decided.config);
  reader.require("predictedNs", decided.predictedNs);
  reader.require("bound", decided.bound);
  reader.require("kernel", decided.kernel);
  if (reader.isDamaged || decided.config.empty() ||
      !std::isfinite(decided.predictedNs) || decided.predictedNs < 0)
    return std::nullopt;
  decided.unknown = reader.unknown();
  return decided;
}

static llvm::json::Object writeDecided(const DecidedConfig &decided) {
  llvm::json::Object object = decided.unknown;
  object["config"] = jsonText(decided.config);
  object["predictedNs"] = decided.predictedNs;
  object["bound"] = jsonText(decided.bound);
  object["kernel"] = jsonText(decided.kernel);
  return object;
}

llvm::Expected<Decision> Decision::open(std::string text) {
  Decision decision;
  auto take = [&](const llvm::json::Object &item) {
    auto decided = readDecided(item);
    if (decided)
      decision.configs.push_back(std::move(*decided));
    return decided.has_value();
  };
  if (llvm::Error error = readLines(text, kKind.name, decision.other, take))
    return error;
  return decision;
}

std::string Decision::text() const {
  return textOfItems(kKind.name, other, configs, writeDecided);
}

size_t Decision::shrink(size_t most) {
  auto dropOne = [&] {
    if (configs.size() <= 1)
      return false;
    configs.pop_back();
    return true;
  };
  return shrinkText(
      most, [&] { return text(); }, dropOne);
}

std::string productKey(const DeviceModel &device) {
  return fmt::format("{} {} sms={} planned={}", device.name, device.archName(),
                     device.smCount, planningDigest(device));
}

std::string decisionKey(const Problem &problem, const DeviceModel &device,
                        ModelKind model) {
  return fmt::format("kiln decision 3\nproblem {}\ndevice {}\nmodel {}\n",
                     problem.text(), productKey(device), nameOf(model));
}

std::optional<Decision> DecisionStore::find(const Problem &problem,
                                            const DeviceModel &device,
                                            ModelKind model) const {
  auto decision =
      entries.load(decisionKey(problem, device, model), RecordAge::Now)
          .document;
  if (decision->configs.empty())
    return std::nullopt;
  return *decision;
}

bool DecisionStore::isOnDisk(const Problem &problem, const DeviceModel &device,
                             ModelKind model) const {
  return entries.isOnDisk(decisionKey(problem, device, model));
}

DecisionStore::StoreResult DecisionStore::store(const Problem &problem,
                                                const DeviceModel &device,
                                                ModelKind model,
                                                const Decision &decision) {
  llvm::json::Object attributes{{"problem", problem.text()},
                                {"device", device.name},
                                {"model", nameOf(model)}};
  auto replace = [&](Decision &there) {
    std::vector<DecidedConfig> configs = decision.configs;
    for (DecidedConfig &config : configs)
      for (const DecidedConfig &known : there.configs)
        if (known.config == config.config && known.kernel == config.kernel)
          addMissing(config.unknown, known.unknown);
    there.configs = std::move(configs);
  };
  auto updated = entries.update(decisionKey(problem, device, model),
                                std::move(attributes), replace);
  return {std::move(updated.publish), updated.wasThere};
}

} // namespace kiln
