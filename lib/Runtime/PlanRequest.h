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
#include "Runtime/Dispatch.h"

#include <llvm/ADT/SmallVector.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

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
  /// The key by which launches of `largest` find their plan.
  DispatchKey keyOfLargest(uint64_t contextId) const {
    return {&family, contextId, largest.record.values()};
  }
  /// The problems that a plan may be made for, the first that has one: a
  /// range's plan is for no more than the range; where that of the whole bucket
  /// needs too much, a value gets one of its own.
  llvm::SmallVector<Problem, 2> targets() const;
};

/// How its plan is to be had.
struct AcquireOptions {
  /// Measure although a record, a decision or a plan that is there could serve
  /// (mode tune only).
  bool retune = false;
  /// A stored decision or a fallback does not stand in for trials (mode tune
  /// only).
  bool preferTrials = false;
  std::chrono::milliseconds budget{2000};
  const std::atomic<bool> *cancel = nullptr; ///< may be null
  /// Receives how many configs were tried so far; may be null.
  std::atomic<uint64_t> *trials = nullptr;
  /// Called, with no lock held, when that number changed; may be empty.
  std::function<void()> trialsChanged;
  /// Receives whether this call did the work. If not, something better may have
  /// been found since. May be null.
  bool *worked = nullptr;

  bool isCancelled() const { return cancel && *cancel; }
  /// Whether a plan that is there will do.
  bool takes(const ActivePlan &plan) const {
    return !retune && !(preferTrials && (plan.isFallback ||
                                         plan.source == KILN_SOURCE_DECISION));
  }
};

} // namespace kiln
