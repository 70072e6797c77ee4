//===- ProbeStore.cpp -----------------------------------------------------===//
#include "Store/ProbeStore.h"

#include "Support/Format.h"
#include "Support/Json.h"

#include <llvm/Support/MemoryBuffer.h>

namespace kiln {

/// Names this boot of the machine; empty if the kernel does not tell.
static std::string bootId() {
  auto buffer =
      llvm::MemoryBuffer::getFileAsStream("/proc/sys/kernel/random/boot_id");
  return buffer ? (*buffer)->getBuffer().trim().str() : std::string();
}

/// The key of \p probed, empty if it must not be kept.
static std::string keyOf(const ProbedAttributes &probed, int driverVersion) {
  std::string boot = bootId();
  if (boot.empty() || !probed.uuid)
    return {};
  return fmt::format("kiln probe 1\ngpu {}\ndriver {}\nboot {}\n", *probed.uuid,
                     driverVersion, boot);
}

static llvm::json::Object toJson(const ProbedAttributes &probed) {
  return llvm::json::Object{{"pciDeviceId", int64_t(*probed.pciDeviceId)},
                            {"smClockMHz", *probed.nvmlSmClockMHz},
                            {"memoryClockMHz", *probed.nvmlMemoryClockMHz},
                            {"memoryBusBits", *probed.nvmlMemoryBusBits},
                            {"powerLimitWatts", *probed.powerLimitWatts}};
}

bool ProbeStore::restore(ProbedAttributes &probed, int driverVersion) const {
  std::string key = keyOf(probed, driverVersion);
  if (key.empty())
    return false;
  auto entry = cache->lookup(cache::Kind::Probe, key);
  if (!entry)
    return false;
  auto json = parseJson(entry->payload, "probe");
  if (!json) {
    llvm::consumeError(json.takeError());
    return false;
  }
  const llvm::json::Object *object = json->getAsObject();
  if (!object)
    return false;
  auto deviceId = object->getInteger("pciDeviceId");
  auto smClock = object->getInteger("smClockMHz");
  auto memoryClock = object->getInteger("memoryClockMHz");
  auto busBits = object->getInteger("memoryBusBits");
  auto powerLimit = object->getNumber("powerLimitWatts");
  if (!deviceId || !smClock || !memoryClock || !busBits || !powerLimit)
    return false;
  probed.pciDeviceId = static_cast<uint32_t>(*deviceId);
  probed.nvmlSmClockMHz = *smClock;
  probed.nvmlMemoryClockMHz = *memoryClock;
  probed.nvmlMemoryBusBits = *busBits;
  probed.powerLimitWatts = *powerLimit;
  return true;
}

void ProbeStore::store(const ProbedAttributes &probed, int driverVersion) {
  bool complete = probed.pciDeviceId && probed.nvmlSmClockMHz &&
                  probed.nvmlMemoryClockMHz && probed.nvmlMemoryBusBits &&
                  probed.powerLimitWatts;
  std::string key = keyOf(probed, driverVersion);
  if (!complete || key.empty())
    return;
  std::string payload = printJson(toJson(probed));
  auto known = cache->lookup(cache::Kind::Probe, key);
  if (known && known->payload == payload)
    return;
  cache->publish(cache::Kind::Probe, key,
                 llvm::json::Object{{"gpu", *probed.uuid}}, payload);
}

} // namespace kiln
