// Prepared ranges: the plans that serve their values, and the cost.
#include "Runtime/Captures.h"
#include "Runtime/WaitingFixture.h"

#include "Runtime/KernelRoom.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// A layer with a range of m, and the structs that describe it.
struct RangedLayer {
  explicit RangedLayer(int64_t last = 100, int64_t first = 1, int64_t n = 256,
                       int64_t k = 512)
      : args(gemmArgs(last, n, k)) {
    range.name = "m";
    range.first = first;
    range.last = last;
    problem.family = KILN_FAMILY_GEMM;
    problem.args = &args;
    problem.ranges = &range;
    problem.range_count = 1;
  }
  RangedLayer(const RangedLayer &) = delete;
  RangedLayer &operator=(const RangedLayer &) = delete;

  kiln_status prepare(kiln_engine *engine, uint32_t flags = 0,
                      kiln_stream stream = nullptr) const {
    kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
    options.flags = flags;
    options.streams = &stream;
    options.stream_count = stream != nullptr;
    return kiln_prepare(engine, &problem, 1, &options, nullptr);
  }
  kiln_status launch(kiln_engine *engine, int64_t m,
                     kiln_stream stream = nullptr) const {
    kiln_gemm_args at = args;
    at.m = m;
    return kiln_gemm(engine, &at, nullptr, stream);
  }
  kiln_query_result query(kiln_engine *engine, int64_t m) const {
    kiln_gemm_args at = args;
    at.m = m;
    return queryOf(engine, problemOf(at));
  }

  kiln_gemm_args args;
  kiln_range range = KILN_INIT(kiln_range);
  kiln_problem problem = KILN_INIT(kiln_problem);
};

/// The config that launches \p layer at \p m.
std::string configAt(kiln_engine *engine, const RangedLayer &layer, int64_t m) {
  kiln_gemm_args at = layer.args;
  at.m = m;
  const kiln_problem problem = problemOf(at);
  kiln_plan *plan = nullptr;
  REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) == KILN_SUCCESS);
  char text[512];
  REQUIRE(kiln_plan_describe(plan, text, sizeof text, nullptr) == KILN_SUCCESS);
  kiln_plan_release(plan);
  const std::string described = text;
  return described.substr(0, described.find(", by "));
}

struct RangeFixture : RuntimeFixture {
  RangeFixture() { judgeTrials(); }

  kiln_engine *strict() {
    kiln_engine_options made = options(KILN_MODE_STRICT);
    made.nvrtc_path = "/nowhere"; // it is not even looked for
    return engine(made);
  }
};

} // namespace

TEST_CASE("a new value of a prepared range costs what a hit costs") {
  for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_TUNE}) {
    CAPTURE(mode);
    RangeFixture fixture;
    kiln_engine *engine = fixture.engine(mode);
    RangedLayer layer;
    kiln_stream stream = fixture.gpu.stream();
    CAPTURE(lastError());
    REQUIRE(layer.prepare(engine, 0, stream) == KILN_SUCCESS);
    const kiln_statistics before = statisticsOf(engine);
    CHECK((before.trials > 0) == (mode == KILN_MODE_TUNE));
    const int compiles = fixture.nvrtc.compileCount();
    // The cache is gone, so it cannot be read.
    std::filesystem::remove_all(fixture.cachePath);
    auto callsOf = [&](int64_t m) {
      const uint64_t calls = kilnFakeTotalCalls();
      REQUIRE(layer.launch(engine, m, stream) == KILN_SUCCESS);
      return kilnFakeTotalCalls() - calls;
    };
    for (int64_t m = 1; m <= 100; m += 3) {
      CAPTURE(m);
      const uint64_t first = callsOf(m);
      CHECK(first == callsOf(m));
    }
    const kiln_statistics after = statisticsOf(engine);
    CHECK(after.trials == before.trials);
    CHECK(after.load_ns == before.load_ns);
    CHECK(after.cache_hits == before.cache_hits);
    CHECK(after.arena_bytes == before.arena_bytes);
    CHECK(after.fallback_launches == 0);
    CHECK(fixture.nvrtc.compileCount() == compiles);
  }
}

