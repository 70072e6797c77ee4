//===- ArtifactFlights.h - artifacts in flight ----------------------------===//
//
// Private to ArtifactStore.cpp and ArtifactFlights.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Store/ArtifactStore.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace kiln {

/// The outcome that \p error makes, with the log of a failed compilation.
ArtifactOutcome failedOutcome(llvm::Error error);

/// One key in flight, of which there is at most one at a time.
struct PendingArtifact::Flight {
  explicit Flight(const TranslationUnit &unit)
      : unit(unit), digest(unit.digest()) {}

  TranslationUnit unit;
  std::string key; ///< empty when it landed at once
  Digest digest;
  bool skipDisk = false;

  // Belongs to the pool's thread that has the flight.
  cache::Claim claim;
  std::optional<ArtifactOutcome> found; ///< found on disk when its turn came
  std::optional<std::chrono::steady_clock::time_point> postponedSince;

  // Guarded by Shared::mutex, the outcome only until `done`.
  int64_t priority = 0, queuedPriority = 0;
  CompilePool::Ticket ticket = 0;
  unsigned interest = 1;
  bool done = false;
  ArtifactOutcome outcome;
};

/// The state that a store and its pending artifacts share.
struct PendingArtifact::Shared : std::enable_shared_from_this<Shared> {
  using FlightPtr = std::shared_ptr<Flight>;
  using Clock = CompilePool::Clock;
  struct Kept {
    ArtifactOutcome outcome;
    uint64_t bytes = 0;
    uint64_t serial = 0;
  };

  Shared(cache::Store &cache, ArtifactStoreOptions given)
      : cache(cache), options(std::move(given)),
        compiler(std::make_shared<Compiler>(options.nvrtc)),
        pool(std::make_shared<CompilePool>(compiler, options.pool)) {}

  cache::Store &cache;
  const ArtifactStoreOptions options;
  const std::shared_ptr<Compiler> compiler;

  std::mutex mutex;
  std::condition_variable landed;
  uint64_t landings = 0;
  std::map<Digest, FlightPtr> flights;
  std::map<Digest, Kept> memory;
  std::deque<std::pair<Digest, uint64_t>> memoryOrder; ///< with serials
  std::set<Digest> missing; ///< with looksOnce: units not on disk
  ByteAmount memoryBytes{cache.gauge()};
  uint64_t nextSerial = 0;
  ArtifactStatistics statistics;
  bool closing = false;
  /// The time when waits were first seen to be cancelled.
  std::optional<Clock::time_point> cancelTime;
  std::shared_ptr<CompilePool> pool; ///< null once destroyed

  /// The outcome in memory for \p digest, or null. Needs the lock.
  const ArtifactOutcome *recall(const Digest &digest);
  /// Keeps \p outcome in memory, oldest out first. Needs the lock.
  void remember(const Digest &digest, const ArtifactOutcome &outcome);
  /// Reads the artifact of \p key from the cache, and checks it.
  std::optional<ArtifactOutcome> readDisk(const TranslationUnit &unit,
                                          llvm::StringRef key);
  std::optional<ArtifactOutcome> readEntry(const TranslationUnit &unit,
                                           llvm::StringRef key);
  /// Returns the flight of \p unit: a new one, or the one in progress.
  FlightPtr board(const TranslationUnit &unit, int64_t priority, bool skipDisk);
  /// Begins a new flight: lands it with the artifact on disk, or queues it.
  void depart(const FlightPtr &flight);
  /// Hands a flight to the pool with its current priority.
  void queue(const FlightPtr &flight);
  /// The pool's gate: whether another process has compiled the unit, or is
  /// compiling it.
  CompilePool::Admission admit(Flight &flight);
  /// The pool's callback: publishes and lands, or queues again.
  void finishCompile(const FlightPtr &flight, CompilePool::Result result);
  /// Ends a flight, unless it has ended.
  void land(const FlightPtr &flight, ArtifactOutcome outcome);
  void landLocked(const FlightPtr &flight, ArtifactOutcome outcome);
  /// Removes one interested party; without any, a compilation that has not
  /// started is cancelled.
  void leave(const FlightPtr &flight);
  /// Whether nothing may be compiled any more. Needs the lock.
  bool isEnding() const;
  /// The time when waits give up on running compilations; never before waits
  /// are cancelled.
  Clock::time_point giveUpTime();
  /// Waits until a flight has ended, true, or until \p deadline, false. When \p
  /// cancel becomes true, it waits for the pool's grace at most.
  bool waitUntil(const FlightPtr &flight, Clock::time_point deadline,
                 const std::atomic<bool> *cancel = nullptr);
  /// Waits until a flight has ended. Once waits are cancelled the compilation
  /// is given up after the pool's grace.
  void wait(const FlightPtr &flight);
  /// Ends the flight as Cancelled, unless another party is interested.
  void giveUp(const FlightPtr &flight);
  /// Waits until any flight landed since \p seen landings, or some 100 ms, and
  /// gives up on compilations that hang. Returns the number of landings.
  uint64_t waitForLanding(uint64_t seen);
};

} // namespace kiln
