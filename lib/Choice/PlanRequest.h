//===- PlanRequest.h - the problems that a plan is for --------------------===//
//
// Servers meet values of dynamic extents without end, so the kept state grows
// with configs and never with values. The plan of a portfolio's member serves
// all values up to its `high`. Without a portfolio, the plan of the estimator's
// choice is made for rounded values, the *cover*: its workspace and its
// signature fit all values below, and bind() follows the extents of each
// launch, its capacities and its hints. So values that choose the same config
// share one loaded plan. The choice itself does not depend on the cover.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemRange.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <optional>

namespace kiln {

/// The largest value of the field \p extent, from that of \p problem to \p
/// last, for which a problem like \p problem exists: room for a value is room
/// for all below.
int64_t largestValue(const KernelFamily &family, const Problem &problem,
                     int extent, int64_t last);

/// Whether a plan of \p problem does not depend on incidental fields, so that
/// it serves launches with any. Without its capacities a problem may have more
/// rows than its family counts; then its plans depend on them.
bool hasGeneralForm(const KernelFamily &family, const Problem &problem);

/// \p problem without its incidental fields, unless its family refuses that.
Problem generalProblem(const KernelFamily &family, const Problem &problem);

/// The problem with each dynamic extent raised up to the next power of two that
/// differs from \p problem only in incidental fields, and not in its signature;
/// \p problem's own value if there is none. Takes some microseconds, some tens
/// if a given leading dimension ends before.
Problem coverOf(const KernelFamily &family, const Problem &problem);

/// The problems that a plan may be made for; the first that allows one is
/// taken.
struct PlanTargets {
  llvm::SmallVector<Problem, 3> all;
  /// The number of them that are shared with other values: the cover, and one
  /// up to the next eighth of a power of two, for configs that may not run for
  /// the cover. The other problem is the value itself.
  size_t shared = 1;
};

/// The largest problem like \p own, with the same signature and below \p
/// beyond, that \p mayRun accepts, if that accepts all below one value and none
/// above it; nullopt: not even \p own, or the family has several dynamic
/// extents. The value depends on the config and not on the request, so other
/// values up to it share the plan. Takes some 10 us.
std::optional<Problem>
furthestOf(const KernelFamily &family, const Problem &own,
           const Problem &beyond,
           llvm::function_ref<bool(const Problem &)> mayRun);

/// The problem or range for which a plan is sought.
struct PlanRequest {
  const KernelFamily &family;
  /// The choice is made for it; it represents `range` if there is one.
  const Problem &problem;
  /// The range to serve; null: the problem alone.
  const ProblemRange *range = nullptr;
  /// The problem is one that the caller means to launch.
  bool isExpected = true;

  PlanTargets targets() const;
};

} // namespace kiln
