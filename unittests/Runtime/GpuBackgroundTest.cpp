// The mode background on a GPU: waits of calls, the share that trials take from
// the foreground, right results while plans are swapped, and its speed without
// other load. Prints the figures.
#include "Driver/Event.h"
#include "Driver/Graph.h"
#include "Runtime/GpuFixture.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

using Clock = std::chrono::steady_clock;

struct Layer {
  int64_t n, k;
};
/// Projections of two models.
constexpr Layer kLayers[] = {{6144, 4096},  {4096, 4096}, {28672, 4096},
                             {4096, 14336}, {2560, 2048}, {2048, 2048},
                             {10240, 2048}, {2048, 5120}};
constexpr int64_t kMostRows = 2048;

double usSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start)
      .count();
}

/// An engine of the mode, with a share of the GPU.
kiln_engine *makeEngine(kiln_mode mode, uint32_t permille, const char *cache) {
  kiln_engine_options options = KILN_INIT(kiln_engine_options);
  options.mode = mode;
  options.background_permille = permille;
  options.cache_dir = cache;
  options.tune_budget_ms = 4000;
  kiln_engine *made = nullptr;
  REQUIRE(kiln_engine_create(&options, &made) == KILN_SUCCESS);
  return made;
}

/// Memory that serves products of all layers. Its content does not matter.
struct Operands {
  explicit Operands(const Gpu &gpu) {
    for (const Layer &layer : kLayers) {
      most(a, gpu, kMostRows * layer.k);
      most(b, gpu, layer.n * layer.k);
      most(d, gpu, kMostRows * layer.n);
    }
    require(fillAsync(*gpu.driver, a.address(), 0, a.bytes(), gpu.handle()));
    require(fillAsync(*gpu.driver, b.address(), 0, b.bytes(), gpu.handle()));
    require(gpu.stream->synchronize());
  }
  kiln_gemm_args product(const Layer &layer, int64_t m) const {
    kiln_gemm_args args = kiln_gemm_args_init();
    args.layout = KILN_LAYOUT_NT;
    args.m = m;
    args.n = layer.n;
    args.k = layer.k;
    args.a.type = KILN_BF16;
    args.a.data = reinterpret_cast<void *>(a.address());
    args.b.data = reinterpret_cast<void *>(b.address());
    args.d.data = reinterpret_cast<void *>(d.address());
    return args;
  }

private:
  static void most(DeviceMemory &memory, const Gpu &gpu, int64_t elements) {
    const auto bytes = static_cast<uint64_t>(elements) * 2;
    if (memory.bytes() < bytes)
      memory = require(DeviceMemory::allocate(*gpu.driver, bytes));
  }
  DeviceMemory a, b, d;
};

/// Host times of calls, of random layers and sizes, for a part of a run.
struct Times {
  std::vector<double> us;
  void print(const char *what) {
    if (us.empty())
      return;
    std::sort(us.begin(), us.end());
    auto at = [&](double share) {
      return us[static_cast<size_t>(share * double(us.size() - 1))];
    };
    std::printf("%-44s %6zu calls: median %7.1f us, p99 %7.1f us, max %8.1f "
                "us\n",
                what, us.size(), at(0.5), at(0.99), us.back());
  }
  double most() const { return *std::max_element(us.begin(), us.end()); }
};

/// Calls random products, and waits for the device after every \p perWait.
class RandomCalls {
public:
  RandomCalls(const Gpu &gpu, const Operands &operands, kiln_engine *engine,
              unsigned seed)
      : gpu(gpu), operands(operands), engine(engine), random(seed) {}

  /// Log-uniform sizes.
  kiln_gemm_args next() {
    const double log = std::uniform_real_distribution<double>(
        0, std::log2(double(kMostRows)))(random);
    return operands.product(kLayers[random() % std::size(kLayers)],
                            static_cast<int64_t>(std::exp2(log)));
  }
  void call(Times &times, int perWait) {
    const kiln_gemm_args args = next();
    const Clock::time_point start = Clock::now();
    const kiln_status status = kiln_gemm(engine, &args, nullptr, gpu.handle());
    times.us.push_back(usSince(start));
    CAPTURE(gpuError());
    REQUIRE(status == KILN_SUCCESS);
    if (++calls % perWait == 0)
      require(gpu.stream->synchronize());
  }

private:
  const Gpu &gpu;
  const Operands &operands;
  kiln_engine *engine;
  std::mt19937 random;
  int calls = 0;
};

