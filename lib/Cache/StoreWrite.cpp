//===- StoreWrite.cpp - publishing and updating ---------------------------===//
//
// An update reads an entry, merges and replaces it. Any number of processes and
// threads may do so at once, and an update that was reported as stored must not
// be undone by another. So each compares before its rename: if the file is not
// the one it read, it merges again. Comparing and renaming are two system
// calls; the key's commit lock makes them one. The lock is held for no more
// than that, except for the last attempt of an update that was overtaken each
// time. So a stopped process rarely holds it; where one does, others report
// after a deadline that their update is in memory alone.
//
// The turn, a lock around all of the update, is there for speed: its holder
// need not merge twice. An update that waits for it for too long goes on
// without.
//
//===----------------------------------------------------------------------===//
#include "Cache/StoreImpl.h"
#include "Observe/Span.h"
#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <cerrno>
#include <cstring>

namespace kiln::cache {

/// Errors that the next attempt would meet again: stop trying.
static bool isReadOnly(int errnoValue) {
  return errnoValue == EROFS || errnoValue == EACCES || errnoValue == EPERM;
}

void Store::Impl::stopWriting(std::string reason) {
  std::lock_guard guard(warnedMutex);
  if (takesEntries.exchange(false))
    refusal = std::move(reason);
}

std::string Store::Impl::whyNotWriting() {
  std::lock_guard guard(warnedMutex);
  return refusal.empty() ? "there is no folder to write to" : refusal;
}

/// Keeps in memory an entry that is not safely on disk. Nullopt: memory has
/// changed since \p base.
std::optional<PublishResult>
Store::Impl::keep(const Target &target, const llvm::json::Object &attributes,
                  llvm::StringRef payload, const Base *base,
                  std::string reason) {
  MemoryTier::Item item;
  item.kind = target.kind;
  item.entry = {target.key.str(), attributes, payload.str()};
  std::optional<uint64_t> expected;
  if (base) {
    item.shadowed = base->seen;
    item.isIncomplete = base->isUnreadable;
    expected = base->memorySerial;
  } else if (writeTier) {
    item.shadowed = writeTier->identify(target.kind, target.name);
  }
  switch (memory.put(std::move(item), expected)) {
  case MemoryTier::PutResult::Changed:
    return std::nullopt;
  case MemoryTier::PutResult::Kept:
    ++counters.keptInMemory;
    return PublishResult{PublishStatus::Memory, std::move(reason)};
  case MemoryTier::PutResult::TooLarge:
    break;
  }
  ++counters.dropped;
  std::string full = fmt::format(
      "{} payload of {} bytes does not fit into the memory of the cache",
      nameOf(target.kind), payload.size());
  warnOnce("memory", full);
  return PublishResult{PublishStatus::Dropped,
                       reason.empty() ? full : reason + "; " + full};
}

/// Nullopt: \p mayReplace said no, or memory has changed since \p base.
std::optional<PublishResult>
Store::Impl::publish(const Target &target, const llvm::json::Object &attributes,
                     llvm::StringRef payload, const Base *base,
                     Tier::MayReplace mayReplace) {
  auto bytes = encodeEntry(target.kind, target.key, attributes, payload);
  if (!bytes) {
    std::string why = summarize(bytes.takeError()).message;
    ++counters.dropped;
    warnOnce("limits", why);
    return PublishResult{PublishStatus::Dropped, std::move(why)};
  }
  if (!writes())
    return keep(target, attributes, payload, base, whyNotWriting());
  if (base && base->isUnreadable)
    return keep(target, attributes, payload, base,
                "cannot read the entry in the cache");

  std::string reason;
  WriteResult written =
      writeTier->write(target.kind, target.name, *bytes, reason, mayReplace);
  if (written.ok()) {
    memory.erase(target.kind, target.key);
    noteUse(target);
    ++counters.stored;
    return PublishResult{};
  }
  if (mayReplace && written.errnoValue == ECANCELED)
    return std::nullopt;

  std::string why =
      fmt::format("cannot write to the cache in {} ({}): {}", writeTier->path(),
                  written.step,
                  reason.empty() ? std::strerror(written.errnoValue) : reason);
  bool forGood = isReadOnly(written.errnoValue);
  if (forGood)
    stopWriting(why);
  warnOnce(fmt::format("write {}", written.errnoValue),
           why + (forGood ? "; caching in memory from now on" : ""));
  return keep(target, attributes, payload, base, std::move(why));
}

PublishResult Store::publish(Kind kind, llvm::StringRef key,
                             const llvm::json::Object &attributes,
                             llvm::StringRef payload) {
  const observe::Span span(
      observe::Phase::Cache, [&] { return nameOf(kind).str(); },
      "a file of the cache is written");
  Impl::WarningSender sender{*impl};
  return *impl->publish(Impl::Target(kind, key), attributes, payload);
}

/// The newest entry, for update().
Store::Impl::Base Store::Impl::readCurrent(const Target &target) {
  Base base;
  auto kept = memory.find(target.kind, target.key);
  if (kept)
    base.memorySerial = kept->serial;
  if (kept && isNewest(*kept, target)) {
    base.seen = kept->shadowed;
    if (writeTier && !base.seen.isKnown)
      base.seen = writeTier->identify(target.kind, target.name);
    base.isUnreadable = !base.seen.isKnown;
    base.entry = std::move(kept->entry);
    return base;
  }
  if (writeTier)
    base.entry = readTier(*writeTier, target, &base);
  if (!base.entry && kept)
    base.entry = std::move(kept->entry);
  for (const Tier &tier : readTiers)
    if (!base.entry)
      base.entry = readTier(tier, target);
  return base;
}

/// The base of an update of an entry that still has \p stamp. Nullopt: it has
/// changed, or that cannot be told. Later changes are for replace() to see.
std::optional<Store::Impl::Base>
Store::Impl::findUnchanged(const Target &target, const Stamp &stamp) {
  Base base;
  if (!stamp.isSettled || memory.find(target.kind, target.key) ||
      stampOf(target, base.seen).value != stamp.value)
    return std::nullopt;
  return base;
}

/// Takes a lock of \p target in the write tier, or leaves \p lock without a
/// value.
void Store::Impl::lock(std::optional<KeyLock> &lock, const Target &target,
                       LockUse use, KeyLock::Clock::time_point deadline) {
  if (!writes())
    return;
  OpenedFolder shard = writeTier->openShard(target.kind, target.name);
  if (shard.ok())
    lock.emplace(files, shard.fd.get(), target.name, use, deadline);
}

/// Publishes \p payload if the entry that it was made from is still there; else
/// nullopt. \p commit is held already or will be.
std::optional<PublishResult>
Store::Impl::replace(const Target &target, const llvm::json::Object &attributes,
                     llvm::StringRef payload, const Base &base,
                     std::optional<KeyLock> &commit) {
  auto isUnchanged = [&](int shard) {
    if (!commit)
      commit.emplace(files, shard, target.name, LockUse::Commit,
                     KeyLock::Clock::now() + lockDeadline);
    return !commit->isRefused() &&
           writeTier->identifyIn(shard, target.name) == base.seen;
  };
  auto result = publish(target, attributes, payload, &base, isUnchanged);
  if (result || !commit || !commit->isRefused())
    return result;
  std::string path = writeTier->pathOf(target.kind, target.name);
  std::string why =
      commit->errnoValue()
          ? fmt::format("cannot lock {}: {}", path,
                        std::strerror(commit->errnoValue()))
          : fmt::format("another process has kept the lock of {} for {} ms",
                        path, lockDeadline.count());
  return keep(target, attributes, payload, &base, std::move(why));
}

PublishResult Store::update(Kind kind, llvm::StringRef key,
                            const llvm::json::Object &attributes, Merge merge,
                            const KnownEntry *known) {
  const observe::Span span(
      observe::Phase::Cache, [&] { return nameOf(kind).str(); },
      "a file of the cache is updated");
  Impl::WarningSender sender{*impl};
  Impl::Target target(kind, key);
  auto deadline = KeyLock::Clock::now() + impl->lockDeadline;
  std::unique_lock threads(impl->updateMutex, deadline);
  std::optional<KeyLock> turn;
  impl->lock(turn, target, LockUse::Turn, deadline);
  if (!threads.owns_lock() || (impl->writes() && !(turn && turn->held())))
    ++impl->counters.unlockedUpdates;

  constexpr int kMaxAttempts = 8;
  for (int attempt = 1;; ++attempt) {
    // After so many failed attempts the last one keeps all others out.
    std::optional<KeyLock> commit;
    const bool isLast = attempt == kMaxAttempts;
    if (isLast)
      impl->lock(commit, target, LockUse::Commit,
                 KeyLock::Clock::now() + impl->lockDeadline);
    std::optional<Impl::Base> base;
    std::string payload;
    if (known && attempt == 1)
      base = impl->findUnchanged(target, known->stamp);
    if (base) {
      payload = known->merge();
    } else {
      base = impl->readCurrent(target);
      payload = merge(base->entry
                          ? std::optional<llvm::StringRef>(base->entry->payload)
                          : std::nullopt);
    }
    if (auto result = impl->replace(target, attributes, payload, *base, commit))
      return *result;
    if (isLast)
      return *impl->keep(target, attributes, payload, nullptr,
                         "others replace the entry all the time");
  }
}

Claim Store::claim(Kind kind, llvm::StringRef key) {
  Claim claim;
  if (!impl->writes() || !impl->makesClaims)
    return claim;
  std::string name = fileNameOf(kind, key);
  OpenedFolder shard = impl->writeTier->openShard(kind, name);
  if (!shard.ok())
    return claim;
  const auto start = KeyLock::Clock::now();
  auto lock = std::make_shared<KeyLock>(impl->files, shard.fd.get(), name,
                                        LockUse::Turn, start);
  // Some network file systems need half a minute for each.
  constexpr std::chrono::milliseconds kSlow(1000);
  if (KeyLock::Clock::now() - start > kSlow)
    impl->makesClaims = false;
  if (lock->held())
    claim = {Claim::State::Mine, std::move(lock)};
  else if (lock->isRefused() && lock->errnoValue() == 0)
    claim.state = Claim::State::Theirs;
  return claim;
}

bool Store::hasFile(Kind kind, llvm::StringRef key) const {
  return impl->writeTier &&
         impl->writeTier->identify(kind, fileNameOf(kind, key)).file;
}

bool Store::isOnDisk(Kind kind, llvm::StringRef key) const {
  return isNameOnDisk(kind, fileNameOf(kind, key));
}

bool Store::isNameOnDisk(Kind kind, llvm::StringRef name) const {
  constexpr size_t kDigits = 64; // a name may be from a file
  if (name.size() != kDigits || !llvm::all_of(name, llvm::isHexDigit))
    return false;
  auto has = [&](const Tier &tier) {
    return tier.identify(kind, name).file.has_value();
  };
  return (impl->writeTier && has(*impl->writeTier)) ||
         llvm::any_of(impl->readTiers, has);
}

} // namespace kiln::cache
