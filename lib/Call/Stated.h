//===- Stated.h - a family's statements about its struct ------------------===//
//
// A family describes the struct of its calls once, in a function
//
//   template <class Visitor> static void visit(const Args &args, Visitor &v);
//
// that names fields, operands and scalars of the problem in the terms below.
// Two visitors read it: QuickReader tells good from bad on the dispatch path,
// mostly without branches; Explainer makes the errors. They check the rules of
// a struct (sizes, reserved space, flags, addresses, alignment, strides,
// overlap). The family's canonicalise() alone checks the rules of a problem
// (which values, chains and sizes work): a struct that breaks such a rule finds
// no plan in the table, and then the slow path finds the error.
//
// An operand that the struct has and the call does not read is unread(): bytes
// that this version does not know are refused there as well.
//
// A visit calls begin() first, and states the rest of the struct only if that
// is true. isEmpty() and batches() come before all operands, also before the
// operands of a chain's links, and alignment() after them. Other calls may have
// any order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"
#include "kiln/kiln.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace kiln {

/// A field of a struct, as messages name it.
struct StatedName {
  constexpr StatedName(const char *text, int link = -1)
      : text(text), link(link) {}

  const char *text; ///< "a.type", or for a link "pointwise[{}].operand"
  int link;         ///< index of the link
};

/// One operand of a call.
struct StatedOperand {
  StatedName name;
  const kiln_operand &given;
  int index;       ///< in Arguments::operands
  kiln_dtype type; ///< of its elements; its type field, if set, must equal it
  /// The operand that `type` comes from; null if `type` is the only allowed
  /// one.
  const char *typeOf = nullptr;
  /// The number of elements of a packed row. A vector has no `field`: its
  /// leading dimension is ignored, and kernels get this one.
  int64_t rowLength = 0;
  int field = -1;     ///< of the leading dimension
  bool isUsed = true; ///< its address may not be null
  bool isWritten = false;
  int64_t rows = 0; ///< of a written operand, in a family with batches
  /// For a written operand: index, type and name of the operand that it may be
  /// exactly; -1: none.
  int mayBe = -1;
  kiln_dtype mayBeType = KILN_DTYPE_NONE;
  const char *mayBeName = "";
  bool hasBatches = true; ///< false: one matrix serves the whole batch
};

/// One operand of heads: a batch of matrices, each of planes, whose rows may
/// interleave. Its strides are fields of the problem.
struct StatedHeads {
  StatedName name;
  const kiln_heads_operand &given;
  int index;       ///< in Arguments::operands
  kiln_dtype type; ///< like StatedOperand::type
  const char *typeOf = nullptr;
  int64_t rows, planes, rowLength; ///< of a matrix; planes are heads
  /// The stride from row to row; the fields of the strides from plane to plane,
  /// ignored with one plane, and from matrix to matrix follow it.
  int field;
  bool hasBatches = true; ///< false: the batch stride is ignored
  /// False: there is one matrix, and no field of a batch stride, which is 0.
  bool hasBatchField = true;
  bool isUsed = true; ///< its address is: it may not be null
  bool isWritten = false;
  /// Like those of a StatedOperand.
  int mayBe = -1;
  kiln_dtype mayBeType = KILN_DTYPE_NONE;
  const char *mayBeName = "";
  bool hasScales = false;  ///< scaleOf() and scales() state its scale
  bool isConstant = false; ///< as with KILN_OPERAND_CONSTANT
};

/// One array of int32, fp32 or int64 in device memory, which is aligned to its
/// elements: its alignment is not a part of the problem.
struct StatedArray {
  StatedName name;
  const void *address; ///< null: it is missing, if the launch has work to do
  int index;           ///< in Arguments::operands
  uint64_t elementBytes = 4;
  int64_t rowLength = 1;
  bool isUsed = true; ///< its address may not be null
  bool isWritten = false;
  int mayBe = -1; ///< like that of a StatedOperand, for an array of the same
                  ///< type
  const char *mayBeName = "";
  int64_t batchStride = 0;
  bool isConstant = false; ///< as an operand with KILN_OPERAND_CONSTANT
};

/// The scales of an operand, fp32 and packed.
struct StatedScales {
  StatedName name;
  const kiln_scale *given; ///< null: they are missing
  int index;               ///< in Arguments::operands
  kiln_dtype type;         ///< of the operand
  kiln_granularity granularity = KILN_GRANULARITY_ROW; ///< the only one
  int64_t count = 1; ///< in a row of scales: the leading dimension
  bool isWritten = false;
};

/// The fp32 scales of an input, which may be missing; their form is a part of
/// the problem. They make a matrix of rows, which the product keeps, by steps
/// of its sum. Or the int32 zero points of an input: one, or one for each row.
struct StatedFactors {
  StatedName name;
  const kiln_scale *given; ///< null: none
  int index;               ///< in Arguments::operands
  // Fields of the problem: a ScaleKind, whether scales of neighbouring rows are
  // neighbours, and the other stride; the last two are -1 if there are no
  // blocks.
  int kind, order, ld;
  bool isTransposed = false; ///< rows are the columns of the operand as stored
  int64_t rows, depth;
  bool areIntegers = false; ///< int32 zero points
  /// Scales of an output: the launch writes them, unless there is one for all.
  bool areWritten = false;
  bool hasBatches = true; ///< like that of a StatedOperand
  bool keepsRows = false; ///< each row has scales of its own
  /// The kind that the problem leaves out.
  ScaleKind kindDefault = ScaleKind::None;

