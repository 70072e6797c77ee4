#include "Driver/Module.h"

#include "FakeDriver.h"
#include "Fakes/FakeCubin.h"

#include <cuda.h>

#include <memory>
#include <optional>

using namespace kiln;

static const char kText[] = "extern \"C\" __global__ void kilnEntry(int n) {}";

TEST_CASE("a cubin's header is read without a driver") {
  CHECK(require(inspectCubin(makeFakeCubin(kText, 90))).capability == 90);
  CHECK(require(inspectCubin(makeFakeCubin(kText))).capability == 0);
  // As NVRTC 12.8 writes it: ABI version 7, flags 0x005a0d5a for sm_90a.
  std::string old = makeFakeCubin(kText);
  old[8] = 7;
  old[48] = 0x5a, old[49] = 0x0d, old[50] = 0x5a, old[51] = 0;
  CHECK(require(inspectCubin(old)).capability == 90);
}

TEST_CASE("what is no cubin is refused before the driver sees a byte") {
  FakeDriver fake;
  std::string good = makeFakeCubin(kText, 90);
  auto damaged = [&](size_t offset, char value) {
    std::string bytes = good;
    bytes[offset] = value;
    return bytes;
  };
  const std::string bad[] = {
      "",
      "\x7f"
      "ELF",
      std::string(4096, '\0'),
      damaged(0, 'x'),
      damaged(4, 1),       // 32-bit
      damaged(5, 2),       // big-endian
      damaged(18, 62),     // x86-64
      damaged(41, '\x7f'), // section table behind the end
      damaged(47, '\xff'), // offset near 2^64
      good.substr(0, good.size() - 1),
  };
  for (const std::string &bytes : bad) {
    CAPTURE(bytes.size());
    CHECK(errorOf(Module::load(*fake.driver, bytes)).code ==
          ErrorCode::InvalidArgument);
  }
  CHECK(kilnFakeCallCount("cuModuleLoadData") == 0);
}

TEST_CASE("a gauge counts the code that is loaded") {
  FakeDriver fake;
  const std::string cubin = makeFakeCubin(kText, 90, {"kilnEntry"});
  CHECK(loadedBytes(cubin) == sizeof(kText) - 1);
  auto gauge = std::make_shared<ByteGauge>();
  {
    Module module = require(Module::load(*fake.driver, cubin, gauge));
    Module moved = std::move(module);
    Module left = require(Module::load(*fake.driver, cubin, gauge));
    CHECK(gauge->read().bytes == 2 * loadedBytes(cubin));
    left.leak();
    CHECK(gauge->read().bytes == loadedBytes(cubin));
    errorOf(Module::load(*fake.driver, "no cubin", gauge));
  }
  CHECK(gauge->read().bytes == 0);
  CHECK(gauge->read().peakBytes == 2 * loadedBytes(cubin));
}

TEST_CASE("a module gives loaded functions and is unloaded once") {
  FakeDriver fake;
  {
    Module module =
        require(Module::load(*fake.driver, makeFakeCubin(kText, 90)));
    CudaFunction function = require(module.function("kilnEntry"));
    CHECK(function != nullptr);
    CHECK(kilnFakeCallCount("cuFuncLoad") == 1);
    ErrorSummary error = errorOf(module.function("kilnEnt"));
    CHECK(error.code == ErrorCode::InvalidArgument);
    CHECK(error.message.find("'kilnEnt'") != std::string::npos);
    Module moved = std::move(module);
    CHECK(kilnFakeModulesLoaded() == 1);
  }
  CHECK(kilnFakeModulesLoaded() == 0);
  require(Module::load(*fake.driver, makeFakeCubin(kText))).leak();
  CHECK(kilnFakeModulesLoaded() == 1);
}

TEST_CASE("a module is unloaded in its own context") {
  FakeDriver fake;
  std::optional<Module> module =
      require(Module::load(*fake.driver, makeFakeCubin(kText)));
  auto scope =
      require(ScopedContext::push(*fake.driver, kilnFakeCreateContext(0)));
  module.reset();
  CHECK(kilnFakeModulesLoaded() == 0);
}

TEST_CASE("a cubin for another architecture is named before it is loaded") {
  FakeDriver fake;
  ErrorSummary error =
      errorOf(Module::load(*fake.driver, makeFakeCubin(kText, 100)));
  CHECK(error.code == ErrorCode::Unsupported);
  CHECK(error.message.find("sm_100") != std::string::npos);
  CHECK(error.message.find("sm_90") != std::string::npos);
  kilnFakeSetDeviceAttribute(0, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                             8);
  kilnFakeSetDeviceAttribute(0, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                             6);
  CHECK(errorOf(Module::load(*fake.driver, makeFakeCubin(kText, 80))).code ==
        ErrorCode::Success);
  CHECK(errorOf(Module::load(*fake.driver, makeFakeCubin(kText, 89))).code ==
        ErrorCode::Unsupported);
}

TEST_CASE("a driver that refuses an image is told what would help") {
  FakeDriver fake;
  for (int result : {CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU,
                     CUDA_ERROR_UNSUPPORTED_PTX_VERSION}) {
    kilnFakeFailCall("cuModuleLoadData", 1, result, KilnFakeOnce);
    ErrorSummary error =
        errorOf(Module::load(*fake.driver, makeFakeCubin(kText)));
    CHECK(error.code == ErrorCode::DriverTooOld);
    CHECK(error.driverCode == result);
    CHECK(error.message.find("serves CUDA 13.0") != std::string::npos);
    CHECK(error.message.find("upgrade the driver") != std::string::npos);
  }
  kilnFakeFailCall("cuModuleLoadData", 1, CUDA_ERROR_OUT_OF_MEMORY,
                   KilnFakeOnce);
  CHECK(errorOf(Module::load(*fake.driver, makeFakeCubin(kText))).code ==
        ErrorCode::DeviceOutOfMemory);
}

TEST_CASE("functions take as much shared memory as the device has") {
  FakeDriver fake;
  auto module = require(Module::load(*fake.driver, makeFakeCubin(kText)));
  CudaFunction function = require(module.function("kilnEntry"));
  CHECK(!setMaxDynamicShared(*fake.driver, function, 232448));
  ErrorSummary error =
      errorOf(setMaxDynamicShared(*fake.driver, function, 232449));
  CHECK(error.code == ErrorCode::Unsupported);
  CHECK(error.message.find("232449") != std::string::npos);
}
