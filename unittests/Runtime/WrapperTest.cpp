// kiln.hpp over the stand-in libraries. It and lib/ both use the namespace
// kiln, so nothing of lib/ is included here.
#include "Fakes/FakeCuda.h"
#include "Fakes/FakeNvrtc.h"
#include "elementwise/ElementwiseParams.h"
#include "gather/GatherParams.h"
#include "gemm/GemmParams.h"
#include "kiln/kiln.hpp"
#include "rope/RopeParams.h"
#include "rows/RowParams.h"
#include "transpose/TransposeParams.h"

#include <doctest/doctest.h>

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

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

TEST_CASE("the wrapper explains, ranks and tells keys") {
  Machine machine;
  kiln::Engine engine = kiln::Engine::create(machine.options).orThrow();
  const kiln::Problem gemm(kiln::Gemm(KILN_BF16, 64, 128, 256));
  const auto ranked = engine.candidates(gemm, nullptr, 3).orThrow();
  REQUIRE(ranked.size() == 3);
  CHECK(ranked[2].rank == 3);
  CHECK(engine.candidates(gemm, nullptr, 1 << 14).orThrow().size() > 3);
  const std::string text = engine.explain(gemm, nullptr).orThrow();
  CHECK(text.find("gemm m=64 n=128 k=256") == 0);
  CHECK(text.back() == '\n');
  CHECK(engine.problemKeys(gemm, nullptr).orThrow().find("record ") == 0);
  kiln::ExplainOptions options;
  options.format = KILN_TEXT_JSON;
  CHECK(engine.problemKeys(gemm, nullptr, options).orThrow().front() == '{');
  options.config = ranked[1].config;
  CHECK(engine.explain(gemm, nullptr, options).orThrow().find("\"rank\": 2") !=
        std::string::npos);
  CHECK(engine.candidates(gemm, nullptr, 3, options).status().code() ==
        KILN_INVALID_ARGUMENT);
  options.config = "none";
  CHECK(engine.explain(gemm, nullptr, options).status().code() ==
        KILN_INVALID_ARGUMENT);
}

TEST_CASE("the wrapper times any callable, and passes its exceptions on") {
  Machine machine;
  kiln::Engine engine = kiln::Engine::create(machine.options).orThrow();
  const kiln::Gemm gemm = kiln::Gemm(KILN_BF16, 64, 128, 256)
                              .a(at(0x100000))
                              .weights(at(0x200000))
                              .d(at(0x400000));
  kilnFakeSetLaunchNs(4000);
  kiln::TimingOptions options;
  options.trials = 3;
  options.time_limit_ms = 60000; // all trials, also on a busy machine
  const kiln::Timing timing =
      engine
          .time(
              nullptr,
              [&](kiln_stream stream) { return engine.run(gemm, stream); },
              options)
          .orThrow();
  CHECK(timing.trials == 3);
  CHECK(timing.median_us == doctest::Approx(4));
  int calls = 0;
  auto count = [&](kiln_stream) { ++calls; };
  const kiln::Timing counted = engine.time(nullptr, count, options).orThrow();
  CHECK(counted.calls == uint64_t(calls));
  const kiln::Status failed =
      engine
          .time(nullptr,
                [](kiln_stream) -> kiln_status { return KILN_MISSING; })
          .status();
  CHECK(failed.code() == KILN_MISSING);
  CHECK(failed.message().find("missing") != std::string::npos);
  auto thrower = [](kiln_stream) { throw std::runtime_error("mine"); };
  CHECK_THROWS_WITH((void)engine.time(nullptr, thrower), "mine");
  CHECK(engine.resetPeaks().ok());
}

TEST_CASE("the wrapper reads names of kernels") {
  auto kernel = kiln::parseKernelName("kiln_softmax_reference_sig01ef");
  REQUIRE(kernel.ok());
  CHECK(kernel->family == KILN_FAMILY_SOFTMAX);
  CHECK(kernel->text == "softmax reference");
  CHECK(kiln::parseKernelName("memset").status().code() ==
        KILN_INVALID_ARGUMENT);
}

