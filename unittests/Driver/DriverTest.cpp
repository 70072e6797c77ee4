#include "Driver/Driver.h"

#include "FakeDriver.h"

#include <cuda.h>

using namespace kiln;

TEST_CASE("every symbol of the table is bound and the driver starts") {
  kilnFakeReset();
  kilnFakeSetDriverVersion(12080);
  kilnFakeSetDeviceCount(2);
  auto driver = require(Driver::load(fakeEnvironment()));
  CHECK(driver->version() == 12080);
  CHECK(driver->deviceCount() == 2);
  CHECK(driver->path().find("libkiln_fake_cuda.so") != std::string::npos);
}

TEST_CASE("a driver that is nowhere is missing, and the search is told") {
  Environment environment;
  environment.kilnDriver = "/nowhere/libcuda.so.1";
  ErrorSummary error = errorOf(Driver::load(environment));
  CHECK(error.code == ErrorCode::DriverMissing);
  CHECK(error.message.find("KILN_DRIVER") != std::string::npos);
  CHECK(error.message.find("/nowhere/libcuda.so.1") != std::string::npos);
}

TEST_CASE("a library that is no driver is missing, not too old") {
  Environment environment;
  environment.kilnDriver = "libc.so.6";
  ErrorSummary error = errorOf(Driver::load(environment));
  CHECK(error.code == ErrorCode::DriverMissing);
  CHECK(error.message.find("cuDriverGetVersion") != std::string::npos);
}

TEST_CASE("a driver without the newer functions is too old, and says so") {
  Environment environment;
  environment.kilnDriver = KILN_BINARY_DIR "/lib/libkiln_fake_cuda_old.so";
  ErrorSummary error = errorOf(Driver::load(environment));
  CHECK(error.code == ErrorCode::DriverTooOld);
  CHECK(error.message.find("CUDA 11.4") != std::string::npos);
  CHECK(error.message.find("CUDA 12.8") != std::string::npos);
  // Names as the library exports them, renamed by cuda.h.
  CHECK(error.message.find("cuMemAlloc_v2") != std::string::npos);
  CHECK(error.message.find("cuInit") == std::string::npos);
}

TEST_CASE("no visible GPU is reported by the load") {
  kilnFakeReset();
  kilnFakeSetDeviceCount(0);
  ErrorSummary error = errorOf(Driver::load(fakeEnvironment()));
  CHECK(error.code == ErrorCode::DriverMissing);
  CHECK(error.driverCode == CUDA_ERROR_NO_DEVICE);
  CHECK(error.message.find("CUDA_VISIBLE_DEVICES") != std::string::npos);
  kilnFakeReset();
}

TEST_CASE("a kernel module older than the library is a driver too old") {
  kilnFakeReset();
  kilnFakeFailCall("cuInit", 1, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
                   KilnFakeOnce);
  CHECK(errorOf(Driver::load(fakeEnvironment())).code ==
        ErrorCode::DriverTooOld);
}

TEST_CASE("the toolkit's stub is called that, and is no driver") {
  kilnFakeReset();
  kilnFakeFailCall("cuInit", 1, CUDA_ERROR_STUB_LIBRARY, KilnFakeOnce);
  ErrorSummary error = errorOf(Driver::load(fakeEnvironment()));
  CHECK(error.code == ErrorCode::DriverMissing);
  CHECK(error.driverCode == CUDA_ERROR_STUB_LIBRARY);
  CHECK(error.message.find("the toolkit's stub") != std::string::npos);
}

TEST_CASE("a failure carries class, name, code and description") {
  FakeDriver fake;
  ErrorSummary error =
      errorOf(fake.driver->check(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc"));
  CHECK(error.code == ErrorCode::DeviceOutOfMemory);
  CHECK(error.driverCode == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(error.message ==
        "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
  error = errorOf(fake.driver->check(123456, "cuNothing"));
  CHECK(error.code == ErrorCode::DriverError);
  CHECK(error.message == "cuNothing: unknown error (123456): no description");
}

TEST_CASE("results fall into the classes that callers act on") {
  struct {
    int result;
    ErrorCode code;
  } const cases[] = {
      {CUDA_SUCCESS, ErrorCode::Success},
      {CUDA_ERROR_OUT_OF_MEMORY, ErrorCode::DeviceOutOfMemory},
      {CUDA_ERROR_ILLEGAL_ADDRESS, ErrorCode::ContextDead},
      {CUDA_ERROR_LAUNCH_TIMEOUT, ErrorCode::ContextDead},
      {CUDA_ERROR_ASSERT, ErrorCode::ContextDead},
      {CUDA_ERROR_HARDWARE_STACK_ERROR, ErrorCode::ContextDead},
      {CUDA_ERROR_MISALIGNED_ADDRESS, ErrorCode::ContextDead},
      {CUDA_ERROR_LAUNCH_FAILED, ErrorCode::ContextDead},
      {CUDA_ERROR_CONTEXT_IS_DESTROYED, ErrorCode::ContextDead},
      {CUDA_ERROR_INVALID_IMAGE, ErrorCode::DriverTooOld},
      {CUDA_ERROR_NO_BINARY_FOR_GPU, ErrorCode::DriverTooOld},
      {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, ErrorCode::DriverTooOld},
      {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, ErrorCode::Unsupported},
      {CUDA_ERROR_INVALID_CLUSTER_SIZE, ErrorCode::Unsupported},
      {CUDA_ERROR_NOT_READY, ErrorCode::InProgress},
      {CUDA_ERROR_INVALID_HANDLE, ErrorCode::InvalidArgument},
      {CUDA_ERROR_UNKNOWN, ErrorCode::DriverError},
      {123456, ErrorCode::DriverError},
  };
  for (auto [result, code] : cases) {
    CAPTURE(result);
    CHECK(classifyDriverResult(result) == code);
  }
}
