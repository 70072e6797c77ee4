//===- Store.cpp ----------------------------------------------------------===//
#include "Cache/Store.h"

#include "Cache/CachePaths.h"
#include "Cache/Inspect.h"
#include "Cache/StoreImpl.h"
#include "Support/Error.h"

#include <cstring>

namespace kiln::cache {

llvm::StringRef nameOf(LayerKind layer) {
  switch (layer) {
  case LayerKind::Memory:
    return "memory";
  case LayerKind::Write:
    return "write";
  case LayerKind::Read:
    return "read";
  }
  return "unknown";
}

llvm::StringRef nameOf(PublishStatus status) {
  switch (status) {
  case PublishStatus::Stored:
    return "stored";
  case PublishStatus::Memory:
    return "memory";
  case PublishStatus::Dropped:
    return "dropped";
  }
  return "unknown";
}

//===----------------------------------------------------------------------===//
// Layers and warnings
//===----------------------------------------------------------------------===//

void Store::Impl::addLayer(const std::string &path, LayerKind kind) {
  auto skip = [&](const std::string &why) {
    if (kind == LayerKind::Write)
      refusal = why;
    notes.push_back(kind == LayerKind::Write
                        ? fmt::format("cache directory not used, {}: caching "
                                      "in memory only",
                                      why)
                        : fmt::format("cache layer ignored, {}", why));
  };
  if (auto bad = describeBadPath(path))
    return skip(*bad);
  Layer layer(files, path, kind);
  if (auto distrust = layer.prepare(createsWriteDir))
    return skip(*distrust);
  if (kind == LayerKind::Write)
    writeLayer.emplace(std::move(layer));
  else
    readLayers.push_back(std::move(layer));
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
void Store::Impl::reject(const Layer &layer, const Target &target,
                         const LayerRead &read) {
  std::string path = layer.pathOf(target.kind, target.name);
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

/// Deletes a damaged file that nobody replaced meanwhile.
bool Store::Impl::removeDamaged(const Layer &layer, const Target &target,
                                const FileIdentity &seen) {
  // What somebody puts there between two system calls is lost. For an artifact
  // that is a miss, for a record what somebody was told is stored.
  std::optional<KeyLock> commit;
  if (target.kind == Kind::Record)
    lock(commit, target, LockUse::Commit, KeyLock::Clock::now());
  if (commit && commit->isBusy())
    return false;
  return layer.removeIfUnchanged(target.kind, target.name, seen);
}

/// The good entry of \p target in \p layer, or nullopt with everything counted,
/// reported and, in the write layer, cleared away. \p base is told of the file,
/// good or not.
std::optional<Entry> Store::Impl::readLayer(const Layer &layer,
                                            const Target &target, Base *base) {
  LayerRead read = layer.read(target.kind, target.name);
  if (base) {
    base->isUnreadable = read.status == ReadStatus::Failed;
    base->seen.isKnown = !base->isUnreadable;
    if (read.info.st_nlink)
      base->seen.file = FileIdentity::of(read.info);
    base->file = std::move(read.file);
  }
  if (read.status == ReadStatus::Missing)
    return std::nullopt;
  if (read.status != ReadStatus::Ok) {
    reject(layer, target, read);
    return std::nullopt;
  }

  DecodedEntry decoded = decodeEntry(read.bytes, target.kind, target.key);
  if (decoded.fault == EntryFault::None)
    return std::move(decoded.entry);

  ++counters.damaged;
  warnOnce(fmt::format("damaged {}", static_cast<int>(decoded.fault)),
           fmt::format("cache entry {} is damaged ({}) and counts as missing",
                       layer.pathOf(target.kind, target.name),
                       nameOf(decoded.fault)));
  if (layer.kind() == LayerKind::Write && takesEntries &&
      !isForeign(decoded.fault) &&
      removeDamaged(layer, target, FileIdentity::of(read.info))) {
    ++counters.removed;
    if (base)
      base->seen.file.reset();
  }
  return std::nullopt;
}

/// True while nobody changed the file that \p item replaces, as far as one can
/// see.
bool Store::Impl::isNewest(const MemoryLayer::Item &item,
                           const Target &target) {
  if (!writeLayer)
    return true;
  if (item.isIncomplete)
    return false;
  Sighting now = writeLayer->identify(target.kind, target.name);
  return !now.isKnown || !item.shadowed.isKnown || now == item.shadowed;
}

std::optional<Entry> Store::lookup(Kind kind, llvm::StringRef key,
                                   Accept accept, LayerKind *from) {
  Impl::WarningSender sender{*impl};
  Impl::Target target(kind, key);
  Impl::Counters &counters = impl->counters;
  auto hit = [&](std::optional<Entry> &entry, LayerKind layer,
                 Impl::Counter *layerHits) {
    if (!entry)
      return false;
    if (accept && !accept(entry->attributes)) {
      ++counters.unaccepted;
      return false;
    }
    ++counters.hits;
    if (from)
      *from = layer;
    if (layerHits)
      ++*layerHits;
    return true;
  };

  auto kept = impl->memory.find(kind, key);
  std::optional<Entry> entry;
  if (kept && impl->isNewest(*kept, target)) {
    entry = std::move(kept->entry);
    kept.reset();
    if (hit(entry, LayerKind::Memory, &counters.memoryHits))
      return entry;
  }
  if (impl->writeLayer) {
    entry = impl->readLayer(*impl->writeLayer, target);
    if (entry && kept) {
      // Another process has published since: its entry rules.
      impl->memory.erase(kind, key);
      kept.reset();
    }
    if (hit(entry, LayerKind::Write, nullptr))
      return entry;
  }
  if (kept) {
    entry = std::move(kept->entry);
    if (hit(entry, LayerKind::Memory, &counters.memoryHits))
      return entry;
  }
  for (const Layer &layer : impl->readLayers) {
    entry = impl->readLayer(layer, target);
    if (hit(entry, LayerKind::Read, &counters.readLayerHits))
      return entry;
  }
  ++counters.misses;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Looking at all of it
//===----------------------------------------------------------------------===//

std::vector<EntryInfo> Store::list(Kind kind) {
  std::vector<EntryInfo> all;
  for (MemoryLayer::Item &item : impl->memory.list(kind)) {
    EntryInfo info;
    info.kind = kind;
    info.layer = LayerKind::Memory;
    info.key = std::move(item.entry.key);
    info.attributes = std::move(item.entry.attributes);
    info.payloadBytes = item.entry.payload.size();
    all.push_back(std::move(info));
  }
  if (impl->writeLayer)
    listLayer(impl->files, *impl->writeLayer, kind, all);
  for (const Layer &layer : impl->readLayers)
    listLayer(impl->files, layer, kind, all);
  return all;
}

std::vector<VerifyItem> Store::verify() {
  std::vector<VerifyItem> items;
  if (impl->writeLayer)
    verifyLayer(impl->files, *impl->writeLayer, items);
  for (const Layer &layer : impl->readLayers)
    verifyLayer(impl->files, layer, items);
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
    impl->addLayer(*writeDir, LayerKind::Write);
  for (const std::string &path : readDirs)
    impl->addLayer(path, LayerKind::Read);
  for (const std::string &note : impl->notes)
    impl->warnOnce(note, note);
  impl->sendWarnings();
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Store::Store(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Store::~Store() = default;

Statistics Store::statistics() const {
  const Impl::Counters &counters = impl->counters;
  Statistics result;
  result.hits = counters.hits;
  result.memoryHits = counters.memoryHits;
  result.readLayerHits = counters.readLayerHits;
  result.misses = counters.misses;
  result.damaged = counters.damaged;
  result.removed = counters.removed;
  result.refused = counters.refused;
  result.unaccepted = counters.unaccepted;
  result.readErrors = counters.readErrors;
  result.stored = counters.stored;
  result.keptInMemory = counters.keptInMemory;
  result.dropped = counters.dropped;
  result.unlockedUpdates = counters.unlockedUpdates;
  return result;
}

const std::vector<std::string> &Store::notes() const { return impl->notes; }

bool Store::isPersistent() const { return impl->writes(); }

std::string Store::whyNotPersistent() const { return impl->whyNotWriting(); }

} // namespace kiln::cache
