#include "Driver/DeviceQuery.h"

#include "FakeDriver.h"
#include "Fakes/FakeNvml.h"

#include <cuda.h>

using namespace kiln;

static bool mentions(const ProbedAttributes &probed, const char *text) {
  for (const std::string &failure : probed.failures)
    if (failure.find(text) != std::string::npos)
      return true;
  return false;
}

/// The answers of the driver and NVML about device \p ordinal.
static llvm::Expected<ProbedAttributes>
queryDevice(const Driver &driver, const Environment &environment, int ordinal) {
  auto probed = queryDriver(driver, ordinal);
  if (probed)
    queryNvml(driver, environment, ordinal, *probed);
  return probed;
}

TEST_CASE("driver and NVML answer for an H200") {
  FakeDriver fake;
  kilnFakeNvmlReset();
  ProbedAttributes probed =
      require(queryDevice(*fake.driver, fakeEnvironment(), 0));
  CHECK(probed.failures.empty());
  CHECK(probed.marketingName == "NVIDIA H200");
  CHECK(probed.uuid == "GPU-4b000000-0000-0000-0000-000000000000");
  CHECK(probed.ccMajor == 9);
  CHECK(probed.smCount == 132);
  CHECK(probed.l2Bytes == 62914560);
  CHECK(probed.sharedBytesPerBlockOptin == 232448);
  CHECK(probed.memoryBytes == int64_t(143771) << 20);
  CHECK(probed.nvmlSmClockMHz == 1980);
  CHECK(probed.nvmlMemoryClockMHz == 3201);
  CHECK(probed.nvmlMemoryBusBits == 6016);
  CHECK(probed.powerLimitWatts == 700.0);
  CHECK(probed.pciDeviceId == 0x2335u);
  CHECK(!probed.migProfile);
}

TEST_CASE("a probe that fails is reported and costs only its own value") {
  FakeDriver fake;
  kilnFakeNvmlReset();
  kilnFakeSetDeviceAttribute(0, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, -1);
  kilnFakeFailCall("cuDeviceGetUuid", 1, CUDA_ERROR_NOT_SUPPORTED,
                   KilnFakeOnce);
  kilnFakeNvmlFail("nvmlDeviceGetMaxClockInfo", 3);
  ProbedAttributes probed =
      require(queryDevice(*fake.driver, fakeEnvironment(), 0));
  kilnFakeNvmlReset();
  CHECK(!probed.l2Bytes);
  CHECK(!probed.uuid);
  CHECK(!probed.nvmlSmClockMHz);
  CHECK(probed.smCount == 132);
  CHECK(probed.powerLimitWatts == 700.0);
  CHECK(probed.failures.size() == 4);
  CHECK(mentions(probed, "L2 size"));
  CHECK(mentions(probed, "cuDeviceGetUuid"));
  CHECK(mentions(probed, "Not Supported (3)"));
}

TEST_CASE("without NVML the driver's part stands") {
  FakeDriver fake;
  Environment environment = fakeEnvironment();
  environment.kilnNvml = "/nowhere/libnvidia-ml.so.1";
  ProbedAttributes probed = require(queryDevice(*fake.driver, environment, 0));
  CHECK(probed.smCount == 132);
  CHECK(!probed.nvmlSmClockMHz);
  CHECK(mentions(probed, "/nowhere/libnvidia-ml.so.1"));

  environment.kilnNvml = "libc.so.6";
  probed = require(queryDevice(*fake.driver, environment, 0));
  CHECK(mentions(probed, "is not NVML"));
}

TEST_CASE("a MIG instance is told by its name") {
  FakeDriver fake;
  kilnFakeNvmlReset();
  kilnFakeNvmlSetMig(1);
  kilnFakeSetDeviceName(0, "NVIDIA H200 MIG 1g.18gb");
  ProbedAttributes probed =
      require(queryDevice(*fake.driver, fakeEnvironment(), 0));
  CHECK(probed.migProfile == "1g.18gb");
  CHECK(probed.uuid->rfind("MIG-", 0) == 0);
  CHECK(probed.failures.empty());
  kilnFakeSetDeviceName(0, "NVIDIA H200");
  probed = require(queryDevice(*fake.driver, fakeEnvironment(), 0));
  CHECK(mentions(probed, "MIG is on"));
  kilnFakeNvmlReset();
}

TEST_CASE("an ordinal out of range is an error") {
  FakeDriver fake;
  CHECK(errorOf(queryDevice(*fake.driver, fakeEnvironment(), 1)).code ==
        ErrorCode::InvalidArgument);
}
