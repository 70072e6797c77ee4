// Prepared ranges on a GPU: kernels that were tuned at few values are right at
// all values.
#include "Call/RangeParts.h"
#include "Families/Families.h"
#include "Runtime/GpuFixture.h"
#include "Store/DeviceAssembly.h"
#include "Trial/InProcessTrials.h"
#include "Trial/TrialTools.h"
#include "Tune/Portfolio.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// The cache of \p gpu's engines, and the tools to launch their kernels alone.
struct Workbench {
  explicit Workbench(Gpu &gpu) : gpu(gpu) {
    const Environment environment = Environment::fromProcess();
    device = require(assembleDevice(gpu.driver.get(), environment, {})).model;
    cache::StoreOptions options;
    options.writeDir = gpu.cachePath;
    cache = cache::Store::open(options);
    ArtifactStoreOptions artifactOptions;
    artifactOptions.nvrtc = NvrtcSearch::fromEnvironment(
        environment, {KILN_SOURCE_DIR "/build/cuda"});
    artifacts = std::make_unique<ArtifactStore>(*cache, artifactOptions);
  }

  Gpu &gpu;
  Registry registry = makeBuiltinRegistry();
  DeviceModel device;
  std::unique_ptr<cache::Store> cache;
  std::unique_ptr<ArtifactStore> artifacts;
};

/// The members of \p portfolio that serve \p m, with the plans that launches of
/// any value use.
std::vector<TrialCandidate> candidatesAt(const Workbench &bench,
                                         const Portfolio &portfolio,
                                         const Problem &problem, int64_t m) {
  std::vector<TrialCandidate> candidates;
  for (const PortfolioMember &member : portfolio.members()) {
    if (!member.serves(m) ||
        member.tmpl->prune(problem, member.config, bench.device))
      continue;
    TrialCandidate &candidate = candidates.emplace_back();
    candidate.plan =
        member.tmpl->plan(require(portfolio.range().at(member.high)),
                          member.config, bench.device);
    for (const TranslationUnit &unit : candidate.plan.kernels)
      candidate.artifacts.push_back(require(bench.artifacts->get(unit)));
  }
  return candidates;
}

kiln_problem describe(const char *text, const kiln_range &range) {
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.text = text;
  problem.ranges = &range;
  problem.range_count = 1;
  return problem;
}

kiln_range rangeTo(const char *name, int64_t last) {
  kiln_range range = KILN_INIT(kiln_range);
  range.name = name;
  range.first = 1;
  range.last = last;
  return range;
}

/// Products D = A B of integers so small that every sum is exact: so all
/// kernels have to give the same bits. Row i of A repeats after kRows rows.
class ExactProducts {
public:
  static constexpr int64_t kN = 768, kK = 512, kMost = 2048, kRows = 127;
  static constexpr int64_t kMargin = 64; ///< rows behind D that must stay

