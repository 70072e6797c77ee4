//===- ArtifactStore.h - from a translation unit to its artifact ----------===//
//
// One door to compiled kernels: own memory, then the cache on disk, then NVRTC,
// each key compiled at most once at a time in a process. NVRTC is loaded only
// when something must be compiled. Compiled artifacts are published to the
// cache and served from memory; nothing is read back.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Compile/Artifact.h"
#include "Compile/CompilePool.h"
#include "Compile/Compiler.h"
#include "Compile/TranslationUnit.h"
#include "Kernel/Plan.h"
#include "Support/Error.h"

#include <llvm/ADT/ArrayRef.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A compiled kernel as it is handed around: immutable and shared.
using ArtifactPtr = std::shared_ptr<const Artifact>;

/// The text that keys \p unit's artifact in the cache: source, digest of the
/// headers that it reaches, architecture, semantic options. It contains no
/// path, time, state of the process, driver or compiler. In memory the unit's
/// digest, which it remembers, represents it.
std::string artifactKey(const TranslationUnit &unit);

/// Identifies the kernels of \p plan in records and portfolios: the digest of
/// the one artifact key, or of all of them, in hexadecimal. A measurement that
/// carries another digest was made with another kernel. The first call for a
/// plan takes about 10 us a kernel.
std::string kernelDigest(const Plan &plan);

/// The origin of an artifact.
enum class ArtifactOrigin { None, Memory, Disk, Compiled };

/// The outcome of one request: an artifact, or an error. A plain value.
struct ArtifactOutcome {
  ArtifactPtr artifact; ///< null on an error
  ArtifactOrigin origin = ArtifactOrigin::None;
  double compileMs = 0; ///< 0 unless it was compiled for this request
  /// Whether the artifact is on disk (Stored), and why if it is not.
  cache::PublishResult storage;
  ErrorSummary error;
  std::string compileLog; ///< of a compilation that failed

  explicit operator bool() const { return artifact != nullptr; }
  /// Whether the same unit would fail in the same way again: not after a lack
  /// of memory, a missing compiler or a cancellation.
  bool isLasting() const;
};

/// Turns a failed outcome of \p unit into an error, a CompileError with log and
/// text if the compiler refused it.
llvm::Error makeArtifactError(const ArtifactOutcome &outcome,
                              const TranslationUnit &unit);

/// Priorities of requests; lower runs first. Requests made ahead of their use
/// count up from kAhead in the order in which they will be needed.
namespace compile_priority {
inline constexpr int64_t kNow = -1'000'000;
inline constexpr int64_t kAhead = 0;
} // namespace compile_priority

struct ArtifactStoreOptions {
  NvrtcSearch nvrtc;
  CompilePoolOptions pool;
  /// False (strict): an artifact in neither memory nor cache is an error.
  bool allowCompile = true;
  /// Passes over cached artifacts of another NVRTC than the one at hand, which
  /// a look-up then has to load to know its identity.
  bool exactToolchain = false;
  /// With !allowCompile: an artifact that was missing stays so, whatever other
  /// processes store.
  bool looksOnce = false;
  /// The time for which a compilation that no thread waits for at this moment
  /// (any priority from kAhead on) is put off because another process compiles
  /// the same key.
  std::chrono::milliseconds claimWait{20000};
  /// When it becomes true, nothing more is compiled, and waits end once their
  /// artifact is there or the pool's grace is over. May be null.
  const std::atomic<bool> *cancel = nullptr;
  /// Artifacts kept in memory beyond their users, oldest out first.
  uint64_t maxMemoryBytes = 256u << 20;
};

struct ArtifactStatistics {
  uint64_t memoryHits = 0;
  uint64_t diskHits = 0;
  uint64_t compiled = 0;
  uint64_t failed = 0;    ///< compilations that failed, rejected artifacts too
  uint64_t notStored = 0; ///< compiled, and then refused by the disk
  std::string notStoredReason; ///< of the first of these
  double compileMs = 0;
};

/// One requested artifact. Movable; dropping it cancels a compilation that has
/// not started, unless another party wants the same artifact.
class PendingArtifact {
public:
  PendingArtifact() = default;
  PendingArtifact(PendingArtifact &&other) noexcept = default;
  PendingArtifact &operator=(PendingArtifact &&other) noexcept;
  ~PendingArtifact();

