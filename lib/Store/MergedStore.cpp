//===- MergedStore.cpp - entries that several processes add to ------------===//
//
// The first call of each problem reads such entries, on the thread that
// launches. So an entry is opened once and kept, and its file is checked for
// changes once an interval at most. Readings are numbered as they begin, and
// the last one that began stays: a slow reading never undoes a later store.
//
//===----------------------------------------------------------------------===//
#include "Store/MergedStore.h"

#include "Support/Error.h"
#include "Support/Hash.h"

#include <llvm/ADT/StringMap.h>

#include <list>
#include <mutex>

namespace kiln {

namespace {
/// The size and hash of a text that was seen.
struct SeenText {
  uint64_t bytes = 0, hash = 0;

  static SeenText of(llvm::StringRef text) {
    return {text.size(), quickHash(text)};
  }
  bool is(llvm::StringRef text) const {
    return text.size() == bytes && quickHash(text) == hash;
  }
};

/// An entry in its last known state.
struct KeptEntry {
  MergedEntries::Loaded loaded;
  SeenText text; ///< of the document if that is readable
  /// The cache's stamp before the entry was read; nullopt: not known.
  std::optional<cache::Stamp> stamp;
  bool isOnDisk = false;
  /// Whether the document is all that an update with that stamp would read.
  bool isWhole = false;
  uint64_t reading = 0; ///< its number
  std::chrono::steady_clock::time_point recheckAt;

  bool isAbsent() const { return loaded.isReadable && text.bytes == 0; }
  bool hasText(llvm::StringRef other) const {
    return loaded.document && loaded.isReadable && text.is(other);
  }
};

/// One update of the entry on disk. May run more than once.
class MergedUpdate {
public:
  MergedUpdate(const MergedEntries::Type &type, MergedEntries::Change change,
               const std::optional<KeptEntry> &known)
      : type(type), change(change), known(known) {}

  MergedEntries::Document document;  ///< null: `problem` has the reason
  std::string text;                  ///< of the document
  std::string unreadable;            ///< the entry's text, if it was left alone
  std::string problem;               ///< why nothing was merged
  std::optional<SeenText> keptAside; ///< the text that may be replaced unread
  size_t dropped = 0;

  std::string run(std::optional<llvm::StringRef> old) {
    begin();
    if (!old)
      return merge(type.copy(nullptr)) ? text
                                       : type.text(type.copy(nullptr).get());
    if (known && known->hasText(*old))
      return merge(type.copy(known->loaded.document.get())) ? text : old->str();
    auto opened = type.open(old->str());
    if (opened)
      return merge(std::move(*opened)) ? text : old->str();
    problem = summarize(opened.takeError()).message;
    if (!keptAside || !keptAside->is(*old)) {
      unreadable = old->str();
      return unreadable;
    }
    problem.clear();
    return merge(type.copy(nullptr)) ? text : old->str();
  }

  /// Like run(), for an entry that is the known one.
  std::string runKnown() {
    begin();
    const void *there = known->loaded.document.get();
    return merge(type.copy(there)) ? text : type.text(there);
  }

private:
  void begin() {
    document = nullptr;
    unreadable.clear();
    problem.clear();
  }
  bool merge(MergedEntries::Document merged) {
    change(merged.get());
    const size_t most = type.kind.maxBytes;
    dropped = type.shrink(merged.get(), most);
    text = type.text(merged.get());
    if (text.size() <= most) {
      document = std::move(merged);
      return true;
    }
    problem = fmt::format("the {} would have {} bytes, {} are allowed",
                          type.kind.name, text.size(), most);
    return false;
  }

  const MergedEntries::Type &type;
  const MergedEntries::Change change;
  const std::optional<KeptEntry> &known;
};
} // namespace

struct MergedEntries::Impl {
  using Clock = std::chrono::steady_clock;
  using List = std::list<std::pair<std::string, KeptEntry>>;

  Impl(cache::Store &cache, const Type &type, MergedOptions options)
      : cache(cache), type(type), recheckInterval(options.recheckInterval),
        readsOnce(options.readsOnce),
        maxKeptBytes(options.maxKeptBytes.value_or(type.kind.maxKeptBytes)) {}

  KeptEntry get(const std::string &key, RecordAge age);
  KeptEntry read(const std::string &key, std::optional<KeptEntry> known);
  std::optional<KeptEntry> peek(llvm::StringRef key);
  KeptEntry keep(const std::string &key, KeptEntry entry);
  void remove(llvm::StringRef key);
  bool keepAside(const std::string &key, llvm::json::Object attributes,
                 MergedUpdate &update);
  bool isThere(const std::string &key, Change change, Updated &result);
  uint64_t takeStored(const std::string &key, const MergedUpdate &update);

  /// The cost of \p entry while it is kept: its text, and a constant for the
  /// rest.
  static uint64_t costOf(const KeptEntry &entry) {
    constexpr uint64_t kOwnBytes = 1024;
    return kOwnBytes + entry.text.bytes;
  }

