//===- ArtifactStore.cpp - from a translation unit to its artifact --------===//
//
// A request that memory does not answer becomes a flight, of which there is one
// for each key at a time. Its life: disk is asked on the requesting thread,
// then the unit is queued, then a pool thread compiles, publishes and lands it.
// Whoever asks for a key in flight joins. A flight counts who is interested in
// it: to raise its priority, or when nobody is left, its ticket is cancelled,
// and the callback that this causes queues it again if anybody is interested.
//
//===----------------------------------------------------------------------===//
#include "Tune/ArtifactStore.h"

#include "Driver/Module.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

namespace kiln {

std::string artifactKey(const TranslationUnit &unit) {
  return unit.canonicalText();
}

std::string kernelDigest(const Plan &plan) {
  if (plan.kernels.size() == 1)
    return plan.kernels.front().digest().hex();
  std::string all;
  for (const TranslationUnit &unit : plan.kernels)
    all += unit.digest().hex() + "\n";
  return strongHash(all).hex();
}

llvm::StringRef nameOf(ArtifactOrigin origin) {
  switch (origin) {
  case ArtifactOrigin::None:
    return "none";
  case ArtifactOrigin::Memory:
    return "memory";
  case ArtifactOrigin::Disk:
    return "disk";
  case ArtifactOrigin::Compiled:
    return "compiled";
  }
  return "unknown";
}

llvm::Error makeArtifactError(const ArtifactOutcome &outcome,
                              const TranslationUnit &unit) {
  const ErrorSummary &error = outcome.error;
  assert(error.code != ErrorCode::Success && "no error to make");
  if (error.code == ErrorCode::CompileFailed)
    return llvm::make_error<CompileError>(error.message, error.driverCode,
                                          outcome.compileLog, unit);
  return llvm::make_error<KilnError>(error.code, error.message,
                                     error.driverCode);
}

/// 90 for "sm_90a"; 0 when \p arch has no number.
static int capabilityOf(llvm::StringRef arch) {
  int capability = 0;
  arch.consume_front("sm_");
  return arch.consumeInteger(10, capability) ? 0 : capability;
}

/// The outcome that \p artifact stands for: itself, or the reason why it must
/// not be used.
static ArtifactOutcome judge(Artifact artifact, ArtifactOrigin origin,
                             llvm::StringRef unitName) {
  ArtifactOutcome outcome;
  outcome.origin = origin;
  if (origin == ArtifactOrigin::Compiled)
    outcome.compileMs = artifact.phases.totalMs;
  if (artifact.hasSerialisationAdvisory()) {
    std::string codes;
    for (const Advisory &advisory : artifact.advisories)
      codes += (codes.empty() ? "" : ", ") + advisory.code;
    outcome.error = {ErrorCode::CompileFailed,
                     fmt::format("{} for {}: rejected because ptxas serialised "
                                 "the kernel ({})",
                                 unitName, artifact.arch, codes),
                     0};
    outcome.compileLog = std::move(artifact.log);
    return outcome;
  }
  outcome.artifact = std::make_shared<const Artifact>(std::move(artifact));
  return outcome;
}

static ArtifactOutcome failure(llvm::Error error) {
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

/// Whether the same unit would fail in the same way again: not when memory was
/// short, the compiler missing or somebody changed their mind.
static bool isLasting(const ArtifactOutcome &outcome) {
  switch (outcome.error.code) {
  case ErrorCode::InvalidArgument:
  case ErrorCode::Unsupported:
  case ErrorCode::CompileFailed:
    return true;
  default:
    return false;
  }
}

struct PendingArtifact::Flight {
  TranslationUnit unit; ///< empty when it landed at once
  std::string key;
  Digest digest;
  bool skipDisk = false;

  // Guarded by Shared::mutex, the outcome only until `done`.
  int64_t priority = 0;
  CompilePool::Ticket ticket = 0;
  unsigned interest = 1;
  bool done = false;
  ArtifactOutcome outcome;
};

struct PendingArtifact::Shared : std::enable_shared_from_this<Shared> {
  using FlightPtr = std::shared_ptr<Flight>;
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
  uint64_t memoryBytes = 0, nextSerial = 0;
  ArtifactStatistics statistics;
  bool closing = false;
  std::shared_ptr<CompilePool> pool; ///< null once closed

  const ArtifactOutcome *recall(const Digest &digest);
  void remember(const Digest &digest, const ArtifactOutcome &outcome);
  std::optional<ArtifactOutcome> readDisk(const TranslationUnit &unit,
                                          llvm::StringRef key);
  FlightPtr board(const TranslationUnit &unit, int64_t priority, bool skipDisk);
  void queue(const FlightPtr &flight);
  void finishCompile(const FlightPtr &flight, CompilePool::Result result);
  void land(const FlightPtr &flight, ArtifactOutcome outcome);
  void landLocked(const FlightPtr &flight, ArtifactOutcome outcome);
  void leave(const FlightPtr &flight);
  void wait(const FlightPtr &flight);
  uint64_t waitForLanding(uint64_t seen);
};

/// What memory holds for \p digest, or null. Needs the lock.
const ArtifactOutcome *PendingArtifact::Shared::recall(const Digest &digest) {
  auto found = memory.find(digest);
  if (found == memory.end())
    return nullptr;
  if (found->second.outcome)
    ++statistics.memoryHits;
  return &found->second.outcome;
}

/// Keeps \p outcome in memory, oldest out first. Needs the lock.
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
  memoryBytes += kept.bytes;
  memoryOrder.push_back({digest, kept.serial});
  memory.emplace(digest, std::move(kept));
  while (memoryBytes > options.maxMemoryBytes && memoryOrder.size() > 1) {
    auto [oldest, serial] = memoryOrder.front();
    memoryOrder.pop_front();
    auto found = memory.find(oldest);
    if (found == memory.end() || found->second.serial != serial)
      continue; // was replaced by a younger one
    memoryBytes -= found->second.bytes;
    memory.erase(found);
  }
}

/// What the cache has for \p key, checked before it is believed.
std::optional<ArtifactOutcome>
PendingArtifact::Shared::readDisk(const TranslationUnit &unit,
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
  std::optional<cache::Entry> entry =
      cache.lookup(cache::Kind::Artifact, key, accept);
  if (!entry)
    return std::nullopt;
  auto artifact =
      Artifact::fromAttributes(llvm::json::Value(std::move(entry->attributes)),
                               std::move(entry->payload));
  if (!artifact) {
    llvm::consumeError(artifact.takeError());
    return std::nullopt;
  }
  auto header = inspectCubin(artifact->cubin);
  if (!header) {
    llvm::consumeError(header.takeError());
    return std::nullopt;
  }
  if (artifact->arch != unit.arch || artifact->entry != unit.entry ||
      (header->capability != 0 &&
       header->capability != capabilityOf(unit.arch)))
    return std::nullopt;
  return judge(std::move(*artifact), ArtifactOrigin::Disk, unit.name);
}

/// The flight of \p unit: a new one, or the one that is under way.
PendingArtifact::Shared::FlightPtr
PendingArtifact::Shared::board(const TranslationUnit &unit, int64_t priority,
                               bool skipDisk) {
  auto flight = std::make_shared<Flight>();
  flight->key = artifactKey(unit);
  flight->digest = strongHash(flight->key);
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
      if (current)
        current->cancel(ticket); // queues it again, where it now belongs
      return joined;
    }
    flight->unit = unit;
  }
  if (!skipDisk)
    if (std::optional<ArtifactOutcome> found = readDisk(unit, flight->key)) {
      land(flight, std::move(*found));
      return flight;
    }
  if (!options.allowCompile) {
    land(flight, failure(makeError(
                     ErrorCode::Missing,
                     "{} for {} is not in the cache and compiling is off, key "
                     "{}",
                     unit.name, unit.arch, flight->digest.hex())));
    return flight;
  }
  queue(flight);
  return flight;
}

