// The header's promises to several threads of one process, on a GPU.
#include "Driver/CudaApi.h"
#include "Driver/Graph.h"
#include "Runtime/GpuFixture.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

using Clock = std::chrono::steady_clock;

/// bf16 products whose results fill one buffer after another, so that every
/// single launch can be looked at.
class Products {
public:
  Products(Gpu &gpu, int64_t m, int64_t n, int64_t k, int seed, size_t count)
      : gpu(gpu), bytes(static_cast<size_t>(m * n) * 2), count(count) {
    std::vector<uint16_t> values(static_cast<size_t>(std::max(m, n) * k));
    for (auto [memory, rows] : {std::pair(&a, m), {&b, n}}) {
      for (size_t i = 0; i < values.size(); ++i)
        // From -2 to 2, other ones for each seed.
        values[i] = static_cast<uint16_t>(
            0x3f80 + (i * 7 + static_cast<size_t>(seed) * 31) % 128 +
            ((i * 13 + static_cast<size_t>(seed)) % 2 ? 0x8000 : 0));
      uint64_t used = static_cast<uint64_t>(rows * k) * 2;
      *memory = require(DeviceMemory::allocate(*gpu.driver, used));
      require(
          copyToDevice(*gpu.driver, memory->address(), values.data(), used));
    }
    d = require(DeviceMemory::allocate(*gpu.driver, bytes * count));
    results.resize(bytes * count);
    args.m = m;
    args.n = n;
    args.k = k;
    args.layout = KILN_LAYOUT_NT;
    args.a.type = KILN_BF16;
    args.a.data = reinterpret_cast<void *>(a.address());
    args.b.data = reinterpret_cast<void *>(b.address());
  }

  kiln_status launch(size_t index, kiln_stream stream) const {
    kiln_gemm_args one = args;
    one.d.data = reinterpret_cast<void *>(d.address() + index * bytes);
    return kiln_gemm(gpu.engine, &one, nullptr, stream);
  }

  /// Launches once alone, for the result that every other launch must give.
  void expect(kiln_stream stream) {
    kiln_status status = launch(0, stream);
    CAPTURE(gpuError());
    REQUIRE(status == KILN_SUCCESS);
    REQUIRE(gpu.driver->api().cuCtxSynchronize() == CUDA_SUCCESS);
    expected.resize(bytes);
    require(copyToHost(*gpu.driver, expected.data(), d.address(), bytes));
  }

  /// Counts the results that differ from the first, and overwrites all.
  size_t countWrong() {
    require(
        copyToHost(*gpu.driver, results.data(), d.address(), results.size()));
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i)
      wrong += std::memcmp(&results[i * bytes], expected.data(), bytes) != 0;
    require(fillAsync(*gpu.driver, d.address(), 0xff, results.size(),
                      gpu.stream->handle()));
    require(gpu.stream->synchronize());
    return wrong;
  }

private:
  Gpu &gpu;
  size_t bytes, count;
  DeviceMemory a, b, d;
  std::vector<uint8_t> expected, results;
  kiln_gemm_args args = kiln_gemm_args_init();
};

/// The result of tuning three shapes.
struct Tuned {
  std::vector<std::string> plans;
  std::vector<double> measuredUs;
  uint64_t trials = 0, failures = 0;
};

