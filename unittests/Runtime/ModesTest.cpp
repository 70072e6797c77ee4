// The order of choice: modes, records, decisions, and faults in between.
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Kernel/Space.h"
#include "Runtime/RuntimeFixture.h"

#include <llvm/ADT/STLExtras.h>

#include <thread>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("strict mode compiles nothing and names the missing key") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine(KILN_MODE_STRICT);
  kiln_gemm_args args = gemmArgs();
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_MISSING);
  kiln_problem problem = problemOf(args);
  char key[1024];
  size_t length = 0;
  REQUIRE(kiln_problem_key(engine, &problem, nullptr, key, sizeof(key),
                           &length) == KILN_SUCCESS);
  CHECK(length > 0);
  kiln_gemm(engine, &args, nullptr, nullptr);
  CHECK(lastErrorHas(key));
  CHECK(fixture.nvrtc.compileCount() == 0);

  // Kernels that another engine compiled serve.
  kiln_engine *maker = fixture.engine(KILN_MODE_PREDICT);
  REQUIRE(kiln_gemm(maker, &args, nullptr, nullptr) == KILN_SUCCESS);
  int compiles = fixture.nvrtc.compileCount();
  kiln_engine_options options = fixture.options(KILN_MODE_STRICT);
  options.nvrtc_path = "/nowhere"; // it is not even looked for
  kiln_engine *strict = fixture.engine(options);
  CAPTURE(lastError());
  CHECK(kiln_gemm(strict, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(fixture.nvrtc.compileCount() == compiles);
  CHECK(statisticsOf(strict).cache_hits == 1);
}

TEST_CASE("predict compiles the first choice and moves on when it fails") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(fixture.nvrtc.compileCount() == 1);
  kiln_query_result ready = queryOf(engine, problemOf(args));
  CHECK(ready.state == KILN_STATE_READY);
  CHECK(ready.source == KILN_SOURCE_ESTIMATE);
  CHECK(ready.capturable == 1);
  CHECK(ready.predicted_us > 0);

  fixture.nvrtc.failWhen("kConfig{.blockM", "error: no tiles today");
  kiln_gemm_args other = gemmArgs(128, 256, 512);
  other.layout = KILN_LAYOUT_NN;
  CAPTURE(lastError());
  REQUIRE(kiln_gemm(engine, &other, nullptr, nullptr) == KILN_SUCCESS);
  kiln_query_result fallback = queryOf(engine, problemOf(other));
  CHECK(fallback.state == KILN_STATE_FALLBACK);
  CHECK(fallback.source == KILN_SOURCE_GENERIC);
  CHECK(statisticsOf(engine).fallback_launches == 1);
  CHECK(statisticsOf(engine).compile_failures > 0);
}

TEST_CASE("predict takes the next of the ranking when the first spills") {
  RuntimeFixture fixture;
  kiln_gemm_args args = gemmArgs();
  // The first and the next choice by the estimator itself.
  Registry registry = makeBuiltinRegistry();
  const KernelFamily &gemm = *registry.find("gemm");
  Problem problem = llvm::cantFail(
      gemm.parseProblem("m=128 n=256 k=512 dtype=bf16 layout=NT"));
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  Space space = llvm::cantFail(exploreSpace(gemm, problem, device));
  auto unit = [&](const Candidate &candidate) {
    return candidate.tmpl->plan(problem, candidate.config, device).kernels[0];
  };
  std::string first = unit(space.ranked[0]).source();
  const auto next = llvm::find_if(space.ranked, [&](const Candidate &other) {
    return unit(other).source() != first;
  });
  REQUIRE(next != space.ranked.end());

  fixture.nvrtc.spillWhen(first.c_str(), 24);
  for (int time = 0; time < 2; ++time) {
    kiln_engine *engine = fixture.engine();
    CAPTURE(lastError());
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
    kiln_problem asked = problemOf(args);
    kiln_plan *plan = nullptr;
    REQUIRE(kiln_plan_acquire(engine, &asked, nullptr, &plan) == KILN_SUCCESS);
    char text[1024];
    size_t length = 0;
    CHECK(kiln_plan_describe(plan, text, sizeof(text), &length) ==
          KILN_SUCCESS);
    CHECK(llvm::StringRef(text).contains(next->config.text()));
    kiln_plan_release(plan);
    // The first was compiled once: its artifact stays refused.
    CHECK(fixture.nvrtc.compileCount() == 2);
  }
}