  cache::Store &cache;
  const Type type;
  const std::chrono::milliseconds recheckInterval;
  const bool readsOnce;
  const uint64_t maxKeptBytes;

  std::mutex mutex; ///< guards what follows
  List kept;        ///< used least recently first
  llvm::StringMap<List::iterator> places;
  ByteAmount keptBytes{cache.gauge()};
  uint64_t readings = 0, versions = 0;
};

//===----------------------------------------------------------------------===//
// Looking
//===----------------------------------------------------------------------===//

KeptEntry MergedEntries::Impl::get(const std::string &key, RecordAge age) {
  std::optional<KeptEntry> known;
  uint64_t reading = 0;
  {
    std::lock_guard guard(mutex);
    if (auto found = places.find(key); found != places.end()) {
      KeptEntry &entry = found->second->second;
      kept.splice(kept.end(), kept, found->second);
      const Clock::time_point now = Clock::now();
      if (readsOnce || (age == RecordAge::Recent && now < entry.recheckAt))
        return entry;
      known = entry;
      // Other threads go on with the kept entry meanwhile.
      entry.recheckAt = now + recheckInterval;
    }
    reading = ++readings;
  }
  const cache::Stamp stamp = cache.stampOf(type.kind.kind, key);
  // The stamp of a new file is less certain than a settled one. So the entry is
  // read once more, and is then known for good.
  if (known && known->stamp && known->stamp->value == stamp.value &&
      (known->stamp->isSettled || !stamp.isSettled))
    return *known;
  const bool isNew = !known;
  KeptEntry entry = read(key, std::move(known));
  if (isNew && age == RecordAge::Now && entry.isAbsent() && !readsOnce) {
    // An absent entry of a single value is looked up only once, so it is not
    // kept.
    std::lock_guard guard(mutex);
    entry.loaded.version = ++versions;
    return entry;
  }
  entry.isWhole |= stamp.isNothing;
  // An entry that exists and was not read is looked at again.
  if (entry.loaded.isReadable || entry.text.bytes)
    entry.stamp = stamp;
  entry.reading = reading;
  entry.recheckAt = Clock::now() + recheckInterval;
  return keep(key, std::move(entry));
}

/// Reads the entry in the cache; returns \p known if that is its text, or if it
/// cannot be read.
KeptEntry MergedEntries::Impl::read(const std::string &key,
                                    std::optional<KeptEntry> known) {
  KeptEntry made;
  cache::TierKind from = cache::TierKind::Memory;
  auto entry = cache.lookup(type.kind.kind, key, nullptr, &from);
  const bool hasKnown = known && known->loaded.document;
  if (!entry) {
    // An error of the file system does not invalidate the kept document, and
    // may be over soon.
    made.loaded.isReadable = cache.stampOf(type.kind.kind, key).isNothing;
    made.loaded.document = hasKnown && !made.loaded.isReadable
                               ? known->loaded.document
                               : DocumentPtr(type.copy(nullptr));
    return made;
  }
  made.text = SeenText::of(entry->payload);
  made.isOnDisk = from != cache::TierKind::Memory;
  made.isWhole = from == cache::TierKind::Write;
  if (hasKnown && known->loaded.isReadable &&
      known->text.bytes == made.text.bytes &&
      known->text.hash == made.text.hash) {
    made.loaded.document = known->loaded.document;
    return made;
  }
  auto opened = type.open(std::move(entry->payload));
  if (opened) {
    made.loaded.document = std::move(*opened);
    return made;
  }
  made.loaded.isReadable = made.isWhole = false;
  made.loaded.document =
      hasKnown ? known->loaded.document : DocumentPtr(type.copy(nullptr));
  cache.log().warning("a {} in the cache cannot be read and counts as missing: "
                      "{}",
                      type.kind.name, summarize(opened.takeError()).message);
  return made;
}

/// Returns the kept entry of \p key, however old.
std::optional<KeptEntry> MergedEntries::Impl::peek(llvm::StringRef key) {
  std::lock_guard guard(mutex);
  auto found = places.find(key);
  if (found == places.end())
    return std::nullopt;
  return found->second->second;
}

/// Keeps \p entry, unless one is kept whose reading began later. Returns the
/// kept one.
KeptEntry MergedEntries::Impl::keep(const std::string &key, KeptEntry entry) {
  std::lock_guard guard(mutex);
  if (auto found = places.find(key); found != places.end()) {
    const KeptEntry &known = found->second->second;
    if (readsOnce || known.reading > entry.reading)
      return known;
    if (known.loaded.document == entry.loaded.document)
      entry.loaded.version = known.loaded.version;
  }
  if (entry.loaded.version == 0)
    entry.loaded.version = ++versions;
  remove(key);
  keptBytes += costOf(entry);
  kept.emplace_back(key, entry);
  places[key] = std::prev(kept.end());
  // With readsOnce no entry may be read again.
  while (!readsOnce && keptBytes.bytes() > maxKeptBytes && kept.size() > 1)
    remove(std::string(kept.front().first));
  return entry;
}

/// Needs the mutex.
void MergedEntries::Impl::remove(llvm::StringRef key) {
  auto found = places.find(key);
  if (found == places.end())
    return;
  keptBytes -= costOf(found->second->second);
  kept.erase(found->second);
  places.erase(found);
}

//===----------------------------------------------------------------------===//
// Updating
//===----------------------------------------------------------------------===//

/// Returns \p key on one line.
static std::string lineOfKey(llvm::StringRef key) {
  std::string line = key.rtrim('\n').str();
  for (size_t at; (at = line.find('\n')) != std::string::npos;)
    line.replace(at, 1, ", ");
  return line;
}

/// Publishes the text that \p update could not read under a key of its own.
/// False if that failed: then the text must stay.
bool MergedEntries::Impl::keepAside(const std::string &key,
                                    llvm::json::Object attributes,
                                    MergedUpdate &update) {
  const SeenText seen = SeenText::of(update.unreadable);
  attributes["unreadable"] = update.problem;
  cache::PublishResult aside = cache.publish(
      type.kind.kind, fmt::format("{}unreadable {:016x}\n", key, seen.hash),
      attributes, update.unreadable);
  if (aside.status != cache::PublishStatus::Stored && cache.isPersistent()) {
    update.problem +=
        fmt::format("; it could not be kept aside: {}", aside.reason);
    return false;
  }
  cache.log().warning("a {} in the cache cannot be read and was kept aside: {}",
                      type.kind.name, update.problem);
  update.keptAside = seen;
  return true;
}

/// Whether \p change would leave the entry on disk as it is.
bool MergedEntries::Impl::isThere(const std::string &key, Change change,
                                  Updated &result) {
  if (readsOnce)
    return false; // the kept entry may be old
  const KeptEntry now = get(key, RecordAge::Now);
  if (!now.isOnDisk || !now.loaded.isReadable)
    return false;
  Document changed = type.copy(now.loaded.document.get());
  change(changed.get());
  if (!now.text.is(type.text(changed.get())))
    return false;
  result.document = std::move(changed);
  result.wasThere = true;
  return true;
}

/// Keeps the document that \p update stored, and returns its version. The
/// cache's stamp is not known yet: another process may have stored since.
uint64_t MergedEntries::Impl::takeStored(const std::string &key,
                                         const MergedUpdate &update) {
  KeptEntry entry;
  entry.loaded.document = update.document;
  entry.text = SeenText::of(update.text);
  entry.recheckAt = Clock::time_point::min();
  {
    std::lock_guard guard(mutex);
    entry.reading = ++readings;
  }
  return keep(key, std::move(entry)).loaded.version;
}

MergedEntries::MergedEntries(cache::Store &cache, const Type &type,
                             MergedOptions options)
    : impl(std::make_unique<Impl>(cache, type, options)) {}

MergedEntries::~MergedEntries() = default;

MergedEntries::Loaded MergedEntries::load(const std::string &key,
                                          RecordAge age) {
  return impl->get(key, age).loaded;
}

MergedEntries::Updated MergedEntries::update(const std::string &key,
                                             llvm::json::Object attributes,
                                             Change change) {
  Updated result;
  if (impl->type.kind.isOftenEqual && impl->isThere(key, change, result))
    return result;
  const std::optional<KeptEntry> kept = impl->peek(key);
  MergedUpdate update(impl->type, change, kept);
  auto mergeKnown = [&] { return update.runKnown(); };
  std::optional<cache::Store::KnownEntry> known;
  if (kept && kept->stamp && kept->isWhole)
    known.emplace(cache::Store::KnownEntry{*kept->stamp, mergeKnown});
  constexpr int kMaxAttempts = 3; // other processes may write meanwhile
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    result.publish = impl->cache.update(
        impl->type.kind.kind, key, attributes,
        [&](std::optional<llvm::StringRef> old) { return update.run(old); },
        known ? &*known : nullptr);
    if (update.unreadable.empty() || !impl->keepAside(key, attributes, update))
      break;
  }
  const Log &log = impl->cache.log();
  if (!update.document) {
    log.warning("a {} is not kept: {} ({})", impl->type.kind.name,
                update.problem, lineOfKey(key));
    result.publish = {cache::PublishStatus::Dropped, update.problem};
    return result;
  }
  if (update.dropped)
    log.info("{} parts of a {} went, to keep to its size ({})", update.dropped,
             impl->type.kind.name, lineOfKey(key));
  result.document = update.document;
  if (result.publish.status != cache::PublishStatus::Dropped)
    result.version = impl->takeStored(key, update);
  return result;
}

bool MergedEntries::isOnDisk(llvm::StringRef key) const {
  return impl->cache.isOnDisk(impl->type.kind.kind, key);
}

} // namespace kiln
