// Host time of a launch that meets a value for the first time in a prepared
// range: the choice among its kernels, by measurements. The bounds are far
// above the goals, because machines that run tests are busy.
#include "Runtime/AttentionArgs.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <set>
#include <tuple>
#include <utility>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// An engine whose trials take little of this machine's time.
struct SightFixture : RuntimeFixture {
  SightFixture() {
    judgeTrials();
    kilnFakeSetHollowMemory(1 << 20);
  }
  kiln_engine *tuner() {
    kiln_engine_options made = options(KILN_MODE_TUNE);
    made.device_model = "h200-sxm";
    return engine(made);
  }
};

/// Log-uniform in [1, \p last].
int64_t drawn(std::mt19937_64 &random, int64_t last) {
  std::uniform_real_distribution<double> octaves(
      0, std::log2(static_cast<double>(last)));
  return std::clamp<int64_t>(std::llround(std::exp2(octaves(random))), 1, last);
}

/// Attention with heads of 128, as large as a range may need.
kiln_attention_args attentionOf(int64_t batch, int64_t queries, int64_t keys,
                                int64_t heads, int64_t kvHeads) {
  kiln_attention_args args = attentionArgs();
  args.batch = batch;
  args.queries = queries;
  args.keys = keys;
  args.heads = heads;
  args.kv_heads = kvHeads;
  args.head_dim = 128;
  return args;
}

void prepare(kiln_engine *engine, kiln_problem problem,
             std::vector<kiln_range> ranges) {
  problem.ranges = ranges.data();
  problem.range_count = static_cast<uint32_t>(ranges.size());
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.budget_ms = 600000;
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
}

/// Prints how long launches take, each with a value that no launch had before:
/// \p draw gives a value, and \p launch launches it.
template <class Draw, class Launch>
void measureSights(const char *name, const Draw &draw, const Launch &launch) {
  constexpr size_t kValues = 500;
  std::set<decltype(draw())> seen;
  std::vector<double> us;
  while (us.size() < kValues) {
    const auto value = draw();
    if (!seen.insert(value).second)
      continue;
    const auto start = std::chrono::steady_clock::now();
    const kiln_status status = launch(value);
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    REQUIRE(status == KILN_SUCCESS);
    us.push_back(elapsed.count());
  }
  llvm::sort(us);
  const double median = us[us.size() / 2];
  std::printf("first sights in a prepared range, %s: median %.0f us, 99 of 100 "
              "below %.0f us, at most %.0f us\n",
              name, median, us[us.size() * 99 / 100], us.back());
  CHECK(median < 1000);
}

} // namespace

TEST_CASE_FIXTURE(SightFixture, "first sights of a product") {
  kiln_engine *engine = tuner();
  kiln_gemm_args args = gemmArgs(8192, 4096, 4096);
  prepare(engine, problemOf(args), {rangeOf("m", 1, 8192)});
  std::mt19937_64 random(5);
  measureSights(
      "gemm 4096 x 4096", [&] { return drawn(random, 8192); },
      [&](int64_t m) {
        args.m = m;
        return kiln_gemm(engine, &args, nullptr, gpu.stream());
      });
}

TEST_CASE_FIXTURE(SightFixture, "first sights of decoding") {
  kiln_engine *engine = tuner();
  kiln_attention_args args = attentionOf(64, 1, 8192, 32, 8);
  prepare(engine, problemOf(args),
          {rangeOf("batch", 1, 64), rangeOf("sk", 1, 8192)});
  std::mt19937_64 random(6);
  measureSights(
      "decoding",
      [&] {
        const int64_t batch = drawn(random, 64);
        return std::pair(batch, drawn(random, 8192));
      },
      [&](std::pair<int64_t, int64_t> value) {
        std::tie(args.batch, args.keys) = value;
        return launch(engine, args, gpu.stream());
      });
}

TEST_CASE_FIXTURE(SightFixture, "first sights of attention") {
  kiln_engine *engine = tuner();
  kiln_attention_args args = attentionOf(32, 512, 4096, 8, 2);
  args.mask = KILN_ATTENTION_MASK_CAUSAL;
  prepare(
      engine, problemOf(args),
      {rangeOf("batch", 1, 32), rangeOf("sq", 1, 512), rangeOf("sk", 1, 4096)});
  std::mt19937_64 random(7);
  measureSights(
      "attention of three extents",
      [&] {
        const int64_t batch = drawn(random, 32);
        const int64_t queries = random() % 2 ? drawn(random, 512) : 1;
        return std::tuple(batch, queries, drawn(random, 4096));
      },
      [&](std::tuple<int64_t, int64_t, int64_t> value) {
        std::tie(args.batch, args.queries, args.keys) = value;
        return launch(engine, args, gpu.stream());
      });
}
