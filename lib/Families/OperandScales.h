//===- OperandScales.h - the scales of an operand -------------------------===//
#pragma once

#include "common/Types.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>

namespace kiln {

/// The scales of one operand: a matrix of rows by steps of k, stored along k
/// unless neighbours in memory are of neighbouring rows. The columns of a
/// result are the k of its scales.
struct OperandScales {
  ScaleKind kind = ScaleKind::None;
  bool alongRows = false; ///< neighbours in memory are of neighbouring rows
  int64_t ld = 0;         ///< from one line in memory to the next, in scales

  /// Rows of scales for \p extent rows of the operand.
  int64_t rowsOf(int64_t extent) const;
  /// Scales of one row of \p k elements.
  int64_t depthsOf(int64_t k) const;
  /// The ld of lines without gaps.
  int64_t packedLd(int64_t extent, int64_t k) const {
    return alongRows ? rowsOf(extent) : depthsOf(k);
  }

  /// checkMatrix() of ProblemFields.h for the lines of blocks; \p key is that
  /// of the ld.
  llvm::Error checkLines(llvm::StringRef family, llvm::StringRef key,
                         int64_t extent, int64_t k, int64_t batch = 1) const;
};

} // namespace kiln
