//===- FakeDriver.h - a fresh stand-in driver for a test ------------------===//
#pragma once

#include "Driver/Context.h"
#include "Driver/Driver.h"
#include "Fakes/FakeCuda.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

namespace kiln {

/// The environment in which lib/Driver finds the stand-ins only.
inline Environment fakeEnvironment() {
  Environment environment;
  environment.kilnDriver = KILN_BINARY_DIR "/lib/libkiln_fake_cuda.so";
  environment.kilnNvml = KILN_BINARY_DIR "/lib/libkiln_fake_nvml.so";
  return environment;
}

/// Unwraps what a test needs in order to go on.
template <class T> T require(llvm::Expected<T> value) {
  if (!value) {
    ErrorSummary summary = summarize(value.takeError());
    FAIL(summary.message);
  }
  return std::move(*value);
}

/// The error of a call that has to fail; Success if it did not.
template <class T> ErrorSummary errorOf(llvm::Expected<T> value) {
  return value ? ErrorSummary{} : summarize(value.takeError());
}
inline ErrorSummary errorOf(llvm::Error error) {
  return summarize(std::move(error));
}

/// A reset stand-in with its first device's primary context current.
struct FakeDriver {
  FakeDriver()
      : driver((kilnFakeReset(), require(Driver::load(fakeEnvironment())))),
        primary(require(PrimaryContext::retain(*driver, 0))),
        scope(require(ScopedContext::push(*driver, primary.handle()))) {}

  std::shared_ptr<Driver> driver;
  PrimaryContext primary;
  ScopedContext scope;
};

} // namespace kiln
