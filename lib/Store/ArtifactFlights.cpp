//===- ArtifactFlights.cpp - artifacts in flight --------------------------===//
//
// A request that memory does not answer becomes a flight, of which there is one
// for each key at a time. Its life: the requesting thread looks on disk, then
// the unit is queued, then a pool thread looks on disk again, compiles,
// publishes and lands it. Several processes share the work: the one that
// compiles a key claims it. The others put theirs off for a while, until it has
// published. A thread that waits for an artifact never waits for another
// process. A request for a key in flight joins it. A flight counts the
// interested parties. To raise its priority, or when no party is left, its
// ticket is cancelled, and the resulting callback queues it again if any party
// is interested.
//
//===----------------------------------------------------------------------===//
#include "Store/ArtifactFlights.h"

#include "Compile/ProcessExit.h"
#include "Observe/Span.h"
#include "Support/Cubin.h"

#include <thread>

namespace kiln {

/// The outcome of \p artifact: itself, or the reason why it must not be used.
static ArtifactOutcome judge(Artifact artifact, ArtifactOrigin origin,
                             const TranslationUnit &unit) {
  ArtifactOutcome outcome;
  outcome.origin = origin;
  if (origin == ArtifactOrigin::Compiled)
    outcome.compileMs = artifact.phases.totalMs;
  std::string reason = artifact.rejection(unit.maySpill());
  if (!reason.empty()) {
    outcome.error = {ErrorCode::CompileFailed,
                     fmt::format("{} for {}: rejected because {}", unit.name(),
                                 artifact.arch, reason),
                     0};
    outcome.compileLog = std::move(artifact.log);
    return outcome;
  }
  outcome.artifact = std::make_shared<const Artifact>(std::move(artifact));
  return outcome;
}

ArtifactOutcome failedOutcome(llvm::Error error) {
  ArtifactOutcome outcome;
  llvm::handleAllErrors(
      std::move(error),
      [&](const CompileError &e) {
        outcome.error = {e.code, e.message, e.driverCode};
        outcome.compileLog = e.compileLog;
      },
      [&](std::unique_ptr<llvm::ErrorInfoBase> other) {
        outcome.error = summarize(llvm::Error(std::move(other)));
      });
  return outcome;
}

bool ArtifactOutcome::isLasting() const {
  switch (error.code) {
  case ErrorCode::InvalidArgument:
  case ErrorCode::Unsupported:
  case ErrorCode::CompileFailed:
    return true;
  default:
    return false;
  }
}

/// The outcome of a flight when there is no memory for details; allocates
/// nothing.
static ArtifactOutcome outOfMemory() {
  ArtifactOutcome outcome;
  outcome.error.code = ErrorCode::OutOfMemory;
  outcome.error.message = "out of memory";
  return outcome;
}

/// Takes \p ticket back from \p pool, if its turn has not come. Without the
/// memory for that, admit() later sees that it is stale.
static void takeBack(CompilePool *pool, CompilePool::Ticket ticket) noexcept {
  try {
    if (pool)
      pool->cancel(ticket);
  } catch (const std::bad_alloc &) {
  }
}

const ArtifactOutcome *PendingArtifact::Shared::recall(const Digest &digest) {
  auto found = memory.find(digest);
  if (found == memory.end())
    return nullptr;
  if (found->second.outcome)
    ++statistics.memoryHits;
  return &found->second.outcome;
}

void PendingArtifact::Shared::remember(const Digest &digest,
                                       const ArtifactOutcome &outcome) {
  Kept kept{outcome, 1024 + outcome.compileLog.size(), nextSerial++};
  kept.outcome.origin = ArtifactOrigin::Memory;
  kept.outcome.compileMs = 0;
  if (outcome.artifact)
    kept.bytes += outcome.artifact->cubin.size() + outcome.artifact->log.size();
  if (auto old = memory.find(digest); old != memory.end()) {
    memoryBytes -= old->second.bytes;
    memory.erase(old);
  }
  const uint64_t bytes = kept.bytes;
  memoryOrder.push_back({digest, kept.serial});
  memory.emplace(digest, std::move(kept));
  memoryBytes += bytes;
  while (memoryBytes.bytes() > options.maxMemoryBytes &&
         memoryOrder.size() > 1) {
    auto [oldest, serial] = memoryOrder.front();
    memoryOrder.pop_front();
    auto found = memory.find(oldest);
    if (found == memory.end() || found->second.serial != serial)
      continue; // was replaced by a younger one
    memoryBytes -= found->second.bytes;
    memory.erase(found);
  }
}

std::optional<ArtifactOutcome>
PendingArtifact::Shared::readDisk(const TranslationUnit &unit,
                                  llvm::StringRef key) {
  if (!options.looksOnce)
    return readEntry(unit, key);
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (missing.count(unit.digest()))
      return std::nullopt;
  }
  std::optional<ArtifactOutcome> found = readEntry(unit, key);
  std::lock_guard<std::mutex> lock(mutex);
  if (!found)
    missing.insert(unit.digest());
  // Another thread may have looked before.
  return missing.count(unit.digest()) ? std::nullopt : std::move(found);
}

