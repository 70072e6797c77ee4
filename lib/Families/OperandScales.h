//===- OperandScales.h - the scales of an operand -------------------------===//
#pragma once

#include "Kernel/Operand.h"
#include "Kernel/Values.h"
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
  /// Sets shape, leading dimension and alignment of \p spec, the scales as an
  /// operand: without blocks a column.
  void describe(int64_t extent, int64_t k, OperandSpec &spec) const;
};

// Names of the kinds that a y may have.
inline constexpr FieldName kScaleNamesY[] = {
    {int64_t(ScaleKind::None), "none"},
    {int64_t(ScaleKind::Row), "row"},
    {int64_t(ScaleKind::Block1x128), "1x128"}};

// The fields of problems whose result y is quantised with scales that the
// launch writes: scale_y (row or 1x128; the type of y says whether there are
// scales, unless the field may be none), scale_order_y and ldsy.
Field scaleKindField(bool mayBeNone);
Field scaleOrderField();
Field scaleLdField();

} // namespace kiln
