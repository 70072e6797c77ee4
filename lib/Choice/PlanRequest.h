//===- PlanRequest.h - what a plan is wanted for --------------------------===//
//
// Servers meet values of dynamic extents without end, so what is kept grows
// with configs and never with values. The plan of a portfolio's member serves
// all values up to its `high`. Where there is no portfolio, the plan of the
// estimator's choice is made for rounded values, the *cover*: its workspace
// and its signature fit all values below, and bind() follows the extents of
// each launch, its capacities and its hints. Values that choose one config so
// share one loaded plan. What is chosen does not follow from the cover.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemRange.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <optional>

namespace kiln {

/// The largest value from that of \p problem to \p last, for its field
/// \p extent, that there is a problem like \p problem for: what leaves room for
/// a value does for all below.
int64_t largestValue(const KernelFamily &family, const Problem &problem,
                     int extent, int64_t last);

/// Whether a plan of \p problem knows nothing of what is incidental, so that it
/// serves launches with any. Without its capacities a problem may have more
/// rows than its family counts: plans of such a one know them.
bool hasGeneralForm(const KernelFamily &family, const Problem &problem);

/// The problem up to the next power of two, in each dynamic extent, that
/// differs from \p problem in nothing else but what is incidental, its
/// signature included; \p problem's own value where there is none. Some
/// microseconds; some tens where a leading dimension that was given ends
/// before.
Problem coverOf(const KernelFamily &family, const Problem &problem);

/// The problems that a plan may be made for, the first that has one.
struct PlanTargets {
  llvm::SmallVector<Problem, 3> all;
  /// So many of them are shared with other values: the cover, and one up to the
  /// next eighth of a power of two, for configs that may not run so far. The
  /// rest is the value alone.
  size_t shared = 1;
};

/// The largest problem like \p own, with the same signature and below \p
/// beyond, that \p mayRun accepts, where that accepts all below one value and
/// none above it; nullopt: not even \p own, or the family has several dynamic
/// extents. A value of a configuration's, not of the request's: others up to it
/// share the plan. Some 10 us.
std::optional<Problem>
furthestOf(const KernelFamily &family, const Problem &own,
           const Problem &beyond,
           llvm::function_ref<bool(const Problem &)> mayRun);

/// What to find a plan for.
struct PlanRequest {
  const KernelFamily &family;
  /// The choice is made for it; with a range it speaks for that.
  const Problem &problem;
  /// All of it is to be served; null: the problem alone.
  const ProblemRange *range = nullptr;
  /// The problem is one that the caller means to launch.
  bool isExpected = true;

  PlanTargets targets() const;
};

} // namespace kiln
