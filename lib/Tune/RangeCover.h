//===- RangeCover.h - the fewest kernels for a range ----------------------===//
#pragma once

#include "Tune/Portfolio.h"

#include <llvm/Support/Error.h>

#include <atomic>

namespace kiln {

/// A config that is known beside those of a space.
struct KnownConfig {
  const Template *tmpl = nullptr;
  Values config;
};

struct CoverOptions {
  /// How far the best member may be behind the best of the space, by the
  /// estimate.
  double tolerance = 0.02;
  /// Of the workspace of a plan.
  uint64_t workspaceBytes = Allowance::kUnlimited;
  /// Members that are there whatever they are worth: those of a portfolio that
  /// is completed.
  llvm::ArrayRef<PortfolioMember> kept = {};
  /// Members of portfolios of parts of the range: what was measured of those
  /// that are chosen again stays.
  llvm::ArrayRef<PortfolioMember> known = {};
  /// Whether a config may not be a member; null: all may.
  llvm::function_ref<bool(const Template &, const Values &)> isBarred = nullptr;
  /// Configs of the signature whose kernels are compiled already, for whatever
  /// layer: of equals these become members.
  llvm::ArrayRef<KnownConfig> atHand = {};
  /// Values whose best config by the estimate is a member: what a caller waits
  /// for.
  llvm::ArrayRef<ExtentPoint> points = {};
  unsigned threads = 0; ///< 0: as many as this process has CPUs
  const std::atomic<bool> *cancel = nullptr;
};

/// A small set of kernels of which one is within the tolerance of the best at
/// every sample of \p range, as far as a greedy search finds it, most valuable
/// first; CoverSearch.h says how it is judged. Pure: needs no GPU, no driver
/// and no compiler. Some hundred milliseconds. Errors: NoCandidate (at no
/// sample anything may run), Cancelled.
llvm::Expected<Portfolio> coverRange(const ProblemRange &range,
                                     const DeviceModel &device,
                                     const CoverOptions &options = {});

} // namespace kiln
