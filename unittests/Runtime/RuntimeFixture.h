//===- RuntimeFixture.h - an engine over the stand-in libraries -----------===//
#pragma once

#include "Driver/Context.h"
#include "Driver/Stream.h"
#include "Fakes/FakeCuda.h"
#include "Fakes/FakeNvrtc.h"
#include "Runtime/EngineTesting.h"
#include "Support/TemporaryFolder.h"
#include "gemm/GemmParams.h"
#include "kiln/kiln.h"
#include "trial/TrialParams.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace kiln::testing {

/// The stand-in driver, loaded as an engine loads it, with the first device's
/// primary context current to this thread.
class FakeGpu {
public:
  FakeGpu() {
    kilnFakeReset();
    Environment environment;
    environment.kilnDriver = driverPath();
    auto loaded = Driver::load(environment);
    REQUIRE(static_cast<bool>(loaded));
    cuda = std::move(*loaded);
    auto retained = PrimaryContext::retain(*cuda, 0);
    REQUIRE(static_cast<bool>(retained));
    primary.emplace(std::move(*retained));
    auto pushed = ScopedContext::push(*cuda, primary->handle());
    REQUIRE(static_cast<bool>(pushed));
    scope.emplace(std::move(*pushed));
    auto made = Stream::create(*cuda);
    REQUIRE(static_cast<bool>(made));
    own.emplace(std::move(*made));
  }

  static std::string driverPath() {
    return KILN_BINARY_DIR "/lib/libkiln_fake_cuda.so";
  }
  const Driver &driver() const { return *cuda; }
  kiln_stream stream() const { return own->handle(); }
  CudaContext context() const { return primary->handle(); }

private:
  std::shared_ptr<Driver> cuda;
  std::optional<PrimaryContext> primary;
  std::optional<ScopedContext> scope;
  std::optional<Stream> own;
};

/// The kernels that were launched, with their parameters, which are of type
/// \p Params.
template <class Params = GemmParams> class LaunchLog {
public:
  LaunchLog() {
    kilnFakeOnLaunch("kiln_*", &LaunchLog::note, this, sizeof(Params));
  }
  ~LaunchLog() { kilnFakeOnLaunch("kiln_*", &LaunchLog::drop, this, 0); }

  size_t count() {
    std::lock_guard<std::mutex> lock(mutex);
    return params.size();
  }
  std::vector<Params> all() {
    std::lock_guard<std::mutex> lock(mutex);
    return params;
  }
  Params last() {
    std::lock_guard<std::mutex> lock(mutex);
    REQUIRE(!params.empty());
    return params.back();
  }

private:
  static void note(KilnFakeLaunch *launch, void *user) {
    auto *self = static_cast<LaunchLog *>(user);
    std::lock_guard<std::mutex> lock(self->mutex);
    self->params.push_back(*static_cast<const Params *>(launch->params));
  }
  static void drop(KilnFakeLaunch *, void *) {}

  std::mutex mutex;
  std::vector<Params> params;
};

/// A machine with the stand-ins, a cache of its own, and engines on it.
class RuntimeFixture {
public:
  RuntimeFixture() : nvrtc(FakeNvrtc::open(KILN_BINARY_DIR)) {
    bool opened = nvrtc.reset != nullptr;
    REQUIRE(opened);
    nvrtcPath = FakeNvrtc::path(KILN_BINARY_DIR);
    driverPath = FakeGpu::driverPath();
    cachePath = cache / "kiln";
  }
  ~RuntimeFixture() { destroyAll(); }
  void destroyAll() {
    for (kiln_engine *engine : std::exchange(engines, {}))
      kiln_engine_destroy(engine);
  }

  kiln_engine_options options(kiln_mode mode = KILN_MODE_PREDICT) const {
    kiln_engine_options options = KILN_INIT(kiln_engine_options);
    options.mode = mode;
    options.flags = KILN_ENGINE_IGNORE_ENVIRONMENT;
    options.cache_dir = cachePath.c_str();
    options.driver_path = driverPath.c_str();
    options.nvrtc_path = nvrtcPath.c_str();
    options.threads = 1;
    // The time of a trial must not matter, on any machine.
    options.tune_budget_ms = 60000;
    return options;
  }
  kiln_engine *engine(const kiln_engine_options &options) {
    kiln_engine *made = nullptr;
    REQUIRE(kiln_engine_create(&options, &made) == KILN_SUCCESS);
    engines.push_back(made);
    return made;
  }
  kiln_engine *engine(kiln_mode mode = KILN_MODE_PREDICT) {
    return engine(options(mode));
  }
  void destroy(kiln_engine *engine) {
    std::erase(engines, engine);
    kiln_engine_destroy(engine);
  }

