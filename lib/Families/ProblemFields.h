//===- ProblemFields.h - fields that all families share -------------------===//
#pragma once

#include "Kernel/Values.h"
#include "common/Types.h"

#include <llvm/Support/Error.h>

#include <algorithm>
#include <cstdint>

namespace kiln {

/// Greatest size: kernels count rows, columns and tiles in 32 bits.
inline constexpr int64_t kMaxExtent = (int64_t(1) << 31) - 1;
/// Greatest leading dimension: no row fills more of an address space.
inline constexpr int64_t kMaxLeadingDimension = int64_t(1) << 40;

/// A size that every problem of a family has to give.
inline Field extentField(llvm::StringRef key, FieldRole role) {
  return {.key = key, .role = role, .required = true, .maximum = kMaxExtent};
}

/// A leading dimension in elements; 0 is the family's default.
inline Field leadingDimensionField(llvm::StringRef key) {
  return {.key = key,
          .role = FieldRole::LeadingDimension,
          .maximum = kMaxLeadingDimension};
}

/// Elements from row to row of a head, or from plane to plane; 0 is the
/// family's default.
inline Field strideField(llvm::StringRef key) {
  return {
      .key = key, .role = FieldRole::Stride, .maximum = kMaxLeadingDimension};
}

/// A value that kernels take as a run-time parameter; \p slot as Field::slot.
inline Field scalarField(llvm::StringRef key, double defaultValue,
                         int slot = -1) {
  return {.key = key,
          .kind = FieldKind::Real,
          .role = FieldRole::Scalar,
          .defaultValue = encodeReal(defaultValue),
          .slot = slot};
}

/// One of \p names, fixed at compile time.
inline Field enumField(llvm::StringRef key, bool required,
                       llvm::ArrayRef<FieldName> names) {
  return {.key = key,
          .kind = FieldKind::Enum,
          .role = FieldRole::Signature,
          .required = required,
          .names = names};
}

/// 0 or 1, fixed at compile time.
inline Field flagField(llvm::StringRef key) {
  return {.key = key, .role = FieldRole::Signature, .maximum = 1};
}

/// The alignment that a problem promises; kernels distinguish no more than 16
/// bytes.
inline Field alignField() {
  return {.key = "align",
          .role = FieldRole::Alignment,
          .defaultValue = 16,
          .minimum = 1,
          .maximum = 16};
}

/// Elements of \p type in a whole access of 16 bytes: a step of PoolDraws.
constexpr int64_t elementsOfVector(DType type) {
  return 128 / std::max(1, bitsOf(type));
}
/// The largest value of an extent on which a pool is judged.
inline constexpr int64_t kMostDrawn = 65536;

/// InvalidArgument unless \p align, which divides every pointer, is a power of
/// two and at least \p elementBytes, the bytes of the smallest element.
llvm::Error checkAlign(llvm::StringRef family, int64_t align,
                       int64_t elementBytes);

/// InvalidArgument if fp32 cannot hold \p value, of \p key: the value would
/// become infinite, or 0 without being 0. Kernels take scalars as fp32.
llvm::Error checkScalar(llvm::StringRef family, llvm::StringRef key,
                        double value);

/// InvalidArgument if a row of \p cols elements is longer than the leading
/// dimension \p ld, the value of \p key, or a batch of matrices of \p rows rows
/// is too large for 64-bit offsets, with room for the sum of all operands.
llvm::Error checkMatrix(llvm::StringRef family, llvm::StringRef key,
                        int64_t rows, int64_t cols, int64_t ld,
                        int64_t batch = 1);

/// Offset of a trial's operand behind a 256-byte boundary, when a problem
/// promises \p align bytes: a multiple of these bytes, or of the element's own,
/// and of no larger power of two. Promises above 16 bytes are not told apart.
inline int64_t misalignmentOf(int64_t align, DType type) {
  constexpr int64_t kMostAlign = 16;
  align = std::max<int64_t>(align, bytesOf(type));
  return align < kMostAlign ? align : 0;
}

} // namespace kiln