Tuned tuneThree(Gpu &gpu, DeviceMemory &memory) {
  Tuned tuned;
  for (auto [m, n, k] : {std::tuple(int64_t(256), int64_t(1536), int64_t(1024)),
                         {1024, 1536, 1024},
                         {16, 4096, 4096}}) {
    kiln_gemm_args args = kiln_gemm_args_init();
    args.m = m;
    args.n = n;
    args.k = k;
    args.layout = KILN_LAYOUT_NT;
    args.a.type = KILN_BF16;
    args.a.data = reinterpret_cast<void *>(memory.address());
    args.b.data = reinterpret_cast<void *>(memory.address() + (64 << 20));
    args.d.data = reinterpret_cast<void *>(memory.address() + (128 << 20));
    kiln_problem problem = KILN_INIT(kiln_problem);
    problem.family = KILN_FAMILY_GEMM;
    problem.args = &args;
    kiln_status status =
        kiln_prepare(gpu.engine, &problem, 1, nullptr, nullptr);
    CAPTURE(gpuError());
    REQUIRE(status == KILN_SUCCESS);
    kiln_plan *plan = nullptr;
    REQUIRE(kiln_plan_acquire(gpu.engine, &problem, gpu.handle(), &plan) ==
            KILN_SUCCESS);
    char text[512];
    REQUIRE(kiln_plan_describe(plan, text, sizeof(text), nullptr) ==
            KILN_SUCCESS);
    kiln_plan_release(plan);
    tuned.plans.push_back(text);
    kiln_query_result result = KILN_INIT(kiln_query_result);
    REQUIRE(kiln_query(gpu.engine, &problem, gpu.handle(), &result) ==
            KILN_SUCCESS);
    tuned.measuredUs.push_back(result.measured_us);
  }
  kiln_statistics statistics = KILN_INIT(kiln_statistics);
  REQUIRE(kiln_get_statistics(gpu.engine, &statistics) == KILN_SUCCESS);
  tuned.trials = statistics.trials;
  tuned.failures = statistics.trial_failures;
  require(gpu.stream->synchronize());
  return tuned;
}

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("S1: four threads on one stream, 100,000 products, none wrong") {
    constexpr int kThreads = 4;
    constexpr size_t kRounds = 50, kLaunches = 500;
    Gpu gpu(KILN_MODE_PREDICT);
    // The null stream, which threads share most often. Two threads need copies
    // of unaligned operands in scratch; two split k and publish partial sums.
    kiln_stream stream = nullptr;
    std::vector<Products> products;
    for (int i = 0; i < kThreads; ++i)
      products.emplace_back(gpu, 128, 128, i < 2 ? 1023 : 16384, i, kLaunches);
    for (Products &each : products)
      each.expect(stream);
    std::atomic<size_t> failed{0};
    size_t wrong = 0;
    for (size_t round = 0; round < kRounds; ++round) {
      std::vector<std::thread> threads;
      for (Products &each : products)
        threads.emplace_back([&] {
          auto scope = ScopedContext::push(*gpu.driver, gpu.primary->handle());
          for (size_t i = 0; scope && i < kLaunches; ++i)
            failed += each.launch(i, stream) != KILN_SUCCESS;
          if (!scope)
            ++failed;
        });
      for (std::thread &thread : threads)
        thread.join();
      REQUIRE(gpu.driver->api().cuCtxSynchronize() == CUDA_SUCCESS);
      for (Products &each : products)
        wrong += each.countWrong();
    }
    CHECK(failed == 0);
    CHECK(wrong == 0);
  }

  TEST_CASE("S11: short-lived threads pass their per-thread arena on") {
    constexpr size_t kThreads = 64, kLaunches = 8;
    Gpu gpu(KILN_MODE_PREDICT);
    auto *perThread = reinterpret_cast<kiln_stream>(2);
    Products products(gpu, 128, 128, 1023, 0, kThreads * kLaunches);
    products.expect(gpu.handle());
    auto arenaBytes = [&] {
      kiln_statistics statistics = KILN_INIT(kiln_statistics);
      REQUIRE(kiln_get_statistics(gpu.engine, &statistics) == KILN_SUCCESS);
      return statistics.arena_bytes;
    };
    std::atomic<size_t> failed{0};
    uint64_t first = 0;
    for (size_t i = 0; i < kThreads; ++i) {
      // The next thread's launches follow the work that this thread leaves in
      // flight.
      std::thread([&] {
        auto scope = ScopedContext::push(*gpu.driver, gpu.primary->handle());
        for (size_t j = 0; scope && j < kLaunches; ++j)
          failed +=
              products.launch(i * kLaunches + j, perThread) != KILN_SUCCESS;
        if (!scope)
          ++failed;
      }).join();
      if (i == 0)
        first = arenaBytes();
    }
    REQUIRE(gpu.driver->api().cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(failed == 0);
    CHECK(products.countWrong() == 0);
    CHECK(arenaBytes() == first);
  }

  TEST_CASE("S12: graphs of two streams that had one handle run at once") {
    constexpr size_t kRounds = 2000;
    Gpu gpu(KILN_MODE_PREDICT);
    std::vector<Products> products;
    std::vector<Graph> graphs;
    std::vector<CudaStream> handles;
    for (int i = 0; i < 2; ++i) {
      products.emplace_back(gpu, 128, 128, 1023, i, size_t(1));
      Stream stream = require(Stream::create(*gpu.driver));
      auto handle = stream.handle();
      handles.push_back(handle);
      products[i].expect(handle); // a launch outside of the capture
      require(Graph::beginCapture(*gpu.driver, handle));
      kiln_status status = products[i].launch(0, handle);
      graphs.push_back(require(Graph::endCapture(*gpu.driver, handle)));
      REQUIRE(status == KILN_SUCCESS);
    }
    std::printf("the second stream has %s handle\n",
                handles[0] == handles[1] ? "the first one's" : "another");
    Stream one = require(Stream::create(*gpu.driver));
    Stream other = require(Stream::create(*gpu.driver));
    size_t wrong = 0;
    for (size_t i = 0; i < kRounds; ++i) {
      require(graphs[0].launch(one.handle()));
      require(graphs[1].launch(other.handle()));
      if (i % 50 != 0)
        continue;
      REQUIRE(gpu.driver->api().cuCtxSynchronize() == CUDA_SUCCESS);
      wrong += products[0].countWrong() + products[1].countWrong();
    }
    REQUIRE(gpu.driver->api().cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(wrong == 0);
  }

  TEST_CASE("S3: another thread synchronises the context while three shapes "
            "are tuned") {
    // Quiet before and after: clocks drift by some percent in between.
    Tuned before, disturbed, after;
    long calls = 0, refused = 0;
    for (Tuned *tuned : {&before, &disturbed, &after}) {
      bool disturb = tuned == &disturbed;
      Gpu gpu(KILN_MODE_TUNE);
      DeviceMemory memory =
          require(DeviceMemory::allocate(*gpu.driver, 256 << 20));
      require(fillAsync(*gpu.driver, memory.address(), 0, memory.bytes(),
                        gpu.stream->handle()));
      std::atomic<bool> stop{false};
      std::thread other([&] {
        auto scope = ScopedContext::push(*gpu.driver, gpu.primary->handle());
        while (disturb && scope && !stop) {
          refused += gpu.driver->api().cuCtxSynchronize() != CUDA_SUCCESS;
          ++calls;
          std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
      });
      *tuned = tuneThree(gpu, memory);
      stop = true;
      other.join();
    }
    std::printf("%ld synchronisations, %ld refused; %llu trials, %llu failed\n",
                calls, refused,
                static_cast<unsigned long long>(disturbed.trials),
                static_cast<unsigned long long>(disturbed.failures));
    CHECK(calls > 1000);
    CHECK(refused == 0);
    CHECK(disturbed.trials > 0);
    CHECK(disturbed.failures == 0);
    for (size_t i = 0; i < before.plans.size(); ++i) {
      std::printf("quiet:     %s\ndisturbed: %s\nquiet:     %s\n",
                  before.plans[i].c_str(), disturbed.plans[i].c_str(),
                  after.plans[i].c_str());
      // Ties within a few percent may go either way.
      double quiet = std::max(before.measuredUs[i], after.measuredUs[i]);
      CHECK(disturbed.measuredUs[i] < 1.04 * quiet);
    }
  }

  TEST_CASE("S3: another thread's capture of a blocking stream survives "
            "tuning") {
    Gpu gpu(KILN_MODE_TUNE);
    DeviceMemory memory =
        require(DeviceMemory::allocate(*gpu.driver, 256 << 20));
    require(fillAsync(*gpu.driver, memory.address(), 0, memory.bytes(),
                      gpu.stream->handle()));
    require(gpu.stream->synchronize());
    const CudaApi &api = gpu.driver->api();
    CUstream blocking = nullptr;
    REQUIRE(api.cuStreamCreate(&blocking, CU_STREAM_DEFAULT) == CUDA_SUCCESS);
    CUresult begun = CUDA_ERROR_UNKNOWN, ended = CUDA_ERROR_UNKNOWN;
    std::atomic<int> phase{0};
    std::thread other([&] {
      auto scope = ScopedContext::push(*gpu.driver, gpu.primary->handle());
      if (scope)
        begun =
            api.cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
      phase = 1;
      phase.notify_all();
      phase.wait(1);
      CUgraph graph = nullptr;
      ended = api.cuStreamEndCapture(blocking, &graph);
      if (graph)
        api.cuGraphDestroy(graph);
    });
    phase.wait(0);
    kiln_gemm_args args = kiln_gemm_args_init();
    args.m = 512;
    args.n = 1024;
    args.k = 2048;
    args.layout = KILN_LAYOUT_NT;
    args.a.type = KILN_BF16;
    args.a.data = reinterpret_cast<void *>(memory.address());
    args.b.data = reinterpret_cast<void *>(memory.address() + (64 << 20));
    args.d.data = reinterpret_cast<void *>(memory.address() + (128 << 20));
    kiln_status status = kiln_gemm(gpu.engine, &args, nullptr, gpu.handle());
    std::string message = gpuError();
    kiln_statistics statistics = KILN_INIT(kiln_statistics);
    kiln_status told = kiln_get_statistics(gpu.engine, &statistics);
    phase = 2;
    phase.notify_all();
    other.join();
    CAPTURE(message);
    CHECK(begun == CUDA_SUCCESS);
    CHECK(status == KILN_SUCCESS);
    CHECK(told == KILN_SUCCESS);
    CHECK(statistics.trials > 0);
    CHECK(statistics.trial_failures == 0);
    CHECK(ended == CUDA_SUCCESS);
    require(gpu.stream->synchronize());
    CHECK(api.cuStreamDestroy(blocking) == CUDA_SUCCESS);
  }

  TEST_CASE("S7: the first sight of a value in a tuned layer is short") {
    Gpu gpu(KILN_MODE_TUNE);
    DeviceMemory memory =
        require(DeviceMemory::allocate(*gpu.driver, 256 << 20));
    kiln_gemm_args args = kiln_gemm_args_init();
    args.n = args.k = 1024;
    args.layout = KILN_LAYOUT_NT;
    args.a.type = KILN_BF16;
    args.a.data = reinterpret_cast<void *>(memory.address());
    args.b.data = reinterpret_cast<void *>(memory.address() + (64 << 20));
    args.d.data = reinterpret_cast<void *>(memory.address() + (128 << 20));
    auto call = [&](kiln_engine *engine, int64_t m) {
      args.m = m;
      Clock::time_point start = Clock::now();
      kiln_status status = kiln_gemm(engine, &args, nullptr, gpu.handle());
      double us =
          std::chrono::duration<double, std::micro>(Clock::now() - start)
              .count();
      CAPTURE(gpuError());
      REQUIRE(status == KILN_SUCCESS);
      return us;
    };
    call(gpu.engine, 2048);
    kiln_engine *strict = gpu.makeEngine(KILN_MODE_STRICT);
    call(strict, 2048);
    for (kiln_engine *engine : {gpu.engine, strict}) {
      std::vector<double> times;
      for (int64_t m = 1100; m < 1300; ++m)
        times.push_back(call(engine, m));
      std::printf("first sight, %s: first %.1f us, ",
                  engine == strict ? "strict" : "tune", times[0]);
      std::sort(times.begin(), times.end());
      std::printf("median %.1f us, most %.1f us\n", times[times.size() / 2],
                  times.back());
      CHECK(times[times.size() / 2] <= 100);
    }
    require(gpu.stream->synchronize());
    kiln_engine_destroy(strict);
  }

} // TEST_SUITE
