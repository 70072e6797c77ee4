//===- Overlap.h - which memory the operands of a launch may share --------===//
//
// The rule for what is written, in one place: for structs of calls and for
// kiln_arguments.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Operand.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace kiln {

/// Greatest batch stride, in elements: no matrix fills more of an address
/// space.
inline constexpr int64_t kMaxBatchStride = int64_t(1) << 40;

/// Whether \p output, which is written, begins where \p other does and may not.
/// With \p mayBe it may be the other exactly: with its leading dimension, its
/// plane stride and, where \p hasBatches says that the launch has more than one
/// matrix, its batch stride. Without branches.
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

/// Elements from the first of a matrix to the end of its last row. Those of
/// sizes that no problem has may wrap.
constexpr uint64_t matrixElements(int64_t rows, int64_t cols,
                                  int64_t leadingDimension) {
  return (static_cast<uint64_t>(rows) - 1) *
             static_cast<uint64_t>(leadingDimension) +
         static_cast<uint64_t>(cols);
}

/// So many rows, planes or matrices, each `stride` elements behind the last.
struct Repetition {
  int64_t count, stride;
};

/// Whether rows of \p cols elements lie apart that are repeated in these ways,
/// in any order of strides: one with the strides of another between its own is
/// taken to overlap.
inline bool lieApart(std::array<Repetition, 3> ways, int64_t cols) {
  std::sort(ways.begin(), ways.end(),
            [](const auto &a, const auto &b) { return a.stride < b.stride; });
  uint64_t elements = static_cast<uint64_t>(cols);
  for (auto [count, stride] : ways) {
    if (count <= 1)
      continue;
    if (static_cast<uint64_t>(stride) < elements)
      return false;
    elements = matrixElements(count, static_cast<int64_t>(elements), stride);
  }
  return true;
}

} // namespace kiln