  bool isReady() const;
  /// Waits for the outcome; may take as long as a compilation. A compilation
  /// that hangs ends with CompileFailed at the pool's limit.
  const ArtifactOutcome &wait() const;
  /// Like wait(), and returns true. Once \p cancel, which may be null, is true,
  /// it waits for the pool's grace at most; then false means that there is no
  /// outcome yet.
  bool waitUnless(const std::atomic<bool> *cancel) const;

private:
  friend class ArtifactStore;
  struct Shared;
  struct Flight;
  void release();
  std::shared_ptr<Shared> shared;
  std::shared_ptr<Flight> flight;
};

/// Thread-safe. The cache store must outlive it. It must outlive every wait on
/// its pending artifacts.
///
/// A cached entry is checked before it is believed: it must parse, name the
/// unit's architecture and entry, and be an ELF file for that architecture.
/// Otherwise it is a miss, and the fresh artifact replaces it. An artifact
/// whose compiler reported that it serialised the kernel (see
/// Artifact::hasSerialisationAdvisory), or that spills where its unit may not,
/// is kept in the cache and always answered with CompileFailed. A unit that the
/// compiler refused is not tried again in this process.
class ArtifactStore {
public:
  explicit ArtifactStore(cache::Store &cache,
                         ArtifactStoreOptions options = {});
  /// Like stop().
  ~ArtifactStore();
  ArtifactStore(const ArtifactStore &) = delete;
  ArtifactStore &operator=(const ArtifactStore &) = delete;

  /// Returns the artifact if memory or cache has it. Never compiles and,
  /// without exactToolchain, never loads NVRTC. Takes some 10 us, or reads a
  /// file.
  std::optional<ArtifactPtr> lookup(const TranslationUnit &unit);

  /// Returns the artifact. Compiles it before everything that is queued, or
  /// waits for the thread that compiles it already. Errors: Missing with the
  /// key if compilation is off; those of Compiler::compile; Cancelled when the
  /// store ends.
  llvm::Expected<ArtifactPtr> get(const TranslationUnit &unit);

  /// Like get(), but ignores memory and cache: for an artifact that the driver
  /// refused.
  llvm::Expected<ArtifactPtr> recompile(const TranslationUnit &unit);

  /// Starts to get the artifact, and looks in memory and cache at once. A unit
  /// that is queued already takes the more urgent of both priorities.
  PendingArtifact request(const TranslationUnit &unit,
                          int64_t priority = compile_priority::kAhead);

  /// The progress of compileAll(). `done` counts distinct keys, also failed
  /// ones.
  struct Progress {
    size_t done = 0, total = 0;
    /// The outcome that just came, and its unit; null in the first call.
    const ArtifactOutcome *outcome = nullptr;
    const TranslationUnit *unit = nullptr;
  };
  using ProgressCallback = std::function<void(const Progress &)>;

  /// Gets all \p units in parallel, in their order; equal keys once. Returns
  /// one outcome for each unit; no failure stops the others. \p progress is
  /// called from the calling thread, first with done 0. When \p cancel becomes
  /// true, compilations that have not started end as Cancelled; so do running
  /// ones, unless they end within the pool's grace.
  std::vector<ArtifactOutcome>
  compileAll(llvm::ArrayRef<TranslationUnit> units,
             const ProgressCallback &progress = nullptr,
             const std::atomic<bool> *cancel = nullptr);

  /// Compiles nothing any more: cancels compilations that have not started,
  /// waits for running ones for the pool's grace, and gives up on the others.
  /// Waits of all threads end by then. Memory and cache still answer.
  void stop();

  /// Whether some tier of the cache on disk has a file for \p unit. Takes some
  /// us.
  bool isOnDisk(const TranslationUnit &unit) const;

  bool allowsCompile() const;
  ArtifactStatistics statistics() const;
  /// Whether NVRTC was loaded, for a compilation or for its identity.
  bool isCompilerLoaded() const;
  /// The number of compilations that run at once.
  unsigned width() const;

private:
  struct Batch;
  using Flight = PendingArtifact::Flight;
  using Shared = PendingArtifact::Shared;
  std::shared_ptr<Shared> shared;
};

} // namespace kiln
