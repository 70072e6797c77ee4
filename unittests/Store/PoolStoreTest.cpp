#include "Store/PoolStore.h"

#include "Cache/Prune.h"
#include "Device/Calibration.h"
#include "Store/StoreFixture.h"
#include "Support/Json.h"

#include <filesystem>

using namespace kiln;
using namespace kiln::fake;

namespace {

struct PoolFixture : StoreFixture {
  const Values &signature() const { return problem.signature; }
  /// A pool of two kernels, the artifacts of which are compiled.
  StoredPool compiled() {
    StoredPool pool;
    pool.meanRegret = 0.002;
    pool.mostRegret = 0.04;
    for (const char *config : {"fast.t64", "fast.t32"}) {
      const TranslationUnit made = unit(config);
      must(artifacts->get(made));
      pool.kernels.push_back({{config}, {artifactName(made)}});
    }
    return pool;
  }
  void remove(llvm::StringRef name) {
    for (const auto &item :
         std::filesystem::recursive_directory_iterator(folder.path()))
      if (item.path().stem() == name.str() ||
          item.path().filename() == name.str())
        std::filesystem::remove(item.path());
  }
  size_t artifactsOnDisk() { return cache->list(cache::Kind::Artifact).size(); }
};

} // namespace

TEST_CASE("a pool comes back as it was stored, ready to choose from") {
  PoolFixture f;
  PoolStore pools(*f.cache, std::chrono::milliseconds(0));
  CHECK_FALSE(pools.find(f.family, f.signature(), f.device));
  const StoredPool pool = f.compiled();
  auto stored = pools.store(f.family, f.signature(), f.device, pool);
  CHECK(stored.publish.status == cache::PublishStatus::Stored);
  CHECK_FALSE(stored.wasThere);
  CHECK(pools.store(f.family, f.signature(), f.device, pool).wasThere);
  CHECK(pools.isOnDisk(f.family, f.signature(), f.device));

  auto known = pools.find(f.family, f.signature(), f.device);
  REQUIRE(known);
  CHECK(known->stored == pool);
  CHECK(known->kernels.size() == 2);
  CHECK(pools.find(f.family, f.signature(), f.device) == known); // parsed once
  auto picks = known->rank(f.problem, f.device);
  REQUIRE(picks.size() == 2);
  CHECK(picks[0].predictedNs <= picks[1].predictedNs);

  // Another device, another signature: no pool.
  CHECK_FALSE(
      pools.find(f.family, f.signature(), must(findDevice("h100-sxm"))));
  CHECK_FALSE(pools.find(
      f.family, makeProblem(f.family, "fake m=64 n=64 type=fp16").signature,
      f.device));
  auto list = pools.list();
  REQUIRE(list.size() == 1);
  CHECK(list[0].family == "fake");
  CHECK(list[0].device == f.device.name);
  CHECK(list[0].missing == 0);
}

TEST_CASE("a pool that was made without a GPU serves a calibrated one") {
  PoolFixture f;
  PoolStore pools(*f.cache, std::chrono::milliseconds(0));
  DeviceModel calibrated = f.device;
  std::vector<std::string> notes;
  applyCalibration(
      calibrated, {"GPU-1", "580", 0, {{"dramGBs", 4400, "dram read"}}}, notes);
  CHECK_FALSE(pools.find(f.family, f.signature(), calibrated));
  StoredPool pool = f.compiled();
  pools.store(f.family, f.signature(), f.device, pool);
  auto offline = pools.find(f.family, f.signature(), calibrated);
  REQUIRE(offline);
  CHECK(offline->stored == pool);
  // One of its own goes first.
  pool.kernels.pop_back();
  pools.store(f.family, f.signature(), calibrated, pool);
  CHECK(pools.find(f.family, f.signature(), calibrated)->stored == pool);
  CHECK(pools.find(f.family, f.signature(), f.device)->kernels.size() == 2);
}

TEST_CASE("a missing artifact is told when the pool is read") {
  PoolFixture f;
  PoolStore pools(*f.cache);
  StoredPool pool = f.compiled();
  pools.store(f.family, f.signature(), f.device, pool);
  CHECK(pools.missing(pool) == 0);
  f.remove(pool.kernels[1].artifacts[0]);
  CHECK(pools.missing(pool) == 1);
  CHECK(pools.list().front().missing == 1);
  pool.kernels[0].artifacts.push_back("../../etc/passwd");
  CHECK(pools.missing(pool) == 2);
}

TEST_CASE("what a pool pins is not evicted while the pool is there") {
  PoolFixture f;
  PoolStore pools(*f.cache);
  const StoredPool pool = f.compiled();
  must(f.artifacts->get(f.unit("fast.t16")));
  REQUIRE(f.artifactsOnDisk() == 3);
  pools.store(f.family, f.signature(), f.device, pool);

  cache::PruneRules rules;
  rules.maxBytes = 1;
  rules.keepsPools = true; // as upkeep has it
  f.cache->prune(rules);
  CHECK(f.artifactsOnDisk() == 2);
  CHECK(pools.missing(pool) == 0);

  // They also stay if only artifacts, or only old entries, should go.
  rules.keepsPools = false;
  rules.only = cache::Kind::Artifact;
  rules.maxAge = std::chrono::seconds(-1000000);
  f.cache->prune(rules);
  CHECK(pools.missing(pool) == 0);

  // A limit on all of the cache holds: the pool goes, and then its artifacts.
  rules = {};
  rules.maxBytes = 1;
  f.cache->prune(rules);
  CHECK_FALSE(pools.isOnDisk(f.family, f.signature(), f.device));
  CHECK(f.artifactsOnDisk() == 0);
}

TEST_CASE("a pool that another process stores is found after a while") {
  PoolFixture f;
  PoolStore early(*f.cache, std::chrono::milliseconds(0)), late(*f.cache);
  CHECK_FALSE(early.find(f.family, f.signature(), f.device));
  late.store(f.family, f.signature(), f.device, f.compiled());
  CHECK(early.find(f.family, f.signature(), f.device));
}

TEST_CASE("what is damaged in a pool is skipped") {
  StoredPool pool = must(StoredPool::parse(
      R"({"kernels": [7, {}, {"configs": []}, {"configs": ["a", 3], "artifacts":
          ["b"]}], "mean": -1, "most": "x"})"));
  REQUIRE(pool.kernels.size() == 1);
  CHECK(pool.kernels[0].configs == std::vector<std::string>{"a"});
  CHECK(pool.meanRegret == 0);
  for (const char *text : {"", "3", "{}"})
    CHECK(summarize(StoredPool::parse(text).takeError()).code ==
          ErrorCode::InvalidArgument);

  // Configs of another version of Kiln cannot be chosen.
  PoolFixture f;
  PoolStore pools(*f.cache);
  StoredPool other = f.compiled();
  other.kernels.push_back({{"gone.t3"}, {}});
  pools.store(f.family, f.signature(), f.device, other);
  auto known = pools.find(f.family, f.signature(), f.device);
  REQUIRE(known);
  CHECK(known->kernels.size() == 2);
}
