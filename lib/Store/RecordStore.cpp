//===- RecordStore.cpp - records in the cache, kept parsed ----------------===//
//
// The first call of each problem asks the records, on the thread that launches.
// So a record is parsed once and kept, with the configs of its points in the
// order in which they are handed out; a later question costs a hash look-up and
// a binary search. Whether the file has changed is asked once a second at most.
//
//===----------------------------------------------------------------------===//
#include "Store/RecordIndex.h"
#include "Store/Verdicts.h"
#include "Support/Error.h"
#include "Support/Hash.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/Support/FormatVariadic.h>

#include <algorithm>
#include <cassert>
#include <list>
#include <mutex>

namespace kiln {

//===----------------------------------------------------------------------===//
// Merging into what is there
//===----------------------------------------------------------------------===//

/// Without indentation: a record is read by programs.
static std::string recordText(const TuningRecord &record) {
  return llvm::formatv("{0}\n", llvm::json::Value(record.toJson())).str();
}

/// Trims \p record until its text is within kMaxRecordBytes, if that can be.
static std::string trimmedText(TuningRecord &record) {
  size_t most = kMaxMeasurements;
  for (;;) {
    trimRecord(record, most);
    std::string text = recordText(record);
    size_t largest = 0;
    for (const RecordPoint &point : record.points)
      largest = std::max(largest, point.measurements.size());
    if (text.size() <= kMaxRecordBytes || largest <= 1)
      return text;
    most = largest / 2;
  }
}

namespace {
/// What one store() makes of the record that it finds. May run more than once.
struct RecordUpdate {
  RecordUpdate(const RecordPoint &point,
               std::shared_ptr<const IndexedRecord> known)
      : point(point), known(std::move(known)) {}

  const RecordPoint &point;
  std::shared_ptr<const IndexedRecord> known; ///< as it was; may be null
  std::optional<uint64_t> keptAside; ///< hash of what may be replaced unread

  // Of the last run.
  TuningRecord merged;
  std::string text;       ///< of merged
  std::string unreadable; ///< what was there and was left as it is
  std::string problem;    ///< why nothing was merged; empty: it was

  std::string run(std::optional<llvm::StringRef> old) {
    begin();
    if (old && !readOld(*old))
      return old->str();
    return merge() ? text : old ? old->str() : recordText({});
  }

