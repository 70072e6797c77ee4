//===- ExtentBox.h - the parts of a problem's ranges ----------------------===//
#pragma once

#include "Call/ProblemSpec.h"

namespace kiln {

/// A part of a problem's ranges whose values share one plan: one bucket of each
/// range, and one signature.
struct ExtentBox {
  llvm::SmallVector<int64_t, 2> low, high; ///< by range, both included
  /// The most common values, which the choice is made for, and the largest,
  /// which the plan's workspace covers.
  Problem common, largest;
  /// What `largest` was described as, and the canonical problem at `low`.
  Record described, smallest;

  bool contains(const std::vector<ExtentRange> &ranges,
                llvm::ArrayRef<int64_t> values) const;
  /// Whether a problem is what was described, at extents of this box. \p values
  /// begin with those of its record; more may follow. Microseconds where it may
  /// be.
  bool covers(const KernelFamily &family,
              const std::vector<ExtentRange> &ranges,
              llvm::ArrayRef<int64_t> values) const;
};

/// All values of the ranges of \p spec, cut at the buckets of the records; one
/// box if there are no ranges. Values of 0 need no plan and are in none.
llvm::Expected<std::vector<ExtentBox>> boxesOf(const ProblemSpec &spec);

} // namespace kiln
