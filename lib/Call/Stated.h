//===- Stated.h - what a family states of its struct ----------------------===//
//
// A family describes the struct of its calls once, in a function
//
//   template <class Visitor> static void visit(const Args &args, Visitor &v);
//
// that names record fields, operands and scalars in the terms below. Two
// visitors read it: QuickReader tells good from bad on the dispatch path,
// mostly without branches; Explainer has the words. Rules of a struct (sizes,
// reserved space, flags, addresses, alignment, strides, overlap) live in them.
// What a record can show (which values, chains and sizes work) is for the
// family's canonicalise() alone: a struct that breaks such a rule finds no plan
// in the table, and what looks further is the slow path.
//
// A visit says begin() first, and the rest of the struct only if that is true.
// isEmpty() and batches() come before all operands, those of a chain's links
// included, and alignment() after them. The order of the rest is free.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"
#include "kiln/kiln.h"

#include <cmath>
#include <cstdint>
#include <limits>

namespace kiln {

/// A field of a struct, as messages name it.
struct StatedName {
  constexpr StatedName(const char *text, int link = -1)
      : text(text), link(link) {}

  const char *text; ///< "a.type", or of a link "pointwise[{}].operand"
  int link;         ///< index of the link
};

/// One operand of a call.
struct StatedOperand {
  StatedName name;
  const kiln_operand &given;
  int index;       ///< in Arguments::operands
  kiln_dtype type; ///< of its elements: all that its type, if set, may be
  /// The operand whose type that is; null: `type` is the only one.
  const char *typeOf = nullptr;
  /// Elements of a packed row. A vector has no `field`: its leading dimension
  /// is ignored, and kernels are given this one.
  int64_t rowLength = 0;
  int field = -1;     ///< of the leading dimension in the record
  bool isUsed = true; ///< its address is: it may not be null
  bool isWritten = false;
  int64_t rows = 0; ///< of one that is written, in a family with batches
  /// Of one that is written: index, type and name of the operand that it may be
  /// exactly; -1: none.
  int mayBe = -1;
  kiln_dtype mayBeType = KILN_DTYPE_NONE;
  const char *mayBeName = "";
  bool hasBatches = true; ///< false: one matrix serves a batch of others
};

/// One operand of heads: a batch of matrices, each of planes, whose rows may
/// interleave. Its strides are fields of the record.
struct StatedHeads {
  StatedName name;
  const kiln_heads_operand &given;
  int index;       ///< in Arguments::operands
  kiln_dtype type; ///< as StatedOperand::type
  const char *typeOf = nullptr;
  int64_t rows, planes, rowLength; ///< of a matrix; planes are heads
  /// Of the stride from row to row in the record; those from plane to plane,
  /// ignored with one plane, and from matrix to matrix follow.
  int field;
  bool hasBatches = true; ///< false: the batch stride is ignored
  bool isUsed = true;     ///< its address is: it may not be null
  bool isWritten = false;
  /// As of a StatedOperand.
  int mayBe = -1;
  kiln_dtype mayBeType = KILN_DTYPE_NONE;
  const char *mayBeName = "";
  bool hasScales = false; ///< scaleOf() and scales() state its scale
};

/// One array of int32 or fp32 in device memory, whose alignment does not count.
struct StatedArray {
  StatedName name;
  const void *address; ///< null: it is missing, if the launch has work to do
  int index;           ///< in Arguments::operands
  int64_t rowLength = 1;
  bool isWritten = false;
  int mayBe = -1; ///< as of a StatedOperand, of an array of the same type
  const char *mayBeName = "";
  int64_t batchStride = 0;
};

/// The scales of an operand, fp32 and packed.
struct StatedScales {
  StatedName name;
  const kiln_scale *given; ///< null: they are missing
  int index;               ///< in Arguments::operands
  kiln_dtype type;         ///< of the operand
  kiln_granularity granularity = KILN_GRANULARITY_ROW; ///< the only one
  int64_t count = 1; ///< in a row of theirs: the leading dimension
  bool isWritten = false;
};

/// The scales that an input is read with, fp32, which may be missing: whatever
/// is given is a part of the problem. They make a matrix of rows, which the
/// product keeps, by steps of its sum. Or its zero points, int32: one, or one
/// for each row.
struct StatedFactors {
  StatedName name;
  const kiln_scale *given; ///< null: none
  int index;               ///< in Arguments::operands
  // In the record: a ScaleKind, whether scales of neighbouring rows are
  // neighbours, and the other stride; -1, both, where there are no blocks.
  int kind, order, ld;
  bool isTransposed; ///< rows are the columns of the operand as stored
  int64_t rows, depth;
  bool areIntegers = false; ///< zero points, whose type has to be named
  /// Those of an output: the launch writes them, unless there is one of all.
  bool areWritten = false;
  bool hasBatches = true; ///< as of a StatedOperand

