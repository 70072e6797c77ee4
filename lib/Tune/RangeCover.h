//===- RangeCover.h - the fewest kernels for a range ----------------------===//
#pragma once

#include "Tune/Portfolio.h"

#include <llvm/Support/Error.h>

#include <atomic>

namespace kiln {

/// A config that is known in addition to those of a space.
struct KnownConfig {
  const Template *tmpl = nullptr;
  Values config;
};

struct CoverOptions {
  /// The largest regret, by the estimate, of the best member against the best
  /// of the space.
  double tolerance = 0.02;
  /// The limit of a plan's workspace.
  uint64_t workspaceBytes = Allowance::kUnlimited;
  /// The members of a portfolio that is completed: they stay whatever their
  /// worth.
  llvm::ArrayRef<PortfolioMember> kept = {};
  /// Members of portfolios of parts of the range: if they are chosen again,
  /// their measurements are kept.
  llvm::ArrayRef<PortfolioMember> known = {};
  /// Whether a config may not be a member; null: all may.
  llvm::function_ref<bool(const Template &, const Values &)> isBarred = nullptr;
  /// Configs of the signature whose kernels are compiled already, for any
  /// layer: among equals these become members.
  llvm::ArrayRef<KnownConfig> atHand = {};
  /// Values that callers wait for; their best configs by the estimate are
  /// members.
  llvm::ArrayRef<ExtentPoint> points = {};
  unsigned threads = 0; ///< 0: as many as this process has CPUs
  const std::atomic<bool> *cancel = nullptr;
};

/// Finds, by a greedy search (CoverSearch.h), a small set of kernels of which
/// one is within the tolerance of the best at every sample of \p range, most
/// valuable first. Pure: needs no GPU, no driver and no compiler. Takes some
/// hundred milliseconds. Errors: NoCandidate (no kernel may run at any sample),
/// Cancelled.
llvm::Expected<Portfolio> coverRange(const ProblemRange &range,
                                     const DeviceModel &device,
                                     const CoverOptions &options = {});

} // namespace kiln
