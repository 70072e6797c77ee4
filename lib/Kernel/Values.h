//===- Values.h - schemas and their values: the currency of the seam ------===//
//
// Problems, signatures and configs cross the seam between Kiln and a kernel
// family as Values: a schema and a small array of int64. This one mechanism
// gives text, JSON, hash, key and parse(print(x)) == x for all of them, in the
// schema's order and with defaults omitted, so that a new field with a default
// keeps every old key and text valid.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Hash.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <bit>
#include <cassert>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace kiln {

/// The text form of a field's int64.
enum class FieldKind {
  Integer, ///< a decimal number; JSON number or boolean
  Enum,    ///< one of the field's names; JSON string
  Real,    ///< the bits of a double; JSON number
  Chain,   ///< up to eight of the field's names, a byte each; "bias,relu"
};

/// The meaning of a field for planning.
enum class FieldRole {
  Signature,     ///< fixed at compile time
  Alignment,     ///< bytes that divide every address; a larger alignment also
                 ///< serves
  Extent,        ///< a size, fixed for a layer
  Batch,         ///< a number of equal parts, fixed for a layer; ranges may
                 ///< vary it
  DynamicExtent, ///< a size that varies from call to call
  LeadingDimension, ///< elements from row to row; by default rows are packed,
                    ///< whatever their length
  /// Elements from plane to plane, or from matrix to matrix; by default there
  /// are no gaps.
  Stride,
  /// The rows that an operand has room for; by default as many as the extents
  /// need. No choice depends on it.
  Capacity,
  /// The expected value of the dynamic extent before it in the schema, whose
  /// exact values are in device memory; 0: the extent itself.
  Hint,
  Scalar,      ///< a Real that no choice depends on; in Arguments::scalars
  Knob,        ///< a config's value, fixed at compile time
  RuntimeKnob, ///< a config's value that costs no compilation
};

/// One value of an Enum or Chain field.
struct FieldName {
  int64_t value;
  llvm::StringRef name;
};

/// One field. If a field is not required, an absent key means its default,
/// which is never printed.
struct Field {
  llvm::StringRef key;
  /// The long form of the key, a literal: "blockM" for "bm"; may be empty.
  llvm::StringRef meaning = {};
  FieldKind kind = FieldKind::Integer;
  FieldRole role = FieldRole::Extent;
  bool required = false;
  int64_t defaultValue = 0;
  llvm::ArrayRef<FieldName> names = {};
  int64_t minimum = 0;
  int64_t maximum = std::numeric_limits<int64_t>::max();
  /// For a scalar whose value may be in device memory: the slot of its address
  /// in kiln_arguments.operands; -1: it comes by value only.
  int slot = -1;
  /// For a scalar whose 0 means a value that follows from the problem: all
  /// problems use it, and canonical ones have 0.
  bool alwaysUsed = false;
  /// For a scalar that kernels take only above 0. (0 may be a default.)
  bool isPositive = false;

  /// Whether a range of a problem may vary it.
  bool mayVary() const {
    return role == FieldRole::DynamicExtent || role == FieldRole::Batch;
  }
  /// Whether it describes one launch alone: its room, or expected values.
  /// Problems that differ only in such fields share records, portfolios and
  /// plans.
  bool isIncidental() const {
    return role == FieldRole::Capacity || role == FieldRole::Hint;
  }
  /// Whether all problems of one layer have the same value.
  bool isFixed() const {
    return role != FieldRole::DynamicExtent && role != FieldRole::Scalar &&
           !isIncidental();
  }
  /// Whether its default follows from extents, so that in one layer some
  /// problems have the field and others do not.
  bool followsExtents() const {
    return role == FieldRole::LeadingDimension || role == FieldRole::Stride ||
           isIncidental();
  }
  /// Its value if it is not given.
  int64_t unset() const { return required ? 0 : defaultValue; }
};

/// Converts between a Real field's int64 and its double. -0.0 is encoded as
/// 0.0: equal numbers have equal keys.
constexpr int64_t encodeReal(double value) {
  return std::bit_cast<int64_t>(value == 0 ? 0.0 : value);
}
constexpr double decodeReal(int64_t bits) {
  return std::bit_cast<double>(bits);
}

