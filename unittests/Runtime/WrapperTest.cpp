// kiln.hpp over the stand-in libraries. It and lib/ both use the namespace
// kiln, so nothing of lib/ is included here.
#include "Fakes/FakeCuda.h"
#include "Fakes/FakeNvrtc.h"
#include "kiln/kiln.hpp"

#include <doctest/doctest.h>

#include <cuda.h>

namespace {

/// The stand-in driver with a current context, by its C interface alone.
struct Machine {
  Machine() {
    kilnFakeReset();
    FakeNvrtc::open(KILN_BINARY_DIR);
    CUcontext context = nullptr;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxPushCurrent(context) == CUDA_SUCCESS);
    options.mode = KILN_MODE_PREDICT;
    options.flags = KILN_ENGINE_IGNORE_ENVIRONMENT | KILN_ENGINE_MEMORY_ONLY;
    options.driver_path = KILN_BINARY_DIR "/lib/libkiln_fake_cuda.so";
    options.nvrtc_path = KILN_BINARY_DIR "/lib/libkiln_fake_nvrtc.so";
  }
  ~Machine() {
    CUcontext context = nullptr;
    cuCtxPopCurrent(&context);
  }
  kiln::EngineOptions options;
};

void *at(uintptr_t value) { return reinterpret_cast<void *>(value); }

} // namespace

TEST_CASE("the wrapper runs, prepares, queries and plans") {
  Machine machine;
  kiln::Engine engine = kiln::Engine::create(machine.options).orThrow();
  kiln::Gemm gemm = kiln::Gemm(KILN_BF16, 64, 128, 256)
                        .layout(KILN_LAYOUT_NT)
                        .a(at(0x100000))
                        .weights(at(0x200000))
                        .d(at(0x400000))
                        .bias(at(0x500000))
                        .geluTanh();
  engine.prepare({gemm}).orThrow();
  kiln::Task task = engine.prepareAsync({gemm}).orThrow();
  task.wait().orThrow();
  kiln::QueryResult result = engine.query(gemm, nullptr).orThrow();
  CHECK(result.state == KILN_STATE_READY);
  engine.run(gemm, nullptr).orThrow();

  kiln::Plan plan = engine.plan(gemm, nullptr).orThrow();
  plan.launch(gemm, nullptr).orThrow();
  CHECK(plan.describe().find("gemm m=64 n=128 k=256") == 0);
  kiln::Problem ranged = kiln::Problem(gemm).range("m", 1, 64);
  kiln::Plan rangedPlan = engine.plan(ranged, nullptr).orThrow();
  rangedPlan.launch(kiln::Arguments(gemm).extent(0, 33), nullptr).orThrow();
  CHECK(engine.statistics().orThrow().launches == 3);
}

TEST_CASE("the wrapper's failures carry the message") {
  Machine machine;
  kiln::Engine engine = kiln::Engine::create(machine.options).orThrow();
  kiln::Gemm gemm(KILN_BF16, 64, 128, -1);
  kiln::Status status = engine.run(gemm, nullptr);
  CHECK(status.code() == KILN_INVALID_ARGUMENT);
  CHECK(status.message().find("k is -1") != std::string::npos);
  CHECK_THROWS_AS(status.orThrow(), kiln::Error);
  kiln::Gemm longChain(KILN_BF16, 64, 128, 64);
  for (int i = 0; i <= KILN_MAX_POINTWISE; ++i)
    longChain.relu();
  CHECK(engine.run(longChain, nullptr).code() == KILN_UNSUPPORTED);
}
