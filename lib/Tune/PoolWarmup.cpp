//===- PoolWarmup.cpp - compile the pool of a signature, without a GPU ----===//
#include "Tune/PoolWarmup.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <chrono>
#include <map>

namespace kiln {

namespace {

/// One call of warmPool().
struct PoolRun {
  const PoolSubject &subject;
  const DeviceModel &device;
  ArtifactStore &artifacts;
  PoolStore &pools;
  const PoolWarmupOptions &options;
  PoolWarmupResult result;
  std::map<Digest, ArtifactOutcome> outcomes; ///< by unit

  bool isCancelled() const {
    return options.cover.cancel && *options.cover.cancel;
  }
  void compile();
  void dropRefused();
  void storePool();
  void checkOnDisk();
  void fail(ErrorSummary error) {
    if (result.error.code == ErrorCode::Success)
      result.error = std::move(error);
  }
};

} // namespace

void PoolRun::compile() {
  std::vector<TranslationUnit> units;
  for (const PoolKernel &kernel : result.cover.kernels)
    llvm::append_range(units, kernel.units);
  std::vector<ArtifactOutcome> compiled =
      artifacts.compileAll(units, options.progress, options.cover.cancel);
  for (auto [unit, outcome] : llvm::zip_equal(units, compiled))
    outcomes.try_emplace(unit.digest(), outcome);
  result.distinctKernels = outcomes.size();
  for (const auto &[digest, outcome] : outcomes) {
    result.compiled += outcome && outcome.origin == ArtifactOrigin::Compiled;
    result.fromCache += outcome && outcome.origin != ArtifactOrigin::Compiled;
  }
}

/// Drops kernels that the compiler refuses, since it would refuse them again. A
/// kernel that failed for another reason counts as missing.
void PoolRun::dropRefused() {
  llvm::erase_if(result.cover.kernels, [&](const PoolKernel &kernel) {
    for (const TranslationUnit &unit : kernel.units) {
      const ArtifactOutcome &outcome = outcomes.at(unit.digest());
      if (outcome)
        continue;
      if (outcome.error.code != ErrorCode::CompileFailed) {
        fail(outcome.error);
        return false;
      }
      ++result.refused;
      return true;
    }
    return false;
  });
  for (const PoolKernel &kernel : result.cover.kernels)
    result.configs += kernel.configs.size();
  if (result.cover.kernels.empty())
    fail({ErrorCode::CompileFailed, "no kernel of the pool compiles", 0});
}

void PoolRun::storePool() {
  StoredPool stored;
  for (const PoolKernel &kernel : result.cover.kernels) {
    StoredPoolKernel &added = stored.kernels.emplace_back();
    for (const Values &config : kernel.configs)
      added.configs.push_back(config.text());
    for (const TranslationUnit &unit : kernel.units)
      added.artifacts.push_back(artifactName(unit));
  }
  if (!result.cover.curve.empty()) {
    stored.meanRegret = result.cover.curve.back().mean;
    stored.mostRegret = result.cover.curve.back().most;
  }
  const PoolStore::StoreResult done =
      pools.store(subject.family(), subject.signature(), device, stored);
  result.wasThere = done.wasThere;
  if (done.publish.status != cache::PublishStatus::Stored)
    result.unstoredReasons.insert(done.publish.reason);
}

/// Looks for all entries that should be on disk once the last one is stored.
void PoolRun::checkOnDisk() {
  constexpr const char *kGone = "another process removed it from the cache";
  std::set<Digest> seen;
  for (const PoolKernel &kernel : result.cover.kernels)
    for (const TranslationUnit &unit : kernel.units) {
      if (!seen.insert(unit.digest()).second || artifacts.isOnDisk(unit))
        continue;
      ++result.unstoredKernels;
      const cache::PublishResult &storage = outcomes.at(unit.digest()).storage;
      result.unstoredReasons.insert(storage.reason.empty() ? kGone
                                                           : storage.reason);
    }
  result.isStored =
      pools.isOnDisk(subject.family(), subject.signature(), device);
  if (result.isStored && result.unstoredKernels == 0)
    return;
  if (result.unstoredReasons.empty())
    result.unstoredReasons.insert(kGone);
  fail({ErrorCode::Io,
        fmt::format("{} kernels{} are not on disk: {}", result.unstoredKernels,
                    result.isStored ? "" : " and the pool",
                    llvm::join(result.unstoredReasons, "; ")),
        0});
}

PoolWarmupResult warmPool(const PoolSubject &subject, const DeviceModel &device,
                          ArtifactStore &artifacts, PoolStore &pools,
                          const PoolWarmupOptions &options) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  auto elapsedMs = [&] {
    return std::chrono::duration<double, std::milli>(Clock::now() - start)
        .count();
  };
  PoolRun run{subject, device, artifacts, pools, options, {}, {}};
  auto cover = coverSignature(subject, device, options.cover);
  run.result.coverMs = elapsedMs();
  if (!cover) {
    run.fail(summarize(cover.takeError()));
  } else {
    run.result.cover = std::move(*cover);
    run.compile();
    run.dropRefused();
    if (run.isCancelled())
      run.fail({ErrorCode::Cancelled, "cancelled", 0});
    if (options.store && run.result.error.code == ErrorCode::Success) {
      run.storePool();
      run.checkOnDisk();
    }
  }
  run.result.elapsedMs = elapsedMs();
  return std::move(run.result);
}

} // namespace kiln