TEST_CASE("a capture takes a value of a prepared range that nobody launched") {
  RangeFixture fixture;
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  RangedLayer layer;
  kiln_stream stream = fixture.gpu.stream();
  REQUIRE(layer.prepare(engine, 0, stream) == KILN_SUCCESS);
  const uint64_t modules = kilnFakeModulesLoaded();
  REQUIRE(beginCapture(fixture, stream));
  for (int64_t m : {1, 17, 63, 64, 65, 99, 100})
    CHECK(layer.launch(engine, m, stream) == KILN_SUCCESS);
  CHECK(endCapture(fixture, stream) == 7);
  CHECK(kilnFakeModulesLoaded() == modules);
}

TEST_CASE("values without elements need nothing of a range") {
  RangeFixture fixture;
  kiln_engine *engine = fixture.engine();
  RangedLayer none(0, 0);
  CHECK(none.prepare(engine) == KILN_SUCCESS);
  CHECK(fixture.nvrtc.compileCount() == 0);
  RangedLayer layer(40, 0);
  REQUIRE(layer.prepare(engine) == KILN_SUCCESS);
  const uint64_t launches = statisticsOf(engine).launches;
  CHECK(layer.launch(engine, 0) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).launches == launches);
  CHECK(layer.launch(engine, 1) == KILN_SUCCESS);
}

TEST_CASE("strict serves a whole range from what another engine prepared") {
  for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_TUNE}) {
    CAPTURE(mode);
    RangeFixture fixture;
    RangedLayer layer;
    REQUIRE(layer.prepare(fixture.engine(mode)) == KILN_SUCCESS);
    const int compiles = fixture.nvrtc.compileCount();
    kiln_engine *prepared = fixture.strict(), *launched = fixture.strict();
    CHECK(queryOf(prepared, layer.problem).state == KILN_STATE_MISSING);
    CHECK(queryOf(prepared, layer.problem).source ==
          (mode == KILN_MODE_TUNE ? KILN_SOURCE_RECORD : KILN_SOURCE_DECISION));
    CAPTURE(lastError());
    REQUIRE(layer.prepare(prepared) == KILN_SUCCESS);
    CHECK(queryOf(prepared, layer.problem).state == KILN_STATE_READY);
    for (int64_t m = 1; m <= 100; ++m) {
      CAPTURE(m);
      REQUIRE(layer.launch(prepared, m) == KILN_SUCCESS);
      REQUIRE(layer.launch(launched, m) == KILN_SUCCESS);
    }
    CHECK(fixture.nvrtc.compileCount() == compiles);
  }
  RangeFixture fixture;
  CHECK(RangedLayer().prepare(fixture.strict()) == KILN_MISSING);
  CHECK(lastErrorHas("over m=1..100, of which no portfolio is in the cache"));
}

TEST_CASE("strict serves a range of which a kernel was refused") {
  RangeFixture fixture;
  RangedLayer layer;
  kiln_engine *asked = fixture.engine();
  REQUIRE(layer.prepare(asked) == KILN_SUCCESS);
  const std::string config = configAt(asked, layer, 100);
  std::filesystem::remove_all(fixture.cachePath);
  // Kernels are called after their configs.
  std::string name = config.substr(config.find(": ") + 2);
  std::replace(name.begin(), name.end(), '.', '_');
  fixture.nvrtc.spillWhen(name.c_str(), 24);
  kiln_engine *predicts = fixture.engine();
  REQUIRE(layer.prepare(predicts) == KILN_SUCCESS);
  CHECK(configAt(predicts, layer, 100) != config);
  CHECK(statisticsOf(predicts).compile_failures > 0);
  kiln_engine *strict = fixture.strict();
  CAPTURE(lastError());
  REQUIRE(layer.prepare(strict) == KILN_SUCCESS);
  for (int64_t m = 1; m <= 100; ++m)
    REQUIRE(layer.launch(strict, m) == KILN_SUCCESS);
}