  ExactProducts(Gpu &gpu, const TrialTools &tools) : gpu(gpu), tools(tools) {
    std::mt19937 random(11);
    std::vector<int> a(kRows * kK), b(kN * kK);
    for (std::vector<int> *matrix : {&a, &b})
      for (int &value : *matrix)
        value = static_cast<int>(random() % 5) - 2;
    std::vector<uint16_t> bits(kMost * kK);
    for (size_t i = 0; i < bits.size(); ++i)
      bits[i] = bf16Of(a[i % a.size()]);
    upload(bits, aMemory);
    bits.assign(b.size(), 0);
    std::transform(b.begin(), b.end(), bits.begin(), bf16Of);
    upload(bits, bMemory);
    std::vector<uint16_t> block(kRows * kN);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t column = 0; column < kN; ++column) {
        int sum = 0;
        for (int64_t i = 0; i < kK; ++i)
          sum += a[row * kK + i] * b[column * kK + i];
        block[row * kN + column] = bf16Of(sum);
      }
    std::vector<uint16_t> expected(kMost * kN);
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = block[i % block.size()];
    upload(expected, expectedMemory);
    dMemory = require(DeviceMemory::allocate(
        *gpu.driver, (kMost + kMargin) * kN * sizeof(uint16_t)));
    counter = require(DeviceMemory::allocate(*gpu.driver, 256));
    require(fillAsync(*gpu.driver, counter.address(), 0, 256, gpu.handle()));
    args.n = kN;
    args.k = kK;
    args.layout = KILN_LAYOUT_NT;
    args.a.type = KILN_BF16;
    args.a.data = at<void>(aMemory);
    args.b.data = at<void>(bMemory);
    args.d.data = at<void>(dMemory);
  }

  /// Enqueues one product of \p m rows and its check.
  kiln_status launch(int64_t m) {
    constexpr unsigned kPoison = 0xffffffff;
    const int64_t rowBytes = kN * sizeof(uint16_t);
    require(fillAsync(*gpu.driver, dMemory.address(), 0xff,
                      static_cast<uint64_t>((m + kMargin) * rowBytes),
                      gpu.handle()));
    args.m = m;
    kiln_status status = kiln_gemm(gpu.engine, &args, nullptr, gpu.handle());
    auto *differing = at<unsigned long long>(counter);
    require(tools.countDifferences(
        {at<void>(dMemory), at<void>(expectedMemory), m * rowBytes, differing},
        gpu.handle()));
    require(tools.checkRedZone({at<char>(dMemory) + m * rowBytes,
                                kMargin * rowBytes, kPoison, differing},
                               gpu.handle()));
    return status;
  }

  /// The number of wrong bytes in all products so far.
  uint64_t wrongBytes() {
    require(gpu.stream->synchronize());
    uint64_t wrong = 0;
    require(copyToHost(*gpu.driver, &wrong, counter.address(), sizeof(wrong)));
    return wrong;
  }

private:
  template <class T> static T *at(const DeviceMemory &memory) {
    return reinterpret_cast<T *>(memory.address());
  }
  /// Rounds to nearest even.
  static uint16_t bf16Of(int value) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
  void upload(const std::vector<uint16_t> &values, DeviceMemory &memory) {
    const uint64_t bytes = values.size() * sizeof(uint16_t);
    memory = require(DeviceMemory::allocate(*gpu.driver, bytes));
    require(copyToDevice(*gpu.driver, memory.address(), values.data(), bytes));
  }

  Gpu &gpu;
  const TrialTools &tools;
  DeviceMemory aMemory, bMemory, dMemory, expectedMemory, counter;
  kiln_gemm_args args = kiln_gemm_args_init();
};

kiln_statistics statisticsOf(const Gpu &gpu) {
  kiln_statistics statistics = KILN_INIT(kiln_statistics);
  REQUIRE(kiln_get_statistics(gpu.engine, &statistics) == KILN_SUCCESS);
  return statistics;
}

