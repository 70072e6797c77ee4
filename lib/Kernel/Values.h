//===- Values.h - schemas and their values: the currency of the seam ------===//
//
// Problems, signatures and configs cross the seam between Kiln and a kernel
// family as records: a schema plus a small array of int64. That one mechanism
// gives text, JSON, hash, key and parse(print(x)) == x for all of them, in the
// schema's order and with defaults omitted, so that a new field with a default
// keeps every old key and record valid.
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

/// How a field's int64 is written.
enum class FieldKind {
  Integer, ///< a decimal number; JSON number or boolean
  Enum,    ///< one of the field's names; JSON string
  Real,    ///< the bits of a double; JSON number
  Chain,   ///< up to eight of the field's names, a byte each; "bias,relu"
};

/// What a field means to planning.
enum class FieldRole {
  Signature,     ///< fixed at compile time
  Alignment,     ///< bytes that divide every address; more of them do as well
  Extent,        ///< a size, fixed for a record
  Batch,         ///< how many alike, fixed for a record; ranges may vary it
  DynamicExtent, ///< a size that varies from call to call
  LeadingDimension, ///< elements from row to row; by default rows are packed,
                    ///< whatever their length
  /// Elements from plane to plane, or from matrix to matrix; by default there
  /// are no gaps.
  Stride,
  /// Rows that an operand has room for; by default what the extents ask for. No
  /// choice depends on it.
  Capacity,
  /// What to expect of the dynamic extent before it in the schema, whose exact
  /// values are in device memory; 0: the extent itself.
  Hint,
  Scalar,      ///< a Real that no choice depends on; of Arguments::scalars
  Knob,        ///< a config's value, fixed at compile time
  RuntimeKnob, ///< a config's value that costs no compilation
};

/// One value of an Enum or Chain field.
struct FieldName {
  int64_t value;
  llvm::StringRef name;
};

/// One field. The default of a field that is not required is what an absent
/// key means, and it is never printed.
struct Field {
  llvm::StringRef key;
  /// What the key is short for, a literal: "blockM" of "bm"; may be empty.
  llvm::StringRef meaning = {};
  FieldKind kind = FieldKind::Integer;
  FieldRole role = FieldRole::Extent;
  bool required = false;
  int64_t defaultValue = 0;
  llvm::ArrayRef<FieldName> names = {};
  int64_t minimum = 0;
  int64_t maximum = std::numeric_limits<int64_t>::max();
  /// Of a scalar whose value may lie in device memory: the place of its address
  /// in kiln_arguments.operands; -1: it comes by value only.
  int slot = -1;
  /// Of a scalar whose 0 stands for a value that follows from the problem: all
  /// problems use it, and canonical ones have 0.
  bool alwaysUsed = false;
  /// Of a scalar that kernels take above 0 only. (0 may be a default.)
  bool isPositive = false;

  /// Whether a range of a problem may vary it.
  bool mayVary() const {
    return role == FieldRole::DynamicExtent || role == FieldRole::Batch;
  }
  /// Whether it says something of one launch alone: how much room there is, or
  /// what to expect. Problems that differ in such fields alone share records,
  /// portfolios and plans.
  bool isIncidental() const {
    return role == FieldRole::Capacity || role == FieldRole::Hint;
  }
  /// Whether all problems of one record have the same value.
  bool isFixed() const {
    return role != FieldRole::DynamicExtent && role != FieldRole::Scalar &&
           !isIncidental();
  }
  /// Whether its default follows from extents, so that of one layer a problem
  /// may say it and another may not.
  bool followsExtents() const {
    return role == FieldRole::LeadingDimension || role == FieldRole::Stride ||
           isIncidental();
  }
  /// What a record has that does not say more.
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

/// How a schema's records are printed.
enum class TextStyle {
  Spaced, ///< "gemm m=4096 n=4096 dtype=bf16"
  Dotted, ///< "mma.bm128.bn256.st4": keys of letters, values unsigned integers
};

/// The fields of one kind of record, in canonical order. Immutable once built
/// and outlives every record that points to it.
class Schema {
public:
  Schema(llvm::StringRef name, TextStyle style, std::vector<Field> fields);

  llvm::StringRef name() const { return schemaName; }
  TextStyle style() const { return textStyle; }
  llvm::ArrayRef<Field> fields() const { return fieldList; }

  /// Index of \p key, or -1.
  int find(llvm::StringRef key) const;
  /// Index of the first field of \p role, or -1.
  int find(FieldRole role) const;
  /// Indices of the fields of role DynamicExtent, in order.
  llvm::ArrayRef<int> dynamicExtents() const { return dynamicFields; }
  /// Index of the hint of field \p dynamicExtent, or -1.
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
  /// The same without a copy, for launches, which allocate nothing: \p array
  /// must outlive the result and its copies, which cannot be set.
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
    assert(!outside && "the values are somebody else's");
    fieldValues[field] = value;
  }

  /// By key; asserts that the schema has it.
  int64_t get(llvm::StringRef key) const;
  void set(llvm::StringRef key, int64_t value);

  /// Checks every value as parse() does: ranges, names, chains without gaps,
  /// finite numbers. For records whose values were set one by one. Errors:
  /// InvalidArgument with schema, key and value.
  llvm::Error check() const;

  /// Canonical text: schema order, defaults omitted. parse(text()) == *this.
  std::string text() const;
  /// The same without run-time knobs: equal for configs of one kernel.
  std::string compiledText() const;
  /// Values of all knobs but run-time ones, which tell kernels of one template
  /// and signature apart.
  std::vector<int64_t> compiledKnobs() const;
  /// The text of one field's value: "4096", "bf16", "0.5", "bias,relu".
  std::string valueText(int field) const;
  /// Canonical JSON object with the same fields as text().
  llvm::json::Object toJson() const;
  /// SHA-256 of the canonical text.
  Digest hash() const { return strongHash(text()); }

  /// Parses text of the schema's style. Each error is InvalidArgument and names
  /// the schema, the key and the value: unknown, repeated or missing keys,
  /// values of the wrong kind or outside of the field's range.
  static llvm::Expected<Values> parse(const Schema &schema,
                                      llvm::StringRef text);
  /// As parse(). Keys in \p ignored are skipped (a suite's "name", "family").
  static llvm::Expected<Values>
  fromJson(const Schema &schema, const llvm::json::Object &object,
           llvm::ArrayRef<llvm::StringRef> ignored = {});

  friend bool operator==(const Values &a, const Values &b) {
    return a.valuesSchema == b.valuesSchema && a.array() == b.array();
  }

private:
  const Schema *valuesSchema = nullptr;
  /// Room for a config: a space has a thousand of them.
  llvm::SmallVector<int64_t, 18> fieldValues;
  const int64_t *outside = nullptr; ///< in the place of fieldValues
};

} // namespace kiln
