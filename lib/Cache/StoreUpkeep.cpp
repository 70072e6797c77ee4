//===- StoreUpkeep.cpp - keeping the write tier under its limit -----------===//
//
// The folder knows its limit and its size (Upkeep.h), so a publisher learns in
// microseconds that nothing is to be done. A publisher that finds the tier over
// the limit looks at all files and removes the entries that were used least
// recently, down to an eighth below the limit. One process does so at a time;
// only where that one is stopped or slow, and the tier a quarter over the
// limit, others go on beside it.
//
// A promise goes before the limit: a caller that was told that an entry is
// stored will find it. So a store never evicts entries that it published or
// found itself, nor a pool, which was put there for others, with its artifacts.
// A limit that is too small for these is exceeded, with a warning.
//
//===----------------------------------------------------------------------===//
#include "Cache/Prune.h"
#include "Cache/StoreImpl.h"
#include "Cache/Upkeep.h"

#include <algorithm>
#include <cstdlib>

namespace kiln::cache {

/// A hash that tells an entry from others; two entries that agree in it are in
/// use together.
static uint64_t tagOf(Kind kind, llvm::StringRef name) {
  uint64_t digits = 0;
  constexpr size_t kDigits = 16;
  name.take_front(kDigits).getAsInteger(16, digits);
  return digits ^ static_cast<uint64_t>(kind);
}

void Store::Impl::noteUse(const Target &target) {
  std::lock_guard guard(inUseMutex);
  inUse.insert(tagOf(target.kind, target.name));
}

bool Store::Impl::isInUse(Kind kind, llvm::StringRef name) {
  std::lock_guard guard(inUseMutex);
  return inUse.count(tagOf(kind, name)) > 0;
}

/// Writes this store's limit to the folder, unless that has a larger one.
void Store::Impl::askForLimit() {
  if (!writes() || limitBytes == 0 ||
      readUpkeep(files, *writeTier).limitBytes >= limitBytes)
    return;
  updateUpkeep(files, *writeTier, [&](UpkeepState &state, int64_t) {
    state.limitBytes = std::max(state.limitBytes, limitBytes);
  });
}

uint64_t Store::limitBytes() const {
  return impl->writeTier ? readUpkeep(impl->files, *impl->writeTier).limitBytes
                         : 0;
}

void Store::upkeep(uint64_t written, llvm::function_ref<bool()> isCancelled) {
  Impl::WarningSender sender{*impl};
  if (impl->writes())
    impl->upkeep(written, isCancelled);
}

void Store::Impl::upkeep(uint64_t written,
                         llvm::function_ref<bool()> isCancelled) {
  const uint64_t fresh = uncounted.exchange(0) + written;
  uint64_t limit = 0, used = 0;
  bool sweeps = false;
  const bool isCounted =
      updateUpkeep(files, *writeTier, [&](UpkeepState &state, int64_t now) {
        constexpr int64_t period = std::chrono::seconds(kSweepPeriod).count();
        // Either way: a clock may have been wrong.
        sweeps = std::abs(now - state.sweptAt) >= period;
        if (sweeps)
          state.sweptAt = now;
        state.limitBytes = std::max(state.limitBytes, limitBytes);
        if (state.usedBytes)
          *state.usedBytes += fresh;
        limit = state.limitBytes;
        used = state.usedBytes.value_or(UINT64_MAX);
      });
  if (!isCounted) {
    uncounted += fresh;
    return;
  }
  if (!evicts || limitBytes == 0)
    limit = kNoLimit;
  const bool isOver = limit != kNoLimit && used > limit && used >= evictsFrom;
  if (sweeps || isOver)
    makeRoom(limit, used, isCancelled);
}

/// Looks at all files of the tier, which had about \p used bytes (UINT64_MAX:
/// not known).
void Store::Impl::makeRoom(uint64_t limit, uint64_t used,
                           llvm::function_ref<bool()> isCancelled) {
  std::optional<EvictorClaim> claim(std::in_place, files, *writeTier);
  const bool isKnown = used != UINT64_MAX;
  const bool isFar = isKnown && used > limit && used - limit > limit / 4;
  if (claim->isTheirs() && !isFar)
    return;
  PruneRules rules;
  rules.isCancelled = isCancelled;
  auto stays = [&](Kind kind, llvm::StringRef name) {
    return isInUse(kind, name);
  };
  rules.isInUse = stays;
  rules.keepsPools = true;
  if (limit != kNoLimit) {
    rules.maxBytes = limit;
    rules.slackBytes = limit / 8;
  }
  const PruneResult result = pruneTier(files, *writeTier, rules);
  const bool isCut = isCancelled && isCancelled();
  const uint64_t left = result.keptBytes + result.temporaryBytes;
  updateUpkeep(files, *writeTier, [&](UpkeepState &state, int64_t) {
    if (isCut)
      state.sweptAt = 0; // others may begin at once
    else                 // with the bytes that others wrote meanwhile
      state.usedBytes =
          left +
          (isKnown && state.usedBytes > used ? *state.usedBytes - used : 0);
  });
  claim.reset(); // no lock is held when the log is called
  uint64_t entries = 0, bytes = 0;
  for (const PrunedFile &file : result.removed)
    if (file.why == PrunedFile::Why::Size) {
      ++entries;
      bytes += file.bytes;
    }
  counters.evicted += entries;
  counters.evictedBytes += bytes;
  if (entries)
    log.info("{} entries with {} bytes were removed from the cache {}, to keep "
             "it under its limit of {} bytes",
             entries, bytes, writeTier->path(), limit);
  if (result.failed)
    warnOnce("upkeep",
             fmt::format("cannot remove from the cache {}", result.failure));
  if (isCut)
    return;
  // Each of the next writers need not look at all files in vain.
  evictsFrom = left > limit ? left + limit / 16 : 0;
  if (left > limit && !result.failed)
    warnOnce("limit",
             fmt::format("the cache {} has {} bytes, over its limit of {}: "
                         "this process uses them, or a pool does, so they stay",
                         writeTier->path(), left, limit));
}

PruneResult Store::prune(const PruneRules &rules) {
  if (!impl->writeTier)
    return {};
  PruneResult result = pruneTier(impl->files, *impl->writeTier, rules);
  if (rules.isDryRun || rules.only ||
      (rules.isCancelled && rules.isCancelled()))
    return result;
  if (!readUpkeep(impl->files, *impl->writeTier).usedBytes && !rules.maxBytes)
    return result;
  updateUpkeep(impl->files, *impl->writeTier, [&](UpkeepState &state, int64_t) {
    state.usedBytes = result.keptBytes + result.temporaryBytes;
    if (rules.maxBytes)
      state.limitBytes = std::min(state.limitBytes, *rules.maxBytes);
  });
  return result;
}

} // namespace kiln::cache
