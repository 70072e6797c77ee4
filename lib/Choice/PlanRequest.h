//===- PlanRequest.h - what a plan is wanted for --------------------------===//
//
// Servers meet values of a dynamic extent without end, so what is kept grows
// with configs and buckets and never with values. A plan is made for the
// largest value of a bucket, the *cover*: its workspace and its signature fit
// all of them, and bind() follows the extents of each launch, as it does for
// the plan of a range. Values that choose one config so share one loaded plan.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Family.h"

#include <llvm/ADT/SmallVector.h>

namespace kiln {

/// The largest problem of \p problem's bucket that differs from it in nothing
/// but the dynamic extent, its signature included; \p problem itself if there
/// is none. Some microseconds; some tens where a leading dimension that was
/// given ends the bucket.
Problem coverOf(const KernelFamily &family, const Problem &problem);

/// What to find a plan for.
struct PlanRequest {
  const KernelFamily &family;
  const Problem &common;  ///< the choice is made for it
  const Problem &largest; ///< the plan's workspace covers it
  bool isRange = false;   ///< of values that the caller named

  /// Whether the choice is that of a launch of `largest`.
  bool isOfLargest() const { return common.record == largest.record; }
  /// The problems that a plan may be made for, the first that has one: a
  /// range's plan is for no more than the range; where that of the whole bucket
  /// needs too much, a value gets one of its own.
  llvm::SmallVector<Problem, 2> targets() const;
};

} // namespace kiln
