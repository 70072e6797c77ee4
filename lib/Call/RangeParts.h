//===- RangeParts.h - the parts of a problem's ranges ---------------------===//
#pragma once

#include "Call/ProblemRange.h"
#include "Call/ProblemSpec.h"

#include <vector>

namespace kiln {

/// The values of a problem's ranges that have one signature.
struct RangePart {
  ProblemRange range;
  /// The problem at the most common values, else at the highest ones; not
  /// empty.
  Problem typical;
  bool isHinted = false; ///< the caller said so of `typical`
};

/// Returns the parts of the ranges of \p spec, which has some, the part of the
/// highest values first. Values of 0 need no plan and are in no part.
llvm::Expected<std::vector<RangePart>> partsOf(const ProblemSpec &spec);

} // namespace kiln
