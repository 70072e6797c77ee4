//===- MemoryTier.h - entries that the disk refused -----------------------===//
#pragma once

#include "Cache/Entry.h"
#include "Support/AtomicFile.h"
#include "Support/ByteGauge.h"

#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln::cache {

/// A sighting of a path: a file, nothing, or (an I/O error) not known.
struct Sighting {
  bool isKnown = true;
  std::optional<FileIdentity> file;
  friend bool operator==(const Sighting &, const Sighting &) = default;
};

/// A bounded map from key to entry, oldest out first. Thread-safe.
class MemoryTier {
public:
  struct Item {
    Kind kind = Kind::Artifact;
    Entry entry;
    /// The sighting of the entry's path in the write tier. While it stays, the
    /// entry is newer; once another process changes it, the disk is newer.
    Sighting shadowed;
    /// Made by an update that could not read the disk: the disk rules as soon
    /// as it can be read.
    bool isIncomplete = false;
    uint64_t serial = 0; ///< of this item alone; set by put()
  };
  enum class PutResult { Kept, TooLarge, Changed };

  explicit MemoryTier(uint64_t maxBytes, ByteGaugePtr gauge = nullptr)
      : maxBytes(maxBytes), usedBytes(std::move(gauge)) {}

  /// Keeps \p item in place of the item of the same key. With \p expected only
  /// if that one has this serial, or for 0, if there is none; else Changed.
  /// TooLarge: it is larger than the tier, and the item of its key is gone.
  PutResult put(Item item, std::optional<uint64_t> expected = std::nullopt);
  std::optional<Item> find(Kind kind, llvm::StringRef key) const;
  void erase(Kind kind, llvm::StringRef key);
  /// All of a kind, in order of keys.
  std::vector<Item> list(Kind kind) const;

private:
  using Items = std::list<Item>;
  using Key = std::pair<Kind, std::string>;

  static uint64_t costOf(const Item &item);
  void remove(std::map<Key, Items::iterator>::iterator at);

  mutable std::mutex mutex;
  const uint64_t maxBytes;
  ByteAmount usedBytes;
  uint64_t lastSerial = 0;
  Items items; ///< oldest first
  std::map<Key, Items::iterator> index;
};

} // namespace kiln::cache
