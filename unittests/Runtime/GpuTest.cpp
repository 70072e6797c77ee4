// kiln_gemm end to end on a GPU: compiled by the real NVRTC, loaded by the real
// driver, compared with the host, also from a CUDA graph.
#include "Driver/Graph.h"
#include "Runtime/GpuFixture.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// fp32 matrices of one product on host and device.
struct Product {
  Product(Gpu &gpu, int64_t m, int64_t n, int64_t k) : gpu(gpu), n(n), k(k) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    a.resize(m * k);
    b.resize(n * k);
    bias.resize(n);
    d.resize(m * n);
    for (std::vector<float> *matrix : {&a, &b, &bias})
      for (float &value : *matrix)
        value = normal(random);
    for (std::vector<float> *matrix : {&a, &b, &bias, &d}) {
      memory.push_back(require(
          DeviceMemory::allocate(*gpu.driver, matrix->size() * sizeof(float))));
      require(copyToDevice(*gpu.driver, memory.back().address(), matrix->data(),
                           matrix->size() * sizeof(float)));
    }
    args.m = m;
    args.n = n;
    args.k = k;
    args.layout = KILN_LAYOUT_NT;
    args.a.type = KILN_FP32;
    args.a.data = reinterpret_cast<void *>(memory[0].address());
    args.b.data = reinterpret_cast<void *>(memory[1].address());
    args.d.data = reinterpret_cast<void *>(memory[3].address());
    chain[0].op = KILN_POINTWISE_BIAS;
    chain[0].operand.data = reinterpret_cast<void *>(memory[2].address());
    chain[1].op = KILN_POINTWISE_RELU;
    args.pointwise = chain;
    args.pointwise_count = 2;
  }

  /// Overwrites D, so that a later result was computed later.
  void poison() {
    require(fillAsync(*gpu.driver, memory[3].address(), 0xff,
                      d.size() * sizeof(float), gpu.stream->handle()));
  }

  /// Elements of D that differ from the product in fp64.
  int countWrong() {
    require(gpu.stream->synchronize());
    require(copyToHost(*gpu.driver, d.data(), memory[3].address(),
                       d.size() * sizeof(float)));
    int wrong = 0;
    for (size_t i = 0; i < d.size(); ++i) {
      double sum = bias[i % n], magnitude = 0;
      const float *row = &a[i / n * k], *column = &b[i % n * k];
      for (int64_t j = 0; j < k; ++j) {
        sum += double(row[j]) * column[j];
        magnitude += std::fabs(double(row[j]) * column[j]);
      }
      double expected = std::max(sum, 0.0);
      double bound = std::ldexp(2 * std::fabs(expected), -23) +
                     4 * std::sqrt(double(k)) * std::ldexp(magnitude, -24) +
                     1e-30;
      wrong += !(std::fabs(d[i] - expected) <= bound);
    }
    return wrong;
  }

  Gpu &gpu;
  int64_t n, k;
  std::vector<float> a, b, bias, d;
  std::vector<DeviceMemory> memory;
  kiln_pointwise chain[2] = {KILN_INIT(kiln_pointwise),
                             KILN_INIT(kiln_pointwise)};
  kiln_gemm_args args = kiln_gemm_args_init();
};

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("gemm computes, alone and from a graph, in every mode") {
    for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_TUNE}) {
      CAPTURE(mode);
      Gpu gpu(mode);
      for (auto [m, n, k] :
           {std::tuple(int64_t(200), int64_t(136), int64_t(96)),
            {33, 17, 51},
            {16, 64, 8192}}) {
        CAPTURE(m);
        Product product(gpu, m, n, k);
        kiln_problem problem = KILN_INIT(kiln_problem);
        problem.family = KILN_FAMILY_GEMM;
        // The addresses have only an fp32's alignment where rows are odd.
        problem.args = &product.args;
        kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
        kiln_stream stream = gpu.handle();
        options.streams = &stream;
        options.stream_count = 1;
        kiln_status status =
            kiln_prepare(gpu.engine, &problem, 1, &options, nullptr);
        CAPTURE(gpuError());
        REQUIRE(status == KILN_SUCCESS);
        product.poison();
        REQUIRE(kiln_gemm(gpu.engine, &product.args, nullptr, stream) ==
                KILN_SUCCESS);
        CHECK(product.countWrong() == 0);

        require(Graph::beginCapture(*gpu.driver, stream));
        status = kiln_gemm(gpu.engine, &product.args, nullptr, stream);
        Graph graph = require(Graph::endCapture(*gpu.driver, stream));
        REQUIRE(status == KILN_SUCCESS);
        for (int replay = 0; replay < 2; ++replay) {
          product.poison();
          require(graph.launch(stream));
          CHECK(product.countWrong() == 0);
        }
      }
    }
  }

  TEST_CASE("a cached kernel is ready without a compiler, in milliseconds") {
    Gpu gpu(KILN_MODE_PREDICT);
    Product product(gpu, 200, 136, 96);
    REQUIRE(kiln_gemm(gpu.engine, &product.args, nullptr, gpu.handle()) ==
            KILN_SUCCESS);
    kiln_problem problem = KILN_INIT(kiln_problem);
    problem.family = KILN_FAMILY_GEMM;
    problem.args = &product.args;
    kiln_stream stream = gpu.handle();
    kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
    options.streams = &stream;
    options.stream_count = 1;
    kiln_engine *later = gpu.makeEngine(KILN_MODE_STRICT, "/nowhere");
    auto start = std::chrono::steady_clock::now();
    kiln_status prepared = kiln_prepare(later, &problem, 1, &options, nullptr);
    CAPTURE(gpuError());
    kiln_status launched = kiln_gemm(later, &product.args, nullptr, stream);
    std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    CHECK(prepared == KILN_SUCCESS);
    CHECK(launched == KILN_SUCCESS);
    CHECK(product.countWrong() == 0);
    std::printf("from prepare to the end of the first launch's call: %.2f ms\n",
                elapsed.count());
    kiln_engine_destroy(later);
  }

  TEST_CASE("a capture of what is not prepared goes on") {
    Gpu gpu(KILN_MODE_PREDICT);
    Product product(gpu, 64, 64, 64);
    require(Graph::beginCapture(*gpu.driver, gpu.handle()));
    CHECK(kiln_gemm(gpu.engine, &product.args, nullptr, gpu.handle()) ==
          KILN_NOT_PREPARED);
    Graph graph = require(Graph::endCapture(*gpu.driver, gpu.handle()));
    CHECK(graph.nodeCount() == 0);
  }

} // TEST_SUITE