/// Asks the cache each time.
std::optional<ArtifactOutcome>
PendingArtifact::Shared::readEntry(const TranslationUnit &unit,
                                   llvm::StringRef key) {
  std::string identity;
  if (options.exactToolchain) {
    auto nvrtc = compiler->nvrtc();
    if (!nvrtc) {
      llvm::consumeError(nvrtc.takeError()); // get() will say so
      return std::nullopt;
    }
    identity = (*nvrtc)->identity();
  }
  auto accept = [&](const llvm::json::Object &attributes) {
    return identity.empty() || attributes.getString("toolchain") == identity;
  };
  cache::TierKind from = cache::TierKind::Memory;
  std::optional<cache::Entry> entry =
      cache.lookup(cache::Kind::Artifact, key, accept, &from);
  if (!entry)
    return std::nullopt;
  auto artifact =
      Artifact::fromAttributes(llvm::json::Value(std::move(entry->attributes)),
                               std::move(entry->payload));
  if (!artifact) {
    llvm::consumeError(artifact.takeError());
    return std::nullopt;
  }
  if (artifact->arch != unit.arch() || artifact->entry != unit.entry())
    return std::nullopt;
  if (llvm::Error error =
          checkCubin(artifact->cubin, unit.arch(), unit.entry())) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  ArtifactOutcome outcome =
      judge(std::move(*artifact), ArtifactOrigin::Disk, unit);
  if (from == cache::TierKind::Memory)
    outcome.storage = {cache::PublishStatus::Memory, "the disk refused it"};
  return outcome;
}

PendingArtifact::Shared::FlightPtr
PendingArtifact::Shared::board(const TranslationUnit &unit, int64_t priority,
                               bool skipDisk) {
  auto flight = std::make_shared<Flight>(unit);
  flight->priority = priority;
  flight->skipDisk = skipDisk;
  {
    std::unique_lock<std::mutex> lock(mutex);
    if (const ArtifactOutcome *known = recall(flight->digest)) {
      flight->outcome = *known;
      flight->done = true;
      return flight;
    }
    auto [place, isNew] = flights.try_emplace(flight->digest, flight);
    if (!isNew) {
      FlightPtr joined = place->second;
      ++joined->interest;
      if (priority >= joined->priority)
        return joined;
      joined->priority = priority;
      CompilePool::Ticket ticket = joined->ticket;
      std::shared_ptr<CompilePool> current = pool;
      lock.unlock();
      takeBack(current.get(), ticket); // queues it again with its new priority
      return joined;
    }
  }
  try {
    depart(flight);
  } catch (const std::bad_alloc &) {
    land(flight, outOfMemory()); // others may have joined
    throw;
  }
  return flight;
}

void PendingArtifact::Shared::depart(const FlightPtr &flight) {
  const TranslationUnit &unit = flight->unit;
  flight->key = artifactKey(unit);
  if (!flight->skipDisk)
    if (std::optional<ArtifactOutcome> found = readDisk(unit, flight->key))
      return land(flight, std::move(*found));
  if (options.allowCompile)
    return queue(flight);
  land(flight, failedOutcome(makeError(
                   ErrorCode::Missing,
                   "{} for {} is not in the cache and compiling is off, key {}",
                   unit.name(), unit.arch(), flight->digest.hex())));
}

