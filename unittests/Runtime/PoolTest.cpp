// Pools of signatures: kiln_prepare makes them, strict mode chooses from them.
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Runtime/Capi.h"
#include "Runtime/KernelRoom.h"
#include "Runtime/RuntimeFixture.h"
#include "Tune/PoolWarmup.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

using namespace kiln;
using namespace kiln::testing;

namespace {

const char *const kSignature = "dtype=bf16 layout=NT";

struct PoolFixture : RuntimeFixture {
  /// Fills the cache with a pool for which few problems were drawn.
  PoolWarmupResult warm(const PoolSubject &subject) {
    cache::StoreOptions cacheOptions;
    cacheOptions.writeDir = cachePath;
    auto store = cache::Store::open(cacheOptions);
    ArtifactStoreOptions artifactOptions;
    artifactOptions.nvrtc.explicitPath = nvrtcPath;
    ArtifactStore artifacts(*store, artifactOptions);
    PoolStore pools(*store);
    PoolWarmupOptions options;
    options.cover.layers = options.cover.mostLayers = 8;
    options.cover.judges = 4;
    options.cover.valuesOfLayer = 4;
    options.cover.workspaceBytes = uint64_t(256) << 20;
    return warmPool(subject, llvm::cantFail(findDevice("h200-sxm")), artifacts,
                    pools, options);
  }
  kiln_engine *compiler() {
    kiln_engine_options made = options();
    made.driver_path = "/nowhere/libcuda.so";
    made.device_model = "h200-sxm";
    return engine(made);
  }
  kiln_status preparePool(kiln_engine *engine, const kiln_problem &problem) {
    kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
    prepare.flags = KILN_PREPARE_POOL;
    return kiln_prepare(engine, &problem, 1, &prepare, nullptr);
  }
};

} // namespace

/// The number of problems: KILN_POOL_DRAWS, or \p usual.
static int drawsOf(int usual) {
  const char *wanted = std::getenv("KILN_POOL_DRAWS");
  return wanted ? std::atoi(wanted) : usual;
}

/// Draws problems of a signature of \p family, and checks that strict mode
/// serves all from a pool. Returns their numbers, by the answer of \p tells.
static std::pair<int, int>
checkStrict(llvm::StringRef family, llvm::StringRef signature, int draws,
            llvm::function_ref<bool(const Problem &)> tells) {
  PoolFixture fixture;
  const Registry registry = makeBuiltinRegistry();
  auto subject = PoolSubject::parse(*registry.find(family), signature);
  REQUIRE(static_cast<bool>(subject));
  const PoolWarmupResult pool = fixture.warm(*subject);
  REQUIRE(pool.error.code == ErrorCode::Success);
  REQUIRE(pool.isStored);
  const int compiles = fixture.nvrtc.compileCount();
  kiln_engine *strict = fixture.engine(KILN_MODE_STRICT);
  PoolSubject::Random random(99);
  int prepared = 0, first = 0, told = 0;
  for (int i = 0; i < draws; ++i) {
    auto layer = subject->drawLayer(random);
    REQUIRE(layer);
    auto drawn = subject->drawAt(*layer, size_t(i % 64), 64, random);
    if (!drawn)
      continue;
    const std::string text = drawn->text();
    CAPTURE(text);
    const kiln_problem problem = problemOf(text.c_str());
    const kiln_status status =
        kiln_prepare(strict, &problem, 1, nullptr, nullptr);
    CHECK_MESSAGE(status == KILN_SUCCESS, lastError());
    ++prepared;
    told += tells(*drawn);
    const kiln_query_result chosen = queryOf(strict, problem);
    CHECK(chosen.state == KILN_STATE_READY);
    first += chosen.source == KILN_SOURCE_ESTIMATE;
  }
  CHECK(prepared > draws * 5 / 6);
  CHECK(first == prepared);
  CHECK(fixture.nvrtc.compileCount() == compiles);
  return {told, prepared - told};
}

TEST_CASE("strict mode finds a kernel of the pool for every problem") {
  checkStrict("gemm", kSignature, drawsOf(1000),
              [](const Problem &) { return true; });
}