TEST_CASE("a compiler that fails for all is told with its log") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  fixture.nvrtc.failWhen("kiln_", "kiln.cu(3): error: nothing works");
  kiln_gemm_args args = gemmArgs();
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_COMPILE_FAILED);
  CHECK(lastErrorHas("nothing works"));
}

TEST_CASE("without a compiler the cache still serves") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.nvrtc_path = "/nowhere";
  kiln_engine *engine = fixture.engine(options);
  kiln_gemm_args args = gemmArgs();
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_COMPILER_MISSING);
  REQUIRE(kiln_gemm(fixture.engine(), &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(kiln_gemm(fixture.engine(options), &args, nullptr, nullptr) ==
        KILN_SUCCESS);
}

TEST_CASE("compile only needs no GPU and leaves a decision") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.driver_path = "/nowhere/libcuda.so";
  options.device_model = "h200-sxm";
  kiln_engine *engine = fixture.engine(options);
  kiln_gemm_args args = gemmArgs();
  kiln_problem problem = problemOf(args);
  kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
  prepare.flags = KILN_PREPARE_COMPILE_ONLY;
  CAPTURE(lastError());
  REQUIRE(kiln_prepare(engine, &problem, 1, &prepare, nullptr) == KILN_SUCCESS);
  CHECK(fixture.nvrtc.compileCount() == 1);

  // The machine of the stand-in driver is such a GPU.
  kiln_engine *strict = fixture.engine(KILN_MODE_STRICT);
  CHECK(queryOf(strict, problem).state == KILN_STATE_MISSING);
  CHECK(queryOf(strict, problem).source == KILN_SOURCE_DECISION);
  CHECK(kiln_gemm(strict, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(queryOf(strict, problem).source == KILN_SOURCE_DECISION);
}

TEST_CASE("a value is measured once, then the record serves every mode") {
  RuntimeFixture fixture;
  kiln_gemm_args args = gemmArgs();
  kiln_problem problem = problemOf(args);
  judgeTrials();
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  CAPTURE(lastError());
  REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
  uint64_t trials = statisticsOf(engine).trials;
  kiln_query_result tuned = queryOf(engine, problem);
  CHECK(tuned.source == KILN_SOURCE_RECORD);
  CHECK(tuned.state == KILN_STATE_READY);
  CHECK(trials > 0);
  int compiles = fixture.nvrtc.compileCount();
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
    kiln_engine *later = fixture.engine(mode);
    REQUIRE(kiln_gemm(later, &args, nullptr, nullptr) == KILN_SUCCESS);
    CHECK(statisticsOf(later).trials == 0);
    CHECK(queryOf(later, problem).source == KILN_SOURCE_RECORD);
    CHECK(queryOf(later, problem).measured_us > 0);
  }
  CHECK(fixture.nvrtc.compileCount() == compiles);
}

TEST_CASE("a decision is launched until prepare measures, and again if asked") {
  RuntimeFixture fixture;
  judgeTrials();
  kiln_gemm_args args = gemmArgs();
  kiln_problem problem = problemOf(args);
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.flags = KILN_PREPARE_COMPILE_ONLY;
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  CAPTURE(lastError());
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(queryOf(engine, problem).source == KILN_SOURCE_DECISION);
  CHECK(statisticsOf(engine).trials == 0);

  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  uint64_t trials = statisticsOf(engine).trials;
  CHECK(trials > 0);
  CHECK(queryOf(engine, problem).source == KILN_SOURCE_RECORD);
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials == trials);
  options.flags = KILN_PREPARE_RETUNE;
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  CHECK(statisticsOf(engine).trials > trials);
}

