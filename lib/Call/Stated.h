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
  bool hasScales = false; ///< scales() states its scale
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
  bool hasScales = false; ///< scales() states its scale
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

/// One scalar of a call. No choice depends on its value: the record has a 1 in
/// its place, or a 0 if it is not used, or always (Field::alwaysUsed). So the
/// visitors check the value itself.
struct StatedScalar {
  StatedName name;
  double value;
  int field;                ///< in the record
  int index;                ///< in Arguments::scalars
  bool isUsed = true;       ///< false for one that is always
  bool mustBeFinite = true; ///< in fp32, as kernels take it
  double least = std::numeric_limits<double>::lowest();
  /// Device address of the value, and the name of its field; null: none.
  const void *address = nullptr;
  const char *addressName = "";
};

/// Links of a chain have operations below this. What a record may hold beyond
/// them is not a link.
inline constexpr int kLinkCodes = 192;

/// Width of one element; 0 for what is under a byte, which no family takes.
constexpr uint64_t elementBytesOf(kiln_dtype type) {
  return static_cast<uint64_t>(static_cast<uint32_t>(type) >> 11);
}

/// Whether a kernel, which takes scalars as fp32, can take \p value.
inline bool fitsFp32(double value) {
  return std::isfinite(static_cast<float>(value));
}

/// a * b of values that need not be good, so it may wrap.
constexpr int64_t product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) *
                              static_cast<uint64_t>(b));
}

/// A leading dimension as given, resolved, and as a record has it.
constexpr int64_t resolveRow(int64_t given, int64_t packed) {
  return given ? given : packed;
}
constexpr int64_t canonicalRow(int64_t given, int64_t packed) {
  return given == packed ? 0 : given;
}

} // namespace kiln