namespace {
/// The canonical text of a builder's problem.
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
  CHECK(textOf(kiln::Gemm(KILN_BF16, 3, 8, 16).swiGluClamped()) ==
        "gemm m=3 n=8 k=16 dtype=bf16 pointwise=swiglu_clamped");
}

TEST_CASE("a gemm's scales follow their matrices through a batch") {
  const kiln::Gemm copy =
      kiln::Gemm(KILN_E4M3, 64, 256, 512)
          .batch(4)
          .blockScaleA(at(0x100000), 1, 128)
          .blockScaleB(at(0x200000), 128, 128, 1, 2, /*batchStride=*/8);
  const kiln_scale &a = copy.get().scales->a, &b = copy.get().scales->b;
  CHECK(a.granularity == KILN_GRANULARITY_BLOCK);
  CHECK(a.block_rows == 1);
  CHECK(a.batch_stride == 0);
  CHECK(b.data == at(0x200000));
  CHECK(b.block_rows == 128);
  CHECK(b.row_stride == 1);
  CHECK(b.column_stride == 2);
  CHECK(b.batch_stride == 8);
  kiln::Gemm rows(KILN_E4M3, 64, 256, 512);
  rows.scaleA(at(0x100000), KILN_GRANULARITY_ROW, 64)
      .scaleB(at(0x200000), KILN_GRANULARITY_ROW, 256);
  CHECK(rows.get().scales->a.batch_stride == 64);
  CHECK(rows.get().scales->b.batch_stride == 256);
  // Packed weights have no strides.
  rows.packedWeights(KILN_INT4, KILN_ORDER_K64R16, at(0x200000), at(0x300000),
                     KILN_BF16, 128);
  CHECK(rows.get().packed_b->scale.batch_stride == 0);
  CHECK(rows.get().scales->b.granularity == KILN_GRANULARITY_NONE);
}

TEST_CASE("packed weights have zero points before these have an address") {
  for (int32_t group : {0, 128}) {
    auto described = [&](const void *zeros) {
      return kiln::Gemm(KILN_BF16, 64, 256, 512)
          .layout(KILN_LAYOUT_NT)
          .packedWeights(KILN_INT4, KILN_ORDER_K64R16, zeros, zeros, KILN_BF16,
                         group);
    };
    const kiln::Gemm without = described(nullptr);
    const kiln::Gemm before = described(nullptr).packedZeros(nullptr);
    const kiln::Gemm call = described(at(0x200000)).packedZeros(at(0x300000));
    CHECK(textOf(before) == textOf(without) + " zero_b=1");
    CHECK(textOf(before) == textOf(call));
    kiln::detail::Slots slots;
    call.fill(slots);
    CHECK(slots.operands[KILN_GEMM_ZERO_B] == at(0x300000));
  }
}

TEST_CASE("a gemm's builder quantises D") {
  const kiln::Gemm copy =
      kiln::Gemm(KILN_BF16, 64, 256, 512).blockQuantizeD(at(0x100000), 1, 72);
  const kiln_operand &d = copy.get().d;
  CHECK(d.type == KILN_E4M3);
  const kiln_scale &scale = copy.get().quantized_d->scale;
  CHECK(scale.data == at(0x100000));
  CHECK(scale.block_rows == 1);
  CHECK(scale.block_columns == 128);
  CHECK(scale.column_stride == 72);
  CHECK(textOf(copy) ==
        "gemm m=64 n=256 k=512 dtype=bf16 out=e4m3 scale_d=1x128 "
        "scale_order_d=rows ldsd=72");
  kiln::Gemm rows(KILN_BF16, 64, 256, 512);
  rows.quantizeD(at(0x100000), KILN_GRANULARITY_ROW);
  CHECK(textOf(rows) ==
        "gemm m=64 n=256 k=512 dtype=bf16 out=e4m3 scale_d=row");
}

