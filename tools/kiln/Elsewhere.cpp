//===- Elsewhere.cpp - a time that another GPU measured -------------------===//
#include "kiln/Elsewhere.h"

#include "Device/Catalog.h"
#include "Support/Report.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

std::string MeasuredElsewhere::text() const {
  return fmt::format(
      "not measured on this GPU. On {} trials found {} the fastest, with {} "
      "us; by the ratio of the estimates ({:.2f}) that is {} us here: a guess",
      device, config, formatUs(measuredNs), ratio, formatUs(rescaledNs()));
}

llvm::json::Object MeasuredElsewhere::toJson() const {
  return llvm::json::Object{{"device", device},
                            {"config", config},
                            {"measured_us", rounded(measuredNs * 1e-3)},
                            {"ratio", rounded(ratio)},
                            {"rescaled_us", rounded(rescaledNs() * 1e-3)},
                            {"is_guess", true}};
}

/// The classes of other devices that have a record for the layer of \p problem.
static std::vector<std::string> otherClasses(cache::Store &cache,
                                             const KernelFamily &family,
                                             const Problem &problem,
                                             llvm::StringRef own) {
  const std::string ownKey = recordKey(family, problem, own);
  const llvm::StringRef layer =
      llvm::StringRef(ownKey).take_front(ownKey.rfind(own));
  std::vector<std::string> classes;
  for (const cache::EntryInfo &entry : cache.list(cache::Kind::Record)) {
    llvm::StringRef other = entry.key;
    if (!other.consume_front(layer))
      continue;
    other = other.trim();
    if (other != own && !llvm::is_contained(classes, other))
      classes.push_back(other.str());
  }
  return classes;
}

/// The fastest config of \p match that \p device allows.
static std::optional<MeasuredElsewhere> rescale(const RecordMatch &match,
                                                const Problem &problem,
                                                const DeviceModel &there,
                                                const DeviceModel &device) {
  if (match.kind != RecordMatchKind::Exact)
    return std::nullopt;
  for (const RecordedConfig &recorded : match.validated()) {
    const Template &tmpl = *recorded.tmpl;
    if (tmpl.prune(problem, recorded.config, device))
      continue;
    const double here = tmpl.estimate(problem, recorded.config, device).totalNs;
    const double other = tmpl.estimate(problem, recorded.config, there).totalNs;
    if (here > 0 && other > 0)
      return MeasuredElsewhere{there.name, recorded.config.text(),
                               recorded.measurement->medianNs, here / other};
  }
  return std::nullopt;
}

std::optional<MeasuredElsewhere> findElsewhere(cache::Store &cache,
                                               const RecordStore &records,
                                               const KernelFamily &family,
                                               const Problem &problem,
                                               const DeviceModel &device) {
  const std::string own = deviceClassKey(device);
  if (records.find(family, problem, own).kind == RecordMatchKind::Exact)
    return std::nullopt;
  std::optional<MeasuredElsewhere> found;
  for (const std::string &other : otherClasses(cache, family, problem, own)) {
    auto there = findDevice(llvm::StringRef(other).split(' ').first);
    if (!there) {
      llvm::consumeError(there.takeError());
      continue;
    }
    const bool isAlike =
        there->computeCapability() == device.computeCapability();
    if (found && !isAlike)
      continue;
    if (auto guess = rescale(records.find(family, problem, other), problem,
                             *there, device))
      found = std::move(guess);
    if (found && isAlike)
      break;
  }
  return found;
}

} // namespace kiln::cli