/// The calls that the engine entered into its ledger of waits.
void printWaits(kiln_engine *engine) {
  uint64_t position = 0;
  std::vector<kiln_wait> waits(64);
  waits[0].struct_size = sizeof(kiln_wait);
  size_t count = 0;
  REQUIRE(kiln_waits(engine, &position, waits.data(), waits.size(), &count) ==
          KILN_SUCCESS);
  for (size_t i = 0; i < count; ++i)
    std::printf("  %s waited %.1f ms, %.1f in %s (%s): %s\n", waits[i].call,
                double(waits[i].elapsed_ns) * 1e-6,
                double(waits[i].phase_ns) * 1e-6, waits[i].phase,
                waits[i].reason, waits[i].problem);
}

/// GPU time of one of \p count launches in a row, in ns.
double timeOf(const Gpu &gpu, kiln_engine *engine, const kiln_gemm_args &args,
              int count) {
  Event start = require(Event::create(*gpu.driver));
  Event stop = require(Event::create(*gpu.driver));
  require(start.record(gpu.handle()));
  for (int i = 0; i < count; ++i)
    REQUIRE(kiln_gemm(engine, &args, nullptr, gpu.handle()) == KILN_SUCCESS);
  require(stop.record(gpu.handle()));
  require(gpu.stream->synchronize());
  return require(elapsedNs(*gpu.driver, start, stop)) / count;
}

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("background: no call of a stream of random ones waits") {
    Gpu gpu(KILN_MODE_STRICT);
    const Operands operands(gpu);
    const std::string cache = gpu.folder / "background";
    kiln_engine *engine = makeEngine(KILN_MODE_BACKGROUND, 0, cache.c_str());
    RandomCalls stream(gpu, operands, engine, 1);
    Times first, calls, later;
    stream.call(first, 1);
    for (int i = 1; i < 2000; ++i)
      stream.call(calls, 4);
    kiln_statistics then = statisticsOf(engine);
    first.print("first kernel of the signature");
    calls.print("2,000 random calls over 8 layers");
    printWaits(engine);
    std::printf("  %llu pending, %llu swaps\n",
                (unsigned long long)then.background_pending,
                (unsigned long long)then.background_swaps);
    // The calls go on while kernels are compiled, loaded and measured.
    const Clock::time_point start = Clock::now();
    while (usSince(start) < 20e6)
      stream.call(later, 4);
    later.print("the next 20 s");
    kiln_statistics now = statisticsOf(engine);
    const double share =
        double(now.background_gpu_ns - then.background_gpu_ns) /
        (usSince(start) * 1e3);
    std::printf("  %llu pending, %llu done, %llu swaps, %llu trials, GPU "
                "share of trials %.2f %%\n",
                (unsigned long long)now.background_pending,
                (unsigned long long)now.background_done,
                (unsigned long long)now.background_swaps,
                (unsigned long long)now.trials, share * 100);
    CHECK(calls.most() < 2000);
    CHECK(share < 0.06);

    // The work of the foreground, with and without the background.
    double done[2] = {}, spent[2] = {};
    then = statisticsOf(engine);
    for (int part = 0; part < 12; ++part) {
      const int isPaused = part % 2;
      if (isPaused) {
        REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
        REQUIRE(kiln_background_wait(engine, 10000) == KILN_SUCCESS);
      }
      Times ignored;
      RandomCalls same(gpu, operands, engine, 7);
      require(gpu.stream->synchronize());
      const Clock::time_point begin = Clock::now();
      while (usSince(begin) < 0.7e6) {
        for (int i = 0; i < 64; ++i)
          same.call(ignored, 64);
        done[isPaused] += 64;
      }
      spent[isPaused] += usSince(begin);
      if (isPaused)
        REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
    }
    const double loss = 1 - done[0] / spent[0] / (done[1] / spent[1]);
    now = statisticsOf(engine);
    std::printf("the foreground loses %.2f %% of its calls to the background, "
                "GPU share of trials %.2f %%, %llu trials (%llu pending)\n",
                loss * 100,
                double(now.background_gpu_ns - then.background_gpu_ns) * 0.1 /
                    spent[0],
                (unsigned long long)now.trials,
                (unsigned long long)now.background_pending);
    kiln_engine_destroy(engine);
  }

  TEST_CASE("background: 10,000 launches while it swaps, none wrong, and "
            "captures survive") {
    Gpu gpu(KILN_MODE_STRICT);
    const std::string cache = gpu.folder / "background";
    kiln_engine *engine = makeEngine(KILN_MODE_BACKGROUND, 1000, cache.c_str());
    // Integers, whose sums are exact in any order.
    constexpr int64_t kM = 96, kN = 512, kK = 512;
    constexpr size_t kLayerCount = 3;
    std::vector<uint16_t> values(static_cast<size_t>(kN * kK));
    std::mt19937 random(3);
    for (uint16_t &value : values) {
      const float number = float(int(random() % 5) - 2);
      uint32_t bits = 0;
      std::memcpy(&bits, &number, sizeof(bits));
      value = static_cast<uint16_t>(bits >> 16);
    }
    auto a = require(DeviceMemory::allocate(*gpu.driver, values.size() * 2));
    auto d = require(DeviceMemory::allocate(*gpu.driver, kM * kN * 2));
    require(copyToDevice(*gpu.driver, a.address(), values.data(), a.bytes()));
    auto product = [&](size_t layer, int64_t m, DeviceAddress to) {
      kiln_gemm_args args = kiln_gemm_args_init();
      args.layout = KILN_LAYOUT_NT;
      args.m = m;
      args.n = kN - 128 * int64_t(layer);
      args.k = kK;
      args.a.type = KILN_BF16;
      args.a.data = args.b.data = reinterpret_cast<void *>(a.address());
      args.d.data = reinterpret_cast<void *>(to);
      return args;
    };
    std::atomic<bool> ends{false};
    std::atomic<int> captures{0}, refused{0}, failed{0};
    std::thread capturer([&] {
      auto scope = ScopedContext::push(*gpu.driver, gpu.primary->handle());
      auto own = Stream::create(*gpu.driver);
      auto to = DeviceMemory::allocate(*gpu.driver, kM * kN * 2);
      if (!scope || !own || !to)
        return;
      for (int i = 0; !ends; ++i) {
        bool good = !Graph::beginCapture(*gpu.driver, own->handle());
        for (int j = 0; j < 4; ++j) {
          const kiln_gemm_args args =
              product(static_cast<size_t>(j) % kLayerCount, 1 + (i + j) % kM,
                      to->address());
          const kiln_status status =
              kiln_gemm(engine, &args, nullptr, own->handle());
          refused += status == KILN_NOT_PREPARED;
          good &= status == KILN_SUCCESS || status == KILN_NOT_PREPARED;
        }
        auto graph = Graph::endCapture(*gpu.driver, own->handle());
        good &= static_cast<bool>(graph);
        if (graph)
          good &= !graph->launch(own->handle());
        else
          llvm::consumeError(graph.takeError());
        good &= !own->synchronize();
        failed += !good;
        ++captures;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    std::vector<std::vector<uint16_t>> expected(kLayerCount);
    int launches = 0, wrong = 0, errors = 0;
    const Clock::time_point start = Clock::now();
    std::vector<uint16_t> result(static_cast<size_t>(kM * kN));
    // The loop goes on until it is quiet, so that all swaps are seen.
    while (launches < 10000 ||
           (kiln_background_wait(engine, 0) == KILN_IN_PROGRESS &&
            usSince(start) < 40e6)) {
      const size_t layer = random() % kLayerCount;
      const int64_t n = kN - 128 * int64_t(layer);
      // All are compared with the largest, because rows do not depend on m.
      const int64_t m = expected[layer].empty()
                            ? kM
                            : 1 + static_cast<int64_t>(random() % kM);
      require(fillAsync(*gpu.driver, d.address(), 0xff,
                        static_cast<uint64_t>(m * n) * 2, gpu.handle()));
      const kiln_gemm_args args = product(layer, m, d.address());
      errors += kiln_gemm(engine, &args, nullptr, gpu.handle()) != KILN_SUCCESS;
      require(copyToHostAsync(*gpu.driver, result.data(), d.address(),
                              static_cast<uint64_t>(m * n) * 2, gpu.handle()));
      require(gpu.stream->synchronize());
      if (expected[layer].empty())
        expected[layer] = result;
      wrong += std::memcmp(result.data(), expected[layer].data(),
                           static_cast<size_t>(m * n) * 2) != 0;
      ++launches;
    }
    ends = true;
    capturer.join();
    const kiln_statistics now = statisticsOf(engine);
    std::printf("%d launches in %.1f s while it swapped %llu times: %d wrong, "
                "%d errors; %d captures beside it, %d launches not prepared, "
                "%d failed; %llu pending\n",
                launches, usSince(start) * 1e-6,
                (unsigned long long)now.background_swaps, wrong, errors,
                captures.load(), refused.load(), failed.load(),
                (unsigned long long)now.background_pending);
    CHECK(wrong == 0);
    CHECK(errors == 0);
    CHECK(failed == 0);
    CHECK(captures > 0);
    CHECK(now.background_swaps > 0);
    kiln_engine_destroy(engine);
  }

  TEST_CASE("background: after quiet as fast as tuned") {
    Gpu gpu(KILN_MODE_STRICT);
    const Operands operands(gpu);
    const std::string cache = gpu.folder / "background",
                      other = gpu.folder / "tune";
    kiln_engine *background =
        makeEngine(KILN_MODE_BACKGROUND, 1000, cache.c_str());
    kiln_engine *tuned = makeEngine(KILN_MODE_TUNE, 0, other.c_str());
    // Each takes some 4 s until quiet, and as long to be tuned.
    constexpr size_t kLayerCount = 2;
    const Clock::time_point start = Clock::now();
    for (size_t i = 0; i < kLayerCount; ++i) {
      const kiln_gemm_args args = operands.product(kLayers[i], 128);
      REQUIRE(kiln_gemm(background, &args, nullptr, gpu.handle()) ==
              KILN_SUCCESS);
    }
    const kiln_status quiet = kiln_background_wait(background, 60000);
    const kiln_statistics then = statisticsOf(background);
    std::printf("quiet after %.1f s, of which trials took %.1f s of the GPU; "
                "%llu trials, %llu pending\n",
                usSince(start) * 1e-6, double(then.background_gpu_ns) * 1e-9,
                (unsigned long long)then.trials,
                (unsigned long long)then.background_pending);
    CHECK(quiet == KILN_SUCCESS);
    for (size_t i = 0; i < kLayerCount; ++i) {
      const kiln_gemm_args args = operands.product(kLayers[i], 128);
      REQUIRE(kiln_gemm(tuned, &args, nullptr, gpu.handle()) == KILN_SUCCESS);
    }
    std::mt19937 random(11);
    double sum = 0, least = 1e9;
    int count = 0;
    for (size_t i = 0; i < kLayerCount; ++i)
      for (int j = 0; j < 12; ++j) {
        const double log = std::uniform_real_distribution<double>(
            0, std::log2(double(kMostRows)))(random);
        const kiln_gemm_args args =
            operands.product(kLayers[i], static_cast<int64_t>(std::exp2(log)));
        std::vector<double> ratios;
        for (int round = 0; round < 7; ++round) {
          const double ours = timeOf(gpu, background, args, 8);
          const double theirs = timeOf(gpu, tuned, args, 8);
          if (round > 0)
            ratios.push_back(theirs / ours);
        }
        std::sort(ratios.begin(), ratios.end());
        const double ratio = ratios[ratios.size() / 2];
        sum += std::log(ratio);
        least = std::min(least, ratio);
        ++count;
      }
    const double mean = std::exp(sum / count);
    std::printf("speed after quiet over that of the mode tune, %d random "
                "sizes: %.4f, least %.3f\n",
                count, mean, least);
    CHECK(mean > 0.98);
    kiln_engine_destroy(background);
    kiln_engine_destroy(tuned);
  }

} // TEST_SUITE
