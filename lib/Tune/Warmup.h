//===- Warmup.h - compiles the kernels of a model, without a GPU ----------===//
//
// Plans every problem for a device that need not be present, takes the
// estimator's first choices, compiles their distinct kernels in parallel and
// stores these decisions: portfolios of one value. It may be stopped at any
// time: compiled kernels stay in the cache.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Registry.h"
#include "Kernel/Space.h"
#include "Store/ArtifactStore.h"
#include "Store/PortfolioStore.h"

#include <llvm/ADT/ArrayRef.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace kiln {

struct WarmupOptions {
  /// Configs a problem. Where none of them can be used, the next ones are taken
  /// as an engine takes them, see kCompileAttempts.
  unsigned top = 1;
  /// Configs beyond it are not taken; its largest problem is not read.
  Allowance allowance = {};
  /// Also compile the generic kernel of each signature, the fallback.
  bool withGeneric = false;
  /// Kernels and decisions are stored on disk; without a cache, nothing can be
  /// kept.
  bool store = true;
  const std::atomic<bool> *cancel = nullptr;
  /// Called from the calling thread; kernels, not problems, are counted.
  ArtifactStore::ProgressCallback progress;
};

/// One chosen config of one problem.
struct WarmupRow {
  size_t problem = 0; ///< index into the problems
  /// Empty: the problem could not be planned, or without an error, there is
  /// nothing to compute.
  std::string config;
  double predictedNs = 0;
  std::string bound;
  size_t kernels = 0;   ///< that its plan has
  double compileMs = 0; ///< of its kernels that were compiled now
  bool cached = false;  ///< none had to be compiled for this row
  ErrorSummary error;   ///< Success if all its kernels are there
  /// It cannot be used, and the next of the ranking replaces it.
  bool isReplaced = false;
  /// The reason why its kernels, or its problem's decision, are not on disk at
  /// the end; empty if they are, or should not be.
  std::string unstored;
};

struct WarmupResult {
  /// By problem, then by rank.
  std::vector<WarmupRow> rows;
  size_t distinctKernels = 0;
  size_t compiled = 0, fromCache = 0, failedKernels = 0;
  size_t failedProblems = 0;  ///< without any usable config
  size_t decisionsStored = 0; ///< written now
  size_t decisionsFound = 0;  ///< equal ones were on disk
  /// Entries that should be on disk and are not: they could not be written, or
  /// another process has removed them since.
  size_t unstoredKernels = 0, unstoredDecisions = 0;
  std::set<std::string> unstoredReasons;
};

/// Warms the cache up for \p problems on \p device. A problem that fails has a
/// row with its error and does not stop the others. A decision holds only
/// configs whose kernels compiled. As thread-safe as its arguments. May take
/// minutes.
WarmupResult warmup(llvm::ArrayRef<Registry::NamedProblem> problems,
                    const DeviceModel &device, ArtifactStore &artifacts,
                    PortfolioStore &portfolios, const WarmupOptions &options);

/// The same in two steps, for a caller that wants to know what will compile.
/// The problems and all arguments must outlive it.
class PlannedWarmup {
public:
  /// Plans: up to a millisecond a problem.
  PlannedWarmup(llvm::ArrayRef<Registry::NamedProblem> problems,
                const DeviceModel &device, ArtifactStore &artifacts,
                PortfolioStore &portfolios, const WarmupOptions &options);
  ~PlannedWarmup();
  PlannedWarmup(const PlannedWarmup &) = delete;
  PlannedWarmup &operator=(const PlannedWarmup &) = delete;

  /// The kernels of the first choices, in the order in which they compile; some
  /// may be equal.
  std::vector<TranslationUnit> units() const;
  /// The rest of warmup(); once.
  WarmupResult run();

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace kiln