  /// The same, where what is there is what is known.
  std::string runKnown() {
    begin();
    merged = known->record;
    return merge() ? text : recordText(known->record);
  }

private:
  void begin() {
    unreadable.clear();
    problem.clear();
    merged = TuningRecord();
  }
  /// False if the record would be too large.
  bool merge() {
    mergePoint(merged, point);
    text = trimmedText(merged);
    if (text.size() <= kMaxRecordBytes)
      return true;
    problem = fmt::format("the record would have {} bytes, {} are allowed",
                          text.size(), kMaxRecordBytes);
    return false;
  }
  /// False if \p old cannot be read and must not be lost.
  bool readOld(llvm::StringRef old) {
    if (known && known->isReadable && known->hasText(old)) {
      merged = known->record;
      return true;
    }
    auto parsed = TuningRecord::parse(old);
    if (parsed) {
      merged = std::move(*parsed);
      return true;
    }
    problem = summarize(parsed.takeError()).message;
    if (keptAside == quickHash(old)) {
      problem.clear();
      return true;
    }
    unreadable = old.str();
    return false;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// What is kept
//===----------------------------------------------------------------------===//

struct RecordStore::Impl {
  using Clock = std::chrono::steady_clock;
  using IndexedPtr = std::shared_ptr<const IndexedRecord>;

  struct Kept {
    std::string key;
    IndexedPtr record;
    /// Of the cache before the record was read; nullopt: not known.
    std::optional<cache::Stamp> stamp;
    /// Whether the record is all that an update of that stamp would read.
    bool isWhole = false;
    Clock::time_point recheckAt;
  };

  Impl(cache::Store &cache, RecordStoreOptions options)
      : cache(cache), options(std::move(options)),
        verdicts(cache, this->options.recheckInterval) {}

  IndexedPtr get(const KernelFamily &family, const std::string &key,
                 bool isFresh);
  IndexedPtr read(const KernelFamily &family, const std::string &key,
                  const IndexedPtr &known, cache::LayerKind &from) const;
  std::optional<Kept> peek(const std::string &key);
  void keep(Kept entry, uint64_t storesSeen);
  void remove(llvm::StringRef key);
  bool keepAside(const std::string &key, llvm::json::Object attributes,
                 RecordUpdate &update);
  void takeStored(const KernelFamily &family, const std::string &key,
                  RecordUpdate &update);

  cache::Store &cache;
  const RecordStoreOptions options;
  Verdicts verdicts;

  std::mutex mutex;     ///< guards what follows
  std::list<Kept> kept; ///< used least recently first
  llvm::StringMap<std::list<Kept>::iterator> places;
  uint64_t keptBytes = 0;
  uint64_t stores = 0; ///< calls of store() that have ended
};

RecordStore::Impl::IndexedPtr RecordStore::Impl::get(const KernelFamily &family,
                                                     const std::string &key,
                                                     bool isFresh) {
  IndexedPtr known;
  std::optional<cache::Stamp> knownStamp;
  uint64_t storesSeen = 0;
  {
    std::lock_guard guard(mutex);
    storesSeen = stores;
    auto found = places.find(key);
    if (found != places.end() && found->second->record->family == &family) {
      Kept &entry = *found->second;
      kept.splice(kept.end(), kept, found->second);
      const Clock::time_point now = Clock::now();
      if (!isFresh && now < entry.recheckAt)
        return entry.record;
      known = entry.record;
      knownStamp = entry.stamp;
      // Meanwhile the other threads go on with what there is.
      entry.recheckAt = now + options.recheckInterval;
    }
  }
  const cache::Stamp stamp = cache.stampOf(cache::Kind::Record, key);
  // A stamp of a file that was new says less than one that has settled since:
  // once more the record is read, and then it is known for good.
  if (known && knownStamp && knownStamp->value == stamp.value &&
      (knownStamp->isSettled || !stamp.isSettled))
    return known;
  cache::LayerKind from = cache::LayerKind::Memory;
  IndexedPtr record = read(family, key, known, from);
  const bool isWhole = record->isReadable &&
                       (stamp.isNothing || from == cache::LayerKind::Write);
  keep({key, record, stamp, isWhole, Clock::now() + options.recheckInterval},
       storesSeen);
  return record;
}

/// What is kept of \p key, however old.
std::optional<RecordStore::Impl::Kept>
RecordStore::Impl::peek(const std::string &key) {
  std::lock_guard guard(mutex);
  auto found = places.find(key);
  if (found == places.end())
    return std::nullopt;
  return *found->second;
}

/// The record that is in the cache, and the layer that has it; \p known if that
/// is its text.
RecordStore::Impl::IndexedPtr
RecordStore::Impl::read(const KernelFamily &family, const std::string &key,
                        const IndexedPtr &known, cache::LayerKind &from) const {
  std::optional<cache::Entry> entry =
      cache.lookup(cache::Kind::Record, key, nullptr, &from);
  if (!entry)
    return indexRecord({}, family, "");
  if (known && known->hasText(entry->payload))
    return known;
  auto record = TuningRecord::parse(entry->payload);
  if (record)
    return indexRecord(std::move(*record), family, entry->payload);
  cache.log().warning("a record in the cache cannot be read and counts as "
                      "missing: {} ({})",
                      summarize(record.takeError()).message, family.name());
  TuningRecord empty;
  empty.skipped = 1;
  return indexRecord(std::move(empty), family, entry->payload,
                     /*isReadable=*/false);
}

/// Keeps \p entry, unless what a store() has left since its maker looked, when
/// \p storesSeen had ended, is newer.
void RecordStore::Impl::keep(Kept entry, uint64_t storesSeen) {
  std::lock_guard guard(mutex);
  if (stores != storesSeen)
    return;
  remove(entry.key);
  keptBytes += entry.record->cost();
  kept.push_back(std::move(entry));
  places[kept.back().key] = std::prev(kept.end());
  while (keptBytes > options.maxKeptBytes && kept.size() > 1)
    remove(std::string(kept.front().key));
}

/// Needs the mutex.
void RecordStore::Impl::remove(llvm::StringRef key) {
  auto found = places.find(key);
  if (found == places.end())
    return;
  keptBytes -= found->second->record->cost();
  kept.erase(found->second);
  places.erase(found);
}

RecordStore::RecordStore(cache::Store &cache, RecordStoreOptions options)
    : impl(std::make_unique<Impl>(cache, std::move(options))) {}

RecordStore::~RecordStore() = default;

Verdicts &RecordStore::verdicts() const { return impl->verdicts; }

RecordMatch RecordStore::find(const KernelFamily &family,
                              const Problem &problem,
                              llvm::StringRef deviceClass, MeasurementMode mode,
                              RecordAge age) const {
  return matchRecord(impl->get(family, recordKey(family, problem, deviceClass),
                               age == RecordAge::Now),
                     dynamicExtentsOf(family, problem), mode);
}

std::shared_ptr<const TuningRecord>
RecordStore::load(const KernelFamily &family, const Problem &problem,
                  llvm::StringRef deviceClass) const {
  auto indexed = impl->get(family, recordKey(family, problem, deviceClass),
                           /*isFresh=*/true);
  return {indexed, &indexed->record};
}

//===----------------------------------------------------------------------===//
// Storing
//===----------------------------------------------------------------------===//

/// Publishes what \p update could not read under a key of its own. False where
/// that is not safely done: then it must stay.
bool RecordStore::Impl::keepAside(const std::string &key,
                                  llvm::json::Object attributes,
                                  RecordUpdate &update) {
  const uint64_t hash = quickHash(update.unreadable);
  attributes["unreadable"] = update.problem;
  cache::PublishResult aside = cache.publish(
      cache::Kind::Record, fmt::format("{}unreadable {:016x}\n", key, hash),
      attributes, update.unreadable);
  if (aside.status != cache::PublishStatus::Stored && cache.isPersistent()) {
    update.problem +=
        fmt::format("; it could not be kept aside: {}", aside.reason);
    return false;
  }
  cache.log().warning("a record in the cache cannot be read and was kept "
                      "aside: {}",
                      update.problem);
  update.keptAside = hash;
  return true;
}

/// Keeps what \p update stored. The cache's stamp is not known yet: somebody
/// may have stored since.
void RecordStore::Impl::takeStored(const KernelFamily &family,
                                   const std::string &key,
                                   RecordUpdate &update) {
  IndexedPtr record =
      indexRecord(std::move(update.merged), family, update.text);
  uint64_t storesSeen = 0;
  {
    std::lock_guard guard(mutex);
    storesSeen = ++stores;
    remove(key);
  }
  keep({key, std::move(record), std::nullopt, /*isWhole=*/false,
        Clock::time_point::min()},
       storesSeen);
}

RecordStore::StoreResult RecordStore::store(const KernelFamily &family,
                                            const Problem &problem,
                                            llvm::StringRef deviceClass,
                                            const RecordPoint &point) {
  assert(point.extents == dynamicExtentsOf(family, problem) &&
         "the point belongs to another problem");
  const std::string key = recordKey(family, problem, deviceClass);
  llvm::json::Object attributes{{"family", family.name()},
                                {"problem", family.fixedText(problem)},
                                {"device", deviceClass}};
  const std::optional<Impl::Kept> kept = impl->peek(key);
  RecordUpdate update(point, kept ? kept->record : nullptr);
  auto mergeKnown = [&] { return update.runKnown(); };
  std::optional<cache::Store::KnownEntry> known;
  if (kept && kept->stamp && kept->isWhole)
    known.emplace(cache::Store::KnownEntry{*kept->stamp, mergeKnown});
  StoreResult result;
  constexpr int kMaxAttempts = 3; // others may write meanwhile
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    result.publish = impl->cache.update(
        cache::Kind::Record, key, attributes,
        [&](std::optional<llvm::StringRef> old) { return update.run(old); },
        known ? &*known : nullptr);
    if (update.unreadable.empty() || !impl->keepAside(key, attributes, update))
      break;
  }
  if (!update.problem.empty()) {
    impl->cache.log().warning("the record of {} is not kept: {}",
                              problem.text(), update.problem);
    result.publish = {cache::PublishStatus::Dropped, update.problem};
    result.point = point;
    return result;
  }
  result.point = *update.merged.find(point.extents);
  if (result.publish.status != cache::PublishStatus::Dropped)
    impl->takeStored(family, key, update);
  return result;
}

} // namespace kiln