  TemporaryFolder cache;
  FakeNvrtc nvrtc;
  FakeGpu gpu;
  std::string nvrtcPath, driverPath, cachePath;

private:
  std::vector<kiln_engine *> engines;
};

/// Lets every comparison of a trial find everything right, because the
/// stand-in's kernels compute nothing, or with \p wrong everything wrong.
inline void judgeTrials(bool wrong = false) {
  static bool isWrong;
  isWrong = wrong;
  kilnFakeOnLaunch(
      "trial/TrialTools.cuh",
      [](KilnFakeLaunch *launch, void *) {
        if (std::string(launch->function) != "kilnCompareTolerance")
          return;
        CompareToleranceParams params;
        std::memcpy(static_cast<void *>(&params), launch->params,
                    sizeof(params));
        auto count = static_cast<uint64_t>((params.rowEnd - params.rowBegin) *
                                           params.layout.cols);
        params.result->checked += count;
        if (!isWrong)
          return;
        params.result->mismatches += count;
        params.result->maxRatio = 1e6;
        params.result->firstBad = 0;
      },
      nullptr, sizeof(CompareToleranceParams));
}

/// An address without memory behind it: the stand-in never follows it.
inline void *address(uintptr_t value) {
  return reinterpret_cast<void *>(value);
}

/// A good bf16 call with 256-byte aligned addresses.
inline kiln_gemm_args gemmArgs(int64_t m = 128, int64_t n = 256,
                               int64_t k = 512) {
  kiln_gemm_args args = kiln_gemm_args_init();
  args.layout = KILN_LAYOUT_NT;
  args.m = m;
  args.n = n;
  args.k = k;
  args.a.type = KILN_BF16;
  args.a.data = address(0x100000);
  args.b.data = address(0x200000);
  args.c.data = address(0x300000);
  args.d.data = address(0x400000);
  return args;
}

/// A product whose operands are both copied to the workspace first.
inline kiln_gemm_args repackedArgs() { return gemmArgs(4096, 4096, 4095); }

/// A product of one kernel that works in the workspace, in both of its regions;
/// fp32, whose kernels take plain parameters.
inline kiln_gemm_args splitArgs() {
  kiln_gemm_args args = gemmArgs(16, 256, 65536);
  args.a.type = args.b.type = args.d.type = KILN_FP32;
  return args;
}

/// Makes \p args a product of fp32, whose kernels take plain parameters.
inline void makePlain(kiln_gemm_args &args) {
  args.a.type = args.b.type = args.d.type = KILN_FP32;
}

/// Runs each of \p bodies on a thread with the context current.
inline void onThreads(RuntimeFixture &fixture,
                      const std::vector<std::function<void()>> &bodies) {
  std::vector<std::thread> threads;
  for (const std::function<void()> &body : bodies)
    threads.emplace_back([&] {
      auto scope =
          ScopedContext::push(fixture.gpu.driver(), fixture.gpu.context());
      if (scope)
        body();
    });
  for (std::thread &thread : threads)
    thread.join();
}

inline kiln_problem problemOf(const kiln_gemm_args &args) {
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.family = KILN_FAMILY_GEMM;
  problem.args = &args;
  return problem;
}

inline kiln_problem problemOf(const char *text) {
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.text = text;
  return problem;
}

inline kiln_query_result queryOf(kiln_engine *engine,
                                 const kiln_problem &problem) {
  kiln_query_result result = KILN_INIT(kiln_query_result);
  REQUIRE(kiln_query(engine, &problem, nullptr, &result) == KILN_SUCCESS);
  return result;
}

/// Measures \p args at its own value, in the mode tune: a launch would measure
/// its layer.
inline kiln_status tuneValue(kiln_engine *engine, const kiln_gemm_args &args) {
  kiln_problem problem = problemOf(args);
  return kiln_prepare(engine, &problem, 1, nullptr, nullptr);
}

inline std::string lastError() { return kiln_last_error_message(); }

inline bool lastErrorHas(const char *part) {
  return lastError().find(part) != std::string::npos;
}

} // namespace kiln::testing