TEST_CASE("a range may be compiled where there is no GPU") {
  RangeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.driver_path = "/nowhere/libcuda.so";
  options.device_model = "h200-sxm";
  RangedLayer layer;
  CAPTURE(lastError());
  REQUIRE(layer.prepare(fixture.engine(options), KILN_PREPARE_COMPILE_ONLY) ==
          KILN_SUCCESS);
  kiln_engine *strict = fixture.strict();
  for (int64_t m = 1; m <= 100; m += 9)
    CHECK(layer.launch(strict, m) == KILN_SUCCESS);
  CHECK(layer.query(strict, 50).source == KILN_SOURCE_DECISION);
  // The mode tune measures them all the same.
  kiln_engine *tuner = fixture.engine(KILN_MODE_TUNE);
  REQUIRE(layer.prepare(tuner) == KILN_SUCCESS);
  CHECK(statisticsOf(tuner).trials > 0);
  CHECK(layer.query(tuner, 50).source == KILN_SOURCE_RECORD);
}

TEST_CASE("fault 21: a range whose portfolio is not on disk at the end has "
          "failed") {
  RangeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.driver_path = "/nowhere/libcuda.so";
  options.device_model = "h200-sxm";
  RangedLayer layer;
  for (const std::string &folder :
       {fixture.cachePath, fixture.cachePath + "/v1"}) {
    std::filesystem::create_directories(folder);
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  }
  const std::string portfolios = fixture.cachePath + "/v1/portfolio";
  writeBytes(portfolios, "no folder");
  CHECK(layer.prepare(fixture.engine(options), KILN_PREPARE_COMPILE_ONLY) ==
        KILN_IO);
  CHECK(lastErrorHas("not on disk: the portfolio"));
  std::filesystem::remove(portfolios);
  CHECK(layer.prepare(fixture.engine(options), KILN_PREPARE_COMPILE_ONLY) ==
        KILN_SUCCESS);
  std::filesystem::remove_all(fixture.cachePath + "/v1/artifact");
  writeBytes(fixture.cachePath + "/v1/artifact", "no folder");
  CHECK(layer.prepare(fixture.engine(options), KILN_PREPARE_COMPILE_ONLY) ==
        KILN_IO);
  CHECK(lastErrorHas("kernels"));
}

TEST_CASE("a range is measured once, and again if asked") {
  RangeFixture fixture;
  RangedLayer layer;
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  REQUIRE(layer.prepare(engine) == KILN_SUCCESS);
  const uint64_t trials = statisticsOf(engine).trials;
  REQUIRE(layer.prepare(engine) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials == trials);
  // Nor does another process, also of a part of the range.
  kiln_engine *later = fixture.engine(KILN_MODE_TUNE);
  REQUIRE(RangedLayer(64, 2).prepare(later) == KILN_SUCCESS);
  REQUIRE(layer.prepare(later) == KILN_SUCCESS);
  CHECK(statisticsOf(later).trials == 0);
  REQUIRE(layer.prepare(engine, KILN_PREPARE_RETUNE) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials > trials);
  CHECK(layer.query(engine, 50).state == KILN_STATE_READY);
}

TEST_CASE("what was measured at a value goes before the portfolio") {
  RangeFixture fixture;
  RangedLayer layer;
  kiln_gemm_args measured = gemmArgs(77);
  REQUIRE(tuneValue(fixture.engine(KILN_MODE_TUNE), measured) == KILN_SUCCESS);
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_STRICT}) {
    CAPTURE(mode);
    kiln_engine *engine = fixture.engine(mode);
    REQUIRE(layer.prepare(engine) == KILN_SUCCESS);
    CHECK(layer.query(engine, 77).measured_us > 0);
    CHECK(layer.query(engine, 76).measured_us == 0);
  }
  // Also if it is measured later.
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  REQUIRE(layer.prepare(engine) == KILN_SUCCESS);
  REQUIRE(layer.launch(engine, 33) == KILN_SUCCESS);
  CHECK(layer.query(engine, 33).measured_us == 0);
  CHECK(tuneValue(engine, gemmArgs(33)) == KILN_SUCCESS);
  CHECK(layer.query(engine, 33).measured_us > 0);
}

