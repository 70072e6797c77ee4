//===- PrepareCompile.cpp - kiln_prepare that only compiles ---------------===//
//
// It needs no GPU: decisions of single problems and portfolios of ranges are
// stored for later launches and preparations. So a problem whose kernels or
// choices are not on disk at the end has failed, if this engine may write to a
// cache at all.
//
//===----------------------------------------------------------------------===//
#include "Call/RangeParts.h"
#include "Runtime/EnteredContext.h"
#include "Runtime/PrepareTask.h"
#include "Tune/PoolWarmup.h"
#include "Tune/WarmupSet.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

/// Success if \p missing is empty: then all is on disk.
static ErrorSummary errorOfMissing(std::string missing) {
  if (missing.empty())
    return {};
  return {ErrorCode::Io, std::move(missing), 0};
}

llvm::Expected<DeviceModel> PrepareTask::deviceToCompileFor() {
  if (!targets.empty()) {
    auto entered = EnteredContext::of(engine, targets.front().context);
    if (!entered)
      return entered.takeError();
    return entered->state().model;
  }
  auto named = engine.namedDevice();
  if (!named)
    return named.takeError();
  return **named;
}

void PrepareTask::compileOnly() {
  auto device = deviceToCompileFor();
  if (!device) {
    const ErrorSummary noDevice = summarize(device.takeError());
    for (Item &item : items)
      if (item.spec || item.pool)
        item.error = noDevice;
  } else {
    compilePools(*device);
    compileRequests(*device);
  }
  for (size_t i = 0; i < items.size(); ++i)
    finishProblem(i, items[i].error);
}

void PrepareTask::noteCompiles(size_t done, size_t total) {
  std::lock_guard<std::mutex> lock(mutex);
  counts.compiles_done = done;
  counts.compiles_total = total;
}

/// Stores the estimator's portfolios of ranges, and its choices for problems
/// without ranges.
void PrepareTask::compileRequests(const DeviceModel &device) {
  Engine::Services &services = engine.services();
  const PortfolioContext context{device,
                                 *services.artifacts,
                                 *services.records,
                                 *services.portfolios,
                                 /*runner=*/nullptr,
                                 deviceClassKey(device)};
  WarmupSetOptions options;
  options.workspaceBytes = engine.config().workspaceLimit;
  options.retune = flags & KILN_PREPARE_RETUNE;
  options.wantsOnDisk = engine.config().writesToDisk();
  options.compilesAhead = true;
  options.cancel = &cancelled;
  options.progress = [&](const ArtifactStore::Progress &progress) {
    noteCompiles(progress.done, progress.total);
    callProgress();
  };
  WarmupSet set(context, options);
  std::vector<Item *> owners;
  for (Item &item : items) {
    if (!item.spec)
      continue;
    if (cancelled) {
      item.error = {ErrorCode::Cancelled, "cancelled", 0};
      continue;
    }
    if (item.spec->ranges.empty()) {
      set.add({item.spec->family, item.spec->problem});
      owners.push_back(&item);
      continue;
    }
    auto parts = partsOf(*item.spec);
    if (!parts) {
      item.error = summarize(parts.takeError());
      continue;
    }
    for (RangePart &part : *parts) {
      set.add(std::move(part.range));
      owners.push_back(&item);
    }
  }
  if (owners.empty())
    return;
  const std::vector<WarmupSetOutcome> outcomes = set.run();
  for (auto [item, outcome] : llvm::zip_equal(owners, outcomes))
    if (item->error.code == ErrorCode::Success)
      item->error = outcome.error.code == ErrorCode::Success
                        ? errorOfMissing(outcome.missing)
                        : outcome.error;
}

/// Stores the pools of signatures.
void PrepareTask::compilePools(const DeviceModel &device) {
  Engine::Services &services = engine.services();
  PoolWarmupOptions options;
  options.cover.workspaceBytes = engine.config().workspaceLimit;
  options.cover.threads = services.artifacts->width();
  options.cover.cancel = &cancelled;
  options.store = engine.config().writesToDisk();
  size_t done = 0;
  options.progress = [&](const ArtifactStore::Progress &progress) {
    noteCompiles(done + progress.done, done + progress.total);
    callProgress();
  };
  for (Item &item : items) {
    if (!item.pool)
      continue;
    const PoolWarmupResult result = warmPool(
        *item.pool, device, *services.artifacts, *services.pools, options);
    done += result.distinctKernels;
    item.error = result.error;
    if (item.error.code == ErrorCode::Success &&
        !(flags & KILN_PREPARE_COMPILE_ONLY))
      item.error = summarize(loadPool(result.cover));
  }
}

/// Loads the kernels of \p cover into the contexts as far as there is room.
llvm::Error PrepareTask::loadPool(const PoolCover &cover) {
  for (const Target &target : targets) {
    auto entered = EnteredContext::of(engine, target.context);
    if (!entered)
      return entered.takeError();
    if (auto error = loadPool(cover, entered->state()))
      return error;
  }
  return llvm::Error::success();
}

/// Loads the kernels of \p cover into the current context. The shared memory of
/// a kernel is set at its first launch.
llvm::Error PrepareTask::loadPool(const PoolCover &cover, ContextState &state) {
  KernelLoader &loader = engine.kernelLoader();
  size_t done = 0;
  for (const PoolKernel &kernel : cover.kernels) {
    std::vector<std::string> missing;
    for (const TranslationUnit &unit : kernel.units)
      if (std::string digest = unit.digest().hex();
          !loader.findLoaded(state.id, digest, 0))
        missing.push_back(std::move(digest));
    if (cancelled)
      return makeError(ErrorCode::Cancelled, "cancelled");
    if (!state.ahead.take(missing, engine.config().poolLimit))
      break;
    for (const TranslationUnit &unit : kernel.units)
      if (auto artifact = engine.services().artifacts->lookup(unit)) {
        auto loaded = loader.load(**artifact, unit.digest().hex(), 0,
                                  KernelLifetime::Context);
        if (!loaded)
          return loaded.takeError();
      }
    ++done;
  }
  if (done < cover.kernels.size())
    engine.hooks().log().warning(
        "a pool: {} of {} kernels are loaded when a launch asks for them: "
        "pool_limit_bytes, {}, is reached",
        cover.kernels.size() - done, cover.kernels.size(),
        engine.config().poolLimit);
  return llvm::Error::success();
}

} // namespace kiln
