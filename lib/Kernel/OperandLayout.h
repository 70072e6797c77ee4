//===- OperandLayout.h - where the elements of an operand lie -------------===//
#pragma once

#include "Kernel/Operand.h"
#include "common/RowLayout.h"

#include <algorithm>

namespace kiln {

/// Rows of \p spec in a call that gives it as \p given.
inline RowLayout layoutOf(const OperandSpec &spec,
                          const OperandArgument &given) {
  return {spec.cols,
          {spec.rows, given.leadingDimension},
          {spec.planes, given.planeStride},
          {spec.batch, given.batchStride}};
}

/// Rows of \p spec where its table says.
inline RowLayout layoutOf(const OperandSpec &spec) {
  return layoutOf(
      spec, {0, spec.leadingDimension, spec.batchStride, spec.planeStride});
}

/// Bytes of the elements of \p spec. What serves many rows, planes or batches
/// counts once, gaps between rows do not.
inline int64_t occupiedBytes(const OperandSpec &spec) {
  if (spec.bytes() == 0)
    return 0;
  // Rows of an input may overlap.
  return std::min<int64_t>(layoutOf(spec).distinct().rowCount() * spec.cols *
                               bitsOf(spec.type) / 8,
                           spec.bytes());
}

} // namespace kiln