TEST_CASE("a range's workspace is that of the largest of its plans") {
  auto workspaceOf = [](RangeFixture &fixture, uint64_t limit) {
    kiln_engine_options options = fixture.options();
    options.workspace_limit_bytes = limit;
    kiln_engine *engine = fixture.engine(options);
    RangedLayer layer(64, 1, 256, 16384); // k is split
    kiln_stream stream = fixture.gpu.stream();
    CAPTURE(lastError());
    REQUIRE(layer.prepare(engine, 0, stream) == KILN_SUCCESS);
    const uint64_t whole = queryOf(engine, layer.problem).workspace.bytes;
    kiln_plan *plan = nullptr;
    REQUIRE(kiln_plan_acquire(engine, &layer.problem, stream, &plan) ==
            KILN_SUCCESS);
    kiln_workspace_info info = KILN_INIT(kiln_workspace_info);
    REQUIRE(kiln_plan_workspace(plan, &info) == KILN_SUCCESS);
    kiln_plan_release(plan);
    CHECK(info.bytes == whole);
    const uint64_t arena = statisticsOf(engine).arena_bytes;
    uint64_t most = 0;
    for (int64_t m = 1; m <= 64; ++m) {
      REQUIRE(layer.launch(engine, m, stream) == KILN_SUCCESS);
      most = std::max(most, layer.query(engine, m).workspace.bytes);
    }
    CHECK(most <= whole);
    // The arena was made for all of them.
    CHECK(statisticsOf(engine).arena_bytes == arena);
    CHECK(whole <= limit);
    fixture.destroy(engine);
    return whole;
  };
  {
    RangeFixture fixture;
    REQUIRE(workspaceOf(fixture, uint64_t(256) << 20) > 4096);
  }
  RangeFixture fixture;
  CHECK(workspaceOf(fixture, 4096) <= 4096);
  // A stored portfolio that needs more than another caller allows does not
  // serve that caller.
  CHECK(workspaceOf(fixture, uint64_t(256) << 20) <= uint64_t(256) << 20);
  CHECK(workspaceOf(fixture, 4096) <= 4096);
}

TEST_CASE("a plan of a range stays what it was") {
  RangeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  RangedLayer layer;
  makePlain(layer.args);
  kiln_plan *plan = nullptr;
  CAPTURE(lastError());
  REQUIRE(kiln_plan_acquire(engine, &layer.problem, nullptr, &plan) ==
          KILN_SUCCESS);
  const int compiles = fixture.nvrtc.compileCount();
  REQUIRE(layer.prepare(engine, KILN_PREPARE_RETUNE) == KILN_SUCCESS);
  const uint64_t trials = statisticsOf(engine).trials;
  for (int64_t m = 1; m <= 100; m += 7) {
    CAPTURE(m);
    kiln_gemm_args args = layer.args;
    args.m = m;
    CHECK(kiln_plan_launch_call(plan, KILN_FAMILY_GEMM, &args, nullptr,
                                nullptr) == KILN_SUCCESS);
    CHECK(launches.last().m == m);
  }
  kiln_gemm_args beyond = layer.args;
  beyond.m = 101;
  CHECK(kiln_plan_launch_call(plan, KILN_FAMILY_GEMM, &beyond, nullptr,
                              nullptr) == KILN_INVALID_ARGUMENT);
  CHECK(statisticsOf(engine).trials == trials);
  CHECK(fixture.nvrtc.compileCount() == compiles);
  kiln_plan_release(plan);
}

TEST_CASE("what was launched before a range was prepared follows it") {
  RangeFixture fixture;
  kiln_engine_options options = fixture.options(KILN_MODE_PREDICT);
  kiln_engine *engine = fixture.engine(options);
  RangedLayer layer;
  REQUIRE(layer.launch(engine, 50) == KILN_SUCCESS);
  CHECK(layer.query(engine, 50).source == KILN_SOURCE_ESTIMATE);
  REQUIRE(layer.prepare(fixture.engine(KILN_MODE_TUNE)) == KILN_SUCCESS);
  REQUIRE(layer.prepare(engine) == KILN_SUCCESS);
  CHECK(layer.query(engine, 50).source == KILN_SOURCE_RECORD);
  REQUIRE(layer.launch(engine, 50) == KILN_SUCCESS);
  CHECK(layer.query(engine, 50).source == KILN_SOURCE_RECORD);
}

