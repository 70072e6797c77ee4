//===- AnchorPlan.h - where the members of a portfolio are measured -------===//
//
// Private to the session. Only members that compete at a point are measured
// there, so no common scale is needed across points. A member is measured in
// each third of where it may be the best, as its factor of measured to
// predicted changes over the range.
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
  size_t members = 5; ///< of an anchor; where one is wanted for lack of a
                      ///< better point, one more
  /// These come first.
  llvm::ArrayRef<ExtentPoint> first = {};
  /// Whether trials have room for a problem; null: for all.
  llvm::function_ref<bool(const Problem &)> hasRoom = nullptr;
};

/// Anchors for what \p portfolio has no times of yet, the most valuable first:
/// by the part of the range whose choice they decide. When all members have
/// theirs, what is left of the anchors goes to the widest gaps.
std::vector<Anchor> planAnchors(const Portfolio &portfolio,
                                const DeviceModel &device,
                                const AnchorGoal &goal);

} // namespace kiln
