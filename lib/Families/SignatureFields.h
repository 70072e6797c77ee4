//===- SignatureFields.h - a kernel's signature type as values ------------===//
//
// A signature is a structural aggregate shared with the kernel. One list of its
// members, kept beside the family's problem, gives the schema of its values,
// both conversions and the designated initialiser of a translation unit, as
// forEachField gives those of a config.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Chain.h"
#include "Families/KernelUnit.h"
#include "Kernel/Values.h"
#include "Support/Format.h"

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace kiln {

/// One member of \p Signature. A member that is not required is left out of a
/// text if it has the signature's default.
template <class Signature, class T> struct SignatureField {
  const char *key;    ///< in the schema
  const char *member; ///< in the kernel's source
  T Signature::*pointer;
  bool required = false;
  /// For an enumeration or a chain; an enumeration without names is a number.
  llvm::ArrayRef<FieldName> names = {};
  int64_t maximum = 1; ///< for a number, which is 0 or 1 by default
};

/// Encodes a member as an int64 value, and back.
template <class T> int64_t encodeMember(T value) {
  return static_cast<int64_t>(value);
}
inline int64_t encodeMember(const PointwiseChain &chain) {
  return encodeChain(chain);
}
template <class T> T decodeMember(int64_t value) {
  if constexpr (std::is_same_v<T, PointwiseChain>)
    return decodeChain(value);
  else
    return static_cast<T>(value);
}

/// "kiln::DType::BF16". An enumeration of one family has a function of the same
/// name beside the family's fields. It is not static: spellMember<Enum> is one
/// function in the whole library, so two spellings of one enumeration must not
/// link.
inline std::string enumeratorText(DType type) {
  return "kiln::DType::" + enumeratorOf(type).str();
}
inline std::string enumeratorText(ScaleKind kind) {
  return "kiln::ScaleKind::" + enumeratorOf(kind).str();
}

/// A value as spelled in a kernel's source: "kiln::DType::BF16", "true".
template <class T> std::string spellMember(const T &value) {
  if constexpr (std::is_same_v<T, PointwiseChain>)
    return initializerText(value);
  else if constexpr (std::is_enum_v<T>)
    return std::string(enumeratorText(value));
  else
    return fmt::format("{}", value);
}

/// All members of \p Signature, in the order of its declaration.
template <class Signature, class... Types> class SignatureFields {
public:
  constexpr explicit SignatureFields(SignatureField<Signature, Types>... fields)
      : fields(fields...) {}

  /// The schema of the signature's values, called \p name.
  Schema schema(llvm::StringRef name) const {
    std::vector<Field> list;
    forEach([&]<class T>(const SignatureField<Signature, T> &from) {
      Field field;
      field.key = from.key;
      field.role = FieldRole::Signature;
      field.required = from.required;
      field.names = from.names;
      if constexpr (std::is_same_v<T, PointwiseChain>)
        field.kind = FieldKind::Chain;
      else if (!from.names.empty())
        field.kind = FieldKind::Enum;
      else
        field.maximum = from.maximum;
      if (!from.required)
        field.defaultValue = encodeMember(Signature{}.*from.pointer);
      list.push_back(field);
    });
    return Schema(name, TextStyle::Spaced, std::move(list));
  }

  /// \p signature as values of \p schema, which schema() made.
  Values toValues(const Signature &signature, const Schema &schema) const {
    int64_t values[sizeof...(Types)];
    size_t count = 0;
    forEach([&](const auto &field) {
      values[count++] = encodeMember(signature.*field.pointer);
    });
    return Values(schema, values);
  }

  /// The inverse of toValues().
  Signature fromValues(const Values &values) const {
    Signature signature;
    int index = 0;
    forEach([&]<class T>(const SignatureField<Signature, T> &field) {
      signature.*field.pointer = decodeMember<T>(values[index++]);
    });
    return signature;
  }

  /// A designated initialiser: "{.in = kiln::DType::BF16, ...}".
  std::string initializer(const Signature &signature) const {
    std::string text;
    forEach([&](const auto &field) {
      text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", field.member,
                          spellMember(signature.*field.pointer));
    });
    return "{" + text + "}";
  }

private:
  void forEach(auto visit) const {
    std::apply([&](const auto &...field) { (visit(field), ...); }, fields);
  }

  std::tuple<SignatureField<Signature, Types>...> fields;
};

} // namespace kiln
