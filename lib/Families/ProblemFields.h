//===- ProblemFields.h - what the problems of all families share ----------===//
#pragma once

#include "Kernel/Record.h"
#include "common/Types.h"

#include <llvm/Support/Error.h>

#include <algorithm>

namespace kiln {

/// Greatest size: kernels count rows, columns and tiles in 32 bits.
inline constexpr int64_t kMaxExtent = (int64_t(1) << 31) - 1;
inline constexpr int64_t kMaxLeadingDimension = int64_t(1) << 40;

/// A size that every problem of a family states.
inline Field extentField(llvm::StringRef key, FieldRole role,
                         llvm::StringRef doc) {
  return {.key = key,
          .role = role,
          .required = true,
          .doc = doc,
          .maximum = kMaxExtent};
}

/// A leading dimension in elements; 0 is the family's default.
inline Field leadingDimensionField(llvm::StringRef key, llvm::StringRef doc) {
  return {.key = key, .doc = doc, .maximum = kMaxLeadingDimension};
}

/// The bytes that divide every pointer of a problem, beyond what its own
/// element asks for: \p elementBytes at least, those of the smallest element.
llvm::Error checkAlign(llvm::StringRef family, int64_t align,
                       int64_t elementBytes);

/// Whether the leading dimension \p ld, the value of \p key, holds rows of
/// \p cols elements, and offsets in \p rows of them fit 64 bits with room for
/// the sum of all operands.
llvm::Error checkMatrix(llvm::StringRef family, llvm::StringRef key,
                        int64_t rows, int64_t cols, int64_t ld,
                        int64_t batch = 1);

/// Where a trial's operand starts behind a 256-byte boundary when a problem
/// promises \p align bytes: at a multiple of them, or of the element's own, and
/// of no more. Greater promises than 16 bytes are not told apart.
inline int64_t misalignmentOf(int64_t align, DType type) {
  constexpr int64_t kMostAlign = 16;
  align = std::max<int64_t>(align, bytesOf(type));
  return align < kMostAlign ? align : 0;
}

} // namespace kiln
