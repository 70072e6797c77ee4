//===- AnchorPlan.h - where the members of a portfolio are measured -------===//
//
// Private to the session. Only members that compete at a point are measured
// there, so no common scale is needed across points. A member is measured in
// each third of the interval where it may be the best, because its ratio of
// measured to predicted time changes over the range.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/Portfolio.h"

namespace kiln {

/// A point where some members are measured side by side.
struct Anchor {
  ExtentPoint point;
  std::vector<uint32_t> members; ///< by the estimate, best first
};

struct AnchorGoal {
  size_t mostAnchors = 32;
  size_t members = 5; ///< of an anchor; one more if one of them is measured
                      ///< there for lack of a better point
  /// Points that come first.
  llvm::ArrayRef<ExtentPoint> first = {};
  /// Whether there is memory for the trials of a problem; null: for all.
  llvm::function_ref<bool(const Problem &)> hasRoom = nullptr;
};

/// Returns anchors for the members that \p portfolio has no times of yet, the
/// most valuable first: by the part of the range whose choice they decide. When
/// all members have theirs, the remaining anchors go to the widest gaps.
std::vector<Anchor> planAnchors(const Portfolio &portfolio,
                                const DeviceModel &device,
                                const AnchorGoal &goal);

} // namespace kiln