TEST_CASE("a context that is gone leaves no range to its twin") {
  RangeFixture fixture;
  kiln_engine *engine = fixture.engine();
  RangedLayer layer;
  CudaContext first = kilnFakeCreateContext(0);
  {
    auto scope = ScopedContext::push(fixture.gpu.driver(), first);
    REQUIRE(static_cast<bool>(scope));
    REQUIRE(layer.prepare(engine) == KILN_SUCCESS);
    REQUIRE(layer.launch(engine, 7) == KILN_SUCCESS);
  }
  kilnFakeDestroyContext(first);
  CudaContext second = kilnFakeCreateContext(0);
  REQUIRE(second == first); // the driver uses handles again
  {
    auto scope = ScopedContext::push(fixture.gpu.driver(), second);
    REQUIRE(static_cast<bool>(scope));
    auto stream = Stream::create(fixture.gpu.driver());
    REQUIRE(static_cast<bool>(stream));
    REQUIRE(beginCapture(fixture, stream->handle()));
    CHECK(layer.launch(engine, 7, stream->handle()) == KILN_NOT_PREPARED);
    CHECK(endCapture(fixture, stream->handle()) == 0);
    CHECK(layer.launch(engine, 8) == KILN_SUCCESS);
    CHECK(layer.prepare(engine) == KILN_SUCCESS);
  }
  fixture.destroy(engine);
  kilnFakeDestroyContext(second);
}

TEST_CASE("a range of two extents serves every pair of them") {
  RangeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  RangedLayer layer(24);
  kiln_gemm_args &args = layer.args;
  args.batch = 6;
  args.a.batch_stride = 32 * args.k;
  args.b.batch_stride = args.n * args.k;
  args.d.batch_stride = 32 * args.n;
  kiln_range ranges[2] = {layer.range, KILN_INIT(kiln_range)};
  ranges[1].name = "batch";
  ranges[1].first = 1;
  ranges[1].last = 6;
  layer.problem.ranges = ranges;
  layer.problem.range_count = 2;
  kiln_stream stream = fixture.gpu.stream();
  CAPTURE(lastError());
  REQUIRE(layer.prepare(engine, 0, stream) == KILN_SUCCESS);
  const int compiles = fixture.nvrtc.compileCount();
  REQUIRE(beginCapture(fixture, stream));
  size_t count = 0;
  for (args.batch = 2; args.batch <= 6; ++args.batch)
    for (int64_t m : {1, 7, 16, 23, 24}) {
      CAPTURE(m);
      CHECK(layer.launch(engine, m, stream) == KILN_SUCCESS);
      ++count;
    }
  CHECK(endCapture(fixture, stream) == count);
  CHECK(fixture.nvrtc.compileCount() == compiles);
}

TEST_CASE("progress tells of a range's kernels and trials, and may end it") {
  RangeFixture fixture;
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  RangedLayer layer;
  struct Seen {
    uint64_t kernels = 0, trials = 0;
    bool ends = false;
  } seen;
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.progress_user = &seen;
  options.progress = [](void *user, const kiln_progress *progress) -> int32_t {
    auto *seen = static_cast<Seen *>(user);
    seen->kernels = std::max(seen->kernels, progress->compiles_done);
    seen->trials = std::max(seen->trials, progress->trials_done);
    return seen->ends && progress->trials_done > 0;
  };
  REQUIRE(kiln_prepare(engine, &layer.problem, 1, &options, nullptr) ==
          KILN_SUCCESS);
  CHECK(seen.kernels > 0);
  CHECK(seen.trials > 0);
  seen = {0, 0, true};
  RangedLayer other(100, 1, 512);
  CHECK(kiln_prepare(engine, &other.problem, 1, &options, nullptr) ==
        KILN_CANCELLED);
  // The existing portfolio serves.
  CHECK(other.launch(engine, 50) == KILN_SUCCESS);
}

