// First launches of further values of a layer: shared plans, and their cost.
#include "Call/CanonicalProblem.h"
#include "Choice/PlanRequest.h"
#include "Device/Catalog.h"
#include "Driver/Graph.h"
#include "Families/Families.h"
#include "Kernel/Space.h"
#include "Runtime/RuntimeFixture.h"
#include "Store/LoadedPlan.h"

#include <malloc.h>

#include <bit>
#include <chrono>
#include <map>
#include <string>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Launches every value of m from \p first to \p last.
kiln_status launchAll(kiln_engine *engine, kiln_gemm_args args, int64_t first,
                      int64_t last) {
  kiln_status status = KILN_SUCCESS;
  for (args.m = first; args.m <= last && status == KILN_SUCCESS; ++args.m)
    status = kiln_gemm(engine, &args, nullptr, nullptr);
  return status;
}

Problem makeGemm(const KernelFamily &gemm, const std::string &text) {
  return llvm::cantFail(
      makeProblem(gemm, llvm::cantFail(gemm.parseProblem(text)).values));
}

} // namespace

TEST_CASE("S7: values of a layer share plans, in every mode") {
  RuntimeFixture fixture;
  judgeTrials();
  kiln_gemm_args args = gemmArgs(2048, 256, 512);
  for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_TUNE, KILN_MODE_PREDICT,
                         KILN_MODE_STRICT}) {
    CAPTURE(mode);
    kiln_engine *engine = fixture.engine(mode);
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
    REQUIRE(launchAll(engine, args, 1100, 1150) == KILN_SUCCESS);
    kiln_statistics before = statisticsOf(engine);
    size_t bytes = mallinfo2().uordblks;
    REQUIRE(launchAll(engine, args, 1151, 1350) == KILN_SUCCESS);
    bytes = mallinfo2().uordblks - bytes;
    kiln_statistics after = statisticsOf(engine);
    CHECK(after.trials == before.trials);
    CHECK(after.compiles <= before.compiles + 4);
    CHECK(after.plans <= before.plans + 12);
    // The bytes besides plans, of which some may be new, without sanitizers.
    // (The table's test counts the bytes of a value.)
    CHECK(bytes < 200 * 512 + 40000 * (after.plans - before.plans + 1));
    fixture.destroy(engine);
  }
}

TEST_CASE("S7: a plan of a larger value launches each one as it is") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs(32);
  makePlain(args);
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  uint64_t plans = statisticsOf(engine).plans;
  for (args.m = 31; args.m > 16; --args.m) {
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
    CHECK(launches.last().m == args.m);
    kiln_query_result told = queryOf(engine, problemOf(args));
    CHECK(told.state == KILN_STATE_READY);
    CHECK(told.predicted_us > 0);
  }
  CHECK(statisticsOf(engine).plans <= plans + 2);
}

TEST_CASE("S7: query tells before what a launch needs") {
  RuntimeFixture fixture;
  judgeTrials();
  kilnFakeSetHollowMemory(1 << 20);
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  kiln_gemm_args args = gemmArgs(32, 256, 16384);
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  for (args.m = 17; args.m < 32; args.m += 3) {
    kiln_query_result before = queryOf(engine, problemOf(args));
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
    kiln_query_result after = queryOf(engine, problemOf(args));
    CHECK(before.state == KILN_STATE_MISSING);
    CHECK(before.source == KILN_SOURCE_RECORD);
    CHECK(after.source == KILN_SOURCE_RECORD);
    CHECK(before.workspace.bytes == after.workspace.bytes);
    CHECK(before.predicted_us == after.predicted_us);
  }
}

TEST_CASE("S7: what needs too much for the cover is not for each value") {
  kiln_gemm_args args = gemmArgs(257, 64, 65536);
  uint64_t bytes = 0;
  {
    RuntimeFixture fixture;
    kiln_engine *engine = fixture.engine();
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
    bytes = queryOf(engine, problemOf(args)).workspace.bytes;
  }
  REQUIRE(bytes > 0);
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.workspace_limit_bytes = bytes - 1;
  kiln_engine *engine = fixture.engine(options);
  // Each value alone would fit, with a plan and an arena of its own.
  REQUIRE(launchAll(engine, args, 257, 290) == KILN_SUCCESS);
  CHECK(queryOf(engine, problemOf(args)).workspace.bytes < bytes);
  CHECK(statisticsOf(engine).plans <= 4);
}

