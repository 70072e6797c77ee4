//===- Store.h - artifacts, records and portfolios by key -----------------===//
//
// A write tier (own uid, 0700), read tiers behind it, and memory for entries
// that the disk refuses. One file an entry: <root>/v1/<kind>/<first 2
// digits>/<SHA-256 of kind and key>.kiln.
//
// The store degrades and never fails: a damaged entry is a miss that heals, a
// full or read-only disk costs one warning for each cause, and a publisher goes
// on with the bytes that it has, because nothing is read back. Publishing is a
// temporary file, fsync, rename, fsync of the folder, so that a reader sees an
// old entry or a new one and never a part. Locks save work; correctness needs
// none.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Entry.h"
#include "Support/ByteGauge.h"
#include "Support/Log.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {
class FileOps;
} // namespace kiln

namespace kiln::cache {

class KeyLock;
struct PruneResult;
struct PruneRules;

/// The default limit of a cache's size.
inline constexpr uint64_t kDefaultLimitBytes = uint64_t(4) << 30;
/// The value that asks for no limit.
inline constexpr uint64_t kNoLimit = UINT64_MAX;

/// Which tier an entry came from, in the order in which they are asked.
enum class TierKind { Memory, Write, Read };
llvm::StringRef nameOf(TierKind tier);

struct StoreOptions {
  /// Absolute path; nullopt: memory only.
  std::optional<std::string> writeDir;
  /// Create it if it is missing; else a missing one is a note.
  bool createsWriteDir = true;
  /// Absolute paths of read tiers, asked in this order.
  std::vector<std::string> readDirs;
  Log log;
  /// The size that upkeep() keeps the write tier under. The limit belongs to
  /// the folder and is kept in it: the largest of all that were asked for
  /// counts, so a neighbour with a small limit removes nothing. kNoLimit: none;
  /// 0: asks for no change.
  uint64_t limitBytes = 0;
  /// False: upkeep() of this store removes no entry; others' may.
  bool evicts = true;
  /// Entries that the disk refused are kept up to this size, oldest out first.
  uint64_t maxMemoryBytes = 256u << 20;
  /// Counts host memory of this store, and of the stores above it: entries and
  /// artifacts in memory, by their text and a charge for the rest. May be null.
  ByteGaugePtr gauge = nullptr;
  /// How long update() waits for its turn before it goes on beside others:
  /// updates of other keys in this process, and of its key in all processes.
  /// Then it may wait as long again for an update that is just replacing the
  /// entry.
  std::chrono::milliseconds lockDeadline{10000};
  /// The file system, for tests; null: the real one. Must outlive the store.
  FileOps *files = nullptr;
};

/// A stamp of the files at the paths of an entry at some time.
struct Stamp {
  /// Differs, except for one chance in 2^64, as soon as lookup() may find
  /// something else than it found when the other stamp was taken.
  uint64_t value = 0;
  /// The entry had been unchanged for so long that no later one can look like
  /// it: the clock that files are stamped with had moved on.
  bool isSettled = false;
  /// No tier had a file there, as far as each can tell.
  bool isNothing = false;
};

/// The place where publish() left an entry.
enum class PublishStatus {
  Stored,  ///< on disk, durable
  Memory,  ///< not safely on disk; this process still finds it
  Dropped, ///< nowhere: over the limits of the format or of memory
};

struct PublishResult {
  PublishStatus status = PublishStatus::Stored;
  std::string reason; ///< why it is not Stored; empty for a store in memory
};

/// The claim to make an entry, held until it is destroyed.
struct Claim {
  /// None: it cannot be told, for lack of a folder or of locks in it.
  enum class State { Mine, Theirs, None };
  State state = State::None;
  std::shared_ptr<KeyLock> lock; ///< set if Mine
};

/// Counts since the store was opened.
struct Statistics {
  uint64_t hits = 0;         ///< all, of which
  uint64_t memoryHits = 0;   ///< from memory,
  uint64_t readTierHits = 0; ///< from a read tier
  uint64_t misses = 0;       ///< all, whatever the reason
  uint64_t damaged = 0;      ///< damaged files met
  uint64_t removed = 0;      ///< of which were deleted from the write tier
  uint64_t refused = 0;      ///< files not trusted: owner, mode, no plain file
  uint64_t unaccepted = 0;   ///< good entries that the caller's test refused
  uint64_t readErrors = 0;   ///< I/O errors met when reading
  uint64_t stored = 0;       ///< published on disk
  uint64_t keptInMemory = 0; ///< published to memory
  uint64_t dropped = 0;      ///< published nowhere
  uint64_t evicted = 0;      ///< removed to keep to the limit
  uint64_t evictedBytes = 0; ///< of these
  uint64_t unlockedUpdates = 0; ///< updates that did not get a turn
};

/// One entry, as list() reports it.
struct EntryInfo {
  Kind kind = Kind::Artifact;
  TierKind tier = TierKind::Write;
  std::string path; ///< empty in memory
  std::string key;
  llvm::json::Object attributes;
  uint64_t payloadBytes = 0;
  uint64_t fileBytes = 0;
  std::chrono::system_clock::time_point modified;
};

/// One file, as verify() judges it.
struct VerifyItem {
  enum class State { Ok, Damaged, Temporary, Foreign };
  State state = State::Ok;
  TierKind tier = TierKind::Write;
  Kind kind = Kind::Artifact;
  std::string path;
  std::string reason; ///< empty if Ok
  std::string key;    ///< empty unless Ok
};
llvm::StringRef nameOf(VerifyItem::State state);

/// Every function is thread-safe, none throws or fails; none calls the log
/// with a lock held. Several processes may share a directory.
class Store {
public:
  using Accept = llvm::function_ref<bool(const llvm::json::Object &)>;
  using Merge =
      llvm::function_ref<std::string(std::optional<llvm::StringRef> old)>;

