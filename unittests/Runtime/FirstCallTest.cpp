// The cost of a first call in the mode tune besides its trials.
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Runtime/RuntimeFixture.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("who measures a value loads its winner once") {
  RuntimeFixture fixture;
  judgeTrials();
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  kiln_gemm_args args = gemmArgs(100);
  auto loads = [] { return kilnFakeCallCount("cuModuleLoadData"); };
  const uint64_t before = loads();
  REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
  // The tools of trials, the reference, and each config that was tried.
  CHECK(loads() - before == 2 + statisticsOf(engine).trials);
  CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
}

TEST_CASE("no trial goes to what needs more than the engine may give") {
  RuntimeFixture fixture;
  judgeTrials();
  kiln_gemm_args args = splitArgs();
  Registry registry = makeBuiltinRegistry();
  const KernelFamily &gemm = *registry.find("gemm");
  Problem problem = llvm::cantFail(gemm.parseProblem(
      "m=16 n=256 k=65536 dtype=fp32 compute=tf32 layout=NT"));
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  // The largest workspace of the configs that an engine with this limit tries.
  auto mostTried = [&](uint64_t limit) {
    std::vector<std::string> tried;
    kiln_engine_options options = fixture.options(KILN_MODE_TUNE);
    options.flags |= KILN_ENGINE_MEMORY_ONLY;
    options.workspace_limit_bytes = limit;
    options.event_user = &tried;
    options.event = [](void *user, const kiln_event *event) {
      if (event->kind == KILN_EVENT_TRIAL)
        static_cast<std::vector<std::string> *>(user)->push_back(event->config);
    };
    kiln_engine *engine = fixture.engine(options);
    CAPTURE(lastError());
    REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
    CHECK(!tried.empty());
    uint64_t most = 0;
    for (const std::string &text : tried) {
      auto config = llvm::cantFail(gemm.parseConfig(text));
      most = std::max(
          most, config.tmpl->workspace(problem, config.config, device).bytes());
    }
    fixture.destroy(engine);
    return most;
  };
  constexpr uint64_t kLittle = 16 << 10;
  CHECK(mostTried(256 << 20) > kLittle);
  CHECK(mostTried(kLittle) <= kLittle);
}

TEST_CASE("an engine that may give more tries what another left out") {
  RuntimeFixture fixture;
  judgeTrials();
  auto trialsUnder = [&](uint64_t limit, int64_t m) {
    kiln_gemm_args args = splitArgs();
    args.m = m;
    kiln_engine_options options = fixture.options(KILN_MODE_TUNE);
    options.workspace_limit_bytes = limit;
    kiln_engine *engine = fixture.engine(options);
    REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
    CHECK(queryOf(engine, problemOf(args)).source == KILN_SOURCE_RECORD);
    const uint64_t trials = statisticsOf(engine).trials;
    fixture.destroy(engine);
    return trials;
  };
  constexpr uint64_t kLittle = 16 << 10, kMuch = 256 << 20;
  CHECK(trialsUnder(kLittle, 16) > 0);
  CHECK(trialsUnder(kLittle, 15) > 0); // each value is measured on its own
  CHECK(trialsUnder(kMuch, 15) > 0);
  CHECK(trialsUnder(kMuch, 16) > 0);
  // At 15 the greater limit's trials may have left nothing for the lesser one.
  trialsUnder(kLittle, 15);
  for (uint64_t limit : {kLittle, kMuch})
    for (int64_t m : {15, 16})
      CHECK(trialsUnder(limit, m) == 0);
}
