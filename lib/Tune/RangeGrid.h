//===- RangeGrid.h - where a range is looked at ---------------------------===//
//
// What is the best kernel changes with every few values of an extent while it
// is small, and where tiles begin another wave. So of one field the grid has
// every value up to 256, then geometric steps of 1.5 % and both sides of
// multiples of 64, 128 and 256. Of several fields it is a product that is
// coarser, with steps of one factor for all of them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemRange.h"

namespace kiln {

/// The product of sorted values of each field of a range.
class RangeGrid {
public:
  RangeGrid() = default;
  /// A product of several fields has at most \p mostPoints.
  explicit RangeGrid(const ProblemRange &range, size_t mostPoints = 2000);

  size_t size() const;
  /// The point of place \p index; places count through the first field fastest.
  /// Its problem may have another signature than the range's: see
  /// ProblemRange::alignDown().
  ExtentPoint at(size_t index) const;
  /// How much of the range a point of place \p index stands for: the product of
  /// the logarithms of the steps around it.
  double weightOf(size_t index) const;
  /// Places of the points around \p point, at most two a field.
  llvm::SmallVector<size_t, 8> around(llvm::ArrayRef<int64_t> point) const;
  /// Moves \p low and \p high apart, up to where the next points are.
  void widen(ExtentPoint &low, ExtentPoint &high) const;

private:
  llvm::SmallVector<std::vector<int64_t>, 4> axes;
};

} // namespace kiln