void PendingArtifact::Shared::queue(const FlightPtr &flight) {
  std::unique_lock<std::mutex> lock(mutex);
  std::shared_ptr<CompilePool> current = pool;
  if (closing || !current) {
    landLocked(flight, failure(makeError(ErrorCode::Cancelled,
                                         "{} was not compiled: shutting down",
                                         flight->unit.name)));
    return;
  }
  int64_t priority = flight->priority;
  lock.unlock();
  CompilePool::Ticket ticket = current->submit(
      flight->unit, priority,
      [self = shared_from_this(), flight](CompilePool::Result result) {
        self->finishCompile(flight, std::move(result));
      });
  lock.lock();
  flight->ticket = ticket;
  // Until now nobody could have cancelled it.
  bool isStale = flight->interest == 0 || flight->priority != priority;
  lock.unlock();
  if (isStale)
    current->cancel(ticket);
}

void PendingArtifact::Shared::finishCompile(const FlightPtr &flight,
                                            CompilePool::Result result) {
  if (!result) {
    ArtifactOutcome failed = failure(result.takeError());
    if (failed.error.code == ErrorCode::Cancelled) {
      std::unique_lock<std::mutex> lock(mutex);
      if (flight->interest > 0 && !closing) {
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
  // compiles it to find out. The store warns of what goes wrong there.
  cache.publish(cache::Kind::Artifact, flight->key, result->attributes(),
                result->cubin);
  land(flight,
       judge(std::move(*result), ArtifactOrigin::Compiled, flight->unit.name));
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
  } else if (outcome.origin == ArtifactOrigin::Disk) {
    ++statistics.diskHits;
  }
  if (!outcome && outcome.error.code != ErrorCode::Cancelled &&
      outcome.error.code != ErrorCode::Missing)
    ++statistics.failed;
  if (outcome || isLasting(outcome))
    remember(flight->digest, outcome);
  flight->outcome = std::move(outcome);
  flight->done = true;
  auto found = flights.find(flight->digest);
  if (found != flights.end() && found->second == flight)
    flights.erase(found);
  ++landings;
  landed.notify_all();
}

/// One interested party less; nobody left takes back what has not started.
void PendingArtifact::Shared::leave(const FlightPtr &flight) {
  std::unique_lock<std::mutex> lock(mutex);
  if (--flight->interest > 0 || flight->done)
    return;
  CompilePool::Ticket ticket = flight->ticket;
  std::shared_ptr<CompilePool> current = pool;
  lock.unlock();
  if (current)
    current->cancel(ticket);
}

/// Waits until any flight landed since \p seen landings, or some 100 ms, and
/// gives up on compilations that hang. Returns the landings there are.
uint64_t PendingArtifact::Shared::waitForLanding(uint64_t seen) {
  std::unique_lock<std::mutex> lock(mutex);
  landed.wait_for(lock, std::chrono::milliseconds(100),
                  [&] { return landings != seen; });
  if (landings != seen)
    return landings;
  std::shared_ptr<CompilePool> current = pool;
  lock.unlock();
  if (current)
    current->abandonLongerThan(options.pool.compileLimit);
  return seen;
}

void PendingArtifact::Shared::wait(const FlightPtr &flight) {
  for (uint64_t seen = 0;;) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (flight->done)
        return;
      seen = landings;
    }
    waitForLanding(seen);
  }
}