TEST_CASE("strict mode serves prefills and decoding from a pool of attention") {
  const int draws = drawsOf(150);
  for (const char *signature :
       {"dtype=bf16 d=128 mask=causal",
        "dtype=bf16 d=64 mask=causal kvlen=used pages=table"}) {
    CAPTURE(signature);
    const auto [decoding, prefills] =
        checkStrict("attention", signature, draws, [](const Problem &problem) {
          return problem.values.get("sq") == 1;
        });
    CHECK(decoding > draws / 4);
    CHECK(prefills > draws / 4);
  }
}

TEST_CASE("kiln_prepare makes the pool of a signature, without a GPU") {
  PoolFixture fixture;
  kiln_engine *engine = fixture.compiler();
  const kiln_problem merge = problemOf("attention_merge d=128 dtype=bf16");
  CAPTURE(lastError());
  REQUIRE(fixture.preparePool(engine, merge) == KILN_SUCCESS);
  const int compiles = fixture.nvrtc.compileCount();
  CHECK(compiles > 0);
  // Again: all is there.
  REQUIRE(fixture.preparePool(fixture.compiler(), merge) == KILN_SUCCESS);
  CHECK(fixture.nvrtc.compileCount() == compiles);

  const kiln_problem value =
      problemOf("attention_merge rows=77 heads=5 batch=3 d=128 dtype=bf16");
  kiln_engine *strict = fixture.engine(KILN_MODE_STRICT);
  CHECK(kiln_prepare(strict, &value, 1, nullptr, nullptr) == KILN_SUCCESS);
}

TEST_CASE("a pool is refused what it has no use for") {
  PoolFixture fixture;
  kiln_engine *engine = fixture.compiler();
  CHECK(fixture.preparePool(engine, problemOf("gemm dtype=bf16 n=64")) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("leave out n"));
  CHECK(fixture.preparePool(engine, problemOf("gem dtype=bf16")) ==
        KILN_INVALID_ARGUMENT);
  kiln_problem ranged = problemOf("gemm dtype=bf16 layout=NT");
  kiln_range range = KILN_INIT(kiln_range);
  range.name = "m";
  range.first = 1;
  range.last = 64;
  ranged.ranges = &range;
  ranged.range_count = 1;
  CHECK(fixture.preparePool(engine, ranged) == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("takes no ranges"));
}

TEST_CASE("kiln_prepare loads a pool as far as the limit allows") {
  PoolFixture fixture;
  const kiln_problem merge = problemOf("attention_merge d=128 dtype=bf16");
  auto loads = [] { return kilnFakeCallCount("cuModuleLoadData"); };
  const uint64_t before = loads();
  REQUIRE(fixture.preparePool(fixture.engine(), merge) == KILN_SUCCESS);
  const uint64_t all = loads() - before;
  REQUIRE(all >= 2);
  // Loaded kernels stay, and are not loaded again.
  kiln_engine_options options = fixture.options();
  options.pool_limit_bytes = KernelRoom::kKernelBytes;
  std::atomic<int> told{0};
  options.log_user = &told;
  options.log = [](void *user, kiln_log_level, const char *message) {
    *static_cast<std::atomic<int> *>(user) +=
        std::strstr(message, "pool_limit_bytes") != nullptr;
  };
  kiln_engine *limited = fixture.engine(options);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(fixture.preparePool(limited, merge) == KILN_SUCCESS);
    CHECK(loads() - before - all == 1);
  }
  CHECK(told == 2);
  // A launch loads its kernel all the same.
  const kiln_problem value =
      problemOf("attention_merge rows=77 heads=5 batch=3 d=128 dtype=bf16");
  CHECK(kiln_prepare(limited, &value, 1, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(queryOf(limited, value).capturable != 0);
  // Compiling alone loads nothing.
  kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
  prepare.flags = KILN_PREPARE_POOL | KILN_PREPARE_COMPILE_ONLY;
  const uint64_t now = loads();
  REQUIRE(kiln_prepare(fixture.engine(), &merge, 1, &prepare, nullptr) ==
          KILN_SUCCESS);
  CHECK(loads() == now);
}