  constexpr bool writes(ScaleKind given) const {
    return areWritten && given != ScaleKind::Tensor;
  }
  constexpr bool hasBlocks() const { return ld >= 0; }
  constexpr bool mayBe(kiln_dtype type) const {
    return areIntegers ? type == KILN_INT32
                       : type == KILN_DTYPE_NONE || type == KILN_FP32;
  }
};

/// Weights in an order of their own, with their scales and zero points: all of
/// it whole vectors of 16 bytes, without strides.
struct StatedPacked {
  StatedName name;
  const kiln_operand &given;
  const char *structName; ///< of the struct that has the three below
  kiln_weight_order givenOrder;
  const kiln_scale &scale;
  const kiln_scale *zeros; ///< null: none
  // In Arguments::operands. \p ld is the weights' leading dimension.
  int index, scaleIndex, zeroIndex;
  int64_t ld;
  // In the record; `kindOf` makes the value of the scales' kind, -1 for none
  // that there is, and `scaleDefault` is a type that the record leaves out.
  int order, kind, type, hasZero;
  int (*kindOf)(const kiln_scale &given);
  kiln_dtype scaleDefault;

  static constexpr uint64_t kAlign = 16;

  /// Whether the zero points lie as the scales do.
  constexpr bool zerosFit() const {
    return !zeros || (zeros->granularity == scale.granularity &&
                      zeros->block_rows == scale.block_rows &&
                      zeros->block_columns == scale.block_columns);
  }
  static constexpr bool mayBeZeros(kiln_dtype type) {
    return type == KILN_DTYPE_NONE || type == KILN_INT8;
  }
};

/// Whether \p scale says that there are scales.
constexpr bool isPresent(const kiln_scale &scale) {
  return scale.granularity != KILN_GRANULARITY_NONE;
}

/// One scalar of a call. No choice depends on its value: the record has a 1 in
/// its place, or a 0 if it is not used, or always (Field::alwaysUsed). So the
/// visitors check the value itself.
struct StatedScalar {
  StatedName name;
  double value;
  int field;          ///< in the record
  int index;          ///< in Arguments::scalars
  bool isUsed = true; ///< false for one that is always
  double least = std::numeric_limits<double>::lowest();
  /// Device address of the value, and the name of its field; null: none.
  const void *address = nullptr;
  const char *addressName = "";
};

/// A leading dimension as given, resolved, and as a record has it.
constexpr int64_t resolveRow(int64_t given, int64_t packed) {
  return given ? given : packed;
}
constexpr int64_t canonicalRow(int64_t given, int64_t packed) {
  return given == packed ? 0 : given;
}

/// The kind of what \p given says, of an operand whose rows are \p isTransposed
/// its columns as stored; -1 if there is no such kind.
constexpr int scaleKindOf(const kiln_scale &given, bool isTransposed) {
  const int32_t rows = isTransposed ? given.block_columns : given.block_rows;
  const int32_t depth = isTransposed ? given.block_rows : given.block_columns;
  if (given.granularity == KILN_GRANULARITY_BLOCK) {
    for (ScaleKind kind : {ScaleKind::Block1x128, ScaleKind::Block128x128})
      if (rows == scaledRows(kind) && depth == scaledDepth(kind))
        return static_cast<int>(kind);
    return -1;
  }
  if (rows != 0 || depth != 0)
    return -1;
  if (given.granularity == KILN_GRANULARITY_TENSOR)
    return static_cast<int>(ScaleKind::Tensor);
  const kiln_granularity own =
      isTransposed ? KILN_GRANULARITY_COLUMN : KILN_GRANULARITY_ROW;
  return given.granularity == own ? static_cast<int>(ScaleKind::Row) : -1;
}

/// The kind of what is given for \p stated; -1 if there is no such kind.
constexpr int kindOf(const StatedFactors &stated) {
  const int kind = scaleKindOf(*stated.given, stated.isTransposed);
  const bool isOfBlocks =
      kind >= 0 && isBlockScale(static_cast<ScaleKind>(kind));
  return isOfBlocks && !stated.hasBlocks() ? -1 : kind;
}

/// The strides of scales of blocks, resolved: one is 1.
struct ScaleStrides {
  bool isGood;
  bool alongRows;
  int64_t ld, packed; ///< packed: what ld is by default
};

/// Those of \p given, which has scales of \p stated 's kind \p kind. Strides of
/// 0 are packed along k.
constexpr ScaleStrides scaleStridesOf(const StatedFactors &stated,
                                      ScaleKind kind) {
  auto blocks = [](int64_t extent, int size) {
    return extent > 0 ? (extent - 1) / size + 1 : 0;
  };
  const kiln_scale &given = *stated.given;
  const bool t = stated.isTransposed;
  const int64_t row = t ? given.column_stride : given.row_stride;
  const int64_t step = t ? given.row_stride : given.column_stride;
  if (!isBlockScale(kind))
    return {(row | step) == 0 || (row == 1 && step == 0), false, 0, 0};
  const int64_t rows = blocks(stated.rows, scaledRows(kind));
  const int64_t depths = blocks(stated.depth, scaledDepth(kind));
  // Of one row both strides may be 1.
  const bool isColumn = row == 1 && step == 1 && depths > 1;
  if ((step == 0 || step == 1) && !isColumn)
    return {true, false, resolveRow(row, depths), depths};
  return {row == 0 || row == 1, true, step, rows};
}

/// Lines of the scales of \p stated, and scales of a line.
struct ScaleLines {
  int64_t lines, scales;
};
constexpr ScaleLines scaleLinesOf(const StatedFactors &stated, ScaleKind kind,
                                  const ScaleStrides &strides) {
  if (!isBlockScale(kind))
    return {1, kind == ScaleKind::Row ? stated.rows : 1};
  auto blocks = [](int64_t extent, int size) {
    return extent > 0 ? (extent - 1) / size + 1 : 0;
  };
  const int64_t rows = blocks(stated.rows, scaledRows(kind));
  const int64_t depths = blocks(stated.depth, scaledDepth(kind));
  return strides.alongRows ? ScaleLines{depths, rows}
                           : ScaleLines{rows, depths};
}

/// Links of a chain have operations below this. What a record may hold beyond
/// them is not a link.
inline constexpr int kLinkCodes = 192;

/// Width of one element; a byte for what is under one, which only operands in
/// an order of their own are.
constexpr uint64_t elementBytesOf(kiln_dtype type) {
  return static_cast<uint64_t>((static_cast<uint32_t>(type) + 0x700u) >> 11);
}

/// Whether a kernel, which takes scalars as fp32, can take \p value: it is
/// finite there, and 0 only if it is 0 here.
inline bool fitsFp32(double value) {
  const auto single = static_cast<float>(value);
  return std::isfinite(single) && (single != 0 || value == 0);
}

/// a * b of values that need not be good, so it may wrap.
constexpr int64_t product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) *
                              static_cast<uint64_t>(b));
}

} // namespace kiln