void PendingArtifact::Shared::queue(const FlightPtr &flight) {
  std::unique_lock<std::mutex> lock(mutex);
  std::shared_ptr<CompilePool> current = pool;
  if (isEnding() || !current) {
    landLocked(flight,
               failedOutcome(makeError(ErrorCode::Cancelled,
                                       "{} was not compiled: shutting down",
                                       flight->unit.name())));
    return;
  }
  int64_t priority = flight->priority;
  flight->queuedPriority = priority;
  lock.unlock();
  CompilePool::Ticket ticket = current->submit(
      flight->unit, priority,
      [self = shared_from_this(), flight](CompilePool::Result result) {
        self->finishCompile(flight, std::move(result));
      },
      [this, flight = flight.get()] { return admit(*flight); });
  lock.lock();
  flight->ticket = ticket;
  // Until now no thread could have cancelled it.
  bool isStale = flight->interest == 0 || flight->priority != priority;
  lock.unlock();
  if (isStale)
    takeBack(current.get(), ticket);
}

CompilePool::Admission PendingArtifact::Shared::admit(Flight &flight) {
  if (flight.skipDisk)
    return CompilePool::Admission::Compile;
  bool isAwaited = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    // finishCompile() ends it, or queues it with its new priority.
    if (flight.interest == 0 || flight.priority != flight.queuedPriority)
      return CompilePool::Admission::Drop;
    isAwaited = flight.priority < compile_priority::kAhead;
  }
  // The order matters: the process that had the claim before may have
  // published.
  cache::Claim claim = cache.claim(cache::Kind::Artifact, flight.key);
  if (cache.hasFile(cache::Kind::Artifact, flight.key))
    if ((flight.found = readDisk(flight.unit, flight.key)))
      return CompilePool::Admission::Drop;
  const auto now = std::chrono::steady_clock::now();
  if (claim.state != cache::Claim::State::Theirs || isAwaited ||
      (flight.postponedSince &&
       now - *flight.postponedSince >= options.claimWait)) {
    flight.claim = std::move(claim);
    return CompilePool::Admission::Compile;
  }
  // Only postponed flights may be left, and threads should not spin on them.
  if (flight.postponedSince)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  else
    flight.postponedSince = now;
  return CompilePool::Admission::Later;
}

void PendingArtifact::Shared::finishCompile(const FlightPtr &flight,
                                            CompilePool::Result result) try {
  cache::Claim claim = std::move(flight->claim); // until all is published
  if (flight->found) {
    llvm::consumeError(result.takeError());
    land(flight, std::move(*flight->found));
    return;
  }
  if (!result) {
    ArtifactOutcome failed = failedOutcome(result.takeError());
    if (failed.error.code == ErrorCode::Cancelled) {
      std::unique_lock<std::mutex> lock(mutex);
      if (flight->interest > 0 && !isEnding()) {
        lock.unlock();
        queue(flight);
        return;
      }
      landLocked(flight, std::move(failed));
      return;
    }
    land(flight, std::move(failed));
    return;
  }
  // Kept in the cache also if it is then rejected, so that no other process
  // compiles it to find out. The store warns of errors there.
  const uint64_t published = result->cubin.size();
  cache::PublishResult storage = cache.publish(
      cache::Kind::Artifact, flight->key, result->attributes(), result->cubin);
  ArtifactOutcome outcome =
      judge(std::move(*result), ArtifactOrigin::Compiled, flight->unit);
  outcome.storage = std::move(storage);
  claim = {};
  land(flight, std::move(outcome));
  cache.upkeep(published, [&] {
    std::lock_guard<std::mutex> lock(mutex);
    return closing;
  });
} catch (const std::bad_alloc &) {
  land(flight, outOfMemory()); // unless it has
}

