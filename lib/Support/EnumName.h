//===- EnumName.h - the names of enumerators ------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/ErrorHandling.h>

#include <cstddef>

namespace kiln {

/// One enumerator in texts.
template <class Enum> struct EnumName {
  Enum value;
  llvm::StringLiteral name;
};

/// The name of \p value, or \p otherwise if \p names has none.
template <class Enum, size_t N>
llvm::StringRef nameIn(const EnumName<Enum> (&names)[N], Enum value,
                       llvm::StringRef otherwise) {
  for (const EnumName<Enum> &one : names)
    if (one.value == value)
      return one.name;
  return otherwise;
}

/// As above; \p names has all values.
template <class Enum, size_t N>
llvm::StringRef nameIn(const EnumName<Enum> (&names)[N], Enum value) {
  llvm::StringRef name = nameIn(names, value, {});
  if (name.empty())
    llvm_unreachable("an enumerator without a name");
  return name;
}

} // namespace kiln