TEST_CASE("progress tells of trials and may end them") {
  RuntimeFixture fixture;
  judgeTrials();
  kiln_gemm_args args = gemmArgs();
  kiln_problem problem = problemOf(args);
  uint64_t seen = 0; // before the problem was finished
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.progress_user = &seen;
  options.progress = [](void *user, const kiln_progress *progress) -> int32_t {
    if (progress->problems_done == 0)
      *static_cast<uint64_t *>(user) = progress->trials_done;
    return progress->trials_done > 0;
  };
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  CHECK(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_CANCELLED);
  CHECK(seen > 0);
  // Finished trials are kept.
  CHECK(queryOf(engine, problem).source == KILN_SOURCE_RECORD);
}

TEST_CASE("device faults are told as they are") {
  RuntimeFixture fixture;
  kiln_gemm_args args = gemmArgs();
  constexpr int kOutOfMemory = 2, kIllegalAddress = 700;
  kilnFakeFailCall("cuModuleLoadData", 1, kOutOfMemory, KilnFakeOnce);
  kiln_engine *engine = fixture.engine();
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) ==
        KILN_DEVICE_OUT_OF_MEMORY);
  CHECK(kiln_last_driver_error() == kOutOfMemory);
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  kilnFakeFailCall("cuLaunchKernelEx", 1, kIllegalAddress,
                   KilnFakeKillsContext);
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_CONTEXT_DEAD);
  CHECK(kiln_last_driver_error() == kIllegalAddress);
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_CONTEXT_DEAD);
}

TEST_CASE("a cache that cannot be used costs time only") {
  RuntimeFixture fixture;
  writeBytes(fixture.cachePath, "not a folder");
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  kiln_engine_options options = fixture.options();
  options.flags |= KILN_ENGINE_MEMORY_ONLY;
  CHECK(kiln_gemm(fixture.engine(options), &args, nullptr, nullptr) ==
        KILN_SUCCESS);
}