  constexpr bool writes(ScaleKind given) const {
    return areWritten && given != ScaleKind::Tensor;
  }
  constexpr bool hasBlocks() const { return ld >= 0; }
  constexpr bool mayBe(kiln_dtype type) const {
    return type == KILN_DTYPE_NONE ||
           type == (areIntegers ? KILN_INT32 : KILN_FP32);
  }
};

/// Prepacked weights with their scales and zero points: all of them are whole
/// vectors of 16 bytes, without strides.
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
  // Fields of the problem; `kindOf` makes the value of the scales' kind, -1 if
  // there is no such kind, and `scaleDefault` is the type that is left out.
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

/// Not 0 if a field of \p scale other than its size is set. Reads words: the
/// dispatch path asks this for every absent scale.
inline uint64_t anyFieldOf(const kiln_scale &scale) {
  constexpr size_t kWord = sizeof(uint64_t);
  static_assert(offsetof(kiln_scale, data) == kWord &&
                sizeof(kiln_scale) == 9 * kWord);
  auto wordAt = [&](size_t i) {
    // Not the whole struct at once, which would be copied to the stack.
    uint64_t word;
    std::memcpy(&word, reinterpret_cast<const char *>(&scale) + i * kWord,
                kWord);
    return word;
  };
  return static_cast<uint32_t>(scale.type) | wordAt(1) | wordAt(2) | wordAt(3) |
         wordAt(4) | wordAt(5) | wordAt(6) | wordAt(7) | wordAt(8);
}

/// One scalar of a call. No choice depends on its value: the problem has a 1
/// instead, or a 0 if it is not used, or always a 0 (Field::alwaysUsed). So the
/// visitors check the value itself.
struct StatedScalar {
  StatedName name;
  double value;
  int field;          ///< its field of the problem
  int index;          ///< in Arguments::scalars
  bool isUsed = true; ///< false for a scalar that is always used
  double least = std::numeric_limits<double>::lowest();
  /// The device address of the value, and the name of its field; null: none.
  const void *address = nullptr;
  const char *addressName = "";
};

/// A leading dimension with its default resolved, and in the form that problems
/// store.
constexpr int64_t resolveRow(int64_t given, int64_t packed) {
  return given ? given : packed;
}
constexpr int64_t canonicalRow(int64_t given, int64_t packed) {
  return given == packed ? 0 : given;
}

/// The kind of \p given for an operand whose rows are, with \p isTransposed,
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

/// The kind of the scales given for \p stated; -1 if there is no such kind.
constexpr int kindOf(const StatedFactors &stated) {
  const int kind = scaleKindOf(*stated.given, stated.isTransposed);
  if (kind < 0)
    return -1;
  const auto known = static_cast<ScaleKind>(kind);
  const bool isRefused = (isBlockScale(known) && !stated.hasBlocks()) ||
                         (stated.keepsRows && scaledRows(known) != 1);
  return isRefused ? -1 : kind;
}

/// The resolved strides of block scales: one is 1.
struct ScaleStrides {
  bool isGood;
  bool alongRows;
  int64_t ld, packed; ///< packed: the default of ld
};

/// Resolves the strides of the given scales of \p stated, of kind \p kind.
/// Strides of 0 are packed along k. Scales of rows are a line, or a column.
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
    return {(row | step) == 0 || (row == 1 && step == 0), false, 1, 1};
  const int64_t rows = blocks(stated.rows, scaledRows(kind));
  const int64_t depths = blocks(stated.depth, scaledDepth(kind));
  // With one row both strides may be 1.
  const bool isColumn = row == 1 && step == 1 && depths > 1;
  if ((step == 0 || step == 1) && !isColumn)
    return {true, false, resolveRow(row, depths), depths};
  return {row == 0 || row == 1, true, step, rows};
}

/// The number of lines of the scales of \p stated, and of scales in a line.
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

/// Links of a chain have operations below this. Larger codes of a chain field
/// are not links.
inline constexpr int kLinkCodes = 192;

/// The width of one element; a byte for smaller ones, which only prepacked
/// operands have.
constexpr uint64_t elementBytesOf(kiln_dtype type) {
  return static_cast<uint64_t>((static_cast<uint32_t>(type) + 0x700u) >> 11);
}

/// Whether a kernel, which takes scalars as fp32, can take \p value: it is
/// finite there, and 0 only if it is 0 here.
inline bool fitsFp32(double value) {
  const auto single = static_cast<float>(value);
  return std::isfinite(single) && (single != 0 || value == 0);
}

/// a * b of unchecked values, so it may wrap.
constexpr int64_t product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) *
                              static_cast<uint64_t>(b));
}

} // namespace kiln
