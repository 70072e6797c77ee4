//===- common/RowLayout.h - the places of an operand's rows ---------------===//
//
// An operand is rows of elements at equal distances along three axes: the rows
// of a matrix, the matrices (planes, heads) of a batch, and batches. Axes may
// interleave: the planes of [token][head][element] lie within its rows.
// Compiled by the host compiler and by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// An axis of `count` steps, `stride` elements from one to the next.
struct RowAxis {
  long long count = 1, stride = 0;
};

/// Rows in the order in which single elements can be looked up; see gridOf().
struct RowGrid {
  long long cols = 0; ///< elements of a row, which follow each other
  RowAxis axes[3];    ///< in falling order of stride, which is never 0

  /// Whether each step of an axis is at least the reach of the axes after it,
  /// so that no element is in two rows. False for rows that interleave in other
  /// ways.
  constexpr bool isApart() const {
    long long reach = cols;
    for (int i = 2; i >= 0; --i) {
      if (axes[i].count > 1 && axes[i].stride < reach)
        return false;
      if (i > 0) // the reach of axis 0 may overflow
        reach += (axes[i].count - 1) * axes[i].stride;
    }
    return true;
  }
  /// Elements from the first to the end of the last row.
  constexpr long long span() const {
    long long reach = cols;
    for (const RowAxis &axis : axes)
      reach += (axis.count - 1) * axis.stride;
    return reach;
  }
  /// Whether the element at \p offset belongs to a row; only for grids with
  /// isApart().
  constexpr bool isOfRow(long long offset) const {
    for (const RowAxis &axis : axes) {
      const long long step = offset / axis.stride;
      offset -= axis.stride * (step < axis.count ? step : axis.count - 1);
    }
    return offset < cols;
  }
};

/// Sizes and strides in elements. A stride of 0 shares one row, plane or batch.
struct RowLayout {
  long long cols = 0; ///< elements of a row, which follow each other
  RowAxis rows, planes, batches;

  /// Rows of all planes and batches.
  constexpr long long rowCount() const {
    return rows.count * planes.count * batches.count;
  }
  /// Offset of row \p row, which is row % rows of plane row / rows % planes of
  /// batch row / (rows * planes).
  constexpr long long offsetOf(long long row) const {
    const long long plane = row / rows.count;
    return row % rows.count * rows.stride +
           plane % planes.count * planes.stride +
           plane / planes.count * batches.stride;
  }
  /// The layout without repetition: axes of stride 0 have one step.
  constexpr RowLayout distinct() const {
    auto once = [](RowAxis axis) {
      return RowAxis{axis.stride == 0 ? 1 : axis.count, axis.stride};
    };
    return {cols, once(rows), once(planes), once(batches)};
  }
};

/// The distinct rows of \p layout.
constexpr RowGrid gridOf(const RowLayout &layout) {
  const RowLayout distinct = layout.distinct();
  RowGrid grid{distinct.cols,
               {distinct.batches, distinct.planes, distinct.rows}};
  // Axes of one step come last, with any stride.
  for (RowAxis &axis : grid.axes)
    if (axis.count <= 1)
      axis = {1, 1};
  constexpr int kSwaps[] = {0, 1, 0};
  for (int i : kSwaps)
    if (grid.axes[i].stride < grid.axes[i + 1].stride) {
      const RowAxis axis = grid.axes[i];
      grid.axes[i] = grid.axes[i + 1];
      grid.axes[i + 1] = axis;
    }
  return grid;
}

} // namespace kiln