//===----------------------------------------------------------------------===//
// PendingArtifact
//===----------------------------------------------------------------------===//

void PendingArtifact::release() {
  if (flight)
    shared->leave(flight);
  flight.reset();
  shared.reset();
}

PendingArtifact &PendingArtifact::operator=(PendingArtifact &&other) noexcept {
  if (this == &other)
    return *this;
  release();
  shared = std::move(other.shared);
  flight = std::move(other.flight);
  return *this;
}

PendingArtifact::~PendingArtifact() { release(); }

bool PendingArtifact::isReady() const {
  assert(flight && "nothing was requested");
  std::lock_guard<std::mutex> lock(shared->mutex);
  return flight->done;
}

const ArtifactOutcome &PendingArtifact::wait() const {
  assert(flight && "nothing was requested");
  shared->wait(flight);
  return flight->outcome;
}

//===----------------------------------------------------------------------===//
// ArtifactStore
//===----------------------------------------------------------------------===//

ArtifactStore::ArtifactStore(cache::Store &cache, ArtifactStoreOptions options)
    : shared(std::make_shared<Shared>(cache, std::move(options))) {}

ArtifactStore::~ArtifactStore() {
  std::shared_ptr<CompilePool> pool;
  {
    std::lock_guard<std::mutex> lock(shared->mutex);
    shared->closing = true;
    pool = std::move(shared->pool);
  }
  pool.reset(); // its callbacks take the lock
}

std::optional<ArtifactPtr> ArtifactStore::lookup(const TranslationUnit &unit) {
  std::string key = artifactKey(unit);
  Digest digest = strongHash(key);
  auto answer = [](const ArtifactOutcome &outcome) {
    return outcome ? std::optional<ArtifactPtr>(outcome.artifact)
                   : std::nullopt;
  };
  {
    std::lock_guard<std::mutex> lock(shared->mutex);
    if (const ArtifactOutcome *known = shared->recall(digest))
      return answer(*known);
  }
  std::optional<ArtifactOutcome> found = shared->readDisk(unit, key);
  if (!found)
    return std::nullopt;
  std::lock_guard<std::mutex> lock(shared->mutex);
  ++shared->statistics.diskHits;
  shared->remember(digest, *found);
  return answer(*found);
}

llvm::Expected<ArtifactPtr> ArtifactStore::get(const TranslationUnit &unit) {
  PendingArtifact pending = request(unit, compile_priority::kNow);
  const ArtifactOutcome &outcome = pending.wait();
  if (!outcome)
    return makeArtifactError(outcome, unit);
  return outcome.artifact;
}