TEST_CASE("read only reads and writes nothing") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.flags |= KILN_ENGINE_READ_ONLY;
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(fixture.engine(options), &args, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(filesIn(fixture.cachePath).empty());
  REQUIRE(kiln_gemm(fixture.engine(), &args, nullptr, nullptr) == KILN_SUCCESS);
  kiln_engine *reader = fixture.engine(options);
  REQUIRE(kiln_gemm(reader, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(statisticsOf(reader).cache_hits == 1);
  CHECK(statisticsOf(reader).compiles == 0);
}

/// Files of entries below \p folder.
static long entriesIn(const std::string &folder) {
  std::vector<std::string> files = filesIn(folder);
  return llvm::count_if(files, [](const std::string &file) {
    return llvm::StringRef(file).ends_with(".kiln");
  });
}

/// Compiles rms norms with the given columns for an H200.
static kiln_status compileNorms(kiln_engine *engine, std::vector<int> columns) {
  std::vector<std::string> texts;
  for (int cols : columns)
    texts.push_back("rmsnorm rows=64 cols=" + std::to_string(cols) +
                    " dtype=bf16");
  std::vector<kiln_problem> problems;
  for (const std::string &text : texts) {
    problems.push_back(KILN_INIT(kiln_problem));
    problems.back().family = KILN_FAMILY_FROM_TEXT;
    problems.back().text = text.c_str();
  }
  kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
  prepare.flags = KILN_PREPARE_COMPILE_ONLY;
  return kiln_prepare(engine, problems.data(), problems.size(), &prepare,
                      nullptr);
}

static kiln_engine *engineOfLimit(RuntimeFixture &fixture, uint64_t limit) {
  kiln_engine_options options = fixture.options();
  options.driver_path = "/nowhere/libcuda.so";
  options.device_model = "h200-sxm";
  options.cache_limit_bytes = limit;
  return fixture.engine(options);
}

TEST_CASE("fault 21: prepare under a limit that is too small keeps what it "
          "prepares, and the next process makes room") {
  RuntimeFixture fixture;
  CAPTURE(lastError());
  REQUIRE(compileNorms(engineOfLimit(fixture, 1), {1024, 2048, 4096}) ==
          KILN_SUCCESS);
  const int compiled = fixture.nvrtc.compileCount();
  CHECK(entriesIn(fixture.cachePath + "/v1/portfolio") == 3);
  CHECK(entriesIn(fixture.cachePath + "/v1/artifact") == compiled);

  kiln_engine *next = engineOfLimit(fixture, 1);
  REQUIRE(compileNorms(next, {8192}) == KILN_SUCCESS);
  // A thread behind the call evicts.
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (statisticsOf(next).cache_evictions == 0 &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  CHECK(statisticsOf(next).cache_evictions == uint64_t(compiled) + 3);
  CHECK(entriesIn(fixture.cachePath + "/v1/artifact") ==
        fixture.nvrtc.compileCount() - compiled);
}

TEST_CASE("F8: an engine without a limit evicts nothing") {
  RuntimeFixture fixture;
  REQUIRE(compileNorms(engineOfLimit(fixture, UINT64_MAX), {1024}) ==
          KILN_SUCCESS);
  const long before = entriesIn(fixture.cachePath);
  // Nor does a neighbour that wants one: the largest counts.
  kiln_engine *next = engineOfLimit(fixture, 1);
  REQUIRE(compileNorms(next, {8192}) == KILN_SUCCESS);
  CHECK(entriesIn(fixture.cachePath) > before);
  CHECK(statisticsOf(next).cache_evictions == 0);
}

TEST_CASE("fault 21: prepare that cannot store what it compiles says so") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.driver_path = "/nowhere/libcuda.so";
  options.device_model = "h200-sxm";
  kiln_gemm_args args = gemmArgs();
  kiln_problem problem = problemOf(args);
  kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
  prepare.flags = KILN_PREPARE_COMPILE_ONLY;
  auto prepared = [&] {
    return kiln_prepare(fixture.engine(options), &problem, 1, &prepare,
                        nullptr);
  };
  std::filesystem::create_directories(fixture.cachePath + "/v1");
  std::filesystem::permissions(fixture.cachePath,
                               std::filesystem::perms::owner_all);
  std::filesystem::permissions(fixture.cachePath + "/v1",
                               std::filesystem::perms::owner_all);
  writeBytes(fixture.cachePath + "/v1/portfolio", "no folder");
  CHECK(prepared() == KILN_IO);
  CHECK(lastErrorHas("not on disk"));
  std::filesystem::remove(fixture.cachePath + "/v1/portfolio");
  CHECK(prepared() == KILN_SUCCESS);
  // An engine without a disk misses nothing there.
  options.flags |= KILN_ENGINE_MEMORY_ONLY;
  CHECK(prepared() == KILN_SUCCESS);
}

TEST_CASE("engine options are checked") {
  RuntimeFixture fixture;
  auto create = [&](auto change) {
    kiln_engine_options options = fixture.options();
    change(options);
    kiln_engine *engine = reinterpret_cast<kiln_engine *>(&options);
    kiln_status status = kiln_engine_create(&options, &engine);
    CHECK(engine == nullptr);
    return status;
  };
  using Options = kiln_engine_options;
  CHECK(create([](Options &o) { o.struct_size = 8; }) == KILN_INVALID_ARGUMENT);
  CHECK(create([](Options &o) { o.background_permille = 1001; }) ==
        KILN_INVALID_ARGUMENT);
  CHECK(create([](Options &o) { o.determinism = 1; }) == KILN_UNSUPPORTED);
  CHECK(create([](Options &o) { o.mode = 77; }) == KILN_UNSUPPORTED);
  CHECK(create([](Options &o) { o.flags = 1u << 30; }) == KILN_UNSUPPORTED);
  CHECK(create([](Options &o) { o.threads = -1; }) == KILN_INVALID_ARGUMENT);
  CHECK(create([](Options &o) { o.tune_budget_ms = -1; }) ==
        KILN_INVALID_ARGUMENT);
  CHECK(create([](Options &o) { o.trial_timeout_ms = -1; }) ==
        KILN_INVALID_ARGUMENT);
  CHECK(create([](Options &o) { o.read_dir_count = 1; }) ==
        KILN_INVALID_ARGUMENT);
  CHECK(create([](Options &o) { o.device_model = "no-such-gpu"; }) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("no-such-gpu"));
  CHECK(create([](Options &o) { o.reserved[11] = 1; }) == KILN_UNSUPPORTED);
  CHECK(kiln_engine_create(nullptr, nullptr) == KILN_INVALID_ARGUMENT);
  kiln_engine_destroy(nullptr);
}
