#include "Store/ArtifactStore.h"

#include "Store/StoreFixture.h"

#include <thread>

using namespace kiln;
using namespace kiln::fake;

namespace {

/// The summary of what must be an error.
template <class T> ErrorSummary errorOf(llvm::Expected<T> value) {
  if (!value)
    return summarize(value.takeError());
  return {};
}

TEST_CASE("an artifact is compiled once, then comes from memory, then disk") {
  StoreFixture f;
  TranslationUnit unit = f.unit("fast.t64");
  CHECK_FALSE(f.artifacts->lookup(unit));
  CHECK_FALSE(f.artifacts->isCompilerLoaded());

  ArtifactPtr first = must(f.artifacts->get(unit));
  CHECK(first->arch == "sm_90");
  CHECK(first->cubin.find("// fast.t64") != std::string::npos);
  CHECK(must(f.artifacts->get(unit)) == first);
  CHECK(f.artifacts->lookup(unit) == first);
  ArtifactStatistics s = f.artifacts->statistics();
  CHECK(s.compiled == 1);
  CHECK(s.memoryHits == 2);
  CHECK(s.diskHits == 0);

  f.reopen();
  std::optional<ArtifactPtr> found = f.artifacts->lookup(unit);
  REQUIRE(found);
  CHECK((*found)->cubin == first->cubin);
  CHECK((*found)->usage == first->usage);
  CHECK(must(f.artifacts->get(unit)) == *found);
  CHECK(f.artifacts->statistics().diskHits == 1);
  CHECK_FALSE(f.artifacts->isCompilerLoaded());
  CHECK(f.nvrtc.compileCount() == 1);
}

TEST_CASE("the key holds what decides the cubin and nothing else") {
  StoreFixture f;
  TranslationUnit unit = f.unit("fast.t64");
  UnitParts other = unit.parts();
  other.name = "another_name";
  CHECK(artifactKey(TranslationUnit(other)) == artifactKey(unit));
  other.arch = "sm_80";
  CHECK(artifactKey(TranslationUnit(other)) != artifactKey(unit));
  CHECK(artifactKey(f.unit("fast.t64.s4")) == artifactKey(unit));
  CHECK(artifactKey(f.unit("fast.t32")) != artifactKey(unit));

  Plan one = makePlan(f.family, f.problem, "fast.t64", f.device);
  CHECK(kernelDigest(one) == unit.digest().hex());
  Plan two = makePlan(f.family, f.problem, "pair.t64", f.device);
  CHECK(kernelDigest(two) != two.kernels.front().digest().hex());
}

TEST_CASE("strict mode compiles nothing and names the key") {
  StoreFixture f;
  TranslationUnit present = f.unit("fast.t64"), absent = f.unit("fast.t32");
  must(f.artifacts->get(present));
  ArtifactStoreOptions strict;
  strict.allowCompile = false;
  f.reopen(strict);
  CHECK(must(f.artifacts->get(present)));
  ErrorSummary error = errorOf(f.artifacts->get(absent));
  CHECK(error.code == ErrorCode::Missing);
  CHECK(error.message.find(absent.digest().hex()) != std::string::npos);
  CHECK(errorOf(f.artifacts->recompile(present)).code == ErrorCode::Missing);
  CHECK_FALSE(f.artifacts->isCompilerLoaded());
  CHECK(f.nvrtc.compileCount() == 1);
}

TEST_CASE("many threads that want one key compile it once") {
  StoreFixture f;
  TranslationUnit unit = f.unit("fast.t64");
  f.nvrtc.delayWhen("", 50);
  std::vector<ArtifactPtr> got(8);
  std::vector<std::thread> threads;
  for (ArtifactPtr &slot : got)
    threads.emplace_back([&] { slot = must(f.artifacts->get(unit)); });
  for (std::thread &thread : threads)
    thread.join();
  for (const ArtifactPtr &artifact : got)
    CHECK(artifact == got.front());
  CHECK(f.nvrtc.compileCount() == 1);
}

TEST_CASE("compileAll compiles distinct keys once and survives failures") {
  StoreFixture f;
  f.nvrtc.failWhen("fast.t32", "fast.cu(3): error: no such thing\n");
  std::vector<TranslationUnit> units = {f.unit("fast.t64"), f.unit("fast.t32"),
                                        f.unit("fast.t16"),
                                        f.unit("fast.t64.s2")};
  std::vector<size_t> done;
  size_t failed = 0;
  std::vector<ArtifactOutcome> outcomes = f.artifacts->compileAll(
      units, [&](const ArtifactStore::Progress &progress) {
        CHECK(progress.total == 3);
        done.push_back(progress.done);
        if (progress.outcome && !*progress.outcome) {
          ++failed;
          CHECK(progress.unit->source() == units[1].source());
        }
      });
  CHECK(done == std::vector<size_t>{0, 1, 2, 3});
  CHECK(failed == 1);
  REQUIRE(outcomes.size() == 4);
  CHECK(outcomes[0]);
  CHECK(outcomes[0].origin == ArtifactOrigin::Compiled);
  CHECK(outcomes[1].error.code == ErrorCode::CompileFailed);
  CHECK(outcomes[1].compileLog.find("no such thing") != std::string::npos);
  CHECK(outcomes[2]);
  CHECK(outcomes[3].artifact == outcomes[0].artifact);
  CHECK(f.nvrtc.compileCount() == 3);
  CHECK(f.artifacts->statistics().failed == 1);

  // A unit that the compiler refused is not tried again.
  ErrorSummary again = errorOf(f.artifacts->get(units[1]));
  CHECK(again.code == ErrorCode::CompileFailed);
  CHECK(f.nvrtc.compileCount() == 3);
}

TEST_CASE("a failed get carries log and text") {
  StoreFixture f;
  f.nvrtc.failWhen("fast.t32", "fast.cu(3): error: no such thing\n");
  TranslationUnit unit = f.unit("fast.t32");
  auto got = f.artifacts->get(unit);
  REQUIRE_FALSE(got);
  bool seen = false;
  llvm::handleAllErrors(
      got.takeError(),
      [&](const CompileError &error) {
        seen = true;
        CHECK(error.unit.source() == unit.source());
        CHECK(error.compileLog.find("no such thing") != std::string::npos);
      },
      [](const llvm::ErrorInfoBase &) {});
  CHECK(seen);
}

TEST_CASE("a missing compiler is an error that passes") {
  StoreFixture f;
  ArtifactStoreOptions options;
  options.nvrtc.explicitPath = f.folder.path() + "/none.so";
  ArtifactStore broken(*f.cache, options);
  CHECK(errorOf(broken.get(f.unit("fast.t64"))).code ==
        ErrorCode::CompilerMissing);
  // Another process fills the cache meanwhile.
  must(f.artifacts->get(f.unit("fast.t64")));
  CHECK(must(broken.get(f.unit("fast.t64"))));
}

TEST_CASE("a request nobody waits for is taken back") {
  StoreFixture f;
  ArtifactStoreOptions options;
  options.pool.threads = 1;
  f.reopen(options);
  f.nvrtc.delayWhen("fast.t16", 100);
  PendingArtifact running = f.artifacts->request(f.unit("fast.t16"));
  PendingArtifact dropped = f.artifacts->request(f.unit("fast.t32"));
  PendingArtifact shared = f.artifacts->request(f.unit("fast.t64"));
  PendingArtifact kept = f.artifacts->request(f.unit("fast.t64"));
  dropped = PendingArtifact();
  shared = PendingArtifact();
  CHECK(kept.wait());
  CHECK(running.wait());
  CHECK(f.nvrtc.compileCount() == 2);
  CHECK_FALSE(f.artifacts->lookup(f.unit("fast.t32")));
  // It may be requested again.
  CHECK(must(f.artifacts->get(f.unit("fast.t32"))));
}

TEST_CASE("what is needed now overtakes what was requested ahead") {
  StoreFixture f;
  ArtifactStoreOptions options;
  options.pool.threads = 1;
  f.reopen(options);
  f.nvrtc.delayWhen("", 40);
  std::vector<PendingArtifact> ahead;
  for (const char *config : {"fast.t16", "fast.t32", "fast.t64", "fast.t128"})
    ahead.push_back(f.artifacts->request(f.unit(config)));
  CHECK(must(f.artifacts->get(f.unit("fast.t128"))));
  CHECK_FALSE(ahead[2].isReady());
  for (PendingArtifact &pending : ahead)
    CHECK(pending.wait());
  CHECK(f.nvrtc.compileCount() == 4);
}

TEST_CASE("cancelling compileAll ends it with what was done") {
  StoreFixture f;
  ArtifactStoreOptions options;
  options.pool.threads = 1;
  f.reopen(options);
  f.nvrtc.delayWhen("", 250); // a busy machine sees it late
  std::atomic<bool> cancel = false;
  std::vector<TranslationUnit> units;
  for (const char *config : {"fast.t16", "fast.t32", "fast.t64", "fast.t128"})
    units.push_back(f.unit(config));
  size_t last = 0;
  std::vector<ArtifactOutcome> outcomes = f.artifacts->compileAll(
      units,
      [&](const ArtifactStore::Progress &progress) {
        last = progress.done;
        cancel = progress.done > 0;
      },
      &cancel);
  CHECK(last == 4);
  CHECK(outcomes[0]);
  CHECK(outcomes[3].error.code == ErrorCode::Cancelled);
  CHECK(f.nvrtc.compileCount() < 4);
}

/// As another process on the same cache.
struct OtherProcess {
  explicit OtherProcess(StoreFixture &f, ArtifactStoreOptions options = {}) {
    cache::StoreOptions cacheOptions;
    cacheOptions.writeDir = f.folder.path();
    cache = cache::Store::open(cacheOptions);
    options.nvrtc.explicitPath = FakeNvrtc::path(KILN_BINARY_DIR);
    artifacts.emplace(*cache, std::move(options));
  }
  std::unique_ptr<cache::Store> cache;
  std::optional<ArtifactStore> artifacts;
};

TEST_CASE("F7: what another process compiled while a unit was queued is taken "
          "from disk") {
  StoreFixture f;
  ArtifactStoreOptions options;
  options.pool.threads = 1;
  f.reopen(options);
  OtherProcess other(f);
  f.nvrtc.delayWhen("fast.t16", 100);
  PendingArtifact running = f.artifacts->request(f.unit("fast.t16"));
  PendingArtifact queued = f.artifacts->request(f.unit("fast.t64"));
  CHECK(must(other.artifacts->get(f.unit("fast.t64"))));
  CHECK_FALSE(queued.isReady());
  CHECK(queued.wait().origin == ArtifactOrigin::Disk);
  CHECK(running.wait().origin == ArtifactOrigin::Compiled);
  CHECK(f.nvrtc.compileCount() == 2);
  CHECK(f.artifacts->statistics().compiled == 1);
  CHECK(f.artifacts->statistics().diskHits == 1);
}

TEST_CASE("F7: several processes that need the same kernels share the work") {
  StoreFixture f;
  f.nvrtc.delayWhen("", 30);
  std::vector<TranslationUnit> units;
  for (const char *config : {"fast.t16", "fast.t32", "fast.t64", "fast.t128"})
    units.push_back(f.unit(config));
  std::vector<std::thread> processes;
  std::atomic<int> good = 0;
  for (int i = 0; i < 4; ++i)
    processes.emplace_back([&] {
      ArtifactStoreOptions options;
      options.pool.threads = 1;
      OtherProcess process(f, options);
      for (const ArtifactOutcome &outcome :
           process.artifacts->compileAll(units))
        good += static_cast<bool>(outcome);
    });
  for (std::thread &process : processes)
    process.join();
  CHECK(good == 16);
  CHECK(f.nvrtc.compileCount() == 4);
}

TEST_CASE(
    "F7: a claim of a process that does nothing delays what is ahead, for "
    "a while, and never what is needed now") {
  StoreFixture f;
  OtherProcess stopped(f);
  auto claimed = [&](const char *config) {
    return stopped.cache->claim(cache::Kind::Artifact,
                                artifactKey(f.unit(config)));
  };
  cache::Claim first = claimed("fast.t16"), second = claimed("fast.t32"),
               third = claimed("fast.t64");
  REQUIRE(first.state == cache::Claim::State::Mine);
  ArtifactStoreOptions options;
  options.claimWait = std::chrono::milliseconds(60);
  {
    OtherProcess process(f, options);
    auto start = std::chrono::steady_clock::now();
    PendingArtifact ahead = process.artifacts->request(f.unit("fast.t16"));
    CHECK(ahead.wait().origin == ArtifactOrigin::Compiled);
    CHECK(std::chrono::steady_clock::now() - start >= options.claimWait);
  }
  options.claimWait = std::chrono::hours(1);
  options.pool.threads = 1;
  f.reopen(options);
  CHECK(must(f.artifacts->get(f.unit("fast.t32"))));
  // It holds for artifacts requested ahead, and while others wait behind them.
  PendingArtifact ahead = f.artifacts->request(f.unit("fast.t64"));
  CHECK(must(f.artifacts->get(f.unit("fast.t128"))));
  CHECK_FALSE(ahead.isReady());
  CHECK(must(f.artifacts->get(f.unit("fast.t64"))));
  CHECK(ahead.wait());
}

TEST_CASE("F7: what another process has claimed may be cancelled") {
  StoreFixture f;
  OtherProcess stopped(f);
  cache::Claim claim = stopped.cache->claim(cache::Kind::Artifact,
                                            artifactKey(f.unit("fast.t64")));
  ArtifactStoreOptions options;
  options.claimWait = std::chrono::hours(1);
  f.reopen(options);
  std::atomic<bool> cancel = false;
  std::vector<TranslationUnit> units = {f.unit("fast.t32"), f.unit("fast.t64")};
  auto outcomes = f.artifacts->compileAll(
      units,
      [&](const ArtifactStore::Progress &progress) {
        cancel = progress.done > 0;
      },
      &cancel);
  CHECK(outcomes[0]);
  CHECK(outcomes[1].error.code == ErrorCode::Cancelled);
  // A request that is not cancelled ends with the store.
  PendingArtifact left = f.artifacts->request(f.unit("fast.t64"));
  f.artifacts.reset();
  CHECK(left.wait().error.code == ErrorCode::Cancelled);
}

TEST_CASE("a kernel that ptxas serialised is rejected, also from the cache") {
  StoreFixture f;
  f.nvrtc.appendLog("ptxas info : (C7510) Potential Performance Loss: "
                    "wgmma.mma_async instructions are serialized\n");
  TranslationUnit unit = f.unit("fast.t64");
  ErrorSummary error = errorOf(f.artifacts->get(unit));
  CHECK(error.code == ErrorCode::CompileFailed);
  CHECK(error.message.find("C7510") != std::string::npos);
  f.reopen();
  CHECK_FALSE(f.artifacts->lookup(unit));
  CHECK(errorOf(f.artifacts->get(unit)).code == ErrorCode::CompileFailed);
  CHECK(f.nvrtc.compileCount() == 1);
}

TEST_CASE("a kernel that spills is rejected by name, also from the cache") {
  StoreFixture f;
  f.nvrtc.spillWhen("// fast.t64", 24);
  TranslationUnit unit = f.unit("fast.t64");
  for (int time = 0; time < 2; ++time) {
    ErrorSummary error = errorOf(f.artifacts->get(unit));
    CHECK(error.code == ErrorCode::CompileFailed);
    CHECK(error.message.find("rejected because ptxas spilled 24 bytes") !=
          std::string::npos);
    CHECK_FALSE(f.artifacts->lookup(unit));
    f.reopen();
  }
  CHECK(f.nvrtc.compileCount() == 1);
  CHECK_FALSE(must(f.artifacts->get(f.unit("fast.t32")))->hasSpills());
}

TEST_CASE("the kernel that a signature falls back to may spill") {
  StoreFixture f;
  f.nvrtc.setUsage(255, 64, 0);
  TranslationUnit unit = f.unit("plain.t32");
  CHECK(must(f.artifacts->get(unit))->hasSpills());
  f.reopen();
  CHECK(f.artifacts->lookup(unit));
}

TEST_CASE("a cached entry is checked before it is believed") {
  StoreFixture f;
  TranslationUnit unit = f.unit("fast.t64");
  ArtifactPtr good = must(f.artifacts->get(unit));
  auto isMiss = [&](const Artifact &bad) {
    f.cache->publish(cache::Kind::Artifact, artifactKey(unit), bad.attributes(),
                     bad.cubin);
    f.reopen();
    return !f.artifacts->lookup(unit);
  };
  Artifact bad = *good;
  bad.cubin = "no ELF file at all";
  CHECK(isMiss(bad));
  bad = *good;
  bad.arch = "sm_80";
  CHECK(isMiss(bad));
  bad = *good;
  bad.entry = "another";
  CHECK(isMiss(bad));
  CHECK_FALSE(isMiss(*good));

  f.cache->publish(cache::Kind::Artifact, artifactKey(unit), {}, good->cubin);
  f.reopen();
  CHECK_FALSE(f.artifacts->lookup(unit));
  // It heals.
  must(f.artifacts->get(unit));
  f.reopen();
  CHECK(f.artifacts->lookup(unit));
}

TEST_CASE("another toolchain serves unless an exact one is wanted") {
  StoreFixture f;
  TranslationUnit unit = f.unit("fast.t64");
  must(f.artifacts->get(unit));
  f.nvrtc.setVersion(13, 1);
  f.reopen();
  CHECK(f.artifacts->lookup(unit));
  ArtifactStoreOptions options;
  options.exactToolchain = true;
  f.reopen(options);
  CHECK_FALSE(f.artifacts->lookup(unit));
  CHECK(must(f.artifacts->get(unit))->toolchain.find("13.1") !=
        std::string::npos);
  f.reopen(options);
  CHECK(f.artifacts->lookup(unit));
}

TEST_CASE("recompile passes over memory and cache") {
  StoreFixture f;
  TranslationUnit unit = f.unit("fast.t64");
  ArtifactPtr first = must(f.artifacts->get(unit));
  ArtifactPtr second = must(f.artifacts->recompile(unit));
  CHECK(first != second);
  CHECK(f.nvrtc.compileCount() == 2);
  CHECK(must(f.artifacts->get(unit)) == second);
}

TEST_CASE("a compilation that hangs is given up") {
  StoreFixture f;
  ArtifactStoreOptions options;
  options.pool.compileLimit = std::chrono::milliseconds(50);
  f.reopen(options);
  f.nvrtc.delayWhen("fast.t64", 1000);
  ErrorSummary error = errorOf(f.artifacts->get(f.unit("fast.t64")));
  CHECK(error.code == ErrorCode::CompileFailed);
  CHECK(must(f.artifacts->get(f.unit("fast.t32"))));
}

TEST_CASE("memory is bounded and the cache answers what it let go") {
  StoreFixture f;
  ArtifactStoreOptions options;
  options.maxMemoryBytes = 1;
  f.reopen(options);
  must(f.artifacts->get(f.unit("fast.t64")));
  must(f.artifacts->get(f.unit("fast.t32")));
  must(f.artifacts->get(f.unit("fast.t64")));
  CHECK(f.nvrtc.compileCount() == 2);
  CHECK(f.artifacts->statistics().diskHits == 1);
}

TEST_CASE("a gauge counts the kernels that are kept in memory") {
  StoreFixture f;
  auto bytes = [&] { return f.gauge->read().bytes; };
  const uint64_t empty = bytes();
  const ArtifactPtr one = must(f.artifacts->get(f.unit("fast.t64")));
  const uint64_t first = bytes();
  CHECK(first >= empty + one->cubin.size());
  CHECK(first <= empty + one->cubin.size() + one->log.size() + 1024);
  must(f.artifacts->get(f.unit("fast.t64")));
  CHECK(bytes() == first);
  must(f.artifacts->recompile(f.unit("fast.t64")));
  CHECK(bytes() == first); // in place of the other
  must(f.artifacts->get(f.unit("fast.t32")));
  CHECK(bytes() > first);
  const uint64_t peak = bytes();
  f.artifacts.reset();
  CHECK(bytes() == empty);
  CHECK(f.gauge->read().peakBytes == peak);
}

TEST_CASE("destroying the store ends what is queued") {
  StoreFixture f;
  ArtifactStoreOptions options;
  options.pool.threads = 1;
  f.reopen(options);
  f.nvrtc.delayWhen("", 50);
  PendingArtifact running = f.artifacts->request(f.unit("fast.t16"));
  PendingArtifact queued = f.artifacts->request(f.unit("fast.t32"));
  f.artifacts.reset();
  CHECK(queued.wait().error.code == ErrorCode::Cancelled);
  CHECK(running.isReady());
}

/// Whether \p isSo within a minute.
template <class Condition> bool eventually(Condition isSo) {
  for (int i = 0; i < 60000 && !isSo(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return isSo();
}

/// A store whose compilations have a short grace once they are cancelled.
ArtifactStoreOptions shortGrace(const std::atomic<bool> *cancel = nullptr) {
  ArtifactStoreOptions options;
  options.pool.threads = 1;
  options.pool.shutdownGrace = std::chrono::milliseconds(20);
  options.cancel = cancel;
  return options;
}

TEST_CASE("F12: a cancelled batch does not wait for a compilation that hangs") {
  StoreFixture f;
  f.reopen(shortGrace());
  f.nvrtc.holdWhen("fast.t64");
  std::atomic<bool> cancel = false;
  std::thread canceller([&] {
    eventually([&] { return f.nvrtc.heldCount() == 1; });
    cancel = true;
  });
  auto outcomes = f.artifacts->compileAll(
      {f.unit("fast.t64"), f.unit("fast.t32")}, nullptr, &cancel);
  canceller.join();
  CHECK(outcomes[0].error.code == ErrorCode::Cancelled);
  CHECK(outcomes[0].error.message.find("abandoned") != std::string::npos);
  CHECK(outcomes[1].error.code == ErrorCode::Cancelled);
  // The failure does not last: the same artifact can be had again.
  f.nvrtc.release();
  CHECK(must(f.artifacts->get(f.unit("fast.t64"))));
}

TEST_CASE("F12: waits end soon after they are cancelled") {
  StoreFixture f;
  std::atomic<bool> cancel = false;
  f.reopen(shortGrace(&cancel));
  must(f.artifacts->get(f.unit("fast.t32")));
  f.nvrtc.holdWhen("fast.t64");
  PendingArtifact hung = f.artifacts->request(f.unit("fast.t64"));
  REQUIRE(eventually([&] { return f.nvrtc.heldCount() == 1; }));
  cancel = true;
  CHECK(hung.wait().error.code == ErrorCode::Cancelled);
  CHECK(errorOf(f.artifacts->get(f.unit("fast.t16"))).code ==
        ErrorCode::Cancelled);
  CHECK(must(f.artifacts->get(f.unit("fast.t32"))));
  f.nvrtc.release();
}

TEST_CASE("F12: a store that is stopped ends the waits of other threads") {
  StoreFixture f;
  f.reopen(shortGrace());
  must(f.artifacts->get(f.unit("fast.t32")));
  f.nvrtc.holdWhen("fast.t64");
  ErrorSummary error;
  std::thread waiting(
      [&] { error = errorOf(f.artifacts->get(f.unit("fast.t64"))); });
  REQUIRE(eventually([&] { return f.nvrtc.heldCount() == 1; }));
  f.artifacts->stop();
  waiting.join();
  CHECK(error.message.find("abandoned") != std::string::npos);
  CHECK(errorOf(f.artifacts->get(f.unit("fast.t16"))).code ==
        ErrorCode::Cancelled);
  CHECK(must(f.artifacts->get(f.unit("fast.t32"))));
  CHECK(f.artifacts->width() == 1);
  f.nvrtc.release();
}

} // namespace
