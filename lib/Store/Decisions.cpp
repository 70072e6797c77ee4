//===- Decisions.cpp - the estimator's choices, stored without trials -----===//
#include "Store/Decisions.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <cmath>

namespace kiln {

llvm::Expected<Decision> Decision::parse(llvm::StringRef json) {
  auto value = parseJson(json, "decision");
  if (!value)
    return value.takeError();
  const llvm::json::Object *object = value->getAsObject();
  const llvm::json::Array *list =
      object ? object->getArray("configs") : nullptr;
  if (!list)
    return makeError(ErrorCode::InvalidArgument,
                     "decision: no array 'configs'");
  Decision decision;
  for (const llvm::json::Value &element : *list) {
    const llvm::json::Object *item = element.getAsObject();
    if (!item)
      continue;
    auto config = item->getString("config");
    auto predictedNs = item->getNumber("predictedNs");
    auto bound = item->getString("bound");
    auto kernel = item->getString("kernel");
    if (!config || config->empty() || !predictedNs || !bound || !kernel ||
        !std::isfinite(*predictedNs) || *predictedNs < 0)
      continue;
    decision.configs.push_back(
        {config->str(), *predictedNs, bound->str(), kernel->str()});
  }
  return decision;
}

llvm::json::Object Decision::toJson() const {
  llvm::json::Array list;
  for (const DecidedConfig &config : configs)
    list.push_back(llvm::json::Object{{"config", config.config},
                                      {"predictedNs", config.predictedNs},
                                      {"bound", config.bound},
                                      {"kernel", config.kernel}});
  return llvm::json::Object{{"configs", std::move(list)}};
}

std::string productKey(const DeviceModel &device) {
  return fmt::format("{} {} sms={} planned={}", device.name, device.archName(),
                     device.smCount, planningDigest(device));
}

std::string decisionKey(const Problem &problem, const DeviceModel &device,
                        ModelKind model) {
  return fmt::format("kiln decision 2\nproblem {}\ndevice {}\nmodel {}\n",
                     problem.text(), productKey(device), nameOf(model));
}

std::optional<Decision> DecisionStore::find(const Problem &problem,
                                            const DeviceModel &device,
                                            ModelKind model) const {
  return read(decisionKey(problem, device, model), nullptr);
}

std::optional<Decision> DecisionStore::read(llvm::StringRef key,
                                            cache::LayerKind *from) const {
  std::optional<cache::Entry> entry =
      cache->lookup(cache::Kind::Decision, key, nullptr, from);
  if (!entry)
    return std::nullopt;
  auto decision = Decision::parse(entry->payload);
  if (!decision) {
    llvm::consumeError(decision.takeError());
    return std::nullopt;
  }
  if (decision->configs.empty())
    return std::nullopt;
  return std::move(*decision);
}

bool DecisionStore::isOnDisk(const Problem &problem, const DeviceModel &device,
                             ModelKind model) const {
  return cache->isOnDisk(cache::Kind::Decision,
                         decisionKey(problem, device, model));
}

DecisionStore::StoreResult DecisionStore::store(const Problem &problem,
                                                const DeviceModel &device,
                                                ModelKind model,
                                                const Decision &decision) {
  const std::string key = decisionKey(problem, device, model);
  // An equal one costs a read instead of two fsyncs: a second warm-up is quick.
  cache::LayerKind from = cache::LayerKind::Memory;
  if (read(key, &from) == decision && from != cache::LayerKind::Memory)
    return {{}, true};
  llvm::json::Object attributes{{"problem", problem.text()},
                                {"device", device.name},
                                {"model", nameOf(model)}};
  return {cache->publish(cache::Kind::Decision, key, attributes,
                         printJson(decision.toJson())),
          false};
}

} // namespace kiln