TEST_CASE("S7: a capture may use what other values have loaded") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  kiln_gemm_args args = gemmArgs(128);
  REQUIRE(kiln_gemm(engine, &args, nullptr, stream) == KILN_SUCCESS);
  uint64_t modules = kilnFakeModulesLoaded();
  auto captured = [&] {
    bool failed =
        llvm::errorToBool(Graph::beginCapture(fixture.gpu.driver(), stream));
    REQUIRE_FALSE(failed);
    kiln_status status = kiln_gemm(engine, &args, nullptr, stream);
    auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
    REQUIRE(static_cast<bool>(graph));
    return status;
  };
  args.m = 127;
  CHECK(captured() == KILN_SUCCESS);
  args.m = 513; // another cover
  CHECK(captured() == KILN_NOT_PREPARED);
  CHECK(kilnFakeModulesLoaded() == modules);
}

TEST_CASE("S7: a capture takes nothing instead of what a record chooses") {
  RuntimeFixture fixture;
  judgeTrials();
  // The kernel that the estimator chooses is made the slowest of all.
  static std::string chosen, last;
  chosen.clear();
  kilnFakeOnLaunch(
      "kiln_*",
      [](KilnFakeLaunch *launch, void *) {
        last = launch->moduleText;
        launch->durationNs = last == chosen ? 1e6 : 5000;
      },
      nullptr, 0);
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  kiln_gemm_args args = gemmArgs(120);
  REQUIRE(kiln_gemm(engine, &args, nullptr, stream) == KILN_SUCCESS);
  chosen = last;
  args.m = 127;
  kiln_engine *tuner = fixture.engine(KILN_MODE_TUNE);
  REQUIRE(tuneValue(tuner, args) == KILN_SUCCESS);
  REQUIRE(kiln_gemm(tuner, &args, nullptr, nullptr) == KILN_SUCCESS);
  REQUIRE(last != chosen);
  // Portfolios of another engine are seen within a second.
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (queryOf(engine, problemOf(args)).source != KILN_SOURCE_RECORD) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  bool failed =
      llvm::errorToBool(Graph::beginCapture(fixture.gpu.driver(), stream));
  REQUIRE_FALSE(failed);
  CHECK(kiln_gemm(engine, &args, nullptr, stream) == KILN_NOT_PREPARED);
  auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
  REQUIRE(static_cast<bool>(graph));
  CHECK(kiln_gemm(engine, &args, nullptr, stream) == KILN_SUCCESS);
  CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
}

TEST_CASE("S7: a cover is the largest value up to a power of two, if alike") {
  Registry registry = makeBuiltinRegistry();
  const KernelFamily &gemm = *registry.find("gemm");
  const int dynamic = gemm.dynamicExtents().front();
  for (const char *layout : {"NN", "NT", "TN", "TT"})
    for (const char *lda : {"", " lda=2000"})
      for (int64_t m = 1; m <= 2000; m += m < 40 ? 1 : m < 600 ? 7 : 23) {
        std::string text = fmt::format("m={} n=64 k=512 dtype=bf16 layout={}{}",
                                       m, layout, lda);
        CAPTURE(text);
        Problem problem = makeGemm(gemm, text);
        Problem cover = coverOf(gemm, problem);
        CHECK(cover.signature == problem.signature);
        int64_t largest = cover.values[dynamic];
        CHECK(largest >= m);
        CHECK(largest <= int64_t(std::bit_ceil(uint64_t(m))));
        Values moved = cover.values;
        moved.set(dynamic, m);
        CHECK(moved == problem.values);
        // One cover for all values up to it with one signature.
        CHECK(coverOf(gemm, cover).values == cover.values);
      }
  Problem odd = makeGemm(gemm, "m=1001 n=64 k=512 dtype=bf16 layout=TN");
  CHECK(coverOf(gemm, odd).values[dynamic] == 1023);
  // Beyond the largest value that there is.
  Problem huge = makeGemm(gemm, "m=2147483000 n=1 k=1 dtype=bf16 layout=NT");
  CHECK(coverOf(gemm, huge).values[dynamic] >= 2147483000);
}

TEST_CASE("S7: values below a leading dimension share a cover") {
  Registry registry = makeBuiltinRegistry();
  struct Case {
    const char *text;
    const char *extent;
    int64_t most;
  };
  for (auto [text, extent, most] :
       {Case{"gemm n=64 k=512 dtype=bf16 layout=TN lda=5000", "m", 5000},
        Case{"gemm n=64 k=512 dtype=bf16 layout=TT lda=4099 batch=3", "m",
             4099},
        Case{"transpose2d cols=256 dtype=bf16 ldy=5001", "rows", 5001}}) {
    // By signature: the value whose cover is known.
    std::map<std::string, int64_t> covers;
    for (int64_t value = most - 1; value > 4096; value -= value % 29 + 1) {
      std::string full = fmt::format("{} {}={}", text, extent, value);
      CAPTURE(full);
      auto named = llvm::cantFail(registry.parseProblem(full));
      const KernelFamily &family = *named.family;
      Problem problem =
          llvm::cantFail(makeProblem(family, std::move(named.problem.values)));
      Problem cover = coverOf(family, problem);
      int64_t largest = cover.values[family.dynamicExtents().front()];
      CHECK(cover.signature == problem.signature);
      int64_t known =
          covers.try_emplace(problem.signature.text(), largest).first->second;
      CHECK(largest == known);
      CHECK(largest >= most - 17);
    }
    CHECK(covers.size() <= 16);
  }
}