llvm::Expected<ArtifactPtr>
ArtifactStore::recompile(const TranslationUnit &unit) {
  Digest digest = strongHash(artifactKey(unit));
  for (;;) {
    {
      std::lock_guard<std::mutex> lock(shared->mutex);
      auto kept = shared->memory.find(digest);
      if (kept != shared->memory.end()) {
        shared->memoryBytes -= kept->second.bytes;
        shared->memory.erase(kept);
      }
    }
    PendingArtifact pending;
    pending.shared = shared;
    pending.flight = shared->board(unit, compile_priority::kNow, true);
    const ArtifactOutcome &outcome = pending.wait();
    if (!outcome)
      return makeArtifactError(outcome, unit);
    // Joined somebody's flight that ended with what the cache has?
    if (outcome.origin == ArtifactOrigin::Compiled)
      return outcome.artifact;
  }
}

PendingArtifact ArtifactStore::request(const TranslationUnit &unit,
                                       int64_t priority) {
  PendingArtifact pending;
  pending.shared = shared;
  pending.flight = shared->board(unit, priority, false);
  return pending;
}

namespace {
/// The distinct requests of one compileAll().
struct Batch {
  std::vector<PendingArtifact> pending;
  std::vector<size_t> firstUnit; ///< index of the unit that made the request
  std::vector<size_t> ofUnit;    ///< request of each unit
  std::vector<ArtifactOutcome> outcomes;
  std::vector<bool> reported;
  size_t done = 0;
};
} // namespace

std::vector<ArtifactOutcome>
ArtifactStore::compileAll(llvm::ArrayRef<TranslationUnit> units,
                          const ProgressCallback &progress,
                          const std::atomic<bool> *cancel) {
  Batch batch;
  std::map<std::string, size_t> distinct;
  for (const TranslationUnit &unit : units) {
    auto [place, isNew] =
        distinct.try_emplace(artifactKey(unit), batch.firstUnit.size());
    if (isNew)
      batch.firstUnit.push_back(batch.ofUnit.size());
    batch.ofUnit.push_back(place->second);
  }
  const size_t total = batch.firstUnit.size();
  batch.outcomes.resize(total);
  batch.reported.resize(total);
  if (progress)
    progress({0, total, nullptr, nullptr});

  auto report = [&](size_t i, ArtifactOutcome outcome) {
    batch.outcomes[i] = std::move(outcome);
    batch.reported[i] = true;
    ++batch.done;
    if (progress)
      progress(
          {batch.done, total, &batch.outcomes[i], &units[batch.firstUnit[i]]});
  };
  auto isCancelled = [&] {
    return cancel && cancel->load(std::memory_order_relaxed);
  };

  for (size_t i = 0; i < total && !isCancelled(); ++i) {
    batch.pending.push_back(
        request(units[batch.firstUnit[i]],
                compile_priority::kAhead + static_cast<int64_t>(i)));
    if (batch.pending[i].isReady())
      report(i, batch.pending[i].wait());
  }
  uint64_t seen = 0;
  while (batch.done < total && !isCancelled()) {
    for (size_t i = 0; i < total; ++i)
      if (!batch.reported[i] && batch.pending[i].isReady())
        report(i, batch.pending[i].wait());
    if (batch.done < total)
      seen = shared->waitForLanding(seen);
  }
  // Only after a cancellation: take back what has not started, all of it before
  // waiting for what has.
  std::vector<std::shared_ptr<Flight>> left(total);
  for (size_t i = 0; i < batch.pending.size(); ++i)
    if (!batch.reported[i]) {
      left[i] = batch.pending[i].flight;
      batch.pending[i].release();
    }
  for (size_t i = 0; i < total; ++i) {
    if (batch.reported[i])
      continue;
    bool isOurs = false;
    if (left[i]) {
      std::lock_guard<std::mutex> lock(shared->mutex);
      isOurs = left[i]->done || left[i]->interest == 0;
    }
    if (isOurs)
      shared->wait(left[i]);
    report(i, isOurs ? left[i]->outcome
                     : failure(makeError(ErrorCode::Cancelled,
                                         "{} was not compiled: cancelled",
                                         units[batch.firstUnit[i]].name)));
  }

  std::vector<ArtifactOutcome> answers;
  answers.reserve(units.size());
  for (size_t request : batch.ofUnit)
    answers.push_back(batch.outcomes[request]);
  return answers;
}

bool ArtifactStore::allowsCompile() const {
  return shared->options.allowCompile;
}

ArtifactStatistics ArtifactStore::statistics() const {
  std::lock_guard<std::mutex> lock(shared->mutex);
  return shared->statistics;
}

bool ArtifactStore::isCompilerLoaded() const {
  return shared->compiler->isLoaded();
}

unsigned ArtifactStore::width() const { return shared->pool->width(); }

} // namespace kiln
