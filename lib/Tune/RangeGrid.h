//===- RangeGrid.h - the samples of a range -------------------------------===//
//
// The best kernel changes every few values of an extent while it is small, and
// where tiles begin another wave. So the grid of one field has every value up
// to 256, then geometric steps of 1.5 % and both sides of multiples of 64, 128
// and 256. The grid of several fields is a coarser product, with steps of one
// factor for all of them.
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
  /// The point at \p index; indices count through the first field fastest. Its
  /// problem may have another signature than the range's: see
  /// ProblemRange::alignDown().
  ExtentPoint at(size_t index) const;
  /// The share of the range that the point at \p index represents: the product
  /// of the logarithms of the steps around it.
  double weightOf(size_t index) const;
  /// The indices of the points around \p point, at most two a field.
  llvm::SmallVector<size_t, 8> around(llvm::ArrayRef<int64_t> point) const;
  /// Moves \p low and \p high apart, up to the next points.
  void widen(ExtentPoint &low, ExtentPoint &high) const;

private:
  llvm::SmallVector<std::vector<int64_t>, 4> axes;
};

} // namespace kiln