TEST_CASE("without time a range still gets plans") {
  RangeFixture fixture;
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  RangedLayer layer;
  kiln_prepare_options options = budgetOf(1);
  CAPTURE(lastError());
  REQUIRE(kiln_prepare(engine, &layer.problem, 1, &options, nullptr) ==
          KILN_SUCCESS);
  for (int64_t m = 1; m <= 100; m += 11)
    CHECK(layer.launch(engine, m) == KILN_SUCCESS);
}

TEST_CASE("a range serves all its values wherever the time ends") {
  // Some kernels come in time for trials of the first values, others do not.
  for (int budgetMs : {1000, 2500, 3500}) {
    CAPTURE(budgetMs);
    RangeFixture fixture;
    fixture.nvrtc.delayWhen("", 400);
    kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
    RangedLayer layer(512, 1, 4096, 4096);
    layer.args.beta = 1;
    kiln_prepare_options options = budgetOf(budgetMs);
    const kiln_status status =
        kiln_prepare(engine, &layer.problem, 1, &options, nullptr);
    CAPTURE(lastError());
    REQUIRE(status == KILN_SUCCESS);
    fixture.nvrtc.delayWhen("", 0);
    const uint64_t compiles = statisticsOf(engine).compiles;
    for (int64_t m : {1, 2, 17, 63, 300, 512})
      CHECK(layer.launch(engine, m) == KILN_SUCCESS);
    CHECK(statisticsOf(engine).compiles == compiles);
  }
}

TEST_CASE("a range that is to be measured again, and is not, stays measured") {
  for (uint64_t trials : {0, 3}) {
    CAPTURE(trials);
    RuntimeFixture fixture;
    judgeTrials();
    kilnFakeSetHollowMemory(1 << 20);
    kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
    const RangedLayer layer(128, 1, 1024);
    REQUIRE(layer.prepare(engine) == KILN_SUCCESS);
    const kiln_query_result before = queryOf(engine, layer.problem);
    kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
    options.flags = KILN_PREPARE_RETUNE;
    options.progress_user = &trials;
    options.progress = [](void *user, const kiln_progress *now) -> int32_t {
      return now->trials_done >= *static_cast<uint64_t *>(user);
    };
    CHECK(kiln_prepare(engine, &layer.problem, 1, &options, nullptr) ==
          KILN_CANCELLED);
    const kiln_query_result after = queryOf(engine, layer.problem);
    CHECK(after.state == before.state);
    CHECK(after.source == before.source);
    // Nor does a later process measure it.
    kiln_engine *later = fixture.engine(KILN_MODE_TUNE);
    CHECK(layer.prepare(later) == KILN_SUCCESS);
    CHECK(statisticsOf(later).trials == 0);
  }
}

/// Prepares \p layer and cancels that after some trials.
static void prepareInPart(kiln_engine *engine, const RangedLayer &layer) {
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.progress = [](void *, const kiln_progress *progress) {
    return int32_t(progress->trials_done >= 4);
  };
  REQUIRE(kiln_prepare(engine, &layer.problem, 1, &options, nullptr) ==
          KILN_CANCELLED);
  REQUIRE(statisticsOf(engine).trials > 0);
}

TEST_CASE("a range that was measured in part is finished when it is prepared "
          "again") {
  // A value that was measured by itself says nothing about the others.
  for (bool hasExact : {false, true}) {
    CAPTURE(hasExact);
    RangeFixture fixture;
    kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
    const RangedLayer layer(64, 1, 512);
    if (hasExact)
      REQUIRE(tuneValue(engine, layer.args) == KILN_SUCCESS);
    prepareInPart(engine, layer);
    CHECK(queryOf(engine, layer.problem).state == KILN_STATE_FALLBACK);
    REQUIRE(layer.launch(engine, 16) == KILN_SUCCESS);
    CHECK(layer.query(engine, 16).state == KILN_STATE_FALLBACK);
    uint64_t before = statisticsOf(engine).trials;
    REQUIRE(layer.prepare(engine) == KILN_SUCCESS);
    CHECK(statisticsOf(engine).trials > before);
    CHECK(queryOf(engine, layer.problem).state == KILN_STATE_READY);
    CHECK(layer.query(engine, 16).state == KILN_STATE_READY);
    CHECK(layer.query(engine, 16).source == KILN_SOURCE_RECORD);
    // All is measured now.
    before = statisticsOf(engine).trials;
    REQUIRE(layer.prepare(engine) == KILN_SUCCESS);
    CHECK(statisticsOf(engine).trials == before);
  }
}

