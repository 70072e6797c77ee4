// kiln.hpp over the stand-in libraries. It and lib/ both use the namespace
// kiln, so nothing of lib/ is included here.
#include "Fakes/FakeCuda.h"
#include "Fakes/FakeNvrtc.h"
#include "kiln/kiln.hpp"

#include <doctest/doctest.h>

#include <cuda.h>

#include <memory>
#include <string>

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

namespace {
/// Canonical text of what a builder describes.
template <class Call> std::string textOf(const Call &call) {
  kiln::Problem problem(call);
  kiln_problem described = problem.get();
  char text[300] = "";
  size_t length = 0;
  kiln_status status =
      kiln_problem_text(&described, text, sizeof text, &length);
  return status == KILN_SUCCESS ? text : kiln_last_error_message();
}
} // namespace

TEST_CASE("a gemm's builder keeps the order of its chain") {
  CHECK(textOf(kiln::Gemm(KILN_BF16, 3, 8, 16)
                   .layout(KILN_LAYOUT_NT)
                   .bias(nullptr)
                   .swiGlu()
                   .residual(nullptr, 4)) ==
        "gemm m=3 n=8 k=16 dtype=bf16 layout=NT "
        "pointwise=bias,swiglu,residual");
}

TEST_CASE("builders over rows describe what they were told") {
  void *m = at(0x100000);
  CHECK(textOf(kiln::Elementwise(KILN_BF16, 3, 8).silu().mul(m, 16)) ==
        "elementwise op=silu,mul rows=3 cols=8 dtype=bf16 ldo=16");
  CHECK(textOf(kiln::Elementwise(KILN_FP32, 3, 8)
                   .outputType(KILN_E4M3)
                   .scale(0.5f)) ==
        "elementwise op=scale rows=3 cols=8 dtype=fp32 out=fp8_e4m3 scale=0.5");
  CHECK(textOf(kiln::Reduce(KILN_REDUCTION_MEAN, KILN_FP16, 3, 8).all()) ==
        "reduce op=mean rows=3 cols=8 axis=all dtype=fp16");
  CHECK(textOf(kiln::Softmax(KILN_FP32, 3, 8).scale(0.25).rowMask(m)) ==
        "softmax rows=3 cols=8 dtype=fp32 scale=0.25 mask=2");
  CHECK(textOf(kiln::RmsNorm(KILN_BF16, 3, 8)
                   .weight(m)
                   .residual(m, m, 9, 10)
                   .quantized(KILN_INT8, m)) ==
        "rmsnorm rows=3 cols=8 dtype=bf16 out=int8 weight=1 residual=1 ldr=9 "
        "ldh=10");
  CHECK(textOf(kiln::LayerNorm(KILN_BF16, 3, 8).bias(m).epsilon(0.5)) ==
        "layernorm rows=3 cols=8 dtype=bf16 bias=1 eps=0.5");
  CHECK(textOf(kiln::Quantize(KILN_BF16, KILN_INT8, 3, 8).scales(m)) ==
        "rowquant rows=3 cols=8 dtype=bf16 op=quant_int8_per_row");
  CHECK(textOf(kiln::Transpose(KILN_INT8, 3, 8).y(m, 4)) ==
        "transpose2d rows=3 cols=8 dtype=int8 ldy=4");
}

TEST_CASE("a copied builder keeps its own chain and scales") {
  auto norm = std::make_unique<kiln::RmsNorm>(KILN_BF16, 3, 8);
  norm->quantized(KILN_E4M3, at(0x100000));
  kiln::RmsNorm copy(*norm), assigned(KILN_FP32, 1, 1);
  assigned = *norm;
  norm.reset();
  CHECK(copy.get().y.scale->data == at(0x100000));
  CHECK(assigned.get().y.scale->data == at(0x100000));
  auto chain = std::make_unique<kiln::Elementwise>(KILN_BF16, 3, 8);
  chain->relu();
  kiln::Elementwise copied(*chain);
  chain.reset();
  CHECK(copied.get().pointwise[0].op == KILN_POINTWISE_RELU);
}

TEST_CASE("the wrapper launches calls over rows, also with a plan") {
  Machine machine;
  kiln::Engine engine = kiln::Engine::create(machine.options).orThrow();
  kiln::Elementwise gate = kiln::Elementwise(KILN_BF16, 64, 128)
                               .x(at(0x100000))
                               .y(at(0x100000))
                               .silu()
                               .mul(at(0x200000));
  engine.run(gate, nullptr).orThrow();
  kiln::Transpose transpose =
      kiln::Transpose(KILN_FP16, 64, 128).x(at(0x100000)).y(at(0x200000));
  engine.prepare({gate, transpose}).orThrow();
  engine.run(transpose, nullptr).orThrow();
  kiln::Problem ranged = kiln::Problem(gate).range("rows", 1, 64);
  kiln::Plan plan = engine.plan(ranged, nullptr).orThrow();
  plan.launch(kiln::Arguments(gate).extent(0, 5), nullptr).orThrow();
  CHECK(engine.statistics().orThrow().launches == 3);
}