  /// The entry that the caller of update() read before. It came from the write
  /// tier, or the stamp, which was taken before the entry was read, isNothing.
  struct KnownEntry {
    Stamp stamp;
    /// The payload that update()'s merge would make of it.
    llvm::function_ref<std::string()> merge;
  };

  /// Opens a store, creating the write tier's folder. A fault of a tier
  /// (relative, no directory, another owner, writable by others, a symbolic
  /// link) disables that tier; notes() says so, and so does one warning. Cost:
  /// a few system calls, nothing is scanned.
  static std::unique_ptr<Store> open(StoreOptions options);
  ~Store();

  /// The entry of \p key, or nullopt. A damaged file in the write tier is
  /// deleted unless it was replaced meanwhile. An entry whose attributes \p
  /// accept refuses (another toolchain, say) is passed over and kept. \p from
  /// gets the tier that had it. Never blocks, whatever lies at the path. About
  /// 50 us for 64 KiB in the page cache.
  std::optional<Entry> lookup(Kind kind, llvm::StringRef key,
                              Accept accept = nullptr,
                              TierKind *from = nullptr);

  /// Cost: some system calls for each tier; nothing is read.
  Stamp stampOf(Kind kind, llvm::StringRef key) const;

  /// Replaces the entry of \p key. Whatever the status, the caller goes on with
  /// its own bytes. Warns once for each cause; after the first sign of a
  /// read-only directory it stops trying. Cost: two fsyncs, milliseconds.
  PublishResult publish(Kind kind, llvm::StringRef key,
                        const llvm::json::Object &attributes,
                        llvm::StringRef payload);

  /// Replaces the entry of \p key by the payload that \p merge makes of the one
  /// that is there (nullopt: none, damaged or unreadable). Updates of any
  /// number of processes lose nothing that was Stored, even if one of them is
  /// slow or stopped. Each takes its turn, or goes on without one after
  /// lockDeadline. Before it replaces the entry, it looks whether that is still
  /// the one it read, else it merges again. A file system without locks has
  /// this look alone, and two updates within microseconds of each other may
  /// lose one. An entry that an I/O error hides is not overwritten: the result
  /// stays in memory. \p merge may run up to 8 times and must not call the
  /// store. While the entry is \p known, it is not read again.
  PublishResult update(Kind kind, llvm::StringRef key,
                       const llvm::json::Object &attributes, Merge merge,
                       const KnownEntry *known = nullptr);

  /// Tells other processes that this one makes the entry of \p key, unless
  /// another one said so first. It only saves work: the other process may be
  /// stopped, so the caller waits for it for a limited time. Cost: some 10 us;
  /// never waits.
  Claim claim(Kind kind, llvm::StringRef key);

  /// Whether there is a file for \p key in the write tier, good or not. Cost:
  /// some us; counts nothing.
  bool hasFile(Kind kind, llvm::StringRef key) const;
  /// As above for the write tier and the read tiers.
  bool isOnDisk(Kind kind, llvm::StringRef key) const;
  /// As above, given the entry's name, fileNameOf().
  bool isNameOnDisk(Kind kind, llvm::StringRef name) const;

  /// The entries of a kind, by tier, then by file name. Reads and checks heads
  /// only; damaged and foreign files are left out. An entry in several tiers
  /// is listed once for each.
  std::vector<EntryInfo> list(Kind kind);

  /// Reads and checks every file of every tier; deletes nothing. Cost: reads
  /// the whole cache.
  std::vector<VerifyItem> verify();

  /// Removes from the write tier what \p rules say; see Prune.h. The limit of
  /// the folder is lowered to rules.maxBytes, if that is for all kinds.
  PruneResult prune(const PruneRules &rules);

  /// Does the due upkeep and mostly returns at once. Once an hour, for all
  /// processes together, it removes temporary files that writers left behind;
  /// where the write tier is over its limit, it removes the entries that were
  /// used least recently. Entries that this store has published or found there
  /// since it was opened stay; if they alone are over the limit, a warning says
  /// so. It is for a background thread, which has published \p written bytes:
  /// it may take a second in a large cache, unless \p isCancelled says true.
  void upkeep(uint64_t written,
              llvm::function_ref<bool()> isCancelled = nullptr);

  /// The limit of the write tier, as its folder says; 0: no limit was asked for
  /// yet; kNoLimit: it was asked to have none.
  uint64_t limitBytes() const;

  Statistics statistics() const;

  /// The log of the options, for what is in the entries.
  const Log &log() const;

  /// The gauge of the options, for what stores above this one keep in memory.
  const ByteGaugePtr &gauge() const;

  /// Why the store differs from what the options asked for: one line each.
  const std::vector<std::string> &notes() const;

  /// True while there is a write tier that takes entries.
  bool isPersistent() const;
  /// Why it is not; meaningless while it is.
  std::string whyNotPersistent() const;

private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace kiln::cache