/// The form in which values of a schema are printed.
enum class TextStyle {
  Spaced, ///< "gemm m=4096 n=4096 dtype=bf16"
  Dotted, ///< "mma.bm128.bn256.st4": keys of letters, values unsigned integers
};

/// The fields of one kind of values, in canonical order. Immutable once built,
/// and outlives all Values that point to it.
class Schema {
public:
  Schema(llvm::StringRef name, TextStyle style, std::vector<Field> fields);

  llvm::StringRef name() const { return schemaName; }
  TextStyle style() const { return textStyle; }
  llvm::ArrayRef<Field> fields() const { return fieldList; }

  /// The index of \p key, or -1.
  int find(llvm::StringRef key) const;
  /// The index of the first field of \p role, or -1.
  int find(FieldRole role) const;
  /// The indices of the fields of role DynamicExtent, in order.
  llvm::ArrayRef<int> dynamicExtents() const { return dynamicFields; }
  /// The index of the hint of field \p dynamicExtent, or -1.
  int hintOf(int dynamicExtent) const;

private:
  std::string schemaName;
  TextStyle textStyle;
  std::vector<Field> fieldList;
  std::vector<int> dynamicFields;
};

/// A value for every field of one schema. A plain value: copyable, comparable.
class Values {
public:
  Values() = default;
  /// All defaults; required fields are 0.
  explicit Values(const Schema &schema);
  /// \p array: a value for every field, in the schema's order.
  Values(const Schema &schema, llvm::ArrayRef<int64_t> array)
      : valuesSchema(&schema), fieldValues(array.begin(), array.end()) {}
  /// Makes Values without a copy, for launches, which allocate nothing: \p
  /// array must outlive the result and its copies, which cannot be set.
  static Values over(const Schema &schema, llvm::ArrayRef<int64_t> array) {
    Values values;
    values.valuesSchema = &schema;
    values.outside = array.data();
    return values;
  }

  const Schema &schema() const { return *valuesSchema; }
  bool empty() const { return !valuesSchema; }
  llvm::ArrayRef<int64_t> array() const {
    if (outside)
      return {outside, valuesSchema->fields().size()};
    return fieldValues;
  }

  int64_t operator[](int field) const { return array()[field]; }
  void set(int field, int64_t value) {
    assert(!outside && "values over an array cannot be set");
    fieldValues[field] = value;
  }

  /// Access by key; asserts that the schema has it.
  int64_t get(llvm::StringRef key) const;
  void set(llvm::StringRef key, int64_t value);

  /// Checks every value like parse(): ranges, names, chains without gaps,
  /// finite numbers. For values that were set one by one. Errors:
  /// InvalidArgument with schema, key and value.
  llvm::Error check() const;

  /// The canonical text: schema order, defaults omitted. parse(text()) ==
  /// *this.
  std::string text() const;
  /// The text without run-time knobs: equal for configs of one kernel.
  std::string compiledText() const;
  /// The values of all knobs except run-time ones: they distinguish kernels of
  /// one template and signature.
  std::vector<int64_t> compiledKnobs() const;
  /// The text of one field's value: "4096", "bf16", "0.5", "bias,relu".
  std::string valueText(int field) const;
  /// A canonical JSON object with the same fields as text().
  llvm::json::Object toJson() const;
  /// SHA-256 of the canonical text.
  Digest hash() const { return strongHash(text()); }

  /// Parses text of the schema's style. Each error is InvalidArgument and names
  /// the schema, the key and the value: unknown, repeated or missing keys,
  /// values of the wrong kind or outside of the field's range.
  static llvm::Expected<Values> parse(const Schema &schema,
                                      llvm::StringRef text);
  /// Like parse(). Keys in \p ignored are skipped (a suite's "name", "family").
  static llvm::Expected<Values>
  fromJson(const Schema &schema, const llvm::json::Object &object,
           llvm::ArrayRef<llvm::StringRef> ignored = {});

  friend bool operator==(const Values &a, const Values &b) {
    return a.valuesSchema == b.valuesSchema && a.array() == b.array();
  }

private:
  const Schema *valuesSchema = nullptr;
  /// Inline room for a config: a space has a thousand of them.
  llvm::SmallVector<int64_t, 18> fieldValues;
  const int64_t *outside = nullptr; ///< used instead of fieldValues
};

} // namespace kiln
