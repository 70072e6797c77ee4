#include "Tune/Warmup.h"

#include "Store/StoreFixture.h"
#include "Tune/CompileOrder.h"

#include <fstream>

using namespace kiln;
using namespace kiln::fake;

namespace {

struct WarmupFixture : StoreFixture {
  WarmupResult run(std::vector<const char *> texts,
                   WarmupOptions options = {}) {
    std::vector<Registry::NamedProblem> problems;
    for (const char *text : texts)
      problems.push_back({&family, makeProblem(family, text)});
    PortfolioStore portfolios(*cache);
    return warmup(problems, device, *artifacts, portfolios, options);
  }
  /// The stored choices for a problem.
  std::vector<StoredMember> decided(const char *text) {
    auto stored = PortfolioStore(*cache).load(
        PortfolioKey::ofValue(makeProblem(family, text), device));
    REQUIRE(stored->ranges.size() == 1);
    return stored->ranges.front().members;
  }
};

TEST_CASE("warm-up compiles distinct kernels and stores decisions") {
  WarmupFixture f;
  WarmupResult result =
      f.run({"fake m=1 n=64", "fake m=2 n=64", "fake m=1 n=64 type=fp16"});
  REQUIRE(result.rows.size() == 3);
  CHECK(result.distinctKernels == 2);
  CHECK(result.compiled == 2);
  CHECK(result.fromCache == 0);
  CHECK(result.decisionsStored == 3);
  CHECK(result.failedProblems == 0);
  CHECK(result.unstoredKernels + result.unstoredDecisions == 0);
  const WarmupRow &row = result.rows[0];
  CHECK(row.problem == 0);
  CHECK(row.config == "fast.t64");
  CHECK(row.predictedNs == 1000);
  CHECK(row.bound == "dram");
  CHECK(row.kernels == 1);
  CHECK(row.compileMs > 0);
  CHECK_FALSE(row.cached);
  // The second problem shares the first one's kernel.
  CHECK(result.rows[1].cached);
  CHECK(result.rows[1].compileMs == 0);

  const auto decision = f.decided("fake m=2 n=64");
  CHECK(decision[0].config == "fast.t64");
  CHECK(decision[0].kernel == f.unit("fast.t64").digest().hex());
}

TEST_CASE("a second warm-up compiles nothing and writes nothing") {
  WarmupFixture f;
  std::vector<const char *> texts = {"fake m=1 n=64", "fake m=2 n=64"};
  f.run(texts);
  f.reopen();
  WarmupResult result = f.run(texts);
  CHECK(result.compiled == 0);
  CHECK(result.fromCache == 1);
  CHECK(result.decisionsStored == 0); // F18: nothing was written
  CHECK(result.decisionsFound == 2);
  CHECK(result.rows[0].cached);
  CHECK_FALSE(f.artifacts->isCompilerLoaded());
  CHECK(f.cache->statistics().stored == 0);
}

TEST_CASE("F4: what the disk refuses is counted, with the reason") {
  WarmupFixture f;
  std::filesystem::create_directory(f.folder.path() + "/v1");
  std::ofstream(f.folder.path() + "/v1/artifact") << "no folder";
  WarmupResult result = f.run({"fake m=1 n=64"});
  CHECK(result.compiled == 1);
  CHECK(result.unstoredKernels == 1);
  CHECK(result.unstoredDecisions == 0);
  CHECK(result.decisionsStored == 1);
  REQUIRE(result.unstoredReasons.size() == 1);
  CHECK(result.unstoredReasons.begin()->find("Not a directory") !=
        std::string::npos);
  // Kernels in memory are not on disk any more the second time.
  result = f.run({"fake m=1 n=64"});
  CHECK(result.fromCache == 1);
  CHECK(result.unstoredKernels == 1);
  CHECK(result.decisionsFound == 1);
  WarmupOptions withoutCache;
  withoutCache.store = false;
  CHECK(f.run({"fake m=1 n=64"}, withoutCache).unstoredKernels == 0);
}

TEST_CASE("fault 21: a kernel that another process removes meanwhile is told") {
  WarmupFixture f;
  WarmupOptions options;
  options.progress = [&](const ArtifactStore::Progress &progress) {
    if (progress.done == progress.total)
      std::filesystem::remove_all(f.folder.path() + "/v1/artifact");
  };
  WarmupResult result = f.run({"fake m=1 n=64", "fake m=2 n=64"}, options);
  CHECK(result.compiled == 1);
  CHECK(result.unstoredKernels == 1);
  CHECK(result.unstoredDecisions == 0);
  REQUIRE(result.unstoredReasons.size() == 1);
  CHECK(result.unstoredReasons.begin()->find("removed it") !=
        std::string::npos);
  for (const WarmupRow &row : result.rows)
    CHECK(row.unstored == *result.unstoredReasons.begin());
  options.store = false;
  result = f.run({"fake m=1 n=64"}, options);
  CHECK(result.unstoredKernels == 0);
  CHECK(result.rows[0].unstored.empty());
}

TEST_CASE("top and generic choose the rows") {
  WarmupFixture f;
  WarmupOptions options;
  options.top = 2;
  options.withGeneric = true;
  WarmupResult result = f.run({"fake m=1 n=64"}, options);
  REQUIRE(result.rows.size() == 3);
  CHECK(result.rows[0].config == "fast.t64");
  CHECK(result.rows[1].config == "pair.t64");
  CHECK(result.rows[1].kernels == 2);
  CHECK(result.rows[2].config == "plain.t32");
  CHECK(result.compiled == 4);
}

TEST_CASE("a problem that fails stops no other") {
  WarmupFixture f;
  f.family.options.predictNs = [](const std::string &) { return 1000; };
  f.nvrtc.failWhen("type 8193", "fake.cu(1): error: not this type\n"); // fp32
  WarmupResult result =
      f.run({"fake m=1 n=64", "fake m=1 n=64 type=fp16", "fake m=0 n=64"});
  // The first problem's next choices fail, too.
  REQUIRE(result.rows.size() == kCompileAttempts + 2);
  for (size_t i = 0; i < kCompileAttempts; ++i) {
    const WarmupRow &row = result.rows[i];
    CHECK(row.problem == 0);
    CHECK(row.error.code == ErrorCode::CompileFailed);
    CHECK_FALSE(row.cached);
    CHECK(row.isReplaced == (i + 1 < kCompileAttempts));
  }
  const WarmupRow &good = result.rows[kCompileAttempts];
  const WarmupRow &empty = result.rows[kCompileAttempts + 1];
  CHECK(good.error.code == ErrorCode::Success);
  CHECK(good.problem == 1);
  CHECK(empty.error.code == ErrorCode::Success);
  CHECK(empty.config.empty());
  CHECK(result.failedProblems == 1);
  CHECK(result.failedKernels >= kCompileAttempts);
  CHECK(result.decisionsStored == 1);
}

TEST_CASE("progress counts kernels and a cancelled warm-up says so") {
  WarmupFixture f;
  ArtifactStoreOptions storeOptions;
  storeOptions.pool.threads = 1;
  f.reopen(storeOptions);
  f.nvrtc.delayWhen("", 20);
  std::atomic<bool> cancel = false;
  std::vector<size_t> done;
  WarmupOptions options;
  options.top = 7;
  options.cancel = &cancel;
  options.progress = [&](const ArtifactStore::Progress &progress) {
    CHECK(progress.total == 8); // of 7 rows, one of which has two
    done.push_back(progress.done);
    cancel = true;
  };
  WarmupResult result = f.run({"fake m=1 n=64"}, options);
  CHECK(done.front() == 0);
  CHECK(done.back() == 8);
  CHECK(result.failedKernels > 0);
  CHECK(result.rows.back().error.code == ErrorCode::Cancelled);
  // Half of a choice must not stand where a whole one may.
  CHECK(result.failedProblems == 1);
  CHECK(result.decisionsStored == 0);
}

TEST_CASE("F14: a choice that is rejected is replaced by the next one") {
  WarmupFixture f;
  f.nvrtc.spillWhen("fast.t64", 8);
  size_t done = 0, total = 0;
  WarmupOptions options;
  options.progress = [&](const ArtifactStore::Progress &progress) {
    CHECK(progress.done >= done);
    done = progress.done;
    total = progress.total;
  };
  WarmupResult result =
      f.run({"fake m=1 n=64", "fake m=1 n=64 type=fp16"}, options);
  REQUIRE(result.rows.size() == 4);
  CHECK(result.rows[0].config == "fast.t64");
  CHECK(result.rows[0].error.code == ErrorCode::CompileFailed);
  CHECK(result.rows[0].isReplaced);
  CHECK(result.rows[1].problem == 0);
  CHECK(result.rows[1].config == "pair.t64");
  CHECK(result.rows[1].error.code == ErrorCode::Success);
  CHECK_FALSE(result.rows[1].isReplaced);
  CHECK(result.failedProblems == 0);
  CHECK(result.decisionsStored == 2);
  CHECK(done == total);
  CHECK(total == result.distinctKernels);
  const auto decision = f.decided("fake m=1 n=64");
  CHECK(decision[0].config == "pair.t64");
}

TEST_CASE("a generic kernel that goes along is no choice before others") {
  WarmupFixture f;
  f.nvrtc.failWhen("fast.t64", "fake.cu(1): error: not this\n");
  f.nvrtc.failWhen("pair.t64", "fake.cu(1): error: nor that\n");
  WarmupOptions options;
  options.withGeneric = true;
  f.run({"fake m=1 n=64"}, options);
  const auto decision = f.decided("fake m=1 n=64");
  REQUIRE(decision.size() == 2);
  CHECK(decision[1].config == "plain.t32");
}

TEST_CASE("F14: the ranking is gone down until a choice can be used") {
  WarmupFixture f;
  f.nvrtc.failWhen("fast.", "fake.cu(1): error: not this\n");
  f.nvrtc.failWhen("pair.", "fake.cu(1): error: nor that\n");
  SUBCASE("which is the generic one in its place") {
    f.family.options.predictNs = [](const std::string &config) {
      return config == "plain.t32" ? 5000 : 1000;
    };
    CHECK(f.run({"fake m=1 n=64"}).rows.size() == 3);
  }
  SUBCASE("which is a generic one that is far slower behind all others") {
    CHECK(f.run({"fake m=1 n=64"}).rows.size() == 8);
  }
  f.reopen();
  WarmupResult result = f.run({"fake m=1 n=64"});
  CHECK(result.failedProblems == 0);
  const auto decision = f.decided("fake m=1 n=64");
  REQUIRE(decision.size() == 1);
  CHECK(decision[0].config == "plain.t32");

  // One of several that is rejected needs no other.
  f.nvrtc.reset();
  f.nvrtc.failWhen("fast.t64", "fake.cu(1): error: not this\n");
  f.reopen();
  WarmupOptions options;
  options.top = 2;
  result = f.run({"fake m=1 n=64"}, options);
  CHECK(result.rows.size() == 2);
  CHECK_FALSE(result.rows[0].isReplaced);
}

} // namespace
