//===- GpuFixture.h - an engine on the first GPU --------------------------===//
#pragma once

#include "Driver/Context.h"
#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Runtime/EngineTesting.h"
#include "Support/TemporaryFolder.h"
#include "kiln/kiln.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

namespace kiln::testing {

/// Returns the value, or ends the test with the error.
template <class T> T require(llvm::Expected<T> value) {
  bool good = static_cast<bool>(value);
  if (!good) {
    std::string message = summarize(value.takeError()).message;
    FAIL(message);
  }
  return std::move(*value);
}

inline void require(llvm::Error error) {
  std::string message = summarize(std::move(error)).message;
  REQUIRE(message == "");
}

/// The first GPU with a stream, an engine and a cache of its own.
struct Gpu {
  explicit Gpu(kiln_mode mode) {
    driver = require(Driver::load(Environment::fromProcess()));
    primary.emplace(require(PrimaryContext::retain(*driver, 0)));
    scope.emplace(require(ScopedContext::push(*driver, primary->handle())));
    stream.emplace(require(Stream::create(*driver)));
    cachePath = folder / "kiln";
    engine = makeEngine(mode);
  }
  ~Gpu() { kiln_engine_destroy(engine); }

  kiln_engine *makeEngine(kiln_mode mode, const char *nvrtc = nullptr) {
    kiln_engine_options options = KILN_INIT(kiln_engine_options);
    options.mode = mode;
    options.cache_dir = cachePath.c_str();
    options.nvrtc_path = nvrtc;
    options.tune_budget_ms = 4000;
    kiln_engine *made = nullptr;
    REQUIRE(kiln_engine_create(&options, &made) == KILN_SUCCESS);
    return made;
  }
  kiln_stream handle() const { return stream->handle(); }

  TemporaryFolder folder;
  std::string cachePath;
  std::shared_ptr<Driver> driver;
  std::optional<PrimaryContext> primary;
  std::optional<ScopedContext> scope;
  std::optional<Stream> stream;
  kiln_engine *engine = nullptr;
};

inline std::string gpuError() { return kiln_last_error_message(); }

} // namespace kiln::testing
