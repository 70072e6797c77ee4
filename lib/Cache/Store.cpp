//===- Store.cpp ----------------------------------------------------------===//
#include "Cache/Store.h"

#include "Cache/CachePaths.h"
#include "Cache/Inspect.h"
#include "Cache/Prune.h"
#include "Cache/StoreImpl.h"
#include "Observe/Span.h"
#include "Support/EnumName.h"
#include "Support/Error.h"
#include "Support/Hash.h"

#include <algorithm>
#include <cstring>
#include <ctime>

namespace kiln::cache {

llvm::StringRef nameOf(TierKind tier) {
  using enum TierKind;
  static constexpr EnumName<TierKind> kNames[] = {
      {Memory, "memory"}, {Write, "write"}, {Read, "read"}};
  return nameIn(kNames, tier, "unknown");
}

//===----------------------------------------------------------------------===//
// Tiers and warnings
//===----------------------------------------------------------------------===//

void Store::Impl::addTier(const std::string &path, TierKind kind) {
  auto skip = [&](const std::string &why) {
    if (kind == TierKind::Write)
      refusal = why;
    notes.push_back(kind == TierKind::Write
                        ? fmt::format("cache directory not used, {}: caching "
                                      "in memory only",
                                      why)
                        : fmt::format("cache tier ignored, {}", why));
  };
  if (auto bad = describeBadPath(path))
    return skip(*bad);
  Tier tier(files, path, kind);
  if (auto distrust = tier.prepare(createsWriteDir))
    return skip(*distrust);
  if (kind == TierKind::Write)
    writeTier.emplace(std::move(tier));
  else
    readTiers.push_back(std::move(tier));
}

/// Notes a warning for sendWarnings(), the first of its cause only.
void Store::Impl::warnOnce(std::string cause, std::string message) {
  std::lock_guard guard(warnedMutex);
  if (warned.insert(std::move(cause)).second)
    unsentWarnings.push_back(std::move(message));
}

void Store::Impl::sendWarnings() {
  std::vector<std::string> lines;
  {
    std::lock_guard guard(warnedMutex);
    lines.swap(unsentWarnings);
  }
  for (const std::string &line : lines)
    log.warning("{}", line);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Counts and reports a file that was there and could not be used.
void Store::Impl::reject(const Tier &tier, const Target &target,
                         const TierRead &read) {
  std::string path = tier.pathOf(target.kind, target.name);
  if (read.status == ReadStatus::Failed) {
    ++counters.readErrors;
    warnOnce(fmt::format("read {}", read.errnoValue),
             fmt::format("cannot read cache entry {}: {}", path,
                         std::strerror(read.errnoValue)));
    return;
  }
  ++counters.refused;
  if (!read.reason.empty())
    return warnOnce("refused folder",
                    fmt::format("cache entry {} is not used: the folder {}",
                                path, read.reason));
  warnOnce(fmt::format("refused {}", static_cast<int>(read.status)),
           fmt::format("cache entry {} (owner {}, mode {:04o}) is not used: {}",
                       path, read.info.st_uid,
                       static_cast<unsigned>(read.info.st_mode & 07777),
                       describe(read.status)));
}

/// Notes that the entry was used, so that it is not taken for an old one.
void Store::Impl::stamp(const TierRead &read) {
  const std::chrono::seconds age(std::time(nullptr) - read.info.st_mtime);
  // Either way: a clock may have been wrong.
  if (takesEntries && std::chrono::abs(age) > kStampPeriod)
    files.touch(read.file.get());
}

/// The good entry of \p target in \p tier, or nullopt with everything counted,
/// reported and, in the write tier, cleared away. \p base is told of the file,
/// good or not.
std::optional<Entry> Store::Impl::readTier(const Tier &tier,
                                           const Target &target, Base *base) {
  TierRead read = tier.read(target.kind, target.name);
  if (base) {
    base->isUnreadable = read.status == ReadStatus::Failed;
    base->seen.isKnown = !base->isUnreadable;
    if (read.info.st_nlink)
      base->seen.file = FileIdentity::of(read.info);
    else if (read.status == ReadStatus::NotRegular) // a link is not opened
      base->seen = tier.identify(target.kind, target.name);
  }
  if (read.status == ReadStatus::Missing)
    return std::nullopt;
  if (read.status != ReadStatus::Ok) {
    reject(tier, target, read);
    return std::nullopt;
  }

  DecodedEntry decoded =
      decodeEntry(std::move(read.bytes), target.kind, target.key);
  if (decoded.fault == EntryFault::None) {
    if (tier.kind() == TierKind::Write)
      noteUse(target);
    if (base)
      base->file = std::move(read.file);
    else if (tier.kind() == TierKind::Write)
      stamp(read);
    return std::move(decoded.entry);
  }

  ++counters.damaged;
  warnOnce(fmt::format("damaged {}", static_cast<int>(decoded.fault)),
           fmt::format("cache entry {} is damaged ({}) and counts as missing",
                       tier.pathOf(target.kind, target.name),
                       nameOf(decoded.fault)));
  if (tier.kind() == TierKind::Write && takesEntries &&
      !isForeign(decoded.fault) &&
      removeEntry(files, tier, target.kind, target.name,
                  FileIdentity::of(read.info)) == Removal::Removed) {
    ++counters.removed;
    if (base)
      base->seen.file.reset();
  }
  return std::nullopt;
}

/// True while the file that \p item replaces is unchanged, as far as can be
/// seen.
bool Store::Impl::isNewest(const MemoryTier::Item &item, const Target &target) {
  if (!writeTier)
    return true;
  if (item.isIncomplete)
    return false;
  Sighting now = writeTier->identify(target.kind, target.name);
  return !now.isKnown || !item.shadowed.isKnown || now == item.shadowed;
}

std::optional<Entry> Store::lookup(Kind kind, llvm::StringRef key,
                                   Accept accept, TierKind *from) {
  const observe::Span span(
      observe::Phase::Cache, [&] { return nameOf(kind).str(); },
      "a file of the cache is read");
  Impl::WarningSender sender{*impl};
  Impl::Target target(kind, key);
  Impl::Counters &counters = impl->counters;
  auto hit = [&](std::optional<Entry> &entry, TierKind tier,
                 Impl::Counter *tierHits) {
    if (!entry)
      return false;
    if (accept && !accept(entry->attributes)) {
      ++counters.unaccepted;
      return false;
    }
    ++counters.hits;
    if (from)
      *from = tier;
    if (tierHits)
      ++*tierHits;
    return true;
  };

  auto kept = impl->memory.find(kind, key);
  std::optional<Entry> entry;
  if (kept && impl->isNewest(*kept, target)) {
    entry = std::move(kept->entry);
    kept.reset();
    if (hit(entry, TierKind::Memory, &counters.memoryHits))
      return entry;
  }
  if (impl->writeTier) {
    entry = impl->readTier(*impl->writeTier, target);
    if (entry && kept) {
      // Another process has published since: its entry rules.
      impl->memory.erase(kind, key);
      kept.reset();
    }
    if (hit(entry, TierKind::Write, nullptr))
      return entry;
  }
  if (kept) {
    entry = std::move(kept->entry);
    if (hit(entry, TierKind::Memory, &counters.memoryHits))
      return entry;
  }
  for (const Tier &tier : impl->readTiers) {
    entry = impl->readTier(tier, target);
    if (hit(entry, TierKind::Read, &counters.readTierHits))
      return entry;
  }
  ++counters.misses;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Looking at all entries
//===----------------------------------------------------------------------===//

std::vector<EntryInfo> Store::list(Kind kind) {
  std::vector<EntryInfo> all;
  for (MemoryTier::Item &item : impl->memory.list(kind)) {
    EntryInfo info;
    info.kind = kind;
    info.tier = TierKind::Memory;
    info.key = std::move(item.entry.key);
    info.attributes = std::move(item.entry.attributes);
    info.payloadBytes = item.entry.payload.size();
    all.push_back(std::move(info));
  }
  if (impl->writeTier)
    listTier(impl->files, *impl->writeTier, kind, all);
  for (const Tier &tier : impl->readTiers)
    listTier(impl->files, tier, kind, all);
  return all;
}

std::vector<VerifyItem> Store::verify() {
  std::vector<VerifyItem> items;
  if (impl->writeTier)
    verifyTier(impl->files, *impl->writeTier, items);
  for (const Tier &tier : impl->readTiers)
    verifyTier(impl->files, tier, items);
  return items;
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

std::unique_ptr<Store> Store::open(StoreOptions options) {
  auto writeDir = options.writeDir;
  auto readDirs = options.readDirs;
  auto impl = std::make_unique<Impl>(std::move(options));
  if (writeDir)
    impl->addTier(*writeDir, TierKind::Write);
  for (const std::string &path : readDirs)
    impl->addTier(path, TierKind::Read);
  for (const std::string &note : impl->notes)
    impl->warnOnce(note, note);
  impl->sendWarnings();
  impl->askForLimit();
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Store::Store(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Store::~Store() = default;

Statistics Store::statistics() const {
  const Impl::Counters &counters = impl->counters;
  Statistics result;
  result.hits = counters.hits;
  result.memoryHits = counters.memoryHits;
  result.readTierHits = counters.readTierHits;
  result.misses = counters.misses;
  result.damaged = counters.damaged;
  result.removed = counters.removed;
  result.refused = counters.refused;
  result.unaccepted = counters.unaccepted;
  result.readErrors = counters.readErrors;
  result.stored = counters.stored;
  result.keptInMemory = counters.keptInMemory;
  result.dropped = counters.dropped;
  result.evicted = counters.evicted;
  result.evictedBytes = counters.evictedBytes;
  result.unlockedUpdates = counters.unlockedUpdates;
  return result;
}

/// Stamps of files come from a clock that ticks; two files within a tick may
/// look alike. Two seconds are the coarsest that a file system is known for.
static bool isSettled(const FileIdentity &file) {
  constexpr std::chrono::nanoseconds kTick = std::chrono::seconds(2);
  const std::chrono::nanoseconds now =
      std::chrono::system_clock::now().time_since_epoch();
  return std::max(file.modifiedNs, file.changedNs) < (now - kTick).count();
}

/// \p own gets the sighting in the write tier.
Stamp Store::Impl::stampOf(const Target &target, Sighting &own) const {
  Stamp stamp{0, true, true};
  // Memory tells no identities, so the count of entries kept there stands for
  // them.
  std::string seen = fmt::format("{}", counters.keptInMemory.load());
  auto add = [&](const Tier &tier) {
    Sighting now = tier.identify(target.kind, target.name);
    FileIdentity file = now.file.value_or(FileIdentity());
    seen += fmt::format(" {} {} {} {} {} {} {}", now.isKnown,
                        now.file.has_value(), file.device, file.inode,
                        file.bytes, file.modifiedNs, file.changedNs);
    stamp.isNothing &= now.isKnown && !now.file;
    stamp.isSettled &= now.isKnown && (!now.file || isSettled(file));
    return now;
  };
  if (writeTier)
    own = add(*writeTier);
  for (const Tier &tier : readTiers)
    add(tier);
  stamp.isNothing &= !memory.find(target.kind, target.key);
  stamp.value = quickHash(seen);
  return stamp;
}

Stamp Store::stampOf(Kind kind, llvm::StringRef key) const {
  Sighting own;
  return impl->stampOf(Impl::Target(kind, key), own);
}

const Log &Store::log() const { return impl->log; }

const ByteGaugePtr &Store::gauge() const { return impl->gauge; }

const std::vector<std::string> &Store::notes() const { return impl->notes; }

bool Store::isPersistent() const { return impl->writes(); }

std::string Store::whyNotPersistent() const { return impl->whyNotWriting(); }

} // namespace kiln::cache
