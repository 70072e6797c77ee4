//===- PublishedTable.h - a map that is read without a lock ---------------===//
//
// Open addressing over atomic pointers. Readers load and compare; writers, one
// at a time, store with release and grow by copying into a new array. Entries
// and old arrays live as long as the table, so a reader never meets freed
// memory and needs no epoch. The cost is the memory of replaced entries, so the
// table suits entries that are rarely replaced: a stream's arena when a plan
// needs a larger one, a stream's lock never. Old arrays are together as large
// as the one in use, because a table grows by doubling.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace kiln {

/// A map from properties of an Entry to the Entry. `Entry::hash` places it; a
/// predicate finds equal ones. Thread-safe.
template <class Entry> class PublishedTable {
public:
  PublishedTable() { show(makeArray(kFirstBuckets)); }
  PublishedTable(const PublishedTable &) = delete;
  PublishedTable &operator=(const PublishedTable &) = delete;

  /// Returns the entry with \p hash that \p matches accepts, or null.
  /// Wait-free; valid as long as the table.
  template <class Match>
  const Entry *find(uint64_t hash, const Match &matches) const noexcept {
    const Array *array = current.load(std::memory_order_acquire);
    for (size_t i = hash & array->mask;; i = (i + 1) & array->mask) {
      const Entry *entry = array->buckets[i].load(std::memory_order_acquire);
      if (!entry || (entry->hash == hash && matches(*entry)))
        return entry;
    }
  }

  /// Adds \p added, and replaces the entry that \p matches accepts if there is
  /// one: later readers find the new one.
  template <class Match>
  const Entry *publish(std::unique_ptr<Entry> added, const Match &matches) {
    std::lock_guard<std::mutex> lock(mutex);
    entries.push_back(std::move(added));
    const Entry *entry = entries.back().get();
    if ((used + 1) * 2 > arrays.back()->mask + 1)
      grow();
    used += place(*arrays.back(), entry, matches);
    return entry;
  }

  /// Publishes \p entry, which was published before, again. It replaces the
  /// entry that \p matches accepts, which has to exist.
  template <class Match>
  void publishAgain(const Entry *entry, const Match &matches) {
    std::lock_guard<std::mutex> lock(mutex);
    place(*arrays.back(), entry, matches);
  }

  /// Calls \p visit with every entry that readers can find, under the table's
  /// lock.
  template <class Visit> void forEach(const Visit &visit) const {
    std::lock_guard<std::mutex> lock(mutex);
    const Array &array = *arrays.back();
    for (size_t i = 0; i <= array.mask; ++i)
      if (const Entry *entry = array.buckets[i].load(std::memory_order_relaxed))
        visit(*entry);
  }

private:
  static constexpr size_t kFirstBuckets = 64;

  struct Array {
    size_t mask = 0;
    std::unique_ptr<std::atomic<const Entry *>[]> buckets;
  };

  static std::unique_ptr<Array> makeArray(size_t buckets) {
    auto array = std::make_unique<Array>();
    array->mask = buckets - 1;
    array->buckets = std::make_unique<std::atomic<const Entry *>[]>(buckets);
    for (size_t i = 0; i < buckets; ++i)
      array->buckets[i].store(nullptr, std::memory_order_relaxed);
    return array;
  }

  void show(std::unique_ptr<Array> array) {
    arrays.push_back(std::move(array));
    current.store(arrays.back().get(), std::memory_order_release);
  }

  /// Returns 1 if one more bucket is used.
  template <class Match>
  static size_t place(Array &array, const Entry *entry, const Match &matches) {
    for (size_t i = entry->hash & array.mask;; i = (i + 1) & array.mask) {
      const Entry *old = array.buckets[i].load(std::memory_order_relaxed);
      if (old && !(old->hash == entry->hash && matches(*old)))
        continue;
      array.buckets[i].store(entry, std::memory_order_release);
      return old ? 0 : 1;
    }
  }

  void grow() {
    // It is filled before it is published, so that readers miss nothing.
    const Array &old = *arrays.back();
    std::unique_ptr<Array> array = makeArray(2 * (old.mask + 1));
    for (size_t i = 0; i <= old.mask; ++i)
      if (const Entry *entry = old.buckets[i].load(std::memory_order_relaxed))
        place(*array, entry, [](const Entry &) { return false; });
    show(std::move(array));
  }

  std::atomic<const Array *> current{nullptr};
  mutable std::mutex mutex; ///< guards all below
  std::vector<std::unique_ptr<Array>> arrays;
  std::vector<std::unique_ptr<Entry>> entries;
  size_t used = 0;
};

} // namespace kiln
