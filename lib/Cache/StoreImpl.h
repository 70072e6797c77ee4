//===- StoreImpl.h - the parts of a store ---------------------------------===//
//
// Private to Store.cpp, StoreWrite.cpp and StoreUpkeep.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/KeyLock.h"
#include "Cache/MemoryTier.h"
#include "Cache/Store.h"
#include "Cache/Tier.h"

#include <atomic>
#include <mutex>
#include <set>

namespace kiln::cache {

struct Store::Impl {
  /// First in every public function that may warn, so that it goes last: the
  /// log is called when no lock is held any more.
  struct WarningSender {
    Impl &impl;
    ~WarningSender() { impl.sendWarnings(); }
  };

  using Counter = std::atomic<uint64_t>;
  struct Counters {
    Counter hits{0}, memoryHits{0}, readTierHits{0}, misses{0}, damaged{0},
        removed{0}, refused{0}, unaccepted{0}, readErrors{0}, stored{0},
        keptInMemory{0}, dropped{0}, evicted{0}, evictedBytes{0},
        unlockedUpdates{0};
  };

  /// One key with the values that every step needs.
  struct Target {
    Kind kind;
    llvm::StringRef key;
    std::string name;
    Target(Kind kind, llvm::StringRef key)
        : kind(kind), key(key), name(fileNameOf(kind, key)) {}
  };

  /// The state that an update builds on.
  struct Base {
    std::optional<Entry> entry;
    Sighting seen;             ///< at the entry's path in the write tier
    ScopedFd file;             ///< keeps its identity from being used again
    bool isUnreadable = false; ///< an I/O error hides what is there
    uint64_t memorySerial = 0; ///< of the item in memory, 0 for none
  };

  explicit Impl(StoreOptions options)
      : files(options.files ? *options.files : FileOps::system()),
        log(std::move(options.log)), lockDeadline(options.lockDeadline),
        createsWriteDir(options.createsWriteDir),
        limitBytes(options.limitBytes), evicts(options.evicts),
        memory(options.maxMemoryBytes, options.gauge),
        gauge(std::move(options.gauge)) {}

  void addTier(const std::string &path, TierKind kind);
  void warnOnce(std::string cause, std::string message);
  void sendWarnings();
  void stopWriting(std::string reason);

  std::optional<Entry> readTier(const Tier &tier, const Target &target,
                                Base *base = nullptr);
  void reject(const Tier &tier, const Target &target, const TierRead &read);
  void stamp(const TierRead &read);
  bool isNewest(const MemoryTier::Item &item, const Target &target);

  Stamp stampOf(const Target &target, Sighting &own) const;
  Base readCurrent(const Target &target);
  std::optional<Base> findUnchanged(const Target &target, const Stamp &stamp);
  std::optional<PublishResult> publish(const Target &target,
                                       const llvm::json::Object &attributes,
                                       llvm::StringRef payload,
                                       const Base *base = nullptr,
                                       Tier::MayReplace mayReplace = nullptr);
  std::optional<PublishResult> keep(const Target &target,
                                    const llvm::json::Object &attributes,
                                    llvm::StringRef payload, const Base *base,
                                    std::string reason);
  std::optional<PublishResult> replace(const Target &target,
                                       const llvm::json::Object &attributes,
                                       llvm::StringRef payload,
                                       const Base &base,
                                       std::optional<KeyLock> &commit);
  void lock(std::optional<KeyLock> &lock, const Target &target, LockUse use,
            KeyLock::Clock::time_point deadline);
  void noteUse(const Target &target);
  bool isInUse(Kind kind, llvm::StringRef name);
  void askForLimit();
  void upkeep(uint64_t written, llvm::function_ref<bool()> isCancelled);
  void makeRoom(uint64_t limit, uint64_t used,
                llvm::function_ref<bool()> isCancelled);
  bool writes() const { return writeTier && takesEntries; }
  std::string whyNotWriting();

  FileOps &files;
  const Log log;
  const std::chrono::milliseconds lockDeadline;
  const bool createsWriteDir;
  const uint64_t limitBytes;
  const bool evicts;
  std::optional<Tier> writeTier;
  std::vector<Tier> readTiers;
  std::vector<std::string> notes;
  MemoryTier memory;
  const ByteGaugePtr gauge;
  std::atomic<bool> takesEntries{true};
  /// False once a lock was so slow that claims cost more than they save.
  std::atomic<bool> makesClaims{true};
  /// Bytes written that the folder's count does not have yet.
  std::atomic<uint64_t> uncounted{0};
  /// The size of the tier below which nothing could be evicted.
  std::atomic<uint64_t> evictsFrom{0};
  std::mutex inUseMutex;
  std::set<uint64_t> inUse; ///< published or found in the write tier
  Counters counters;
  std::mutex warnedMutex;
  std::set<std::string> warned;
  std::vector<std::string> unsentWarnings;
  std::string refusal; ///< why writes() is false; under warnedMutex
  /// Threads of this process wait here rather than by polling.
  std::timed_mutex updateMutex;
};

} // namespace kiln::cache
