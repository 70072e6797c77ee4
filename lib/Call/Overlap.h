//===- Overlap.h - memory that operands of a launch may share -------------===//
//
// The one rule for written operands, for structs of calls and for
// kiln_arguments.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Operand.h"

#include <cstdint>

namespace kiln {

/// The greatest batch stride, in elements: no matrix fills more of an address
/// space.
inline constexpr int64_t kMaxBatchStride = int64_t(1) << 40;

/// Whether \p output, which is written, begins where \p other does and may not.
/// With \p mayBe it may be the other exactly: with its leading dimension, its
/// plane stride and, with \p hasBatches (more than one matrix), its batch
/// stride. Without branches.
inline bool overlaps(const OperandArgument &output,
                     const OperandArgument &other, bool mayBe,
                     bool hasBatches) {
  const bool isExact =
      (other.leadingDimension == output.leadingDimension) &
      (other.planeStride == output.planeStride) &
      (!hasBatches | (other.batchStride == output.batchStride));
  return (output.address != 0) & (other.address == output.address) &
         !(mayBe & isExact);
}

/// The number of elements from the first of a matrix to the end of its last
/// row. It may wrap for sizes that no problem has.
constexpr uint64_t matrixElements(int64_t rows, int64_t cols,
                                  int64_t leadingDimension) {
  return (static_cast<uint64_t>(rows) - 1) *
             static_cast<uint64_t>(leadingDimension) +
         static_cast<uint64_t>(cols);
}

} // namespace kiln
