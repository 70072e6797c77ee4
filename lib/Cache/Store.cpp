//===- Store.cpp ----------------------------------------------------------===//
#include "Cache/Store.h"

#include "Cache/CachePaths.h"
#include "Cache/Inspect.h"
#include "Cache/Layer.h"
#include "Cache/MemoryLayer.h"
#include "Cache/UpdateLock.h"
#include "Support/Error.h"
#include "Support/Hash.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>

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

/// Errors that will be the same at the next attempt: stop trying.
static bool isReadOnly(int errnoValue) {
  return errnoValue == EROFS || errnoValue == EACCES || errnoValue == EPERM;
}

//===----------------------------------------------------------------------===//
// What a store is made of
//===----------------------------------------------------------------------===//

struct Store::Impl {
  /// First in every public function that may warn, so that it goes last: the
  /// log is called when no lock is held any more.
  struct WarningSender {
    Impl &impl;
    ~WarningSender() { impl.sendWarnings(); }
  };

  using Counter = std::atomic<uint64_t>;
  struct Counters {
    Counter hits{0}, memoryHits{0}, readLayerHits{0}, misses{0}, damaged{0},
        removed{0}, refused{0}, unaccepted{0}, readErrors{0}, stored{0},
        keptInMemory{0}, dropped{0}, unlockedUpdates{0};
  };

  /// One key: what every step needs to know of it.
  struct Target {
    Kind kind;
    llvm::StringRef key;
    std::string name;
    Target(Kind kind, llvm::StringRef key)
        : kind(kind), key(key), name(fileNameOf(kind, key)) {}
  };

  /// What an update builds on.
  struct Base {
    std::optional<Entry> entry;
    Sighting seen;             ///< at the entry's path in the write layer
    bool isUnreadable = false; ///< an I/O error hides what is there
  };

  explicit Impl(StoreOptions options)
      : files(options.files ? *options.files : FileOps::system()),
        log(std::move(options.log)), lockDeadline(options.lockDeadline),
        memory(options.maxMemoryBytes) {}

  void addLayer(const std::string &path, LayerKind kind);
  void warnOnce(std::string cause, std::string message);
  void sendWarnings();
  std::optional<Entry> readLayer(const Layer &layer, const Target &target,
                                 Base *base = nullptr);
  void reject(const Layer &layer, const Target &target, const LayerRead &read);
  Base readCurrent(const Target &target);
  bool isNewest(const MemoryLayer::Item &item, const Target &target);
  PublishResult publish(const Target &target,
                        const llvm::json::Object &attributes,
                        llvm::StringRef payload, const Base *base = nullptr);
  PublishResult keep(const Target &target, const llvm::json::Object &attributes,
                     llvm::StringRef payload, const Base *base,
                     std::string reason);
  bool writes() const { return writeLayer && takesEntries; }

  FileOps &files;
  const Log log;
  const std::chrono::milliseconds lockDeadline;
  std::optional<Layer> writeLayer;
  std::vector<Layer> readLayers;
  std::vector<std::string> notes;
  MemoryLayer memory;
  std::atomic<bool> takesEntries{true};
  Counters counters;
  std::mutex warnedMutex;
  std::set<std::string> warned;
  std::vector<std::string> unsentWarnings;
  /// Threads of this process wait here rather than by polling.
  std::timed_mutex updateMutex;
};

