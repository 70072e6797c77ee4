//===- ArtifactStore.cpp - from a translation unit to its artifact --------===//
#include "Store/ArtifactStore.h"

#include "Store/ArtifactFlights.h"

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

llvm::Error makeArtifactError(const ArtifactOutcome &outcome,
                              const TranslationUnit &unit) {
  const ErrorSummary &error = outcome.error;
  assert(error.code != ErrorCode::Success && "no error to make");
  if (error.code == ErrorCode::CompileFailed)
    return llvm::make_error<CompileError>(error.message, error.driverCode,
                                          outcome.compileLog, unit);
  return errorOf(error);
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

bool PendingArtifact::waitUnless(const std::atomic<bool> *cancel) const {
  assert(flight && "nothing was requested");
  return shared->waitUntil(flight, CompilePool::Clock::time_point::max(),
                           cancel);
}

//===----------------------------------------------------------------------===//
// ArtifactStore
//===----------------------------------------------------------------------===//

ArtifactStore::ArtifactStore(cache::Store &cache, ArtifactStoreOptions options)
    : shared(std::make_shared<Shared>(cache, std::move(options))) {}

ArtifactStore::~ArtifactStore() {
  stop();
  std::shared_ptr<CompilePool> pool;
  std::lock_guard<std::mutex> lock(shared->mutex);
  pool = std::move(shared->pool);
}

void ArtifactStore::stop() {
  std::shared_ptr<CompilePool> pool;
  {
    std::lock_guard<std::mutex> lock(shared->mutex);
    shared->closing = true;
    pool = shared->pool;
  }
  pool->stop(); // its callbacks take the lock
}

std::optional<ArtifactPtr> ArtifactStore::lookup(const TranslationUnit &unit) {
  const Digest &digest = unit.digest();
  auto answer = [](const ArtifactOutcome &outcome) {
    return outcome ? std::optional<ArtifactPtr>(outcome.artifact)
                   : std::nullopt;
  };
  {
    std::lock_guard<std::mutex> lock(shared->mutex);
    if (const ArtifactOutcome *known = shared->recall(digest))
      return answer(*known);
  }
  std::optional<ArtifactOutcome> found =
      shared->readDisk(unit, artifactKey(unit));
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
  const Digest &digest = unit.digest();
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
    // It may have joined a flight that ended with the cache's artifact.
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

/// The distinct requests of one compileAll().
struct ArtifactStore::Batch {
  ArtifactStore &store;
  llvm::ArrayRef<TranslationUnit> units;
  const ProgressCallback &progress;
  const std::atomic<bool> *cancel;

  std::vector<size_t> ofUnit;    ///< the request of each unit
  std::vector<size_t> firstUnit; ///< the first unit of each request
  std::vector<PendingArtifact> pending;
  std::vector<ArtifactOutcome> outcomes;
  std::vector<bool> isDone;
  size_t done = 0;

  bool isCancelled() const {
    return cancel && cancel->load(std::memory_order_relaxed);
  }
  void collect();
  void report(size_t request, ArtifactOutcome outcome);
  void start();
  void finish();
  void takeBack();
};

void ArtifactStore::Batch::collect() {
  std::map<Digest, size_t> distinct;
  for (const TranslationUnit &unit : units) {
    auto [place, isNew] = distinct.try_emplace(unit.digest(), firstUnit.size());
    if (isNew)
      firstUnit.push_back(ofUnit.size());
    ofUnit.push_back(place->second);
  }
  outcomes.resize(firstUnit.size());
  isDone.resize(firstUnit.size());
}

void ArtifactStore::Batch::report(size_t request, ArtifactOutcome outcome) {
  outcomes[request] = std::move(outcome);
  isDone[request] = true;
  ++done;
  if (progress)
    progress({done, outcomes.size(), &outcomes[request],
              &units[firstUnit[request]]});
}

void ArtifactStore::Batch::start() {
  for (size_t i = 0; i < outcomes.size() && !isCancelled(); ++i) {
    pending.push_back(
        store.request(units[firstUnit[i]],
                      compile_priority::kAhead + static_cast<int64_t>(i)));
    if (pending[i].isReady())
      report(i, pending[i].wait());
  }
}

void ArtifactStore::Batch::finish() {
  uint64_t seen = 0;
  while (done < outcomes.size() && !isCancelled()) {
    // Fewer may be pending if a cancel flag was set and cleared.
    for (size_t i = 0; i < pending.size(); ++i)
      if (!isDone[i] && pending[i].isReady())
        report(i, pending[i].wait());
    if (pending.size() < outcomes.size())
      return;
    if (done < outcomes.size())
      seen = store.shared->waitForLanding(seen);
  }
}

/// After a cancellation: cancels all compilations that have not started, and
/// then waits for running ones as long as the pool allows.
void ArtifactStore::Batch::takeBack() {
  std::vector<std::shared_ptr<Flight>> left(outcomes.size());
  for (size_t i = 0; i < pending.size(); ++i)
    if (!isDone[i]) {
      left[i] = pending[i].flight;
      pending[i].release();
    }
  const auto deadline =
      CompilePool::Clock::now() + store.shared->options.pool.shutdownGrace;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (isDone[i])
      continue;
    // An artifact that another party waits for may stay queued for long.
    bool endsSoon = false;
    if (left[i]) {
      std::lock_guard<std::mutex> lock(store.shared->mutex);
      endsSoon = left[i]->done || left[i]->interest == 0;
    }
    if (endsSoon && !store.shared->waitUntil(left[i], deadline)) {
      store.shared->giveUp(left[i]);
      endsSoon = store.shared->waitUntil(left[i], deadline);
    }
    report(i, endsSoon
                  ? left[i]->outcome
                  : failedOutcome(makeError(ErrorCode::Cancelled,
                                            "{} was not compiled: cancelled",
                                            units[firstUnit[i]].name())));
  }
}

std::vector<ArtifactOutcome>
ArtifactStore::compileAll(llvm::ArrayRef<TranslationUnit> units,
                          const ProgressCallback &progress,
                          const std::atomic<bool> *cancel) {
  Batch batch{*this, units, progress, cancel, {}, {}, {}, {}, {}, 0};
  batch.collect();
  if (progress)
    progress({0, batch.outcomes.size(), nullptr, nullptr});
  batch.start();
  batch.finish();
  batch.takeBack();
  std::vector<ArtifactOutcome> answers;
  answers.reserve(units.size());
  for (size_t request : batch.ofUnit)
    answers.push_back(batch.outcomes[request]);
  return answers;
}

bool ArtifactStore::isOnDisk(const TranslationUnit &unit) const {
  return shared->cache.isOnDisk(cache::Kind::Artifact, artifactKey(unit));
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