TEST_CASE("a scale of Q is not dropped where Q takes none") {
  auto described = [](kiln_dtype type, const float *q) {
    auto *k = static_cast<const float *>(at(0x100000));
    return kiln::Attention(type, 2, 64, 64, 4, 128)
        .keyValueType(KILN_E4M3)
        .scales(k, k, q);
  };
  const auto *q = static_cast<const float *>(at(0x200000));
  CHECK(textOf(described(KILN_E4M3, q)).find("attention batch=2") == 0);
  CHECK(textOf(described(KILN_BF16, nullptr)).find("attention batch=2") == 0);
  CHECK(textOf(described(KILN_BF16, q)) ==
        "q.scale is given for type 0x1002: only e4m3 has scales");
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
  CHECK(
      textOf(
          kiln::Quantize(KILN_BF16, KILN_E4M3, 3, 256).blockScales(m, 1, 4)) ==
      "rowquant rows=3 cols=256 dtype=bf16 scale_y=1x128 scale_order_y=rows "
      "ldsy=4");
  CHECK(
      textOf(
          kiln::LayerNorm(KILN_BF16, 3, 256).blockQuantized(KILN_E4M3, m, 8)) ==
      "layernorm rows=3 cols=256 dtype=bf16 out=fp8_e4m3 scale_y=1x128 "
      "ldsy=8");
  CHECK(textOf(kiln::Elementwise(KILN_BF16, 3, 256)
                   .silu()
                   .mul(m, 512)
                   .blockQuantized(KILN_E4M3, m)) ==
        "elementwise op=silu,mul rows=3 cols=256 dtype=bf16 out=fp8_e4m3 "
        "ldo=512 scale_y=1x128");
  CHECK(textOf(kiln::Elementwise(KILN_FP16, 3, 8).quantized(KILN_INT8, m)) ==
        "elementwise rows=3 cols=8 dtype=fp16 out=int8 scale_y=row");
  CHECK(textOf(kiln::Transpose(KILN_INT8, 3, 8).y(m, 4)) ==
        "transpose2d rows=3 cols=8 dtype=int8 ldy=4");
  const auto *narrow = static_cast<const int32_t *>(m);
  const auto *wide = static_cast<const int64_t *>(m);
  CHECK(textOf(kiln::Gather(KILN_BF16, 3, 8, 100).indices(narrow).first(40)) ==
        "gather rows=3 cols=8 dtype=bf16 xrows=100 first=40");
  CHECK(textOf(kiln::Gather(KILN_BF16, 3, 8, 3)
                   .outputType(KILN_FP32)
                   .targets(wide, 9)
                   .scale(2)) == "gather rows=3 cols=8 dtype=bf16 out=fp32 "
                                 "by=targets index=int64 yrows=9 scale=2");
  CHECK(textOf(kiln::Gather(KILN_INT8, 3, 8, 9)
                   .batch(2, 144, 144)
                   .indices(nullptr)
                   .targets(nullptr, 9)) ==
        "gather rows=3 cols=8 dtype=int8 batch=2 by=both xrows=9 yrows=9");
}

TEST_CASE("an all-reduce's residual and norm come in any order") {
  void *m = at(0x100000);
  const std::string both =
      "allreduce rows=3 cols=8 ranks=2 dtype=bf16 residual=1 norm=1";
  const kiln::AllReduce call(KILN_BF16, 3, 8, 2);
  CHECK(textOf(kiln::AllReduce(call).norm(m).residual(m, m)) == both);
  CHECK(textOf(kiln::AllReduce(call).residual(m, m).norm(m)) == both);
  CHECK(textOf(kiln::AllReduce(call).residual(nullptr).norm(nullptr)) == both);
  CHECK(textOf(kiln::AllReduce(call).residual(m)) ==
        "allreduce rows=3 cols=8 ranks=2 dtype=bf16 residual=1");
  CHECK(textOf(kiln::AllReduce(call).residual(m, m))
            .find("residual_out.type is set") != std::string::npos);
}

