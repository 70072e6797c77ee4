//===- WarmupSet.h - problems and ranges that are warmed up together ------===//
//
// The requests of a model, or of an engine before: the kernels of all of them
// are chosen first, so that it is known how many there are, and compiled once
// each in one queue. Then decisions and portfolios are stored. Needs no GPU and
// measures nothing.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/PortfolioSession.h"
#include "Tune/Warmup.h"

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// The work that a set has before it.
struct WarmupNeeds {
  size_t kernels = 0; ///< distinct ones
  size_t present = 0; ///< of these, in the cache
  /// Estimates for the others: wall time with the store's threads, and the
  /// growth of the cache.
  double seconds = 0;
  uint64_t bytes = 0;
};

struct WarmupSetOptions {
  uint64_t workspaceBytes = Allowance::kUnlimited;
  bool retune = false; ///< as PortfolioOptions has it
  /// Outcomes tell what is not on disk at the end.
  bool wantsOnDisk = true;
  /// Begin to compile the kernels of a range while those of the next one are
  /// chosen: nothing asks what the set needs.
  bool compilesAhead = false;
  const std::atomic<bool> *cancel = nullptr;
  /// Called from the calling thread while kernels compile.
  ArtifactStore::ProgressCallback progress;
};

/// The result of one request: that of its problem, or of its range.
struct WarmupSetOutcome {
  ErrorSummary error;
  /// Says what is not on disk at the end; empty: all is, or need not be.
  std::string missing;
  size_t kernels = 0; ///< distinct ones of a range, or all of a problem's plan
  double worst = 0;   ///< Portfolio::regret of a range
};

/// Not thread-safe. Its context and options must outlive it.
class WarmupSet {
public:
  /// Without a runner in \p context.
  WarmupSet(const PortfolioContext &context, WarmupSetOptions options);
  ~WarmupSet();

  /// Adds a request and chooses its kernels: up to a second for a range.
  /// Outcomes are in the order of the calls.
  void add(ProblemRange range);
  void add(const Registry::NamedProblem &problem);

  /// After the last add().
  WarmupNeeds needs();
  /// Compiles and stores; once. Minutes.
  std::vector<WarmupSetOutcome> run();

  /// Kernels that run() compiled, and that failed.
  size_t compiled() const { return compiledCount; }
  size_t failed() const { return failedCount; }

private:
  struct Request; ///< a range, or the index of a problem
  std::vector<TranslationUnit> units();
  void planValues();
  void compile();
  void finishRange(Request &request, WarmupSetOutcome &outcome);
  void finishValues(std::vector<WarmupSetOutcome> &outcomes);

  SharedKernels shared;
  PortfolioContext context;
  WarmupSetOptions options;
  PortfolioOptions portfolioOptions;
  WarmupOptions valueOptions;
  std::deque<Request> requests;
  std::vector<Registry::NamedProblem> values;
  std::unique_ptr<PlannedWarmup> plannedValues;
  int64_t priority = compile_priority::kAhead; ///< of the next range
  size_t compiledCount = 0, failedCount = 0;
};

} // namespace kiln