TEST_CASE("S7: a config's kernels follow from signature and config") {
  Registry registry = makeBuiltinRegistry();
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  for (auto [text, other] :
       std::initializer_list<std::pair<const char *, const char *>>{
           {"gemm m=1100 n=4096 k=4096 dtype=bf16 layout=NT",
            "gemm m=17 n=512 k=1024 dtype=bf16 layout=NT"},
           {"gemm m=70 n=256 k=512 dtype=fp32",
            "gemm m=4096 n=1024 k=65536 dtype=fp32"},
           {"rmsnorm rows=17 cols=4096 dtype=bf16",
            "rmsnorm rows=3000 cols=8192 dtype=bf16"},
           {"softmax rows=33 cols=50000 dtype=fp32",
            "softmax rows=5000 cols=1024 dtype=fp32"},
           {"reduce rows=3 cols=100000 dtype=fp32 op=sum",
            "reduce rows=70000 cols=64 dtype=fp32 op=sum"},
           {"elementwise op=relu rows=65 cols=4096 dtype=bf16",
            "elementwise op=relu rows=1 cols=64 dtype=bf16"},
           {"transpose2d rows=128 cols=4096 dtype=bf16",
            "transpose2d rows=64 cols=64 dtype=bf16"}}) {
    CAPTURE(text);
    auto named = llvm::cantFail(registry.parseProblem(text));
    auto second = llvm::cantFail(registry.parseProblem(other));
    REQUIRE(named.problem.signature == second.problem.signature);
    auto space =
        llvm::cantFail(exploreSpace(*named.family, named.problem, device));
    size_t step = std::max<size_t>(space.ranked.size() / 30, 1);
    int compared = 0;
    for (size_t i = 0; i < space.ranked.size(); i += step) {
      const auto &[tmpl, config] =
          std::tie(space.ranked[i].tmpl, space.ranked[i].config);
      if (tmpl->prune(second.problem, config, device))
        continue;
      ++compared;
      CHECK(kernelDigest(tmpl->plan(named.problem, config, device)) ==
            kernelDigest(tmpl->plan(second.problem, config, device)));
    }
    CHECK(compared > 0);
  }
}

TEST_CASE("S7: a config's kernels are the same for all values of a cover") {
  Registry registry = makeBuiltinRegistry();
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  for (const char *text : {"gemm m=1100 n=4096 k=4096 dtype=bf16 layout=NT",
                           "gemm m=1025 n=100 k=333 dtype=bf16 layout=TN",
                           "gemm m=5 n=4096 k=4096 dtype=bf16 layout=NT",
                           "gemm m=17 n=256 k=65536 dtype=fp16 layout=NN",
                           "gemm m=70 n=256 k=512 dtype=fp32",
                           "rmsnorm rows=17 cols=4096 dtype=bf16",
                           "softmax rows=33 cols=50000 dtype=fp32",
                           "reduce rows=3 cols=100000 dtype=fp32 op=sum",
                           "rowquant rows=100 cols=4096 dtype=bf16",
                           "elementwise op=relu rows=65 cols=4096 dtype=bf16",
                           "transpose2d rows=129 cols=4096 dtype=bf16"}) {
    CAPTURE(text);
    auto named = llvm::cantFail(registry.parseProblem(text));
    Problem cover = coverOf(*named.family, named.problem);
    auto space =
        llvm::cantFail(exploreSpace(*named.family, named.problem, device));
    REQUIRE_FALSE(space.ranked.empty());
    size_t step = std::max<size_t>(space.ranked.size() / 20, 1);
    for (size_t i = 0; i < space.ranked.size(); i += step) {
      const Candidate &candidate = space.ranked[i];
      if (candidate.tmpl->prune(cover, candidate.config, device))
        continue;
      CHECK(
          kernelDigest(
              candidate.tmpl->plan(named.problem, candidate.config, device)) ==
          kernelDigest(candidate.tmpl->plan(cover, candidate.config, device)));
    }
  }
}