TEST_CASE("a rope's builder describes norms, caches and where slots are from") {
  const auto *array = static_cast<const int32_t *>(at(0x100000));
  CHECK(textOf(kiln::Rope(KILN_BF16, 3, 4, 2, 64).table(nullptr, 9)) ==
        "rope tokens=3 heads=4 kvheads=2 d=64 dtype=bf16 rotary=64 tablerows=9 "
        "kout=1");
  CHECK(textOf(kiln::Rope(KILN_FP16, 3, 4, 2, 64)
                   .rotary(32, 16)
                   .style(KILN_ROPE_INTERLEAVED)
                   .table(nullptr, 100, KILN_FP16)
                   .norm(array, nullptr, 0.5)
                   .q(nullptr, 512)
                   .kOut(nullptr)) ==
        "rope tokens=3 heads=4 kvheads=2 d=64 dtype=fp16 rotary=32 offset=16 "
        "style=interleaved table=fp16 tablerows=100 qnorm=1 eps=0.5 kout=1 "
        "ldq=512 ldqo=512");
  const kiln::Rope cached = kiln::Rope(KILN_BF16, 3, 4, 2, 64)
                                .table(nullptr, 9)
                                .v(nullptr)
                                .caches(KILN_E4M3, nullptr, nullptr, 16, 9)
                                .scales(nullptr, nullptr);
  const std::string text =
      "rope tokens=3 heads=4 kvheads=2 d=64 dtype=bf16 "
      "rotary=64 tablerows=9 kcache=1 vcache=1 kv=e4m3 scales=tensor ";
  CHECK(textOf(kiln::Rope(cached).slots(array)) ==
        text + "slots=array page=16 poolpages=9");
  CHECK(textOf(kiln::Rope(cached).pageTable(array, 2, 5).sequences(array)) ==
        text + "slots=table seqs=1 page=16 poolpages=9 pagerows=2 pagecols=5");
}

TEST_CASE("a copied builder keeps its own chain and scales") {
  auto norm = std::make_unique<kiln::RmsNorm>(KILN_BF16, 3, 8);
  norm->quantized(KILN_E4M3, at(0x100000));
  kiln::RmsNorm copy(*norm), assigned(KILN_FP32, 1, 1);
  assigned = *norm;
  norm.reset();
  CHECK(copy.get().y_scale.data == at(0x100000));
  CHECK(assigned.get().y_scale.data == at(0x100000));
  auto chain = std::make_unique<kiln::Elementwise>(KILN_BF16, 3, 8);
  chain->relu();
  kiln::Elementwise copied(*chain);
  chain.reset();
  CHECK(copied.get().pointwise[0].op == KILN_POINTWISE_RELU);
}

