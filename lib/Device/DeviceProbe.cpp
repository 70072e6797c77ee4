//===- DeviceProbe.cpp ----------------------------------------------------===//
#include "Device/DeviceProbe.h"

#include "Device/ArchitectureRules.h"
#include "Device/Catalog.h"

#include "Support/Error.h"

#include <llvm/ADT/StringExtras.h>

namespace kiln {

/// GeForce boards accumulate in fp32 at half the rate of their architecture
/// (data sheets of RTX 2080 Ti, 3090, 4090 and 5090).
static constexpr double kGeForceTensorShare = 0.5;

namespace {
/// Moves probed answers of one source into the model.
struct ProbeReader {
  DeviceModel &model;
  ValueSource source;
  std::vector<std::string> &notes;

  /// Takes \p answer if it is usable.
  template <class T>
  void take(llvm::StringRef key, std::optional<T> answer, llvm::StringRef probe,
            int64_t divisor = 1) const {
    if (!answer) {
      notes.push_back(
          fmt::format("{}: no answer from {}", key, probeName(probe)));
      return;
    }
    const DeviceField &field = *findDeviceField(key);
    if (model.origins[field.index()].source != ValueSource::Unset)
      return;
    if (llvm::Error error = setValue(model, field, *answer, source, probe))
      notes.push_back(fmt::format(
          "{} ({})", summarize(std::move(error)).message, probeName(probe)));
  }

  std::string probeName(llvm::StringRef probe) const {
    return fmt::format("{} {}", nameOf(source), probe);
  }
};
} // namespace

/// The values that come as the driver gives them.
static void takeDriverAnswers(const ProbeReader &reader,
                              const ProbedAttributes &probed) {
  reader.take("uuid", probed.uuid, "uuid");
  reader.take("ccMajor", probed.ccMajor, "compute capability major");
  reader.take("ccMinor", probed.ccMinor, "compute capability minor");
  reader.take("smCount", probed.smCount, "multiprocessor count");
  reader.take("memoryBusBits", probed.memoryBusBits, "memory bus width");
  reader.take("memoryBytes", probed.memoryBytes, "total memory");
  reader.take("l2Bytes", probed.l2Bytes, "L2 cache size");
  reader.take("sharedBytesPerSm", probed.sharedBytesPerSm,
              "max shared memory per multiprocessor");
  reader.take("sharedBytesPerBlock", probed.sharedBytesPerBlockOptin,
              "max shared memory per block optin");
  reader.take("sharedBytesReservedPerBlock", probed.sharedBytesReservedPerBlock,
              "reserved shared memory per block");
  reader.take("registersPerSm", probed.registersPerSm,
              "max registers per multiprocessor");
  reader.take("maxThreadsPerBlock", probed.maxThreadsPerBlock,
              "max threads per block");
  reader.take("maxBlocksPerSm", probed.maxBlocksPerSm,
              "max blocks per multiprocessor");
  std::optional<int64_t> warps;
  if (probed.maxThreadsPerSm && probed.warpSize.value_or(0) > 0)
    warps = *probed.maxThreadsPerSm / *probed.warpSize;
  reader.take("maxWarpsPerSm", warps, "max threads per multiprocessor");
}

/// kHz -> MHz; nothing where the driver gave no clock or 0.
static std::optional<double> mhzOf(std::optional<int64_t> kHz) {
  if (kHz.value_or(0) <= 0)
    return std::nullopt;
  return static_cast<double>(*kHz) * 1e-3;
}

/// Clocks and what NVML alone knows. The driver's maximum clock comes first;
/// drivers of CUDA 13 no longer have it.
static void takeClocks(const ProbeReader &driver, const ProbeReader &nvml,
                       const ProbedAttributes &probed) {
  if (std::optional<double> clock = mhzOf(probed.smClockKHz))
    driver.take("smClockMHz", clock, "clock rate");
  else
    nvml.take("smClockMHz", probed.nvmlSmClockMHz, "max SM clock");
  if (std::optional<double> clock = mhzOf(probed.memoryClockKHz))
    driver.take("memoryClockMHz", clock, "memory clock rate");
  else
    nvml.take("memoryClockMHz", probed.nvmlMemoryClockMHz, "max memory clock");
  if (probed.memoryBusBits.value_or(0) <= 0)
    nvml.take("memoryBusBits", probed.nvmlMemoryBusBits, "memory bus width");
  nvml.take("powerLimitWatts", probed.powerLimitWatts, "enforced power limit");
  if (probed.migProfile)
    nvml.take("migProfile", probed.migProfile, "MIG profile");
}

/// "NVIDIA RTX A6000" -> "nvidia-rtx-a6000".
static std::string slugOf(llvm::StringRef marketingName) {
  std::string slug;
  for (char c : marketingName.lower())
    if (llvm::isAlnum(c))
      slug += c;
    else if (!slug.empty() && slug.back() != '-')
      slug += '-';
  return llvm::StringRef(slug).rtrim('-').str();
}

static void takeName(DeviceModel &model, const ProbedAttributes &probed,
                     const CatalogEntry *entry,
                     std::vector<std::string> &notes) {
  if (entry) {
    fillValue(model, "name", std::string(entry->name), ValueSource::Driver,
              probed.marketingName.value_or("PCI device id"));
    return;
  }
  std::string slug = slugOf(probed.marketingName.value_or(""));
  if (slug.empty()) {
    notes.push_back("name: no answer from driver device name");
    return;
  }
  notes.push_back(
      fmt::format("'{}' is not in the catalog, rules of the architecture apply",
                  *probed.marketingName));
  fillValue(model, "name", slug, ValueSource::Driver, *probed.marketingName);
}

llvm::Expected<DeviceModel>
assembleDeviceModel(const ProbedAttributes &probed,
                    llvm::StringRef overridePath,
                    std::vector<std::string> &notes) {
  notes.insert(notes.end(), probed.failures.begin(), probed.failures.end());
  // The file first: every later step fills only unset fields.
  DeviceModel model;
  if (!overridePath.empty())
    if (llvm::Error error =
            applyJsonFile(model, overridePath, ValueSource::Override))
      return error;

  ProbeReader driver{model, ValueSource::Driver, notes};
  ProbeReader nvml{model, ValueSource::Nvml, notes};
  takeDriverAnswers(driver, probed);
  takeClocks(driver, nvml, probed);

  const CatalogEntry *entry = matchLiveDevice(probed.marketingName.value_or(""),
                                              probed.pciDeviceId.value_or(0));
  takeName(model, probed, entry, notes);
  if (entry)
    fillFromCatalog(model, *entry);
  else if (llvm::StringRef(probed.marketingName.value_or(""))
               .contains("GeForce"))
    fillTensorRates(model, kGeForceTensorShare, ValueSource::Architecture,
                    "GeForce of " + model.archName());
  fillFromArchitecture(model);
  return model;
}

} // namespace kiln