/// First calls of points of a range of three extents that \p mode prepared.
void checkFirstCalls(kiln_mode mode) {
  Gpu gpu(mode);
  auto memory = require(DeviceMemory::allocate(*gpu.driver, 512 << 20));
  constexpr uint64_t kOperand = 128 << 20;
  auto at = [&](uint64_t operand) {
    return reinterpret_cast<void *>(memory.address() + operand * kOperand);
  };
  kiln_attention_args args = kiln_attention_args_init();
  args.batch = 32;
  args.queries = 512;
  args.keys = 4096;
  args.heads = 8;
  args.kv_heads = 2;
  args.head_dim = 128;
  args.mask = KILN_ATTENTION_MASK_CAUSAL;
  args.q.type = KILN_BF16;
  args.q.data = at(0);
  args.k.data = at(1);
  args.v.data = at(2);
  args.o.data = at(3);
  const kiln_range ranges[] = {rangeTo("batch", args.batch),
                               rangeTo("sq", args.queries),
                               rangeTo("sk", args.keys)};
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.family = KILN_FAMILY_ATTENTION;
  problem.args = &args;
  problem.ranges = ranges;
  problem.range_count = 3;
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  kiln_stream stream = gpu.handle();
  options.streams = &stream;
  options.stream_count = 1;
  options.budget_ms = 20000;
  kiln_status status = kiln_prepare(gpu.engine, &problem, 1, &options, nullptr);
  CAPTURE(gpuError());
  REQUIRE(status == KILN_SUCCESS);
  const kiln_statistics before = statisticsOf(gpu);
  CHECK((before.trials > 0) == (mode == KILN_MODE_TUNE));
  std::mt19937 random(7);
  auto drawn = [&](double octaves) {
    return static_cast<int64_t>(
        std::exp2(std::uniform_real_distribution<double>(0, octaves)(random)));
  };
  std::vector<double> times;
  for (int i = 0; i < 400; ++i) {
    args.batch = drawn(5);
    args.queries = i % 2 ? drawn(9) : 1;
    args.keys = drawn(12);
    const auto start = std::chrono::steady_clock::now();
    status = kiln_attention(gpu.engine, &args, nullptr, stream);
    const std::chrono::duration<double, std::micro> took =
        std::chrono::steady_clock::now() - start;
    REQUIRE(status == KILN_SUCCESS);
    times.push_back(took.count());
    if (i % 16 == 0)
      require(gpu.stream->synchronize());
  }
  std::sort(times.begin(), times.end());
  std::printf("first calls in a range of three extents, prepared in mode %d: "
              "median %.1f us, 99 %% %.1f us, most %.1f us\n",
              int(mode), times[times.size() / 2],
              times[times.size() * 99 / 100], times.back());
  CHECK(times[times.size() * 99 / 100] <= 100);
  require(gpu.stream->synchronize());
  const kiln_statistics after = statisticsOf(gpu);
  // Compilations that ran when the budget ended have ended since.
  constexpr uint64_t kMostInProgress = 32;
  CHECK(after.compiles <= before.compiles + kMostInProgress);
  CHECK(after.trials == before.trials);
  CHECK(after.load_ns == before.load_ns);
  CHECK(after.fallback_launches == 0);
}

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("members of a portfolio are right at values of others") {
    Gpu gpu(KILN_MODE_TUNE);
    for (auto [text, name] :
         {std::pair("gemm m=4096 n=768 k=512 dtype=bf16 layout=NT", "m"),
          {"gemm m=4096 n=512 k=8192 dtype=bf16 layout=NT", "m"},
          {"gemm m=4096 n=1000 k=520 dtype=fp16 layout=NN pointwise=bias,relu",
           "m"},
          {"rmsnorm rows=4096 cols=4096 dtype=bf16", "rows"}}) {
      CAPTURE(text);
      const kiln_range given = rangeTo(name, 4096);
      const kiln_problem problem = describe(text, given);
      kiln_status status =
          kiln_prepare(gpu.engine, &problem, 1, nullptr, nullptr);
      CAPTURE(gpuError());
      REQUIRE(status == KILN_SUCCESS);
      Workbench bench(gpu);
      auto spec = require(ProblemSpec::parse(bench.registry, &problem));
      const ProblemRange range = require(partsOf(spec)).front().range;
      PortfolioStore portfolios(*bench.cache);
      RecordStore records(*bench.cache);
      auto stored = findPortfolio(
          {portfolios, records, bench.device, deviceClassKey(bench.device)},
          range);
      REQUIRE(stored.has_value());
      const Portfolio *found = &stored->portfolio;
      CHECK(found->measuredMembers() > 0);
      auto runner = require(
          InProcessTrials::create(*gpu.driver, bench.device, *bench.artifacts));
      size_t compared = 0;
      for (int64_t m : {1,   2,   3,   7,   15,  16,   17,   31,   63,
                        64,  65,  97,  127, 128, 129,  151,  191,  193,
                        255, 257, 509, 769, 997, 1021, 2039, 4093, 4096}) {
        CAPTURE(m);
        TrialRequest request;
        request.family = range.family;
        request.problem = require(range.at(m));
        request.candidates = candidatesAt(bench, *found, request.problem, m);
        request.options.validation = TrialValidation::All;
        request.options.measure = false;
        REQUIRE_FALSE(request.candidates.empty());
        for (const TrialResult &result : require(runner->run(request))) {
          CAPTURE(result.config);
          CAPTURE(result.message);
          CHECK(result.status == TrialStatus::Ok);
          CHECK(result.validated);
          ++compared;
        }
      }
      std::printf("%s: %zu members, %zu comparisons\n", text,
                  found->members().size(), compared);
    }
  }

  TEST_CASE("10,000 launches of random values of a range, none wrong") {
    Gpu gpu(KILN_MODE_TUNE);
    Workbench bench(gpu);
    const TrialTools tools =
        require(TrialTools::load(*gpu.driver, *bench.artifacts, bench.device));
    ExactProducts products(gpu, tools);
    const kiln_range range = rangeTo("m", ExactProducts::kMost);
    const kiln_problem problem =
        describe("gemm m=2048 n=768 k=512 dtype=bf16 layout=NT", range);
    kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
    kiln_stream stream = gpu.handle();
    options.streams = &stream;
    options.stream_count = 1;
    kiln_status status =
        kiln_prepare(gpu.engine, &problem, 1, &options, nullptr);
    CAPTURE(gpuError());
    REQUIRE(status == KILN_SUCCESS);
    kiln_statistics before = KILN_INIT(kiln_statistics);
    REQUIRE(kiln_get_statistics(gpu.engine, &before) == KILN_SUCCESS);
    std::mt19937 random(5);
    std::uniform_real_distribution<double> exponent(0, 11);
    size_t failed = 0;
    double longestUs = 0;
    for (int i = 0; i < 10000; ++i) {
      const auto m = static_cast<int64_t>(std::exp2(exponent(random)));
      const auto start = std::chrono::steady_clock::now();
      failed += products.launch(m) != KILN_SUCCESS;
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      longestUs = std::max(longestUs, took.count());
    }
    CHECK(failed == 0);
    CHECK(products.wrongBytes() == 0);
    kiln_statistics after = KILN_INIT(kiln_statistics);
    REQUIRE(kiln_get_statistics(gpu.engine, &after) == KILN_SUCCESS);
    CHECK(after.compiles == before.compiles);
    CHECK(after.trials == before.trials);
    CHECK(after.load_ns == before.load_ns);
    std::printf("%llu plans, longest launch with its checks %.1f us\n",
                static_cast<unsigned long long>(after.plans), longestUs);
  }

  TEST_CASE("a first call of a value of a prepared range is short") {
    Gpu gpu(KILN_MODE_PREDICT);
    auto memory = require(DeviceMemory::allocate(*gpu.driver, 512 << 20));
    kiln_gemm_args args = kiln_gemm_args_init();
    args.m = 8192;
    args.n = args.k = 4096;
    args.layout = KILN_LAYOUT_NT;
    args.a.type = KILN_BF16;
    args.a.data = reinterpret_cast<void *>(memory.address());
    args.b.data = reinterpret_cast<void *>(memory.address() + (128 << 20));
    args.d.data = reinterpret_cast<void *>(memory.address() + (256 << 20));
    const kiln_range range = rangeTo("m", 8192);
    kiln_problem problem = KILN_INIT(kiln_problem);
    problem.family = KILN_FAMILY_GEMM;
    problem.args = &args;
    problem.ranges = &range;
    problem.range_count = 1;
    kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
    kiln_stream stream = gpu.handle();
    options.streams = &stream;
    options.stream_count = 1;
    kiln_status status =
        kiln_prepare(gpu.engine, &problem, 1, &options, nullptr);
    CAPTURE(gpuError());
    REQUIRE(status == KILN_SUCCESS);
    std::mt19937 random(7);
    std::uniform_real_distribution<double> exponent(0, 13);
    std::vector<double> times;
    for (int i = 0; i < 400; ++i) {
      args.m = static_cast<int64_t>(std::exp2(exponent(random)));
      const auto start = std::chrono::steady_clock::now();
      status = kiln_gemm(gpu.engine, &args, nullptr, stream);
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      REQUIRE(status == KILN_SUCCESS);
      times.push_back(took.count());
      if (i % 16 == 0)
        require(gpu.stream->synchronize());
    }
    std::sort(times.begin(), times.end());
    std::printf("first calls in a prepared range: median %.1f us, 99 %% %.1f "
                "us, most %.1f us\n",
                times[times.size() / 2], times[times.size() * 99 / 100],
                times.back());
    CHECK(times[times.size() * 99 / 100] <= 100);
    require(gpu.stream->synchronize());
  }

  TEST_CASE("a first call of a point of three extents is short") {
    checkFirstCalls(KILN_MODE_PREDICT);
  }

  TEST_CASE("a first call of a point of three tuned extents is short") {
    checkFirstCalls(KILN_MODE_TUNE);
  }

} // TEST_SUITE