TEST_CASE("a copied builder keeps the parts that are its caller's own") {
  kiln_gemm_scales scales = KILN_INIT(kiln_gemm_scales);
  scales.a = scales.b = kiln_tensor_scale_init(at(0x100000));
  kiln_pointwise relu = KILN_INIT(kiln_pointwise);
  relu.op = KILN_POINTWISE_RELU;
  kiln::Gemm gemm(KILN_E4M3, 64, 128, 256);
  gemm.scaleA(at(0x200000)).bias(nullptr);
  gemm.get().scales = &scales;
  gemm.get().pointwise = &relu;
  const std::string text = "gemm m=64 n=128 k=256 dtype=e4m3 pointwise=relu "
                           "scale_a=tensor scale_b=tensor";
  kiln::Gemm copy(gemm), assigned(KILN_BF16, 1, 1, 1);
  assigned = gemm;
  for (const kiln::Gemm *one : {&gemm, &copy, &assigned}) {
    CHECK(one->get().scales == &scales);
    CHECK(textOf(*one) == text);
    kiln::detail::Slots slots;
    one->fill(slots);
    CHECK(slots.operands[KILN_GEMM_SCALE_A] == at(0x100000));
    CHECK(slots.operands[KILN_GEMM_SCALE_B] == at(0x100000));
  }
  kiln_pointwise scale = KILN_INIT(kiln_pointwise);
  scale.op = KILN_POINTWISE_SCALE;
  scale.params[0] = 3;
  kiln::Elementwise chain(KILN_BF16, 3, 8);
  chain.relu();
  chain.get().pointwise = &scale;
  kiln::Elementwise copied(chain);
  CHECK(copied.get().pointwise == &scale);
  kiln::detail::Slots slots;
  copied.fill(slots);
  CHECK(slots.scalars[0] == 3);
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

namespace {

/// Kernel parameters of any type, for comparison.
using Values = std::vector<uint64_t>;
template <class... Fields> Values valuesOf(const Fields &...fields) {
  auto word = [](const auto &field) {
    uint64_t bits = 0;
    static_assert(sizeof(field) <= sizeof(bits));
    std::memcpy(&bits, &field, sizeof(field));
    return bits;
  };
  return {word(fields)...};
}

Values valuesOf(const kiln::GemmParams &p) {
  return valuesOf(p.a, p.b, p.c, p.d, p.bias, p.residual, p.m, p.n, p.k,
                  p.batch, p.lda, p.ldb, p.ldc, p.ldd, p.ldResidual, p.strideA,
                  p.strideB, p.strideC, p.strideD, p.strideBias,
                  p.strideResidual, p.alphaPtr, p.betaPtr, p.alpha, p.beta);
}
Values valuesOf(const kiln::FlatElementwiseParams &params) {
  const kiln::ElementwiseParams &p = params.operands;
  Values values = valuesOf(p.x, p.y, p.rows, p.cols, p.ldx, p.ldy, p.ldOperand,
                           p.scalePtr, p.scale);
  for (const void *operand : p.operands)
    values.push_back(reinterpret_cast<uintptr_t>(operand));
  return values;
}
Values valuesOf(const kiln::RowParams &p) {
  return valuesOf(p.x, p.y, p.weight, p.rows, p.cols, p.ldx, p.ldy, p.epsilon,
                  p.scale, p.bias, p.residual, p.residualOut, p.mask, p.scales,
                  p.ldResidual, p.ldResidualOut, p.ldMask, p.allRows);
}
Values valuesOf(const kiln::TransposeParams &p) {
  return valuesOf(p.x, p.y, p.rows, p.cols, p.ldx, p.ldy);
}
Values valuesOf(const kiln::LaneGatherParams &p) {
  const kiln::GatherParams &g = p.operands;
  return valuesOf(g.x, g.y, g.indices, g.targets, g.indexBytes, g.scale,
                  g.batch, g.rows, g.xRows, g.yRows, g.first, g.divisor,
                  p.xPitch, p.yPitch, p.xBatchPitch, p.yBatchPitch);
}
Values valuesOf(const kiln::RopeParams &p) {
  Values values = valuesOf(
      p.q, p.k, p.v, p.qOut, p.kOut, p.kCache, p.vCache, p.table, p.qWeight,
      p.kWeight, p.positions, p.slots, p.pageTable, p.sequences, p.kScale,
      p.vScale, p.tokens, p.tableRows, p.pageSize, p.pageCount, p.pageTableRows,
      p.pageTableColumns, p.heads, p.kvHeads, p.epsilon, p.isEarly);
  for (const kiln::HeadStrides &strides :
       {p.qStrides, p.kStrides, p.vStrides, p.qOutStrides, p.kOutStrides,
        p.kCacheStrides, p.vCacheStrides})
    for (const uint64_t stride :
         valuesOf(strides.token, strides.head, strides.batch))
      values.push_back(stride);
  return values;
}

/// The dynamic extent of a builder's problems.
template <class Call>
constexpr const char *kDynamic = std::is_same_v<Call, kiln::Gemm>   ? "m"
                                 : std::is_same_v<Call, kiln::Rope> ? "tokens"
                                                                    : "rows";

/// Launches \p call in every way, with the same result. The kernel's parameters
/// are of type \p Params; each of \p addresses must be in them.
template <class Params, class Call>
void checkWays(const kiln::Engine &engine, const Call &call,
               const std::vector<uintptr_t> &addresses) {
  Values seen;
  auto see = [](KilnFakeLaunch *launch, void *user) {
    *static_cast<Values *>(user) =
        valuesOf(*static_cast<const Params *>(launch->params));
  };
  kilnFakeOnLaunch("kiln_*", see, &seen, sizeof(Params));
  engine.run(call, nullptr).orThrow();
  Values expected = seen;
  for (uintptr_t wanted : addresses) {
    CAPTURE(wanted);
    CHECK(std::count(expected.begin(), expected.end(), wanted) == 1);
  }
  kiln::Plan plan = engine.plan(call, nullptr).orThrow();
  kiln::Problem problem = kiln::Problem(call).range(kDynamic<Call>, 1, 4096);
  kiln::Plan ranged = engine.plan(problem, nullptr).orThrow();
  kiln::Arguments arguments(call);
  auto check = [&](std::string way, const kiln::Status &status) {
    CAPTURE(way);
    CAPTURE(status.message());
    CHECK(status.ok());
    CHECK(seen == expected);
    seen.clear();
  };
  seen.clear();
  check("plan, call", plan.launch(call, nullptr));
  check("plan, arguments", plan.launch(arguments, nullptr));
  check("run, arguments", engine.run(call, arguments, nullptr));
  check("ranged plan, call", ranged.launch(call, nullptr));
  check("the same again", ranged.launch(call, nullptr));
  check("ranged plan, arguments", ranged.launch(arguments, nullptr));
  auto drop = [](KilnFakeLaunch *, void *) {};
  kilnFakeOnLaunch("kiln_*", drop, nullptr, 0);
}

} // namespace

TEST_CASE(
    "S8: whatever a builder was told reaches the kernel, also by a plan") {
  Machine machine;
  kiln::Engine engine = kiln::Engine::create(machine.options).orThrow();
  kiln::Gemm gemm = kiln::Gemm(KILN_BF16, 64, 128, 256)
                        .layout(KILN_LAYOUT_NT)
                        .batch(3)
                        .a(at(0x1000000), 264, 264 * 64)
                        .b(at(0x2000000), 0, 128 * 256)
                        .c(2, at(0x3000000), 136, 136 * 64)
                        .d(at(0x4000000), 144, 144 * 64)
                        .alpha(0.5)
                        .bias(at(0x5000000), 128)
                        .relu()
                        .residual(at(0x6000000), 152, 152 * 64);
  std::vector<uintptr_t> operands = {0x1000000, 0x2000000, 0x3000000,
                                     0x4000000, 0x5000000, 0x6000000};
  checkWays<kiln::GemmParams>(engine, gemm, operands);
  gemm.alphaDevice(static_cast<float *>(at(0x7000000)))
      .betaDevice(static_cast<float *>(at(0x7000004)));
  operands.insert(operands.end(), {0x7000000, 0x7000004});
  checkWays<kiln::GemmParams>(engine, gemm, operands);
  // A link that does nothing takes no slot.
  kiln::Gemm gaps = kiln::Gemm(KILN_BF16, 64, 128, 256)
                        .a(at(0x1000000))
                        .b(at(0x2000000))
                        .d(at(0x4000000))
                        .relu()
                        .bias(at(0x5000000));
  const_cast<kiln_pointwise *>(gaps.get().pointwise)[0].op =
      KILN_POINTWISE_NONE;
  checkWays<kiln::GemmParams>(engine, gaps, {0x5000000});

  kiln::Elementwise chain = kiln::Elementwise(KILN_BF16, 64, 128)
                                .x(at(0x1000000), 136)
                                .y(at(0x2000000), 144)
                                .add(at(0x3000000), 152)
                                .mul(at(0x4000000), 152)
                                .scale(0.25f)
                                .bias(at(0x5000000))
                                .columnScale(at(0x6000000))
                                .rowBias(at(0x7000000))
                                .rowScale(at(0x8000000));
  checkWays<kiln::FlatElementwiseParams>(engine, chain,
                                         {0x1000000, 0x2000000, 0x3000000,
                                          0x4000000, 0x5000000, 0x6000000,
                                          0x7000000, 0x8000000});
  kiln::Reduce reduce = kiln::Reduce(KILN_REDUCTION_MAX, KILN_FP32, 64, 128)
                            .x(at(0x1000000), 136)
                            .y(at(0x2000000));
  checkWays<kiln::RowParams>(engine, reduce, {0x1000000, 0x2000000});
  kiln::Softmax softmax = kiln::Softmax(KILN_FP32, 64, 128)
                              .x(at(0x1000000), 136)
                              .y(at(0x2000000), 144)
                              .scale(0.25)
                              .mask(at(0x3000000), 152);
  checkWays<kiln::RowParams>(engine, softmax,
                             {0x1000000, 0x2000000, 0x3000000});
  checkWays<kiln::RowParams>(engine, softmax.rowMask(at(0x4000000)),
                             {0x1000000, 0x2000000, 0x4000000});
  auto tellNorm = [](auto norm) {
    return norm.x(at(0x1000000), 136)
        .y(at(0x2000000), 144)
        .weight(at(0x3000000))
        .bias(at(0x4000000))
        .residual(at(0x5000000), at(0x6000000), 152, 160)
        .epsilon(0.5)
        .quantized(KILN_E4M3, at(0x7000000));
  };
  std::vector<uintptr_t> all = {0x1000000, 0x2000000, 0x3000000, 0x4000000,
                                0x5000000, 0x6000000, 0x7000000};
  checkWays<kiln::RowParams>(engine,
                             tellNorm(kiln::RmsNorm(KILN_BF16, 64, 128)), all);
  checkWays<kiln::RowParams>(
      engine, tellNorm(kiln::LayerNorm(KILN_BF16, 64, 128)), all);
  kiln::Quantize quantize = kiln::Quantize(KILN_BF16, KILN_INT8, 64, 128)
                                .x(at(0x1000000), 136)
                                .y(at(0x2000000), 144)
                                .scales(at(0x3000000));
  checkWays<kiln::RowParams>(engine, quantize,
                             {0x1000000, 0x2000000, 0x3000000});
  kiln::Transpose transpose = kiln::Transpose(KILN_FP16, 64, 128)
                                  .x(at(0x1000000), 136)
                                  .y(at(0x2000000));
  checkWays<kiln::TransposeParams>(engine, transpose, {0x1000000, 0x2000000});
  kiln::Gather gather =
      kiln::Gather(KILN_BF16, 64, 128, 1000)
          .x(at(0x1000000), 136)
          .y(at(0x2000000))
          .batch(2, 136000, 64000)
          .indices(static_cast<const int32_t *>(at(0x3000000)))
          .targets(static_cast<const int32_t *>(at(0x4000000)), 500)
          .first(7)
          .divisor(3)
          .scale(0.5);
  checkWays<kiln::LaneGatherParams>(
      engine, gather, {0x1000000, 0x2000000, 0x3000000, 0x4000000});
  kiln::Rope rope =
      kiln::Rope(KILN_BF16, 64, 8, 2, 128)
          .rotary(64, 32)
          .q(at(0x1000000), 1536)
          .k(at(0x2000000), 1536)
          .v(at(0x3000000), 1536)
          .qOut(at(0x4000000), 1152)
          .kOut(at(0x5000000), 320)
          .table(at(0x6000000), 1000)
          .positions(static_cast<const int32_t *>(at(0x7000000)))
          .norm(at(0x8000000), at(0x9000000), 0.5)
          .caches(KILN_E4M3, at(0xa000000), at(0xb000000), 16, 100)
          .scales(static_cast<float *>(at(0xc000000)),
                  static_cast<float *>(at(0xd000000)))
          .pageTable(static_cast<const int32_t *>(at(0xe000000)), 5, 63)
          .sequences(static_cast<const int32_t *>(at(0xf000000)));
  std::vector<uintptr_t> ropeOperands;
  for (uintptr_t operand = 1; operand <= 15; ++operand)
    ropeOperands.push_back(operand << 24);
  checkWays<kiln::RopeParams>(engine, rope, ropeOperands);
}

TEST_CASE("S4: a plan launches a call with the call's own sizes, or not") {
  Machine machine;
  kiln::Engine engine = kiln::Engine::create(machine.options).orThrow();
  auto gemmOf = [](int64_t m) {
    return kiln::Gemm(KILN_FP32, m, 512, 512)
        .layout(KILN_LAYOUT_NT)
        .a(at(0x1000000))
        .b(at(0x2000000))
        .d(at(0x4000000));
  };
  kiln::Problem problem = kiln::Problem(gemmOf(64)).range("m", 1, 100, 64);
  kiln::Plan plan = engine.plan(problem, nullptr).orThrow();
  long long launched = 0;
  auto see = [](KilnFakeLaunch *launch, void *user) {
    *static_cast<long long *>(user) =
        static_cast<const kiln::GemmParams *>(launch->params)->m;
  };
  kilnFakeOnLaunch("kiln_*", see, &launched, sizeof(kiln::GemmParams));
  for (int64_t m : {17, 64, 100, 17}) {
    plan.launch(gemmOf(m), nullptr).orThrow();
    CHECK(launched == m);
  }
  launched = 0;
  auto refusal = [&](const kiln::Gemm &gemm) {
    kiln::Status status = plan.launch(gemm, nullptr);
    CHECK(status.code() == KILN_INVALID_ARGUMENT);
    return status.message();
  };
  CHECK(refusal(gemmOf(101)) == "m is 101, the plan's range is 1 to 100");
  kiln::Gemm narrow = gemmOf(17);
  narrow.get().n = 256;
  CHECK(refusal(narrow).find("n differs") != std::string::npos);
  CHECK(refusal(gemmOf(17).relu()).find("pointwise differs") !=
        std::string::npos);
  CHECK(refusal(gemmOf(17).a(at(0x1000000), 520)).find("lda differs") !=
        std::string::npos);
  CHECK(refusal(gemmOf(17).a(at(0x1000004))).find("align differs") !=
        std::string::npos);
  CHECK(refusal(gemmOf(17).a(nullptr)) == "a.data is null");
  CHECK(refusal(gemmOf(-1)) == "m is -1");
  kiln::Softmax softmax(KILN_FP32, 17, 512);
  CHECK(plan.launch(softmax, nullptr).code() == KILN_INVALID_ARGUMENT);
  CHECK(launched == 0);

  // An extent that was left out is not 0, which would launch nothing.
  kiln::Gemm both = gemmOf(64);
  both.get().a.batch_stride = both.get().d.batch_stride = 1 << 16;
  kiln::Plan two =
      engine
          .plan(kiln::Problem(both).range("m", 0, 100).range("batch", 1, 2),
                nullptr)
          .orThrow();
  kiln::Status status = two.launch(kiln::Arguments(both).extent(1, 2), nullptr);
  CHECK(status.code() == KILN_INVALID_ARGUMENT);
  CHECK(status.message() == "arguments: extent 0 is -1, its range is 0 to 100");
  CHECK(launched == 0);
}