void PendingArtifact::Shared::land(const FlightPtr &flight,
                                   ArtifactOutcome outcome) {
  std::lock_guard<std::mutex> lock(mutex);
  landLocked(flight, std::move(outcome));
}

void PendingArtifact::Shared::landLocked(const FlightPtr &flight,
                                         ArtifactOutcome outcome) {
  if (outcome.origin == ArtifactOrigin::Compiled) {
    ++statistics.compiled;
    statistics.compileMs += outcome.compileMs;
    if (outcome.storage.status != cache::PublishStatus::Stored &&
        ++statistics.notStored == 1)
      statistics.notStoredReason = outcome.storage.reason;
  } else if (outcome.origin == ArtifactOrigin::Disk) {
    ++statistics.diskHits;
  }
  if (!outcome && outcome.error.code != ErrorCode::Cancelled &&
      outcome.error.code != ErrorCode::Missing)
    ++statistics.failed;
  if (outcome || outcome.isLasting())
    remember(flight->digest, outcome);
  if (flight->done)
    return;
  flight->outcome = std::move(outcome);
  flight->done = true;
  auto found = flights.find(flight->digest);
  if (found != flights.end() && found->second == flight)
    flights.erase(found);
  ++landings;
  landed.notify_all();
}

void PendingArtifact::Shared::leave(const FlightPtr &flight) {
  std::unique_lock<std::mutex> lock(mutex);
  if (--flight->interest > 0 || flight->done)
    return;
  CompilePool::Ticket ticket = flight->ticket;
  std::shared_ptr<CompilePool> current = pool;
  lock.unlock();
  takeBack(current.get(), ticket);
}

uint64_t PendingArtifact::Shared::waitForLanding(uint64_t seen) {
  std::unique_lock<std::mutex> lock(mutex);
  landed.wait_for(lock, std::chrono::milliseconds(100),
                  [&] { return landings != seen; });
  if (landings != seen)
    return landings;
  std::shared_ptr<CompilePool> current = pool;
  lock.unlock();
  if (current)
    current->abandonOverdue();
  return seen;
}

bool PendingArtifact::Shared::isEnding() const {
  return closing || (options.cancel && options.cancel->load()) ||
         isProcessEnding();
}

PendingArtifact::Shared::Clock::time_point
PendingArtifact::Shared::giveUpTime() {
  std::lock_guard<std::mutex> lock(mutex);
  if (!options.cancel || !options.cancel->load())
    return Clock::time_point::max();
  if (!cancelTime)
    cancelTime = Clock::now();
  return *cancelTime + options.pool.shutdownGrace;
}

bool PendingArtifact::Shared::waitUntil(const FlightPtr &flight,
                                        Clock::time_point deadline,
                                        const std::atomic<bool> *cancel) {
  std::optional<observe::Span> span;
  for (uint64_t seen = 0;;) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (flight->done)
        return true;
      seen = landings;
    }
    const Clock::time_point now = Clock::now();
    if (cancel && cancel->load()) {
      deadline = std::min(deadline, now + options.pool.shutdownGrace);
      cancel = nullptr;
    }
    if (now >= std::min(deadline, giveUpTime()))
      return false;
    if (!span)
      span.emplace(
          observe::Phase::Compile, [&] { return flight->unit.name(); },
          "a kernel is compiled");
    waitForLanding(seen);
  }
}

void PendingArtifact::Shared::wait(const FlightPtr &flight) {
  while (!waitUntil(flight, Clock::time_point::max())) {
    giveUp(flight);
    // A compilation that was just ending does so soon.
    uint64_t seen = 0;
    {
      std::lock_guard<std::mutex> lock(mutex);
      seen = landings;
      if (flight->done)
        return;
    }
    waitForLanding(seen);
  }
}

void PendingArtifact::Shared::giveUp(const FlightPtr &flight) {
  std::unique_lock<std::mutex> lock(mutex);
  CompilePool::Ticket ticket = flight->ticket;
  std::shared_ptr<CompilePool> current = pool;
  lock.unlock();
  if (current && !current->cancel(ticket))
    current->abandon(ticket);
}

} // namespace kiln
