//===- OperandLayout.h - the places of an operand's elements --------------===//
#pragma once

#include "Kernel/Operand.h"
#include "common/RowLayout.h"

#include <algorithm>

namespace kiln {

/// The rows of \p spec in a call that passes it as \p given.
inline RowLayout layoutOf(const OperandSpec &spec,
                          const OperandArgument &given) {
  return {spec.cols,
          {spec.rows, given.leadingDimension},
          {spec.planes, given.planeStride},
          {spec.batch, given.batchStride}};
}

/// The rows of \p spec by its table.
inline RowLayout layoutOf(const OperandSpec &spec) {
  return layoutOf(
      spec, {0, spec.leadingDimension, spec.batchStride, spec.planeStride});
}

/// The bytes of the elements of \p spec. Elements that serve many rows, planes
/// or batches count once, gaps between rows do not count.
inline int64_t occupiedBytes(const OperandSpec &spec) {
  if (spec.bytes() == 0)
    return 0;
  // Rows of an input may overlap.
  return std::min<int64_t>(layoutOf(spec).distinct().rowCount() * spec.cols *
                               bitsOf(spec.type) / 8,
                           spec.bytes());
}

} // namespace kiln
