//===- Catalog.cpp --------------------------------------------------------===//
#include "Device/Catalog.h"

#include "Device/ArchitectureRules.h"

#include "Support/Error.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringExtras.h>

#include <cmath>

namespace kiln {

/// Sources. SMs, clocks, bus, power: data sheets and whitepapers of the
/// product, memory clocks and bus widths as NVML and the driver report them.
/// Latencies in cycles and L2 bandwidth: micro-benchmarks of
/// te42kyfo/gpu-benches; V100 and T4 L2: Jia et al., arXiv 1804.06826 and
/// 1903.07486. H200 bandwidths, launch, ramp and cluster fit: measured on one
/// H200 SXM with driver 580 (read by a sum 4290 GB/s, fill 3400; an empty
/// 132-block kernel in a graph 620 ns; ramp 950-1240 ns; 66, 30 and 15
/// clusters of 2, 4 and 8). Sustained tensor clock of Hopper: 1.36-1.6 GHz at
/// the 700 W limit under dense bf16, the middle is taken.
static constexpr CatalogEntry kCatalog[] = {
    {.name = "a100-sxm4-40gb",
     .marketingNames = "NVIDIA A100-SXM4-40GB|A100-SXM4-40GB",
     .pciDeviceIds = {0x20b0, 0},
     .capability = {8, 0},
     .smCount = 108,
     .smClockMHz = 1410,
     .memoryClockMHz = 1215,
     .memoryBusBits = 5120,
     .powerLimitWatts = 400,
     .memoryGB = 40,
     .l2Bytes = 40 << 20,
     .l2GBs = 5400,
     .dramLatencyCycles = 571,
     .l2LatencyCycles = 211},
    {.name = "a100-sxm4-80gb",
     .marketingNames = "NVIDIA A100-SXM4-80GB|A100-SXM4-80GB",
     .pciDeviceIds = {0x20b2, 0},
     .capability = {8, 0},
     .smCount = 108,
     .smClockMHz = 1410,
     .memoryClockMHz = 1593,
     .memoryBusBits = 5120,
     .powerLimitWatts = 400,
     .memoryGB = 80,
     .l2Bytes = 40 << 20,
     .l2GBs = 5400,
     .dramLatencyCycles = 571,
     .l2LatencyCycles = 211},
    {.name = "a10",
     .marketingNames = "NVIDIA A10",
     .pciDeviceIds = {0x2236, 0},
     .capability = {8, 6},
     .smCount = 72,
     .smClockMHz = 1695,
     .memoryClockMHz = 6251,
     .memoryBusBits = 384,
     .powerLimitWatts = 150,
     .memoryGB = 24,
     .l2Bytes = 6 << 20},
    {.name = "rtx-4090",
     .marketingNames = "NVIDIA GeForce RTX 4090",
     .pciDeviceIds = {0x2684, 0},
     .capability = {8, 9},
     .smCount = 128,
     .smClockMHz = 2520,
     .memoryClockMHz = 10501,
     .memoryBusBits = 384,
     .powerLimitWatts = 450,
     .memoryGB = 24,
     .l2Bytes = 72 << 20,
     .tensorPercent = 50},
    // L2 bandwidth and latencies are the L40's.
    {.name = "l40s",
     .marketingNames = "NVIDIA L40S",
     .pciDeviceIds = {0x26b9, 0},
     .capability = {8, 9},
     .smCount = 142,
     .smClockMHz = 2520,
     .memoryClockMHz = 9001,
     .memoryBusBits = 384,
     .powerLimitWatts = 350,
     .memoryGB = 48,
     .l2Bytes = 96 << 20,
     .l2GBs = 5200,
     .dramLatencyCycles = 632,
     .l2LatencyCycles = 277},
    // DRAM: sum of 2^30 elements, pranjalssh/fast.cu. L2 as of the PCIe board.
    {.name = "h100-sxm",
     .marketingNames = "NVIDIA H100 80GB HBM3",
     .pciDeviceIds = {0x2330, 0},
     .capability = {9, 0},
     .smCount = 132,
     .smClockMHz = 1980,
     .memoryClockMHz = 2619,
     .memoryBusBits = 5120,
     .powerLimitWatts = 700,
     .memoryGB = 80,
     .l2Bytes = 50 << 20,
     .sustainedTensorClockMHz = 1500,
     .dramGBs = 3240,
     .l2GBs = 7000,
     .dramLatencyCycles = 570,
     .l2LatencyCycles = 260,
     .launchNs = 620,
     .rampNs = 1000,
     .maxClusters2 = 66,
     .maxClusters4 = 30,
     .maxClusters8 = 15},
    {.name = "h100-pcie",
     .marketingNames = "NVIDIA H100 PCIe",
     .pciDeviceIds = {0x2331, 0},
     .capability = {9, 0},
     .smCount = 114,
     .smClockMHz = 1755,
     .memoryClockMHz = 1593,
     .memoryBusBits = 5120,
     .powerLimitWatts = 350,
     .memoryGB = 80,
     .l2Bytes = 50 << 20,
     .l2GBs = 7000,
     .dramLatencyCycles = 650,
     .l2LatencyCycles = 265},
    // Latencies are the H100 SXM's.
    {.name = "h200-sxm",
     .marketingNames = "NVIDIA H200",
     .pciDeviceIds = {0x2335, 0},
     .capability = {9, 0},
     .smCount = 132,
     .smClockMHz = 1980,
     .memoryClockMHz = 3201,
     .memoryBusBits = 6016,
     .powerLimitWatts = 700,
     .memoryGB = 141,
     .l2Bytes = 60 << 20,
     .sustainedTensorClockMHz = 1500,
     .dramGBs = 4290,
     .dramWriteGBs = 3400,
     .l2GBs = 10000,
     .dramLatencyCycles = 570,
     .l2LatencyCycles = 260,
     .launchNs = 620,
     .rampNs = 1000,
     .maxClusters2 = 66,
     .maxClusters4 = 30,
     .maxClusters8 = 15},
    // L2: about 126 MB as the driver reports it.
    {.name = "b200-sxm",
     .marketingNames = "NVIDIA B200",
     .pciDeviceIds = {0x2901, 0},
     .capability = {10, 0},
     .smCount = 148,
     .smClockMHz = 1965,
     .memoryClockMHz = 3996,
     .memoryBusBits = 8192,
     .powerLimitWatts = 1000,
     .memoryGB = 180,
     .l2Bytes = 126 << 20},
    // As boards report themselves: 148 SMs, 2032 MHz, 126 MB of L2, 275,040
    // MiB. Power: HGX B300 with air cooling.
    {.name = "b300-sxm",
     .marketingNames = "NVIDIA B300 SXM6 AC|NVIDIA B300",
     .pciDeviceIds = {0x3182, 0},
     .capability = {10, 3},
     .smCount = 148,
     .smClockMHz = 2032,
     .memoryClockMHz = 3996,
     .memoryBusBits = 8192,
     .powerLimitWatts = 1100,
     .memoryGB = 268,
     .l2Bytes = 126 << 20},
    {.name = "rtx-5090",
     .marketingNames = "NVIDIA GeForce RTX 5090",
     .pciDeviceIds = {0x2b85, 0},
     .capability = {12, 0},
     .smCount = 170,
     .smClockMHz = 2407,
     .memoryClockMHz = 14001,
     .memoryBusBits = 512,
     .powerLimitWatts = 575,
     .memoryGB = 32,
     .l2Bytes = 96 << 20,
     .tensorPercent = 50},
    // The GPU of DGX Spark: SMs, clocks, bus and L2 as deviceQuery reports
    // them, but its "memory clock", 8533 MHz, counts transfers: LPDDR5X gives
    // 273 GB/s (NVIDIA's data sheet), and the share of it is that of the other
    // pins. The memory is the host's, less what the firmware keeps; the power
    // is that of the whole chip.
    {.name = "gb10",
     .marketingNames = "NVIDIA GB10",
     .pciDeviceIds = {0x2e12, 0},
     .capability = {12, 1},
     .smCount = 48,
     .smClockMHz = 2418,
     .memoryClockMHz = 4266,
     .memoryBusBits = 256,
     .powerLimitWatts = 140,
     .memoryGB = 119,
     .l2Bytes = 24 << 20,
     .dramGBs = 243,
     .tensorPercent = 50},
    {.name = "v100-sxm2",
     .marketingNames = "Tesla V100-SXM2-16GB|Tesla V100-SXM2-32GB",
     .pciDeviceIds = {0x1db1, 0x1db5},
     .capability = {7, 0},
     .smCount = 80,
     .smClockMHz = 1530,
     .memoryClockMHz = 877,
     .memoryBusBits = 4096,
     .powerLimitWatts = 300,
     .memoryGB = 16,
     .l2Bytes = 6 << 20,
     .l2GBs = 2155},
    {.name = "t4",
     .marketingNames = "Tesla T4|NVIDIA T4",
     .pciDeviceIds = {0x1eb8, 0},
     .capability = {7, 5},
     .smCount = 40,
     .smClockMHz = 1590,
     .memoryClockMHz = 5001,
     .memoryBusBits = 256,
     .powerLimitWatts = 70,
     .memoryGB = 16,
     .l2Bytes = 4 << 20,
     .l2GBs = 1270},
};

std::vector<llvm::StringRef> catalogNames() {
  std::vector<llvm::StringRef> names;
  for (const CatalogEntry &entry : kCatalog)
    names.push_back(entry.name);
  return names;
}

llvm::Expected<DeviceModel> findDevice(llvm::StringRef name,
                                       llvm::StringRef overridePath) {
  for (const CatalogEntry &entry : kCatalog) {
    if (name != entry.name)
      continue;
    DeviceModel model;
    if (!overridePath.empty())
      if (llvm::Error error =
              applyJsonFile(model, overridePath, ValueSource::Override))
        return error;
    fillFromCatalog(model, entry);
    fillFromArchitecture(model);
    return model;
  }
  return makeError(ErrorCode::InvalidArgument,
                   "unknown device '{}', known are {}", name,
                   llvm::join(catalogNames(), ", "));
}

/// "NVIDIA H200 MIG 1g.18gb" -> "H200".
static llvm::StringRef essentialName(llvm::StringRef marketingName) {
  marketingName = marketingName.trim();
  marketingName.consume_front("NVIDIA ");
  return marketingName.split(" MIG ").first.trim();
}

const CatalogEntry *matchLiveDevice(llvm::StringRef marketingName,
                                    uint32_t pciDeviceId) {
  llvm::StringRef wanted = essentialName(marketingName);
  for (const CatalogEntry &entry : kCatalog) {
    llvm::SmallVector<llvm::StringRef, 2> names;
    llvm::StringRef(entry.marketingNames).split(names, '|');
    for (llvm::StringRef name : names)
      if (!wanted.empty() && wanted.equals_insensitive(essentialName(name)))
        return &entry;
  }
  if (pciDeviceId == 0)
    return nullptr;
  for (const CatalogEntry &entry : kCatalog)
    for (uint16_t id : entry.pciDeviceIds)
      if (id == pciDeviceId)
        return &entry;
  return nullptr;
}

void fillFromCatalog(DeviceModel &model, const CatalogEntry &entry) {
  // A count of 0 in the entry leaves the value to the architecture's rule.
  auto fill = [&](llvm::StringRef key, int64_t value) {
    if (value != 0)
      fillValue(model, key, value, ValueSource::Catalog, entry.name);
  };
  fillValue(model, "name", std::string(entry.name), ValueSource::Catalog,
            entry.name);
  fill("ccMajor", entry.capability.major);
  fillValue(model, "ccMinor", int64_t{entry.capability.minor},
            ValueSource::Catalog, entry.name);
  fill("smCount", entry.smCount);
  fill("smClockMHz", entry.smClockMHz);
  fill("memoryClockMHz", entry.memoryClockMHz);
  fill("memoryBusBits", entry.memoryBusBits);
  fill("powerLimitWatts", entry.powerLimitWatts);
  fill("memoryBytes", int64_t{entry.memoryGB} << 30);
  fill("l2Bytes", entry.l2Bytes);
  fill("sustainedTensorClockMHz", entry.sustainedTensorClockMHz);
  fill("launchNs", entry.launchNs);
  fill("rampNs", entry.rampNs);
  double clockGHz = model.smClockMHz * 1e-3;
  if (entry.dramLatencyCycles)
    fillValue(model, "dramLatencyNs",
              std::round(entry.dramLatencyCycles / clockGHz),
              ValueSource::Catalog, entry.name);
  if (entry.l2LatencyCycles)
    fillValue(model, "l2LatencyNs",
              std::round(entry.l2LatencyCycles / clockGHz),
              ValueSource::Catalog, entry.name);
  if (entry.tensorPercent)
    fillTensorRates(model, entry.tensorPercent * 1e-2, ValueSource::Catalog,
                    entry.name);
  // A slice of the chip has neither its bandwidths nor its clusters.
  if (model.smCount != entry.smCount)
    return;
  fill("dramGBs", entry.dramGBs);
  fill("dramWriteGBs", entry.dramWriteGBs);
  fill("l2GBs", entry.l2GBs);
  fill("maxClusters2", entry.maxClusters2);
  fill("maxClusters4", entry.maxClusters4);
  fill("maxClusters8", entry.maxClusters8);
}

} // namespace kiln