TEST_CASE("a wider range without trials leaves what was measured measured") {
  RangeFixture fixture;
  kilnFakeSetHollowMemory(1 << 20);
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  const RangedLayer narrow(64, 1, 512), wide(128, 1, 512);
  REQUIRE(narrow.prepare(engine) == KILN_SUCCESS);
  REQUIRE(narrow.launch(engine, 16) == KILN_SUCCESS);
  kilnFakeSetFreeMemory(0, 4096);
  REQUIRE(wide.prepare(engine) == KILN_SUCCESS);
  CHECK(queryOf(engine, wide.problem).state == KILN_STATE_FALLBACK);
  for (int64_t m : {16, 17}) { // one that was launched, one that was not
    CAPTURE(m);
    CHECK(narrow.query(engine, m).source == KILN_SOURCE_RECORD);
    CHECK(narrow.query(engine, m).state == KILN_STATE_READY);
  }
  CHECK(wide.query(engine, 100).source == KILN_SOURCE_ESTIMATE);
  kilnFakeSetFreeMemory(0, uint64_t(8) << 30);
  REQUIRE(wide.prepare(engine) == KILN_SUCCESS);
  for (int64_t m : {16, 17, 100})
    CHECK(wide.query(engine, m).source == KILN_SOURCE_RECORD);
}

TEST_CASE("kernels of ranges are loaded ahead as far as the limit allows") {
  RangeFixture fixture;
  const RangedLayer layer(8192, 1, 4096, 4096);
  kiln_engine *free = fixture.engine();
  REQUIRE(layer.prepare(free) == KILN_SUCCESS);
  const uint64_t all = kilnFakeCallCount("cuModuleLoadData");
  REQUIRE(all > 3);
  std::vector<std::string> best;
  const int64_t values[] = {1, 16, 100, 500, 2000, 8192};
  for (int64_t m : values)
    best.push_back(configAt(free, layer, m));

  kiln_engine_options options = fixture.options();
  options.pool_limit_bytes = 2 * KernelRoom::kKernelBytes;
  std::atomic<int> told{0};
  options.log_user = &told;
  options.log = [](void *user, kiln_log_level, const char *message) {
    *static_cast<std::atomic<int> *>(user) +=
        std::strstr(message, "pool_limit_bytes") != nullptr;
  };
  kiln_engine *engine = fixture.engine(options);
  REQUIRE(layer.prepare(engine) == KILN_SUCCESS);
  CHECK(told == 1);
  const uint64_t ahead = kilnFakeCallCount("cuModuleLoadData") - all;
  CHECK(ahead >= 1);
  CHECK(ahead <= 3); // two, and that of the range's typical value
  // A capture takes a loaded plan; a launch loads the best one.
  kiln_stream stream = fixture.gpu.stream();
  REQUIRE(layer.prepare(engine, 0, stream) == KILN_SUCCESS);
  REQUIRE(beginCapture(fixture, stream));
  for (int64_t m : values)
    CHECK(layer.launch(engine, m, stream) == KILN_SUCCESS);
  endCapture(fixture, stream);
  CHECK(kilnFakeCallCount("cuModuleLoadData") - all == ahead);
  for (auto [m, config] : llvm::zip_equal(values, best)) {
    CAPTURE(m);
    REQUIRE(layer.launch(engine, m) == KILN_SUCCESS);
    CHECK(configAt(engine, layer, m) == config);
  }
  CHECK(kilnFakeCallCount("cuModuleLoadData") - all > ahead);
}
