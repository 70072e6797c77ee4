//===- PoolStore.h - the kernels of a signature, stored -------------------===//
//
// A pool is one entry: the configs that serve all problems of a signature on a
// device, and the names of the artifacts that their plans need. It is keyed by
// the product, as the estimator's choices are, because it is written where
// there is no device.
//
// The entry pins its artifacts: while it exists, no upkeep of the cache removes
// them (Cache/Prune.h). An artifact may be missing all the same, because files
// may be deleted, so a pool can count the missing ones.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Kernel/Family.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace kiln {

/// One kernel of a stored pool.
struct StoredPoolKernel {
  /// Configs that differ in run-time knobs alone, the most useful first.
  std::vector<std::string> configs;
  /// The names of the artifacts of all its plans: artifactName().
  std::vector<std::string> artifacts;

  friend bool operator==(const StoredPoolKernel &,
                         const StoredPoolKernel &) = default;
};

struct StoredPool {
  std::vector<StoredPoolKernel> kernels; ///< the generic one first
  /// Its regret, by the estimate, against the best of a problem's space.
  double meanRegret = 0, mostRegret = 0;

  /// Parses JSON of any origin. Damaged kernels are skipped. Error
  /// (InvalidArgument): the text is not a pool.
  static llvm::Expected<StoredPool> parse(llvm::StringRef json);
  llvm::json::Object toJson() const;
  /// All artifacts, each once, sorted.
  std::vector<std::string> artifacts() const;
  friend bool operator==(const StoredPool &, const StoredPool &) = default;
};

/// A pool that is ready to choose from: immutable.
struct KnownPool {
  struct Kernel {
    const Template *tmpl = nullptr;
    std::vector<Values> configs;
  };
  /// The kernels whose configs are today's: templates and knobs change.
  std::vector<Kernel> kernels;
  StoredPool stored;

  struct Pick {
    const Template *tmpl = nullptr;
    Values config; ///< with the problem's run-time knobs
    double predictedNs = 0;
  };
  /// Returns the configs that prune() allows for \p problem, best estimate
  /// first, one of each kernel. Takes about a microsecond a kernel, three if it
  /// has variants.
  std::vector<Pick> rank(const Problem &problem,
                         const DeviceModel &device) const;
};

/// The name of the artifact of \p unit in the cache.
std::string artifactName(const TranslationUnit &unit);

/// The text that keys the pool of \p signature.
std::string poolKey(const KernelFamily &family, const Values &signature,
                    const DeviceModel &device);

/// Pools in the cache, kept parsed. Thread-safe. The cache store and the
/// families must outlive it.
class PoolStore {
public:
  /// A pool that was read, or was missing, is not looked up again for \p
  /// recheckInterval.
  explicit PoolStore(
      cache::Store &cache,
      std::chrono::milliseconds recheckInterval = std::chrono::seconds(1));
  ~PoolStore();

  /// Returns the pool of \p signature, or else the one for \p device without
  /// its calibration; null if there is none. Takes a microsecond; once an
  /// interval it asks the file system, and may read and parse a file: some
  /// milliseconds.
  std::shared_ptr<const KnownPool> find(const KernelFamily &family,
                                        const Values &signature,
                                        const DeviceModel &device) const;

  /// The number of artifacts of \p pool that no tier of the cache on disk has.
  /// Takes some us for each.
  size_t missing(const StoredPool &pool) const;

  struct StoreResult {
    cache::PublishResult publish;
    bool wasThere = false; ///< an equal one was on disk: nothing was written
  };
  /// Replaces the pool of \p signature, unless an equal one is on disk.
  StoreResult store(const KernelFamily &family, const Values &signature,
                    const DeviceModel &device, const StoredPool &pool);

  /// Whether some tier of the cache on disk has a file for it.
  bool isOnDisk(const KernelFamily &family, const Values &signature,
                const DeviceModel &device) const;

  struct Listed {
    std::string family, signature, device;
    StoredPool pool;
    size_t missing = 0; ///< the number of its artifacts
  };
  /// All pools of all tiers on disk. Reads and parses all of them.
  std::vector<Listed> list() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace kiln
