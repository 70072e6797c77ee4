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

  explicit Impl(StoreOptions options)
      : files(options.files ? *options.files : FileOps::system()),
        log(std::move(options.log)), lockDeadline(options.lockDeadline),
        memory(options.maxMemoryBytes) {}

  void addLayer(const std::string &path, LayerKind kind);
  void warnOnce(std::string cause, const std::string &message);
  std::optional<Entry> readLayer(const Layer &layer, const Target &target,
                                 std::optional<FileIdentity> *identity);
  void reject(const Layer &layer, const Target &target, const LayerRead &read);
  std::optional<Entry> readCurrent(const Target &target,
                                   std::optional<FileIdentity> &identity);
  bool isNewest(const MemoryLayer::Item &item, const Target &target);
  PublishResult publish(const Target &target,
                        const llvm::json::Object &attributes,
                        llvm::StringRef payload);
  PublishResult keep(const Target &target, const llvm::json::Object &attributes,
                     llvm::StringRef payload, std::string reason);
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

void Store::Impl::warnOnce(std::string cause, const std::string &message) {
  {
    std::lock_guard guard(warnedMutex);
    if (!warned.insert(std::move(cause)).second)
      return;
  }
  log.warning("{}", message);
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
/// reported and, in the write layer, cleared away. \p identity gets the file
/// that was seen, good or not.
std::optional<Entry>
Store::Impl::readLayer(const Layer &layer, const Target &target,
                       std::optional<FileIdentity> *identity) {
  LayerRead read = layer.read(target.kind, target.name);
  if (read.status == ReadStatus::Missing)
    return std::nullopt;
  if (identity && read.info.st_nlink)
    *identity = FileIdentity::of(read.info);
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

/// True while nobody changed the file that \p item replaces.
bool Store::Impl::isNewest(const MemoryLayer::Item &item,
                           const Target &target) {
  return !writeLayer ||
         writeLayer->identify(target.kind, target.name) == item.shadowed;
}

std::optional<Entry> Store::lookup(Kind kind, llvm::StringRef key,
                                   Accept accept) {
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
    entry = impl->readLayer(*impl->writeLayer, target, nullptr);
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
    entry = impl->readLayer(layer, target, nullptr);
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
                                llvm::StringRef payload, std::string reason) {
  std::optional<FileIdentity> shadowed;
  if (writeLayer)
    shadowed = writeLayer->identify(target.kind, target.name);
  if (memory.put({target.kind,
                  {target.key.str(), attributes, payload.str()},
                  shadowed})) {
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
                                   llvm::StringRef payload) {
  auto bytes = encodeEntry(target.kind, target.key, attributes, payload);
  if (!bytes) {
    std::string why = summarize(bytes.takeError()).message;
    ++counters.dropped;
    warnOnce("limits", why);
    return {PublishStatus::Dropped, std::move(why)};
  }
  if (!writes())
    return keep(target, attributes, payload,
                writeLayer ? writeLayer->path() + " is read-only" : "");

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
  return keep(target, attributes, payload, std::move(why));
}

PublishResult Store::publish(Kind kind, llvm::StringRef key,
                             const llvm::json::Object &attributes,
                             llvm::StringRef payload) {
  return impl->publish(Impl::Target(kind, key), attributes, payload);
}

/// The newest entry that update() builds on. \p identity gets what lies at its
/// path in the write layer.
std::optional<Entry>
Store::Impl::readCurrent(const Target &target,
                         std::optional<FileIdentity> &identity) {
  identity.reset();
  auto kept = memory.find(target.kind, target.key);
  if (kept && isNewest(*kept, target)) {
    identity = kept->shadowed;
    return std::move(kept->entry);
  }
  if (writeLayer)
    if (auto entry = readLayer(*writeLayer, target, &identity))
      return entry;
  if (kept)
    return std::move(kept->entry);
  for (const Layer &layer : readLayers)
    if (auto entry = readLayer(layer, target, nullptr))
      return entry;
  return std::nullopt;
}

PublishResult Store::update(Kind kind, llvm::StringRef key,
                            const llvm::json::Object &attributes, Merge merge) {
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
    std::optional<FileIdentity> seen;
    std::optional<Entry> old = impl->readCurrent(target, seen);
    std::string payload = merge(
        old ? std::optional<llvm::StringRef>(old->payload) : std::nullopt);
    if (!locked && impl->writes() && attempt < kMaxAttempts &&
        impl->writeLayer->identify(kind, target.name) != seen)
      continue;
    return impl->publish(target, attributes, payload);
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
