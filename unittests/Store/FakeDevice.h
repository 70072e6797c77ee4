//===- FakeDevice.h - the stand-in driver with a current context ----------===//
#pragma once

#include "Driver/Context.h"
#include "Driver/Driver.h"
#include "Fakes/FakeCuda.h"
#include "Store/FakeFamily.h"

#include <memory>
#include <optional>
#include <string>

namespace kiln::fake {

/// An environment whose driver is the stand-in and which has no NVML.
inline Environment fakeEnvironment() {
  Environment environment;
  environment.kilnDriver =
      std::string(KILN_BINARY_DIR) + "/lib/libkiln_fake_cuda.so";
  environment.kilnNvml = "/nonexistent/nvml.so";
  return environment;
}

/// The freshly reset stand-in driver, device 0's primary context current.
struct FakeDevice {
  FakeDevice() {
    kilnFakeReset();
    driver = must(Driver::load(fakeEnvironment()));
    primary.emplace(must(PrimaryContext::retain(*driver, 0)));
    current.emplace(must(ScopedContext::push(*driver, primary->handle())));
  }
  std::shared_ptr<Driver> driver;
  std::optional<PrimaryContext> primary;
  std::optional<ScopedContext> current;
};

} // namespace kiln::fake