void Store::Impl::addLayer(const std::string &path, LayerKind kind) {
  auto skip = [&](const std::string &why) {
    notes.push_back(kind == LayerKind::Write
                        ? fmt::format("cache directory not used, {}: caching "
                                      "in memory only",
                                      why)
                        : fmt::format("cache layer ignored, {}", why));
  };
  if (auto bad = describeBadPath(path))
    return skip(*bad);
  Layer layer(files, path, kind);
  if (auto distrust = layer.prepare())
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
  warnOnce(fmt::format("refused {}", static_cast<int>(read.status)),
           fmt::format("cache entry {} (owner {}, mode {:04o}) is not used: {}",
                       path, read.info.st_uid,
                       static_cast<unsigned>(read.info.st_mode & 07777),
                       describe(read.status)));
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
      layer.removeIfUnchanged(target.kind, target.name,
                              FileIdentity::of(read.info)))
    ++counters.removed;
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
                                   Accept accept) {
  Impl::WarningSender sender{*impl};
  Impl::Target target(kind, key);
  Impl::Counters &counters = impl->counters;
  auto hit = [&](std::optional<Entry> &entry, Impl::Counter *layerHits) {
    if (!entry)
      return false;
    if (accept && !accept(entry->attributes)) {
      ++counters.unaccepted;
      return false;
    }
    ++counters.hits;
    if (layerHits)
      ++*layerHits;
    return true;
  };

  auto kept = impl->memory.find(kind, key);
  std::optional<Entry> entry;
  if (kept && impl->isNewest(*kept, target)) {
    entry = std::move(kept->entry);
    kept.reset();
    if (hit(entry, &counters.memoryHits))
      return entry;
  }
  if (impl->writeLayer) {
    entry = impl->readLayer(*impl->writeLayer, target);
    if (entry && kept) {
      // Another process has published since: its entry rules.
      impl->memory.erase(kind, key);
      kept.reset();
    }
    if (hit(entry, nullptr))
      return entry;
  }
  if (kept) {
    entry = std::move(kept->entry);
    if (hit(entry, &counters.memoryHits))
      return entry;
  }
  for (const Layer &layer : impl->readLayers) {
    entry = impl->readLayer(layer, target);
    if (hit(entry, &counters.readLayerHits))
      return entry;
  }
  ++counters.misses;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Keeps in memory what is not safely on disk.
PublishResult Store::Impl::keep(const Target &target,
                                const llvm::json::Object &attributes,
                                llvm::StringRef payload, const Base *base,
                                std::string reason) {
  MemoryLayer::Item item;
  item.kind = target.kind;
  item.entry = {target.key.str(), attributes, payload.str()};
  if (base) {
    item.shadowed = base->seen;
    item.isIncomplete = base->isUnreadable;
  } else if (writeLayer) {
    item.shadowed = writeLayer->identify(target.kind, target.name);
  }
  if (memory.put(std::move(item))) {
    ++counters.keptInMemory;
    return {PublishStatus::Memory, std::move(reason)};
  }
  ++counters.dropped;
  std::string full = fmt::format(
      "{} payload of {} bytes does not fit into the memory of the cache",
      nameOf(target.kind), payload.size());
  warnOnce("memory", full);
  return {PublishStatus::Dropped, reason.empty() ? full : reason + "; " + full};
}

PublishResult Store::Impl::publish(const Target &target,
                                   const llvm::json::Object &attributes,
                                   llvm::StringRef payload, const Base *base) {
  auto bytes = encodeEntry(target.kind, target.key, attributes, payload);
  if (!bytes) {
    std::string why = summarize(bytes.takeError()).message;
    ++counters.dropped;
    warnOnce("limits", why);
    return {PublishStatus::Dropped, std::move(why)};
  }
  if (!writes())
    return keep(target, attributes, payload, base,
                writeLayer ? writeLayer->path() + " is read-only"
                           : "there is no folder to write to");
  if (base && base->isUnreadable)
    return keep(target, attributes, payload, base,
                "cannot read what is in the cache");

  std::string reason;
  WriteResult written =
      writeLayer->write(target.kind, target.name, *bytes, reason);
  if (written.ok()) {
    memory.erase(target.kind, target.key);
    ++counters.stored;
    return {};
  }

  std::string why =
      fmt::format("cannot write to the cache in {} ({}): {}",
                  writeLayer->path(), written.step,
                  reason.empty() ? std::strerror(written.errnoValue) : reason);
  bool forGood = isReadOnly(written.errnoValue);
  if (forGood)
    takesEntries = false;
  warnOnce(fmt::format("write {}", written.errnoValue),
           why + (forGood ? "; caching in memory from now on" : ""));
  return keep(target, attributes, payload, base, std::move(why));
}

PublishResult Store::publish(Kind kind, llvm::StringRef key,
                             const llvm::json::Object &attributes,
                             llvm::StringRef payload) {
  Impl::WarningSender sender{*impl};
  return impl->publish(Impl::Target(kind, key), attributes, payload);
}

/// The newest entry, for update().
Store::Impl::Base Store::Impl::readCurrent(const Target &target) {
  Base base;
  auto kept = memory.find(target.kind, target.key);
  if (kept && isNewest(*kept, target)) {
    base.seen = kept->shadowed;
    base.entry = std::move(kept->entry);
    return base;
  }
  if (writeLayer)
    base.entry = readLayer(*writeLayer, target, &base);
  if (!base.entry && kept)
    base.entry = std::move(kept->entry);
  for (const Layer &layer : readLayers)
    if (!base.entry)
      base.entry = readLayer(layer, target);
  return base;
}

PublishResult Store::update(Kind kind, llvm::StringRef key,
                            const llvm::json::Object &attributes, Merge merge) {
  Impl::WarningSender sender{*impl};
  Impl::Target target(kind, key);
  auto deadline = std::chrono::steady_clock::now() + impl->lockDeadline;
  std::unique_lock threads(impl->updateMutex, deadline);

  std::optional<UpdateLock> processes;
  if (impl->writes()) {
    OpenedFolder shard = impl->writeLayer->openShard(kind, target.name);
    if (shard.ok())
      processes.emplace(impl->files, shard.fd.get(), deadline);
  }
  bool locked = threads.owns_lock() &&
                (!impl->writes() || (processes && processes->held()));
  if (!locked)
    ++impl->counters.unlockedUpdates;

  // Without the lock, look once more before replacing: what another process
  // published while merge ran is merged too, but for a window of microseconds.
  constexpr int kMaxAttempts = 8;
  for (int attempt = 1;; ++attempt) {
    Impl::Base base = impl->readCurrent(target);
    std::string payload =
        merge(base.entry ? std::optional<llvm::StringRef>(base.entry->payload)
                         : std::nullopt);
    if (!locked && impl->writes() && attempt < kMaxAttempts &&
        impl->writeLayer->identify(kind, target.name) != base.seen)
      continue;
    return impl->publish(target, attributes, payload, &base);
  }
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

} // namespace kiln::cache
