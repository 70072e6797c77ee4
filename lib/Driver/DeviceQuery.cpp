//===- DeviceQuery.cpp ----------------------------------------------------===//
#include "Driver/DeviceQuery.h"

#include "Driver/CudaApi.h"
#include "Driver/Nvml.h"

namespace kiln {

/// Keeps an error as a line of the report instead of passing it on.
static bool answered(llvm::Error error, ProbedAttributes &probed) {
  if (!error)
    return true;
  probed.failures.push_back(summarize(std::move(error)).message);
  return false;
}

/// "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx".
static std::string formatUuid(const CUuuid &uuid) {
  std::string text;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10)
      text += '-';
    text += fmt::format("{:02x}", static_cast<uint8_t>(uuid.bytes[i]));
  }
  return text;
}

static void queryAttributes(const Driver &driver, CUdevice device,
                            ProbedAttributes &probed) {
  struct Query {
    CUdevice_attribute attribute;
    std::optional<int64_t> ProbedAttributes::*field;
    const char *what;
  };
  using P = ProbedAttributes;
  static constexpr Query kQueries[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &P::ccMajor,
       "compute capability (major)"},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &P::ccMinor,
       "compute capability (minor)"},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &P::smCount,
       "multiprocessors"},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &P::smClockKHz, "SM clock"},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &P::memoryClockKHz,
       "memory clock"},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &P::memoryBusBits,
       "memory bus width"},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &P::l2Bytes, "L2 size"},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
       &P::sharedBytesPerSm, "shared memory per multiprocessor"},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
       &P::sharedBytesPerBlockOptin, "shared memory per block"},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
       &P::sharedBytesReservedPerBlock, "reserved shared memory per block"},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, &P::registersPerSm,
       "registers per multiprocessor"},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &P::maxThreadsPerSm,
       "threads per multiprocessor"},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &P::maxThreadsPerBlock,
       "threads per block"},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, &P::maxBlocksPerSm,
       "blocks per multiprocessor"},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, &P::warpSize, "warp size"},
  };
  for (const Query &query : kQueries) {
    int value = 0;
    llvm::Error error = driver.check(
        driver.api().cuDeviceGetAttribute(&value, query.attribute, device),
        "cuDeviceGetAttribute");
    if (answered(addContext(std::move(error), query.what), probed))
      probed.*query.field = value;
  }
}

/// Name, UUID, memory and MIG, which the driver tells by functions of their
/// own. On a MIG instance the name ends in "MIG 1g.18gb" and the UUID is the
/// instance's.
static void queryIdentity(const Driver &driver, CUdevice device,
                          ProbedAttributes &probed) {
  const CudaApi &api = driver.api();
  char name[256] = {};
  if (answered(driver.check(api.cuDeviceGetName(name, sizeof(name), device),
                            "cuDeviceGetName"),
               probed)) {
    probed.marketingName = name;
    auto [board, profile] = llvm::StringRef(name).split(" MIG ");
    if (!profile.empty())
      probed.migProfile = profile.str();
  }
  CUuuid uuid = {};
  if (answered(
          driver.check(api.cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid"),
          probed))
    probed.uuid = (probed.migProfile ? "MIG-" : "GPU-") + formatUuid(uuid);
  size_t bytes = 0;
  if (answered(driver.check(api.cuDeviceTotalMem(&bytes, device),
                            "cuDeviceTotalMem"),
               probed))
    probed.memoryBytes = static_cast<int64_t>(bytes);
}

/// Calls \p function if this NVML has it.
template <class Function, class... Args>
static llvm::Error ask(const Nvml &nvml, Function function, const char *what,
                       Args... args) {
  if (!function)
    return makeError(ErrorCode::DriverTooOld, "{}: this NVML lacks it", what);
  return nvml.check(function(args...), what);
}

static void queryClocksAndPower(const Nvml &nvml, NvmlDevice device,
                                ProbedAttributes &probed) {
  unsigned value = 0;
  if (answered(ask(nvml, nvml.nvmlDeviceGetMaxClockInfo,
                   "nvmlDeviceGetMaxClockInfo(SM)", device, NvmlClock::Sm,
                   &value),
               probed))
    probed.nvmlSmClockMHz = value;
  if (answered(ask(nvml, nvml.nvmlDeviceGetMaxClockInfo,
                   "nvmlDeviceGetMaxClockInfo(memory)", device,
                   NvmlClock::Memory, &value),
               probed))
    probed.nvmlMemoryClockMHz = value;
  if (answered(ask(nvml, nvml.nvmlDeviceGetMemoryBusWidth,
                   "nvmlDeviceGetMemoryBusWidth", device, &value),
               probed))
    probed.nvmlMemoryBusBits = value;
  constexpr double kMilliwatts = 1e-3;
  if (answered(ask(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit,
                   "nvmlDeviceGetEnforcedPowerLimit", device, &value),
               probed))
    probed.powerLimitWatts = value * kMilliwatts;
}

void queryNvml(const Driver &driver, const Environment &environment,
               int ordinal, ProbedAttributes &probed) {
  CUdevice device = 0;
  if (!answered(driver.check(driver.api().cuDeviceGet(&device, ordinal),
                             "cuDeviceGet"),
                probed))
    return;
  llvm::Expected<Nvml> nvml = Nvml::load(environment);
  if (!nvml) {
    answered(addContext(nvml.takeError(), "nvml"), probed);
    return;
  }
  char busId[32] = {};
  if (!answered(driver.check(driver.api().cuDeviceGetPCIBusId(
                                 busId, sizeof(busId), device),
                             "cuDeviceGetPCIBusId"),
                probed))
    return;
  NvmlDevice handle = nullptr;
  if (!answered(ask(*nvml, nvml->nvmlDeviceGetHandleByPciBusId_v2,
                    "nvmlDeviceGetHandleByPciBusId", busId, &handle),
                probed))
    return;
  NvmlPciInfo pci = {};
  if (answered(ask(*nvml, nvml->nvmlDeviceGetPciInfo_v3, "nvmlDeviceGetPciInfo",
                   handle, &pci),
               probed))
    probed.pciDeviceId = pci.pciDeviceId >> 16;
  queryClocksAndPower(*nvml, handle, probed);

  // Boards without MIG answer "not supported", which is an answer.
  constexpr NvmlResult kNotSupported = 3;
  unsigned current = 0, pending = 0;
  if (!nvml->nvmlDeviceGetMigMode)
    return;
  NvmlResult result = nvml->nvmlDeviceGetMigMode(handle, &current, &pending);
  if (result != kNotSupported &&
      answered(nvml->check(result, "nvmlDeviceGetMigMode"), probed) &&
      current != 0 && !probed.migProfile)
    probed.failures.push_back(
        "nvml: MIG is on but the device's name shows no profile");
}

llvm::Expected<ProbedAttributes> queryDriver(const Driver &driver,
                                             int ordinal) {
  CUdevice device = 0;
  if (llvm::Error error = driver.check(
          driver.api().cuDeviceGet(&device, ordinal), "cuDeviceGet"))
    return addContext(std::move(error), fmt::format("device {} of {}", ordinal,
                                                    driver.deviceCount()));
  ProbedAttributes probed;
  queryAttributes(driver, device, probed);
  queryIdentity(driver, device, probed);
  return probed;
}

} // namespace kiln
